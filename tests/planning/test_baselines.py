"""Hours with which hours are compared, and hours without baselines."""

from datetime import timedelta

from tests.support.table_rows import NOON, arrow, minute
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.tables import progress
from tidemark.planning.hours_of_week import compared_with, has_history, lacking_baselines

HOURS = Window(NOON, NOON + 3 * HOUR)
WEEK = timedelta(days=7)


def test_hours_are_compared_with_those_around_them_in_four_weeks():
    first, *_, last = compared_with(HOURS)
    assert first == Window(NOON - WEEK - HOUR, NOON - WEEK + 4 * HOUR)
    assert last == Window(NOON - 4 * WEEK - HOUR, NOON - 4 * WEEK + 4 * HOUR)


def test_history_is_that_of_a_compared_hour(lake):
    row = {"consumer_group": "billing", "topic": "orders"}
    lake.append(progress.GROUPS, arrow(progress.GROUPS, [row | {"at": 0}]))
    assert not has_history(lake, compared_with(HOURS)), "the hour itself is none"
    before = {"observed_at": NOON - 3 * WEEK - HOUR, "snapshot_id": "a"}
    lake.append(progress.GROUPS, arrow(progress.GROUPS, [row | before]))
    assert has_history(lake, compared_with(HOURS))
    assert not has_history(lake, compared_with(Window(NOON + HOUR, NOON + 2 * HOUR)))


def test_hours_with_baselines_are_not_computed_again(lake):
    assert lacking_baselines(lake, HOURS) == HOURS
    row = {"hour": minute(60), "consumer_group": "billing", "topic": "orders", "weeks": 1}
    lake.append(progress.BASELINES, arrow(progress.BASELINES, [row]))
    assert lacking_baselines(lake, HOURS) == HOURS
    for hour in (0, 120):
        lake.append(progress.BASELINES, arrow(progress.BASELINES, [row | {"hour": minute(hour)}]))
    assert lacking_baselines(lake, HOURS).empty
