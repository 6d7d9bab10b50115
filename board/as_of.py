"""The newest rows as of an instant of the past; a table is read when it is first requested."""

import threading
from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa

from board.newest import Newest, clusters_at, of_cluster, read_rows
from lake.catalog import Lake
from lake.conditions import earlier_than
from lake.schema import Table
from lake.tables import alerting, raw
from lake.window import MICROSECOND

KEPT = 8
"""Instants of the past that are kept: a person goes to and fro between a few."""


class PastRows:
    """The rows that were the newest at an instant.

    Attributes:
        at: cluster -> instant of its newest computed snapshot then.
    """

    def __init__(self, lake: Lake, instant: datetime) -> None:
        self.at, snapshots = clusters_at(lake, instant)
        self._lake = lake
        self._instant = instant
        self._rows = {raw.SNAPSHOTS.name: snapshots}
        self._lock = threading.Lock()

    def of(self, table: Table, cluster: str | None = None) -> pa.Table:
        """Return the rows of a table as of the instant, of one cluster or of all."""
        with self._lock:
            if table.name not in self._rows:
                self._rows[table.name] = self._read(table)
            return of_cluster(self._rows[table.name], table, cluster)

    @property
    def observed_at(self) -> datetime | None:
        """The instant of the newest snapshot of all clusters."""
        return max(self.at.values(), default=None)

    def _read(self, table: Table) -> pa.Table:
        if table is alerting.INCIDENTS:
            return _incidents(self._lake, self._instant)
        return read_rows(self._lake, table, self.at, self._instant)


Shown = Newest | PastRows
"""What a page or a response shows: the newest rows of now, or those of an instant."""


def _incidents(lake: Lake, instant: datetime) -> pa.Table:
    """Return the incidents that had opened by an instant, in the state of then.

    Their last value and evidence are of later, and so unknown.
    """
    table = alerting.INCIDENTS
    rows = lake.read(table, earlier_than("opened_at", instant + MICROSECOND))
    return pa.Table.from_pylist(
        [_as_of(row, instant) for row in rows.to_pylist()], schema=table.arrow_schema()
    )


def _as_of(row: Mapping[str, object], instant: datetime) -> dict[str, object]:
    known = dict(row)
    is_later = {
        name: isinstance(at := row[name], datetime) and at > instant
        for name in ("fired_at", "acknowledged_at", "resolved_at")
    }
    known |= {name: None for name, later in is_later.items() if later}
    if known["resolved_at"]:
        known["state"] = "RESOLVED"
    elif known["acknowledged_at"]:
        known["state"] = "ACKNOWLEDGED"
    else:
        known["state"] = "FIRING" if known["fired_at"] else "PENDING"
    if any(is_later.values()) or row["state"] != "RESOLVED":
        known |= {"last_value": None, "peak_value": None}
    return known


class History:
    """The rows of the instants that were requested last."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._known: dict[datetime, PastRows] = {}
        self._lock = threading.Lock()

    def at(self, instant: datetime) -> PastRows:
        """Return the rows that were the newest at an instant.

        Raises:
            DamagedError: a file of a table is missing or damaged.
        """
        with self._lock:
            found = self._known.pop(instant, None) or PastRows(self._lake, instant)
            self._known[instant] = found
            while len(self._known) > KEPT:
                self._known.pop(next(iter(self._known)))
        return found
