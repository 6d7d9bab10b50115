"""Rows of the past: of a window, or the newest ones as of an instant."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import duckdb
import pyarrow as pa
from pyiceberg.expressions import EqualTo

from lake.catalog import Lake
from lake.conditions import all_of, window_filter
from lake.damaged_files import damaged
from lake.schema import Table
from lake.window import Window


def rows_between(
    lake: Lake,
    table: Table,
    window: Window,
    equal: Mapping[str, str],
    columns: Sequence[str] = (),
    limit: int | None = None,
) -> pa.Table:
    """Return rows of a window whose columns have these values, in order of time.

    DuckDB reads the files that PyIceberg names, where they lie on this machine as they are;
    otherwise PyIceberg reads them.

    Args:
        lake: the tables.
        table: its declaration.
        window: of the table's instant.
        equal: column to value.
        columns: names, or all.
        limit: the newest rows at most.

    Raises:
        DamagedError: a file of the table is missing or damaged.
    """
    names = list(dict.fromkeys([table.instant, *columns])) if columns else table.column_names
    conditions = [EqualTo(name, value) for name, value in equal.items()]  # pyright: ignore
    where = window_filter(table, window)
    where = all_of(where, *conditions) if conditions else where
    with lake.scanned(table, where, selected_fields=tuple(names)) as scan:
        tasks = list(scan.plan_files())
        files = [_path(task.file.file_path) for task in tasks]
        is_plain = all(files) and not any(task.delete_files for task in tasks)
        if not files:
            rows = table.arrow_schema().empty_table().select(names)
        elif not is_plain:
            rows = scan.to_arrow().select(names)
        else:
            rows = _read([file for file in files if file], table, window, equal, names)
            rows = rows if rows is not None else scan.to_arrow().select(names)
    rows = rows.sort_by(table.instant)
    return rows if limit is None else rows.slice(max(0, rows.num_rows - limit))


def _path(address: str) -> str | None:
    """Return the path of a file of this machine; None of another."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        return unquote(parts.path) if not Path(parts.path).exists() else parts.path
    return address if not parts.scheme else None


def _read(
    files: list[str], table: Table, window: Window, equal: Mapping[str, str], names: list[str]
) -> pa.Table | None:
    """Return the rows; None where a file is older than one of the columns."""
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
    except (duckdb.BinderException, duckdb.InvalidInputException):
        return None
    except duckdb.Error as error:
        raise damaged(table.name, str(error)) from error
