"""Rows of a past window or instant, selected by the values of columns."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.alerting.incidents.repository import row_as_of
from tidemark.board.data_files import DataFiles, session
from tidemark.board.newest import Newest, clusters_at, of_cluster, read_rows
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import MICROSECOND, Window
from tidemark.lake.schema import Table, all_of, earlier_than, equal_to, window_filter
from tidemark.lake.tables import alerting, progress, raw
from tidemark.planning.history import (
    COLUMNS,
    LoadedSnapshot,
    files_left_out,
    remembered,
    snapshots_of,
)

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
    return table.arrow_table(row_as_of(row, instant) for row in rows.to_pylist())


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
            past_rows = self._known.pop(instant, None) or PastRows(self._lake, instant)
            self._known[instant] = past_rows
            while len(self._known) > KEPT:
                self._known.pop(next(iter(self._known)))
        return past_rows

    def forget(self) -> None:
        """Keep nothing: the tables have changed, and a late tick also changes the past."""
        with self._lock:
            self._known.clear()


def rows_between(
    lake: Lake,
    files: DataFiles,
    table: Table,
    window: Window,
    equal: Mapping[str, str],
    columns: Sequence[str] = (),
) -> pa.Table:
    """Return rows of a window whose columns have these values, in order of time.

    DuckDB reads files on this machine that need no conversion; otherwise PyIceberg reads.

    Args:
        lake: the tables.
        files: knows their data files.
        table: its declaration.
        window: of the table's instant.
        equal: column to value.
        columns: names, or all.

    Raises:
        DamagedError: a file of the table is missing or damaged.
    """
    names = list(dict.fromkeys([table.instant, *columns])) if columns else table.column_names
    hours = files.by_hour(table)
    paths = None if hours is None else [path_of(file) for file in files_of(hours, window)]
    if paths == []:
        return table.arrow_schema().empty_table().select(names)
    rows = None
    if paths and all(paths):
        rows = _read([path for path in paths if path], table, window, equal, names)
    if rows is None:
        conditions = [equal_to(name, value) for name, value in equal.items()]
        where = window_filter(table, window)
        where = all_of(where, *conditions) if conditions else where
        rows = lake.read(table, where, columns=tuple(names)).select(names)
    return rows.sort_by(table.instant)


def group_rows_between(
    lake: Lake, files: DataFiles, window: Window, equal: Mapping[str, str], columns: Sequence[str]
) -> pa.Table:
    """Return rows of ``progress.groups`` as `rows_between`, of whole clusters where there are any.

    Args:
        lake: the tables.
        files: knows their data files.
        window: the window.
        equal: column to value; one is ``cluster``.
        columns: names.

    Raises:
        DamagedError: a file of a table is missing or damaged.
    """
    names = (*columns, "snapshot_id")
    rows = rows_between(lake, files, progress.GROUPS, window, equal, names)

    def snapshots(within: Window) -> list[LoadedSnapshot]:
        cluster = {"cluster": equal["cluster"]}
        return snapshots_of(rows_between(lake, files, raw.SNAPSHOTS, within, cluster, COLUMNS))

    if all(snapshot.is_of_all_brokers for snapshot in snapshots(window)):
        return rows
    return of_whole_clusters(rows, snapshots(remembered(window)))


def of_whole_clusters(rows: pa.Table, known: Iterable[LoadedSnapshot]) -> pa.Table:
    """Return the rows without those of files that `whole_clusters` leaves out."""
    left_out = pa.array(sorted(files_left_out(known)), type=pa.string())
    return rows.filter(pc.invert(pc.is_in(rows["snapshot_id"], value_set=left_out)))


def files_of(hours: Mapping[int, tuple[str, ...]], window: Window) -> list[str]:
    """Return the addresses of the files of all hours that a window touches."""
    first, last = int(window.start.timestamp()) // 3600, -(-window.end.timestamp() // 3600)
    return [path for hour in range(first, int(last)) for path in hours.get(hour, ())]


def path_of(address: str) -> str | None:
    """Return the path of a file of this machine; None of another."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        return parts.path if Path(parts.path).exists() else unquote(parts.path)
    return address if not parts.scheme else None


def _read(
    files: list[str], table: Table, window: Window, equal: Mapping[str, str], names: list[str]
) -> pa.Table | None:
    """Return the rows; None where a file has another schema than the table, or was removed."""
    chosen = ", ".join(f'"{name}"' for name in names)
    conditions = "".join(f' AND "{name}" = ?' for name in equal)
    text = (
        f"SELECT {chosen} FROM read_parquet(?) "
        f'WHERE "{table.instant}" >= ? AND "{table.instant}" < ?{conditions}'
    )
    try:
        with session() as reading:
            values = [files, window.start, window.end, *equal.values()]
            return reading.sql(text, params=values).to_arrow_table()
    except duckdb.Error:
        # PyIceberg reads the files instead, and reports the error of a file that it cannot read.
        return None
