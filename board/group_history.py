"""History of a group: from copies sorted by group, or from the tables where no copy exists."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa

from board.data_files import DataFiles
from board.group_copies import COLUMNS, ERROR, MOST, GroupCopies, remove_damaged
from board.past import group_rows_between, rows_between
from lake.catalog import Lake
from lake.tables import progress
from lake.window import Window

ERRORS_WITHIN = timedelta(hours=6)
"""Longest window without copies for which errors of delay are read from rows of queues."""

CopiesOf = Callable[[Window], tuple[list[Path], list[Window]]]
"""Returns the copies of a window, and the windows that have none."""


class GroupHistory:
    """Reader of the past of one group on a topic at a time."""

    def __init__(self, lake: Lake, files: DataFiles, copies: GroupCopies) -> None:
        self._lake = lake
        self._files = files
        self._copies = copies

    def rows(self, window: Window, equal: Mapping[str, str], *, by_day: bool) -> pa.Table:
        """Return the rows of a group on a topic over a window, in order of time.

        Args:
            window: the window.
            equal: ``cluster``, ``consumer_group`` and ``topic``.
            by_day: whether points of `POINT` do where days are copied.

        Returns:
            ``observed_at``, `COLUMNS` and `ERROR`, and of each its largest value in the point.

        Raises:
            DamagedError: a file of a table is missing or damaged.
        """
        copies = self._copies
        stages = (copies.days, copies.hours) if by_day else (copies.hours,)
        # The empty part comes first: its schema is that of the result, also without other rows.
        parts, others = [_empty()], [window]
        for copies_of in stages:
            rest: list[Window] = []
            for each in others:
                copied, missing = _copied(copies_of, each, equal)
                parts += copied
                rest += missing
            others = rest
        parts += [self._uncopied(each, equal) for each in others]
        schema = parts[0].schema
        whole = pa.concat_tables([part.select(schema.names).cast(schema) for part in parts])
        return whole.sort_by("observed_at")

    def _uncopied(self, window: Window, equal: Mapping[str, str]) -> pa.Table:
        """Return the rows of a window from the tables; errors of a few hours only."""
        lake, files = self._lake, self._files
        rows = group_rows_between(lake, files, window, equal, COLUMNS)
        errors: dict[datetime, tuple[int, int | None]] = {}
        if window.end - window.start <= ERRORS_WITHIN:
            of_queues = ("delay_ms", ERROR)
            for row in rows_between(
                lake, files, progress.QUEUES, window, equal, of_queues
            ).to_pylist():
                delay = row["delay_ms"]
                if delay is not None and delay >= errors.get(row["observed_at"], (-1, None))[0]:
                    errors[row["observed_at"]] = (delay, row[ERROR])
        found = [errors.get(at, (0, None))[1] for at in rows["observed_at"].to_pylist()]
        rows = rows.append_column(ERROR, pa.array(found, type=pa.int64()))
        for name in (*COLUMNS, ERROR):
            rows = rows.append_column(f"{MOST}{name}", rows[name])
        return rows


def _copied(
    copies_of: CopiesOf, window: Window, equal: Mapping[str, str]
) -> tuple[list[pa.Table], list[Window]]:
    """Return the rows of a window that are copied, and the windows of those that are not."""
    paths, missing = copies_of(window)
    if not paths:
        return [], missing
    try:
        return [_read(paths, window, equal)], missing
    except duckdb.Error:
        return _copied(copies_of, window, equal) if remove_damaged(paths) else ([], [window])


def _read(copies: list[Path], window: Window, equal: Mapping[str, str]) -> pa.Table:
    names = ", ".join(_empty().schema.names)
    text = (
        f"SELECT {names} FROM read_parquet(?) WHERE observed_at >= ? AND observed_at < ? "
        "AND cluster = ? AND consumer_group = ? AND topic = ?"
    )
    of = [equal["cluster"], equal["consumer_group"], equal["topic"]]
    with duckdb.connect() as session:
        session.execute("SET TimeZone = 'UTC'")
        values = [[str(path) for path in copies], window.start, window.end, *of]
        return session.sql(text, params=values).to_arrow_table()


def _empty() -> pa.Table:
    types = {
        column.name: column.type for column in (*progress.GROUPS.columns, *progress.QUEUES.columns)
    }
    names = (*COLUMNS, ERROR)
    fields = [("observed_at", types["observed_at"])]
    fields += [(f"{most}{name}", types[name]) for most in ("", MOST) for name in names]
    return pa.schema(fields).empty_table()
