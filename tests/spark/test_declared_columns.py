"""Declared columns: each appears in a plan with the type that its declaration states.

A declaration is only worth reading while it is true. Tempting simplifications these tests break:
stating a type that looks right, and keeping a column that nothing adds any more.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from spark.columns import Added, column, unknown_of, with_new, with_replaced
from spark.progress.assignments import assignments
from spark.progress.capacity import capacity
from spark.progress.client_events import client_events
from spark.progress.events import events
from spark.progress.filtering import Evidence
from spark.progress.groups import OF_ONE_OBSERVATION, groups
from spark.progress.health import with_health
from spark.progress.popped import Witnesses
from spark.progress.queues import RawFrames, queues
from spark.progress.throughput import throughput
from spark.progress.topics import topics
from tests.support.table_rows import frame, minute, minutes, snapshot_id
from tidemark.lake.schema import Table
from tidemark.lake.tables import progress, raw

pytestmark = pytest.mark.spark

WINDOW = minutes(1, 2)
OF_A_ROW = {"topic": "orders", "queue_id": 0, "consumer_group": "billing", "client_id": "one"}


def rows(spark, table: Table):
    """One row at the minute before the window and one in it."""
    own = {name: value for name, value in OF_A_ROW.items() if name in table.column_names}
    if "snapshot_id" in table.column_names:
        return frame(spark, table, [{"at": at} | own for at in (0, 1)])
    return frame(spark, table, [{table.instant: minute(at)} | own for at in (0, 1)])


def raw_rows(spark):
    tables = {table.short_name: table for table in raw.ALL}
    return RawFrames(**{part.name: rows(spark, tables[part.name]) for part in fields(RawFrames)})


def unreachable(spark):
    row = (snapshot_id(1), "broker-b", snapshot_id(0))
    return spark.createDataFrame(
        [row], "snapshot_id string, broker string, last_snapshot_id string"
    )


def computed_queues(spark):
    return queues(
        raw_rows(spark),
        WINDOW,
        timeline=rows(spark, progress.TIMELINE),
        earlier=rows(spark, progress.QUEUES),
        broker_stats=rows(spark, raw.BROKER_STATS),
    )


def computed_groups(spark):
    return groups(
        rows(spark, progress.QUEUES),
        raw_rows(spark),
        unreachable(spark),
        WINDOW,
        evidence=Evidence(
            tags=rows(spark, raw.QUEUE_TAGS), throughput=rows(spark, progress.THROUGHPUT)
        ),
        witnesses=Witnesses(
            metrics=rows(spark, raw.BROKER_METRICS), reports=rows(spark, raw.CLIENT_QUEUES)
        ),
    )


def computed_health(spark):
    numbered = [(snapshot_id(at), at, {snapshot_id(1): 1 - at}) for at in (0, 1)]
    numbers = "snapshot_id string, number bigint, counts_for map<string,int>"
    stored = rows(spark, progress.GROUPS)
    return with_health(
        stored.select(*OF_ONE_OBSERVATION),
        stored,
        rows(spark, progress.QUEUES),
        rows(spark, raw.CLIENT_QUEUES),
        spark.createDataFrame(numbered, numbers),
        WINDOW,
    )


def computed_topics(spark):
    hour_before = spark.createDataFrame(
        [(snapshot_id(1), "broker-a")], "snapshot_id string, broker string"
    )
    return topics(
        raw_rows(spark),
        rows(spark, raw.QUEUE_OFFSETS),
        rows(spark, progress.TIMELINE),
        hour_before,
        unreachable(spark),
        WINDOW,
    )


def computed_capacity(spark):
    return capacity(
        rows(spark, raw.CLIENTS),
        rows(spark, raw.CLIENT_TOPICS),
        rows(spark, raw.CLIENT_QUEUES),
        rows(spark, progress.GROUPS),
        spark.createDataFrame(
            [("lab", "billing", "orders", minute(0), 5.0)],
            "cluster string, consumer_group string, topic string, peak_at timestamp, "
            "peak_tps double",
        ),
        WINDOW,
    )


def computed_events(spark):
    steps = spark.createDataFrame(
        [(snapshot_id(1), minute(1), "lab", "broker-a", snapshot_id(0), minute(0), False, ["-"])],
        "snapshot_id string, observed_at timestamp, cluster string, broker string, "
        "previous_snapshot_id string, previous_at timestamp, down boolean, lacking array<string>",
    )
    return events(
        rows(spark, progress.QUEUES),
        rows(spark, progress.GROUPS),
        rows(spark, raw.CLIENTS),
        rows(spark, raw.BROKERS),
        rows(spark, raw.BROKER_STATS),
        steps,
    )


def computed_client_events(spark):
    return client_events(
        rows(spark, progress.ASSIGNMENTS),
        rows(spark, raw.CLIENT_QUEUES),
        rows(spark, raw.CLIENTS),
        rows(spark, progress.QUEUES),
        WINDOW,
    )


def computed_throughput(spark):
    starts = (snapshot_id(1), "broker-a", "minute", snapshot_id(0), snapshot_id(0), 0.5)
    return throughput(
        rows(spark, raw.BROKER_STATS),
        rows(spark, raw.QUEUE_OFFSETS),
        rows(spark, progress.QUEUES),
        spark.createDataFrame(
            [starts],
            "snapshot_id string, broker string, stats_window string, before_id string, "
            "after_id string, share double",
        ),
        rows(spark, raw.BROKERS),
        WINDOW,
    )


def computed_assignments(spark):
    return assignments(
        rows(spark, raw.CLIENTS), rows(spark, raw.CLIENT_QUEUES), rows(spark, raw.TOPICS), WINDOW
    )


COMPUTATIONS = (
    computed_queues,
    computed_groups,
    computed_health,
    computed_topics,
    computed_capacity,
    computed_events,
    computed_client_events,
    computed_throughput,
    computed_assignments,
)


def declarations() -> Iterator[type[Added]]:
    """Every class of declared columns, except those of tests."""
    for declared in Added.__subclasses__():
        if declared.__module__.startswith("spark."):
            yield declared


def names_added(step: Any) -> set[str]:
    """The names that a selection or an aggregation of a plan of Spark Connect gives to columns."""
    values = getattr(step, "_columns", None) or getattr(step, "_aggregate_cols", ())
    return {name for value in values for name in getattr(value._expr, "_alias", ())}


def types_added(result: Any, wanted: set[str]) -> set[tuple[str, str]]:
    """The wanted names and the types of the columns that the steps of a frame's plan add."""
    types, left = set(), [result._plan]
    while left:
        step = left.pop()
        inputs = (getattr(step, name, None) for name in ("_child", "right", "other"))
        left += [part for part in inputs if part is not None]
        if names := names_added(step) & wanted:
            schema = type(result)(step, result.sparkSession).schema
            types |= {(name, schema[name].dataType.simpleString()) for name in names}
    return types


