"""The usual values of groups at an hour of the week: ``progress.baselines``.

A week with an outage, a holiday or a deploy differs from the others. So each week has its own
percentiles, and the range reaches from the second lowest to the second highest week: one week that
differs, whatever its values, neither widens nor narrows it by more than one place.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import with_new
from spark.tuning import as_read, small
from tidemark.lake.bounds import certain
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.tables.progress import BASELINE_MEASURES, BASELINES
from tidemark.planning.hours_of_week import AROUND, WEEK, WEEKS

LEAST_WEEKS = 3
"""Fewest weeks for usual values: of two nobody knows which is the usual one."""

LEAST_OBSERVATIONS = 30
"""Fewest known values for which a week counts."""

_SUBJECT = ("cluster", "consumer_group", "topic")

_SHARES = (0.05, 0.5, 0.95)

_HOURS_OF_WEEK = WEEK // HOUR

_FIRST_MONDAY = 4 * 24
"""Hours from 1970-01-01, a Thursday, to the Monday after it."""


def baselines(groups: DataFrame, hours: Window) -> DataFrame:
    """Return the usual values of some hours.

    Args:
        groups: rows of ``progress.groups`` of `tidemark.planning.hours_of_week.compared_with`. A
            bound is no value: it would make a range too narrow.
        hours: whole hours.

    Returns:
        A row of ``progress.baselines`` per hour and subject that was observed around it in at
        least one week. Values of fewer than `LEAST_WEEKS` weeks are NULL.
    """
    first = int(hours.start.timestamp()) // 3600
    numbers = range(first, first + (hours.end - hours.start) // HOUR)
    sources = [
        (number - week * _HOURS_OF_WEEK + around, number, week)
        for number in numbers
        for week in range(1, WEEKS + 1)
        for around in range(-AROUND, AROUND + 1)
    ]
    compared = as_read(
        groups.sparkSession.createDataFrame(sources, "source bigint, number bigint, week int")
    )
    source = F.floor(F.unix_seconds("observed_at") / 3600)
    known = [F.when(F.expr(certain(name)), F.col(name)).alias(name) for name in BASELINE_MEASURES]
    by_week = (
        groups.select(*_SUBJECT, source.alias("source"), *known)
        .join(small(compared), "source")
        .groupBy("number", "week", *_SUBJECT)
        .agg(*map(_of_week, BASELINE_MEASURES))
    )
    number = F.col("number")
    return (
        by_week.groupBy("number", *_SUBJECT)
        .agg(
            F.count("*").cast("int").alias("weeks"),
            *(column for name in BASELINE_MEASURES for column in _of_weeks(name)),
        )
        .transform(
            with_new,
            hour=F.timestamp_seconds(number * 3600),
            hour_of_week=F.pmod(number - _FIRST_MONDAY, F.lit(_HOURS_OF_WEEK)).cast("int"),
        )
        .select(*BASELINES.column_names)
    )


def _of_week(name: str) -> Column:
    """Return the percentiles of a week; NULL where too few values are known."""
    shares = F.percentile(name, F.array(*map(F.lit, _SHARES)))
    return F.when(F.count(name) >= LEAST_OBSERVATIONS, shares).alias(name)


def _of_weeks(name: str) -> list[Column]:
    """Return the columns of a measure from the percentiles of its weeks."""
    low, median, high = (F.col(name)[place] for place in range(len(_SHARES)))
    is_known = F.count(median) >= LEAST_WEEKS
    values = {
        "median": F.median(median),
        "low": F.element_at(F.array_sort(F.collect_list(low)), 2),
        "high": F.element_at(F.array_sort(F.collect_list(high)), -2),
    }
    return [F.when(is_known, value).alias(f"{name}_{of}") for of, value in values.items()]
