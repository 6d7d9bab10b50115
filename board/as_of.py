"""The newest rows as of an instant of the past; a table is read when it is first requested."""

import threading
from datetime import datetime

import pyarrow as pa

from alerting.incidents.as_of import row_as_of
from board.newest import Newest, clusters_at, of_cluster, read_rows
from lake.catalog import Lake
from lake.conditions import earlier_than
from lake.schema import Table
from lake.tables import alerting, raw
from lake.window import MICROSECOND

KEPT = 8
"""Most past instants that are kept, because a person switches between a few."""


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
"""The rows behind a page or a response: the newest ones, or those of a past instant."""


def _incidents(lake: Lake, instant: datetime) -> pa.Table:
    """Return the incidents that had opened by an instant, as they were then."""
    table = alerting.INCIDENTS
    rows = lake.read(table, earlier_than("opened_at", instant + MICROSECOND))
    return pa.Table.from_pylist(
        [row_as_of(row, instant) for row in rows.to_pylist()], schema=table.arrow_schema()
    )


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

    def forget(self) -> None:
        """Keep nothing: the tables have changed, and a late tick also changes the past."""
        with self._lock:
            self._known.clear()
