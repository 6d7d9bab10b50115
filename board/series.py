"""Time series with a bounded number of points, in which gaps stay gaps."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import isfinite
from typing import Any

import pyarrow as pa

from lake.window import MICROSECOND, Window

MOST_POINTS = 2000

STEPS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
"""Seconds of a point, where the caller names no step."""

GAP = 3
"""Observations further apart than this many usual distances have a gap between them."""


@dataclass(frozen=True)
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
    values = {name: _known(rows[name]) for name in columns}
    largest = {name: _known(rows[most + name]) for name in columns} if most else values
    longest = GAP * usual_distance(instants)
    made = Series(step, [], {name: [] for name in columns}, {name: [] for name in columns})
    before: datetime | None = None
    for place, at in enumerate(instants):
        point = at if step is None else _floor(at, step)
        if before is not None and at - before > longest:
            # With a step, a gap that leaves none empty does not show.
            gap = before + (at - before) / 2 if step is None else _following(before, step)
            if gap < point:
                nothing = dict.fromkeys(columns)
                _append(made, gap, nothing, nothing)
        row = {name: values[name][place] for name in columns}
        maximum = {name: largest[name][place] for name in columns}
        if made.instants and made.instants[-1] == point:
            _merge(made, row, maximum)
        else:
            _append(made, point, row, maximum)
        before = at
    return made


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
    return [None if each is None or not isfinite(each) else each for each in column.to_pylist()]


def _append(made: Series, at: datetime, row: dict[str, Any], maximum: dict[str, Any]) -> None:
    made.instants.append(at)
    for name, value in row.items():
        made.last[name].append(value)
        made.maximum[name].append(maximum[name])


def _merge(made: Series, row: dict[str, Any], maximum: dict[str, Any]) -> None:
    for name, value in row.items():
        made.last[name][-1] = value
        known = [each for each in (made.maximum[name][-1], maximum[name]) if each is not None]
        made.maximum[name][-1] = max(known) if known else None


def _following(at: datetime, step: int) -> datetime:
    return _floor(at, step) + timedelta(seconds=step)


def _floor(at: datetime, step: int) -> datetime:
    return datetime.fromtimestamp(int(at.timestamp()) // step * step, UTC)
