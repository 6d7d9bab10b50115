"""Series of a group on a topic over time: which columns, over which time, in which steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import isfinite
from typing import Any

import pyarrow as pa

from tidemark.board.group_history import COLUMNS, ERROR, MOST, POINT
from tidemark.board.http_responses import ProblemError
from tidemark.board.views.parameters import window_of
from tidemark.board.views.view import Shown, View
from tidemark.lake.bounds import columns_with_marks
from tidemark.lake.clocks import MICROSECOND, Window
from tidemark.lake.tables import progress
from tidemark.settings.times import seconds

MOST_POINTS = 2000

STEPS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
"""Seconds of a point, where the caller names no step."""

GAP = 3
"""Observations further apart than this many usual distances have a gap between them."""

DEFAULT_COLUMNS = ("lag", "readable_lag", "delay_ms", "produce_tps", "consume_tps", "health")


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


def history_points(
    view: View,
    cluster: str,
    group: str,
    topic: str,
    *,
    start: str = "",
    end: str = "",
    step: str = "",
    columns: str = "",
) -> dict[str, Any]:
    """Return columns of a group on a topic over time, with those that mark a number as a bound.

    Args:
        view: the tables as the person sees them.
        cluster: the cluster.
        group: the group.
        topic: the topic.
        start: first instant; an hour before the last without.
        end: last instant; now without.
        step: time that a point stands for, e.g. 5m; chosen without.
        columns: by commas; `DEFAULT_COLUMNS` without.

    Raises:
        ProblemError: a parameter is none of these, or gives too many points.
    """
    window = window_of(start, end)
    names = columns_with_marks(columns_of(columns))
    rows = view.newest
    made = history_of(view, rows, window, cluster, group, topic, names, _step(step))
    return {
        "cluster": cluster,
        "consumer_group": group,
        "topic": topic,
        "from": window.start,
        "to": window.end,
        "step_seconds": made.step,
        "columns": list(names),
        "points": [
            {
                "observed_at": at,
                "last": {name: made.last[name][place] for name in names},
                "max": {name: made.maximum[name][place] for name in names},
            }
            for place, at in enumerate(made.instants)
        ],
    }


def history_of(
    view: View,
    rows: Shown,
    window: Window,
    cluster: str,
    group: str,
    topic: str,
    names: tuple[str, ...],
    step: int | None,
) -> Series:
    """Return the series of a group on a topic.

    Args:
        view: the tables as the person sees them.
        rows: the shown rows; observations after their snapshot are left out.
        window: the window.
        cluster: the cluster.
        group: the group.
        topic: the topic.
        names: columns of ``progress.groups``, and ``delay_error_ms`` in addition to those of pages.
        step: seconds of a point; None: as many as there are observations, or as few as are drawn.

    Raises:
        ProblemError: the step gives too many points.
    """
    if view.is_empty:
        raise ProblemError(404, "nothing is computed yet")
    minutes = (window.end - window.start).total_seconds() / 60
    if step and steps_in(window, step) > MOST_POINTS:
        raise ProblemError(400, f"step: it gives more than {MOST_POINTS} points; take a longer one")
    step = step or step_for(window, round(minutes))
    equal = {"cluster": cluster, "consumer_group": group, "topic": topic}
    if (newest := rows.at.get(cluster)) is not None:
        end = max(window.start, min(window.end, newest + MICROSECOND))
        window = Window(window.start, end)
    if set(names) <= {*COLUMNS, ERROR}:
        by_day = step is not None and step % POINT == 0
        past = view.history(window, equal, names, by_day=by_day)
        return series(past, "observed_at", names, step or step_for(window, past.num_rows), MOST)
    past = view.group_rows_between(window, equal, names)
    return series(past, "observed_at", names, step or step_for(window, past.num_rows))


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


def columns_of(text: str) -> tuple[str, ...]:
    """Return the columns that a parameter names by commas.

    Raises:
        ProblemError: ``progress.groups`` has no such column.
    """
    given = (name.strip() for name in text.split(","))
    names = tuple(dict.fromkeys(given)) if text else DEFAULT_COLUMNS
    unknown = [name for name in names if name not in progress.GROUPS.column_names]
    if unknown:
        raise ProblemError(400, f"columns: progress.groups has no {', '.join(unknown)}")
    return names


def _step(text: str) -> int | None:
    if not text:
        return None
    try:
        step = int(seconds(text))
    except ValueError as error:
        raise ProblemError(400, f"step: {error}") from error
    if not 1 <= step <= STEPS[-1]:
        raise ProblemError(400, "step: 1s to 1d is wanted")
    return step


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
