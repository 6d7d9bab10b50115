"""Loaded and computed snapshots of two brokers, by the minute."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.retention import remember_observed_since
from tidemark.lake.tables import progress, raw

NOON = floor_hour(datetime.now(UTC)) - 6 * HOUR
TICK = timedelta(microseconds=1)
BOTH = ("a", "b")


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def window(first: float, end: float) -> Window:
    return Window(at(first), at(end))


def name(minutes: float, cluster: str = "lab") -> str:
    return f"{cluster}-{minutes}"


def snapshot(
    minutes: float,
    brokers: Sequence[str] = BOTH,
    status: str | None = None,
    cluster: str = "lab",
) -> dict[str, Any]:
    """A row of ``raw.snapshots``; without a broker it is partial."""
    return {
        "snapshot_id": name(minutes, cluster),
        "cluster": cluster,
        "observed_at": at(minutes),
        "status": status or ("COMPLETE" if set(brokers) == set(BOTH) else "PARTIAL"),
        "brokers_read": list(brokers),
    }


def of_files(minutes: float, source: str, *brokers: str) -> dict[str, Any]:
    """A snapshot of files of one broker."""
    return snapshot(minutes, brokers) | {"source": source, "snapshot_id": f"{source}-{minutes}"}


def load(lake: Lake, *snapshots: dict[str, Any]) -> None:
    lake.append(raw.SNAPSHOTS, list(snapshots))
    remember_observed_since(lake, min(row["observed_at"] for row in snapshots))


def mark_computed(lake: Lake, *minutes: float, cluster: str = "lab") -> None:
    rows = [
        {"snapshot_id": name(minute, cluster), "observed_at": at(minute), "cluster": cluster}
        for minute in minutes
    ]
    lake.append(progress.SNAPSHOTS, rows)
