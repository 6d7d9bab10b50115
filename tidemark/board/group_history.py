"""History of a group: from copies sorted by group, or from the tables where no copy exists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import isfinite
from typing import Any

import pyarrow as pa

from tidemark.board.copies import Reader
from tidemark.board.data_files import DataFiles, session
from tidemark.board.group_copies import ERROR, MOST, GroupCopies
from tidemark.board.past import group_rows_between, rows_between
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import MICROSECOND, Window
from tidemark.lake.tables import progress

MOST_POINTS = 2000

STEPS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
"""Seconds of a point, where the caller names no step."""

GAP = 3
"""Observations further apart than this many usual distances have a gap between them."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points in order of time.

    Attributes:
        step: seconds that a point covers; None where a point is an observation.
        instants: of the points: the observation, or the start of the step.
        last: column -> value at the last observation of each point; None is unknown, or a gap.
        maximum: column -> largest known value of each point; without a step the same.
    """

    step: int | None
    instants: list[datetime]
    last: dict[str, list[Any]]
    maximum: dict[str, list[Any]]


def step_for(window: Window, observations: int) -> int | None:
    """Return the least step with which a window has at most half of `MOST_POINTS`.

    Gaps are points too. None without need.
    """
    if observations <= MOST_POINTS // 2:
        return None
    seconds = (window.end - window.start).total_seconds()
    return next((step for step in STEPS if seconds / step <= MOST_POINTS // 2), STEPS[-1])


def series(
    rows: pa.Table, instant: str, columns: Sequence[str], step: int | None, most: str = ""
) -> Series:
    """Return the series of columns of rows, which are in order of time.

    Args:
        rows: the observations, or points of several of them.
        instant: name of their instant.
        columns: names of columns.
        step: seconds of a point; None for a point per row.
        most: begins the names of the columns with the largest values; the same columns without.

    Every gap has a point whose values are all None, so that no line is drawn through it.
    With a step this is the first empty step: points are never more than `steps_in` counts.
    """
    instants: list[datetime] = rows[instant].to_pylist()
    points = instants if step is None else [_floor(at, step) for at in instants]
    longest = GAP * usual_distance(instants)
    begins = [n for n, point in enumerate(points) if n == 0 or point != points[n - 1]]
    places: list[tuple[datetime, slice]] = []
    for begin, end in pairwise([*begins, len(points)]):
        before, at = instants[max(0, begin - 1)], instants[begin]
        if at - before > longest:
            # With a step, a gap that leaves none empty does not show.
            gap = before + (at - before) / 2 if step is None else _following(before, step)
            if gap < points[begin]:
                places.append((gap, slice(0, 0)))
        places.append((points[begin], slice(begin, end)))
    values = {name: _known(rows[name]) for name in columns}
    largest = {name: _known(rows[most + name]) for name in columns} if most else values
    return Series(
        step=step,
        instants=[at for at, _ in places],
        last={name: [_last(values[name][of]) for _, of in places] for name in columns},
        maximum={name: [_largest(largest[name][of]) for _, of in places] for name in columns},
    )


def steps_in(window: Window, step: int) -> int:
    """Return how many steps a window touches; it may begin and end inside of one."""
    first, last = _floor(window.start, step), _floor(window.end - MICROSECOND, step)
    return (last - first) // timedelta(seconds=step) + 1


def usual_distance(instants: Sequence[datetime]) -> timedelta:
    """Return the median distance between instants in order; a minute for fewer than two."""
    distances = sorted(later - earlier for earlier, later in pairwise(instants))
    return distances[len(distances) // 2] if distances else timedelta(minutes=1)


def _known(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; a value that is no number is unknown, not the largest."""
    if not pa.types.is_floating(column.type):
        return column.to_pylist()
    return [None if row is None or not isfinite(row) else row for row in column.to_pylist()]


def _last(values: list[Any]) -> Any:
    return values[-1] if values else None


