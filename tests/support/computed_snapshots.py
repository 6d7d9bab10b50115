"""Snapshots that a lake has as computed."""

from datetime import UTC, datetime, timedelta

from tidemark.lake.catalog import Lake
from tidemark.lake.tables.progress import SNAPSHOTS

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def minute(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


def computed(lake: Lake, number: float, cluster: str = "lab") -> None:
    row = {"snapshot_id": f"{number:g}", "observed_at": minute(number), "cluster": cluster}
    lake.append(SNAPSHOTS, [row])