def test_each_declared_type_is_that_of_a_plan(spark):
    declared = {pair for group in declarations() for pair in group.types().items()}
    wanted = {name for name, _ in declared}
    types = set()
    for computation in COMPUTATIONS:
        types |= types_added(computation(spark), wanted)
    assert declared - types == set()


class Counts(Added):
    """A declaration of one column."""

    lag = column("bigint", "messages not consumed")


def test_a_column_that_is_not_declared_is_refused(spark):
    with pytest.raises(TypeError, match="Counts does not declare lags"):
        Counts.to(spark.range(1), lags=F.lit(1))


def test_a_new_column_replaces_no_other(spark):
    numbers = Counts.to(spark.range(3), lag=F.col("id"))
    assert [row["lag"] for row in numbers.select(Counts.lag).collect()] == [0, 1, 2]
    twice = with_new(numbers, lag=F.lit(0))
    with pytest.raises(AnalysisException, match="AMBIGUOUS_REFERENCE"):
        twice.select(Counts.lag).collect()
    replaced = with_replaced(numbers, lag=F.lit(0))
    assert [row["lag"] for row in replaced.collect()] == [0, 0, 0]


def test_unknown_columns_have_the_types_of_their_table(spark):
    added = with_new(spark.range(1), **unknown_of(progress.EVENTS, "queue_id", "messages"))
    types = {field.name: field.dataType.simpleString() for field in added.schema}
    assert (types["queue_id"], types["messages"]) == ("int", "bigint")
    assert added.collect()[0]["messages"] is None
