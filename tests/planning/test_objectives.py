"""Minutes and budgets of objectives, by hand, over ticks, repeated ticks and recomputed hours."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.lake_copies import copied
from tests.support.table_rows import arrow, minute, minutes
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.tables import progress
from tidemark.planning.objectives import is_bad, replace_objectives
from tidemark.settings.home import Home
from tidemark.settings.objectives import Measure, Objective


def objective(**changes):
    """At most 30 s late in 99 % of the minutes of 10 hours: 6 minutes may be bad."""
    declared = {
        "name": "on-time",
        "match": {"consumer_group": ("billing",)},
        "measure": Measure.DELAY,
        "threshold": 30_000.0,
        "target": 0.99,
        "window": 10 * HOUR,
    }
    return Objective(**declared | changes)


def observed(at, delay_ms, **columns):
    row = {"at": at, "consumer_group": "billing", "topic": "orders", "complete": True}
    return row | {"delay_ms": delay_ms, "lag": 5, "queues_unknown": 0} | columns


def replace_groups(lake, window, *rows):
    lake.replace(progress.GROUPS, window, arrow(progress.GROUPS, rows))


def tick(lake, row, *objectives):
    """One observation, as a tick computes it."""
    window = Window.through(minute(row["at"]), minute(row["at"]))
    replace_groups(lake, window, row)
    replace_objectives(lake, window, objectives or [objective()])


def counts(lake):
    return {
        (row["hour"] - minute(0)) / HOUR: (row["good"], row["bad"], row["unknown"])
        for row in lake.read(progress.OBJECTIVES).to_pylist()
    }


def row_of(lake, hour):
    (row,) = [
        row
        for row in lake.read(progress.OBJECTIVES).to_pylist()
        if row["hour"] == minute(60 * hour)
    ]
    return row


GOOD, BAD, LATE = 1_000, 31_000, 30_000


def test_a_fault_of_twelve_minutes_costs_twelve_minutes(lake):
    delays = [BAD if 20 <= at < 32 else GOOD for at in range(60)]
    replace_groups(lake, minutes(0, 60), *(observed(at, delays[at]) for at in range(60)))
    assert replace_objectives(lake, minutes(0, 60), [objective()]) == 1
    row = row_of(lake, 0)
    assert (row["good"], row["bad"], row["unknown"]) == (48, 12, 0)
    assert (row["bad_before"], row["window_hours"]) == (0, 10)
    assert row["budget_left"] == pytest.approx(1 - 12 / 6), "twice as much as there is"
    assert row["burn_rate_1h"] == pytest.approx((12 / 60) / 0.01)


@pytest.mark.parametrize(
    ("row", "state"),
    [
        (observed(0, LATE), False),
        (observed(0, LATE + 1), True),
        (observed(0, None), None),
        (observed(0, GOOD, delay_is_lower_bound=True), None),
        (observed(0, BAD, delay_is_lower_bound=True), True),
        (observed(0, GOOD, lag_is_lower_bound=True), None),
        (observed(0, GOOD, complete=False, queues_unknown=2), None),
        (observed(0, BAD, complete=False, queues_unknown=2), True),
    ],
    ids=[
        *("at the threshold", "above it", "unknown", "a bound within it", "a bound above it"),
        *("a bound of the lag", "a part within it", "a part above it"),
    ],
)
def test_unknown_is_never_good_and_a_bound_can_only_be_bad(row, state):
    assert is_bad(row, objective()) is state


def test_lag_is_bounded_in_messages():
    within = objective(measure=Measure.LAG, threshold=5.0)
    assert is_bad(observed(0, None, lag=5), within) is False
    assert is_bad(observed(0, None, lag=6), within) is True


def test_the_worst_observation_of_a_minute_is_its_state(lake):
    rows = [observed(0, GOOD), observed(0.5, BAD), observed(1, None), observed(1.5, GOOD)]
    replace_groups(lake, minutes(0, 60), *rows)
    replace_objectives(lake, minutes(0, 60), [objective()])
    assert counts(lake) == {0: (0, 1, 1)}


def test_an_observation_speaks_for_five_minutes(lake):
    replace_groups(lake, minutes(0, 60), observed(2, BAD), observed(12, GOOD))
    replace_objectives(lake, minutes(0, 60), [objective()])
    # 0 and 1 come before any observation, 8 to 11 more than five minutes after one.
    assert counts(lake) == {0: (1, 6, 6)}


def test_minutes_are_spelled_and_later_ones_change_none_of_them(lake):
    spelled = []
    for row in (observed(0, GOOD), observed(1, BAD), observed(9, GOOD), observed(10, None)):
        tick(lake, row)
        spelled.append(row_of(lake, 0)["minutes"])
    # 2 to 6 by the observation at 1; 7 and 8 come more than five minutes after one.
    assert spelled == ["+", "+-", "+------??+", "+------??+?"]


def test_an_hour_is_whole_once_the_next_one_has_begun(lake):
    for at in (50, 57, 63):
        tick(lake, observed(at, GOOD))
    # 50 to 55 and 57 to 59; then 60 to 62 by the observation at 57, and 63.
    assert counts(lake) == {0: (9, 0, 51), 1: (4, 0, 0)}


def test_a_pause_leaves_the_hour_before_it_unknown(lake):
    tick(lake, observed(0, GOOD))
    tick(lake, observed(600, GOOD))
    assert counts(lake) == {0: (6, 0, 54), 10: (1, 0, 0)}


def test_hours_that_no_run_counted_follow_for_a_day(lake):
    """The file had a mistake meanwhile; a pause of weeks is not read as a whole."""
    tick(lake, observed(0, GOOD))
    for hour in (1, 10, 20, 34):
        at = 60 * hour
        replace_groups(lake, minutes(at, at + 60), observed(at, BAD))
    replace_objectives(lake, minutes(60 * 34, 60 * 34 + 1), [objective()])
    # The first hour is whole now, and hour 1 lies more than a day before.
    assert counts(lake) == {0: (6, 0, 54), 10: (0, 6, 54), 20: (0, 6, 54), 34: (0, 1, 0)}


def test_only_groups_that_match_have_rows_and_each_objective_its_own(lake):
    window = minutes(0, 1)
    replace_groups(lake, window, observed(0, GOOD), observed(0, BAD, consumer_group="audit"))
    both = [objective(), objective(name="tight", threshold=500.0)]
    assert replace_objectives(lake, window, both) == 2
    rows = lake.read(progress.OBJECTIVES).to_pylist()
    assert {(row["consumer_group"], row["objective"], row["bad"]) for row in rows} == {
        ("billing", "on-time", 0),
        ("billing", "tight", 1),
    }


def test_the_budget_is_that_of_the_hours_of_the_window(lake):
    for hour, bad in ((0, 3), (1, 1), (9, 0), (10, 0)):
        window = minutes(60 * hour, 60 * hour + 60)
        rows = [observed(60 * hour + at, BAD if at < bad else GOOD) for at in range(60)]
        replace_groups(lake, window, *rows)
        replace_objectives(lake, window, [objective()])
    left = {hour: row_of(lake, hour)["budget_left"] for hour in (0, 1, 9, 10)}
    # At hour 10 the first of the ten hours is hour 1.
    assert left == pytest.approx({0: 1 - 3 / 6, 1: 1 - 4 / 6, 9: 1 - 4 / 6, 10: 1 - 1 / 6})


def test_burn_rates_end_with_the_present_minute(lake):
    for hour in range(7):
        bad = 30 if hour == 6 else 6 if hour == 5 else 0
        until = 30 if hour == 6 else 60
        window = minutes(60 * hour, 60 * hour + until)
        rows = [observed(60 * hour + at, BAD if at < bad else GOOD) for at in range(until)]
        replace_groups(lake, window, *rows)
        replace_objectives(lake, window, [objective()])
    row = row_of(lake, 6)
    # The half hour so far, and half of the hour before; of 6 hours, half of the seventh before.
    assert row["burn_rate_1h"] == pytest.approx((30 + 3) / (30 + 30) / 0.01)
    assert row["burn_rate_6h"] == pytest.approx((30 + 6) / (30 + 5 * 60 + 30) / 0.01)


def test_without_a_known_minute_there_is_no_burn_rate(lake):
    tick(lake, observed(0, None))
    row = row_of(lake, 0)
    assert (row["burn_rate_1h"], row["burn_rate_6h"], row["budget_left"]) == (None, None, 1.0)


def test_withdrawn_objectives_have_no_rows_in_computed_hours(lake):
    tick(lake, observed(0, GOOD))
    assert replace_objectives(lake, minutes(0, 60), []) == 0
    assert counts(lake) == {}


def test_a_recomputed_hour_changes_the_budgets_after_it(lake):
    for at in (0, 60, 120):
        tick(lake, observed(at, GOOD))
    replace_groups(lake, minutes(0, 60), observed(0, BAD))
    replace_objectives(lake, minutes(0, 60), [objective()])
    assert counts(lake)[0] == (0, 6, 54)
    assert [row_of(lake, hour)["budget_left"] for hour in (0, 1, 2)] == pytest.approx([0, 0, 0])
    assert [row_of(lake, hour)["unknown_before"] for hour in (0, 1, 2)] == [0, 54, 108]


observations = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from([GOOD, BAD, None])),
    min_size=1,
    max_size=12,
    unique_by=lambda observation: observation[0],
).map(sorted)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(observations)
def test_ticks_equal_a_backfill(tmp_path_factory, empty_lake, history):
    by_ticks = copied(empty_lake, Home.of(tmp_path_factory.mktemp("ticks") / "home"))
    by_hours = copied(empty_lake, Home.of(tmp_path_factory.mktemp("hours") / "home"))
    for at, delay in history:
        tick(by_ticks, observed(at, delay))
    rows = [observed(at, delay) for at, delay in history]
    replace_groups(by_hours, minutes(0, 420), *rows)
    for hour in sorted({at // 60 for at, _ in history}):
        replace_objectives(by_hours, minutes(60 * hour, 60 * hour + 60), [objective()])
    tables = [
        lake.read(progress.OBJECTIVES).sort_by("hour").to_pylist() for lake in (by_ticks, by_hours)
    ]
    assert tables[0] == tables[1]


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(observations, st.data())
def test_a_cluster_has_the_rows_that_it_has_alone(tmp_path_factory, empty_lake, history, data):
    """Whichever cluster is late, and whatever was counted of the others before."""
    cluster_of = {at: data.draw(st.sampled_from(["a", "b"])) for at, _ in history}
    rows = [observed(at, delay, cluster=cluster_of[at]) for at, delay in history]
    late = data.draw(st.sampled_from(["a", "b"]))

    def counted(name, rows):
        lake = copied(empty_lake, Home.of(tmp_path_factory.mktemp(name) / "home"))
        for row in rows:
            tick(lake, row)
        return lake.read(progress.OBJECTIVES).sort_by("hour").to_pylist()

    shared = counted("shared", sorted(rows, key=lambda row: row["cluster"] == late))
    for cluster in ("a", "b"):
        alone = counted(cluster, [row for row in rows if row["cluster"] == cluster])
        assert [row for row in shared if row["cluster"] == cluster] == alone


def test_a_window_of_many_hours_is_that_of_each(lake):
    rows = [observed(at, BAD if at % 50 == 0 else GOOD) for at in range(0, 180, 3)]
    replace_groups(lake, minutes(0, 180), *rows)
    replace_objectives(lake, minutes(0, 180), [objective()])
    whole = lake.read(progress.OBJECTIVES).sort_by("hour").to_pylist()
    for hour in range(3):
        replace_objectives(lake, minutes(60 * hour, 60 * hour + 60), [objective()])
    assert lake.read(progress.OBJECTIVES).sort_by("hour").to_pylist() == whole
    assert timedelta(hours=2) == whole[-1]["hour"] - whole[0]["hour"]
