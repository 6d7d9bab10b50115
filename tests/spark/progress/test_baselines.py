"""Usual values of an hour of the week, from a few weeks by hand."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.progress.baselines import LEAST_OBSERVATIONS, baselines
from tests.support.table_rows import NOON, frame
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.tables import progress

pytestmark = pytest.mark.spark

WEEK = timedelta(days=7)


def observed(
    weeks_before: int, delay_ms: int | None, after: timedelta = timedelta(0), **columns: Any
) -> list[dict[str, Any]]:
    """As many observations as a week needs, around noon of an earlier Thursday."""
    first = NOON - weeks_before * WEEK + after
    row = {"consumer_group": "billing", "topic": "orders", "complete": True, "lag": 7}
    return [
        {"observed_at": first + timedelta(minutes=number), "delay_ms": delay_ms, **row, **columns}
        for number in range(LEAST_OBSERVATIONS)
    ]


def computed(
    spark: SparkSession, *weeks: Iterable[dict[str, Any]], hours: int = 1
) -> dict[int, dict[str, Any]]:
    """Return hour after noon to its baseline."""
    rows = [row for week in weeks for row in week]
    window = Window(NOON, NOON + hours * HOUR)
    result = baselines(frame(spark, progress.GROUPS, rows), window).collect()
    noon = NOON.replace(tzinfo=None)
    return {(row["hour"] - noon) // HOUR: row.asDict() for row in result}


def test_one_week_that_differs_changes_no_range(spark: SparkSession) -> None:
    """Weeks of 2, 3 and 5 s, and one with an outage of an hour."""
    weeks = (observed(1, 2_000), observed(2, 3_600_000), observed(3, 3_000), observed(4, 5_000))
    (row,) = computed(spark, *weeks).values()
    assert (row["delay_ms_low"], row["delay_ms_high"]) == (3_000, 5_000)
    assert (row["delay_ms_median"], row["weeks"]) == (4_000, 4)
    assert (row["lag_low"], row["lag_median"], row["lag_high"]) == (7, 7, 7)
    assert row["hour_of_week"] == 3 * 24 + 12, "Thursday noon"


def test_fewer_than_three_weeks_say_nothing(spark: SparkSession) -> None:
    (row,) = computed(spark, observed(1, 2_000), observed(4, 3_000)).values()
    assert row["weeks"] == 2
    assert row["delay_ms_median"] is row["delay_ms_low"] is row["delay_ms_high"] is None


def test_unknown_values_and_bounds_are_no_values(spark: SparkSession) -> None:
    weeks = (
        observed(1, 2_000),
        observed(2, None),
        observed(3, 3_000, delay_is_lower_bound=True),
        observed(4, 4_000, complete=False),
    )
    (row,) = computed(spark, *weeks).values()
    assert (row["weeks"], row["delay_ms_median"]) == (4, None)
    assert row["lag_median"] == 7, "those of three weeks are known"


def test_a_week_with_few_observations_does_not_count(spark: SparkSession) -> None:
    weeks = (observed(1, 2_000), observed(2, 3_000), observed(3, 4_000)[1:])
    (row,) = computed(spark, *weeks).values()
    assert row["delay_ms_median"] is None


def test_the_hours_around_count_and_those_beyond_do_not(spark: SparkSession) -> None:
    """After a change of clocks, noon is what was one o'clock."""
    weeks = (observed(1, 2_000, HOUR), observed(2, 3_000, -HOUR), observed(3, 4_000, HOUR))
    mapping = computed(spark, *weeks, hours=3)
    assert mapping[0]["delay_ms_median"] == 3_000
    assert mapping[1]["weeks"] == mapping[2]["weeks"] == 2


def test_the_hour_itself_is_not_usual(spark: SparkSession) -> None:
    today = observed(0, 9_000_000)
    (row,) = computed(spark, today, *(observed(week, 1_000) for week in (1, 2, 3))).values()
    assert row["delay_ms_high"] == 1_000


def test_each_subject_has_its_own(spark: SparkSession) -> None:
    weeks = [observed(week, 1_000 * week, consumer_group="audit") for week in (1, 2, 3)]
    rows = baselines(
        frame(spark, progress.GROUPS, [row for week in weeks for row in week] + observed(1, 5)),
        Window(NOON, NOON + HOUR),
    ).collect()
    assert {row["consumer_group"]: row["delay_ms_median"] for row in rows} == {
        "audit": 2_000,
        "billing": None,
    }
