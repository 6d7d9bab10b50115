"""Monthly statements of objectives, by hand."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.objective_hours import OCTOBER, hour, whole_month
from tests.support.table_rows import arrow
from tidemark.lake.bounds import Bound
from tidemark.lake.tables import progress
from tidemark.planning.objectives import longest_breach, month_of, statements, statements_of

OVER = datetime(2026, 11, 5, tzinfo=UTC)
MINUTES = 31 * 24 * 60


def stated(*rows, now=OVER):
    (row,) = statements_of(arrow(progress.OBJECTIVES, rows), OCTOBER, now).to_pylist()
    return row


def test_a_month_with_few_bad_minutes_is_met():
    row = stated(*whole_month(h5="+" * 50 + "-" * 10, h6="-" * 5 + "+" * 55))
    assert (row["good"], row["bad"], row["unknown"]) == (MINUTES - 15, 15, 0)
    assert row["allowed"] == pytest.approx(MINUTES / 100)
    assert (row["longest_breach"], row["longest_breach_bound"]) == (15, None)
    assert row["met"] is True
    assert row["month"] == "2026-10" and row["counted_since"] == OCTOBER.start


def test_more_bad_minutes_than_allowed_miss_it():
    assert stated(*whole_month(**{f"h{hour}": "-" * 60 for hour in range(8)}))["met"] is False


def test_unknown_minutes_are_never_good():
    """Eight hours without a row are 480 unknown minutes, more than the 446.4 that may be bad."""
    row = stated(*whole_month(**{f"h{hour}": "" for hour in range(8)}))
    assert (row["bad"], row["unknown"], row["met"]) == (0, 480, None)
    few = stated(*whole_month(h3="?" * 60))
    assert (few["unknown"], few["met"]) == (60, True), "even if all of them were bad"


def test_a_month_under_way_is_only_decided_where_no_minute_can_change_it():
    now = OCTOBER.start + timedelta(hours=9, minutes=30)
    begun = [hour(number, "+" * 60) for number in range(9)]
    row = stated(*begun, hour(9, "+" * 28), now=now)
    assert (row["good"], row["unknown"], row["met"]) == (568, 2, None)
    late = [hour(number, "-" * 60) for number in range(9)]
    assert stated(*late, now=now)["met"] is False


def test_a_newer_target_counts_for_the_whole_month():
    rows = whole_month()
    rows[-1]["target"] = 0.5
    assert stated(*rows)["allowed"] == MINUTES / 2


@pytest.mark.parametrize(
    ("signs", "longest"),
    [
        ("++++", (0, None)),
        ("+--+-", (2, None)),
        ("+--?--+---+", (3, Bound.LOWER)),
        ("+--?+---+", (3, None)),
        ("???--", (2, Bound.LOWER)),
        ("+???+", (0, None)),
    ],
)
def test_unknown_minutes_may_make_a_breach_longer(signs, longest):
    assert longest_breach(signs) == longest


def test_hours_that_are_missing_or_not_spelled_are_unknown():
    row = stated(hour(1, "+" * 30 + "-" * 30), hour(3, "-" * 60, minutes=None))
    assert (row["longest_breach"], row["longest_breach_bound"]) == (30, Bound.LOWER)
    assert row["bad"] == 90


@pytest.mark.slow
def test_statements_are_of_their_month(lake):
    lake.append(progress.OBJECTIVES, arrow(progress.OBJECTIVES, whole_month(h0="-" * 60)).slice(0))
    assert statements(lake, OCTOBER, OVER).to_pylist()[0]["bad"] == 60
    assert not statements(lake, month_of("2026-09"), OVER).num_rows


@pytest.mark.parametrize(
    "text", ["", "2026", "2026-13", "2026-00", "26-10", "2026-10-01", "x", "0000-01", "9999-12"]
)
def test_a_text_that_is_no_month_is_refused(text):
    with pytest.raises(ValueError, match="a month is wanted"):
        month_of(text)