def _largest(values: list[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)


def _following(at: datetime, step: int) -> datetime:
    return _floor(at, step) + timedelta(seconds=step)


def _floor(at: datetime, step: int) -> datetime:
    return datetime.fromtimestamp(int(at.timestamp()) // step * step, UTC)


ERRORS_WITHIN = timedelta(hours=6)
"""Longest window without copies for which errors of delay are read from rows of queues."""


class GroupHistory:
    """Reader of the past of one group on a topic at a time."""

    def __init__(self, lake: Lake, files: DataFiles, copies: GroupCopies) -> None:
        self._lake = lake
        self._files = files
        self._copies = copies

    def rows(
        self, window: Window, equal: Mapping[str, str], names: Sequence[str], *, by_day: bool
    ) -> pa.Table:
        """Return the rows of a group on a topic over a window, in order of time.

        Args:
            window: the window.
            equal: ``cluster``, ``consumer_group`` and ``topic``.
            names: some of `tidemark.board.group_copies.COLUMNS`, and `ERROR`.
            by_day: whether points of `POINT` do where days are copied.

        Returns:
            ``observed_at`` and these columns, and of each its largest value in the point.

        Raises:
            DamagedError: a file of a table is missing or damaged.
        """
        schema = empty(names).schema

        def reader(most: str) -> Reader:
            return lambda paths: _read(paths, window, equal, names, most)

        # A row of an hour is its own largest value.
        copied, others = self._copies.read(window, reader(""), reader(MOST) if by_day else None)
        parts = [*copied, *(self._uncopied(window, equal, names) for window in others)]
        selected = [part.select(schema.names).cast(schema) for part in parts]
        return pa.concat_tables([empty(names), *selected]).sort_by("observed_at")

    def _uncopied(self, window: Window, equal: Mapping[str, str], names: Sequence[str]) -> pa.Table:
        """Return the rows of a window from the tables; errors of a few hours only."""
        of_groups = [name for name in names if name != ERROR]
        rows = group_rows_between(self._lake, self._files, window, equal, of_groups)
        if ERROR in names:
            errors = self._errors(window, equal)
            numbers = [errors.get(at) for at in rows["observed_at"].to_pylist()]
            rows = rows.append_column(ERROR, pa.array(numbers, type=pa.int64()))
        for name in names:
            rows = rows.append_column(f"{MOST}{name}", rows[name])
        return rows

    def _errors(self, window: Window, equal: Mapping[str, str]) -> dict[datetime, int | None]:
        """Return the error of the most delayed queue by instant; none of a long window."""
        if window.end - window.start > ERRORS_WITHIN:
            return {}
        queues = rows_between(
            self._lake, self._files, progress.QUEUES, window, equal, ("delay_ms", ERROR)
        )
        most: dict[datetime, tuple[int, int | None]] = {}
        for row in queues.to_pylist():
            delay = row["delay_ms"]
            if delay is not None and delay >= most.get(row["observed_at"], (-1, None))[0]:
                most[row["observed_at"]] = (delay, row[ERROR])
        return {at: error for at, (_, error) in most.items()}


def _read(
    copies: list[str], window: Window, equal: Mapping[str, str], names: Sequence[str], most: str
) -> pa.Table:
    """Return rows of copies; `most` begins the names of their columns with the largest values."""
    largest = [f"{most}{name} AS {MOST}{name}" for name in names]
    text = (
        f"SELECT {', '.join(('observed_at', *names, *largest))} FROM read_parquet(?) "
        "WHERE observed_at >= ? AND observed_at < ? "
        "AND cluster = ? AND consumer_group = ? AND topic = ?"
    )
    of = [equal["cluster"], equal["consumer_group"], equal["topic"]]
    with session() as reading:
        values = [copies, window.start, window.end, *of]
        return reading.sql(text, params=values).to_arrow_table()


def empty(names: Sequence[str]) -> pa.Table:
    """Return no rows, as `GroupHistory.rows` returns them of these columns."""
    types = {
        column.name: column.type for column in (*progress.GROUPS.columns, *progress.QUEUES.columns)
    }
    fields = [("observed_at", types["observed_at"])]
    fields += [(f"{most}{name}", types[name]) for most in ("", MOST) for name in names]
    return pa.schema(fields).empty_table()
