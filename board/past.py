"""Rows of a past window, selected by the values of columns."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import EqualTo

from board.data_files import DataFiles
from lake.catalog import Lake
from lake.conditions import all_of, window_filter
from lake.history import COLUMNS, LoadedSnapshot, files_left_out, remembered, snapshots_of
from lake.schema import Table
from lake.tables import progress, raw
from lake.window import Window


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
    paths = None if hours is None else [path_of(each) for each in files_of(hours, window)]
    if paths == []:
        return table.arrow_schema().empty_table().select(names)
    rows = None
    if paths and all(paths):
        rows = _read([path for path in paths if path], table, window, equal, names)
    if rows is None:
        conditions = [EqualTo(name, value) for name, value in equal.items()]  # pyright: ignore
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
    cluster, reach = {"cluster": equal["cluster"]}, remembered(window)
    return of_whole_clusters(
        rows, snapshots_of(rows_between(lake, files, raw.SNAPSHOTS, reach, cluster, COLUMNS))
    )


def of_whole_clusters(rows: pa.Table, known: Iterable[LoadedSnapshot]) -> pa.Table:
    """Return the rows without those of files that `lake.history.whole_clusters` leaves out."""
    left_out = pa.array(sorted(files_left_out(known)), type=pa.string())
    return rows.filter(pc.invert(pc.is_in(rows["snapshot_id"], value_set=left_out)))  # pyright: ignore


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
        with duckdb.connect() as session:
            session.execute("SET TimeZone = 'UTC'")
            values = [files, window.start, window.end, *equal.values()]
            return session.sql(text, params=values).to_arrow_table()
    except duckdb.Error:
        # PyIceberg reads the files instead, and reports the error of a file that it cannot read.
        return None
