"""Series for charts: few points, and no line through a gap."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from tidemark.board.views.series import MOST_POINTS, series, step_for
from tidemark.lake.clocks import Window

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def minute(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


def rows(*values: tuple[float, int | None]) -> pa.Table:
    return pa.table(
        {
            "observed_at": pa.array([minute(at) for at, _ in values], pa.timestamp("us", "UTC")),
            "lag": pa.array([lag for _, lag in values], pa.int64()),
        }
    )


def test_each_observation_is_a_point():
    result = series(rows((0, 5), (1, None), (2, 7)), "observed_at", ["lag"], None)
    assert result.instants == [minute(0), minute(1), minute(2)]
    assert result.last["lag"] == [5, None, 7]


def test_a_gap_holds_a_point_without_values():
    result = series(rows((0, 5), (1, 6), (2, 7), (12, 8)), "observed_at", ["lag"], None)
    assert result.instants == [minute(0), minute(1), minute(2), minute(7), minute(12)]
    assert result.last["lag"] == [5, 6, 7, None, 8]


def test_a_step_has_its_last_and_largest_known_value():
    result = series(rows((0, 5), (1, 9), (2, None), (5, 1)), "observed_at", ["lag"], 300)
    assert result.instants == [minute(0), minute(5)]
    assert result.last["lag"] == [None, 1]
    assert result.maximum["lag"] == [9, 1]


@pytest.mark.parametrize(
    ("step", "minutes", "points"),
    [
        (3600, [*range(61), *range(210, 260)], [0, 60, None, 180, 240]),
        (300, [*range(50, 61), *range(75, 80)], [50, 55, 60, None, 75]),
        (300, [50, 51, 52, 58, 59], [50, 55]),
        (60, range(0, 25, 5), range(0, 25, 5)),
    ],
    ids=["a whole hour", "less than three steps", "no step is empty", "as far as usual"],
)
def test_a_step_keeps_gaps_that_leave_a_step_empty(step, minutes, points):
    result = series(rows(*((at, 1) for at in minutes)), "observed_at", ["lag"], step)
    pairs = zip(result.instants, result.last["lag"], strict=True)
    assert [None if lag is None else at for at, lag in pairs] == [
        None if number is None else minute(number) for number in points
    ]
    assert result.instants == sorted(result.instants)


@pytest.mark.parametrize(
    ("hours", "observations", "step"),
    [(1, 60, None), (24, 1440, 120), (24 * 90, 129_600, 14_400)],
)
def test_a_step_is_the_least_with_few_points(hours, observations, step):
    window = Window(NOON, NOON + timedelta(hours=hours))
    assert step_for(window, observations) == step
    if step:
        assert hours * 3600 / step <= MOST_POINTS // 2


def test_what_is_no_number_is_unknown():
    """Infinity is no largest value of a point, so no chart reaches up to it."""
    table = rows((0, 1), (1, 2), (2, 3)).drop_columns("lag")
    table = table.append_column("lag", pa.array([float("inf"), 7.5, float("nan")], pa.float64()))
    result = series(table, "observed_at", ["lag"], 300)
    assert (result.last["lag"], result.maximum["lag"]) == ([None], [7.5])
