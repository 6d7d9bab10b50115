"""Which broker addresses a look could not read, though they may have answered something.

A broker that tells its version and not its offsets is there, and what it holds is unknown all the
same. Not every problem of a snapshot means that: one topic or group that could not be asked is its
own trouble, and what only deep looks ask of brokers and clients is beside the point.
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake.tables.raw import BROKERS
from rocketmq.names import CONNECTIONS

MANY = 10
"""So many failed questions about single topics or groups are no trouble of theirs."""

OF_BROKERS = (
    *("GET_ALL_CONSUMER_OFFSET", "GET_ALL_TOPIC_CONFIG", "GET_ALL_SUBSCRIPTIONGROUP_CONFIG"),
    *("GET_BROKER_CONFIG", "GET_BROKER_RUNTIME_INFO"),
)
"""What every look asks of a broker once, as a snapshot's problems name it."""

NEEDED = OF_BROKERS[:3]
"""Those without which a part of what the broker holds is not in the snapshot."""

OF_ITEMS = ("GET_TOPIC_STATS_INFO ", CONNECTIONS)
"""What every look asks for each topic and group, which the problem names."""

IMPOSSIBLE = "offsets below 0"
"""In the message of a problem with an answer that was read."""

REPEATED = r"\((\d+) more requests failed\)$"
"""How a problem tells of those that it stands for (`rocketmq.problems.Problems`)."""

_ANSWERS = [
    name
    for name in BROKERS.column_names
    if name
    not in ("snapshot_id", "observed_at", "config", "cluster", "broker", "broker_id", "address")
]


def is_silent() -> Column:
    """Whether the broker of a row of ``raw.brokers`` did not answer."""
    return F.coalesce(*[F.col(name).cast("string") for name in _ANSWERS]).isNull()


def with_unread(snapshots: DataFrame, brokers: DataFrame) -> DataFrame:
    """Adds ``unread``, the addresses that a snapshot could not read; NULL without any broker.

    Args:
        snapshots: rows of ``raw.snapshots``.
        brokers: rows of ``raw.brokers`` of the same snapshots.
    """
    asked = brokers.groupBy("snapshot_id").agg(
        F.collect_set(
            F.struct("address", "broker", "broker_id", is_silent().alias("silent"))
        ).alias("asked")
    )
    unread = F.transform(F.filter("asked", _is_unread), lambda each: each["address"])
    return (
        snapshots.join(F.broadcast(asked), on="snapshot_id", how="left")
        .withColumn("unread", F.array_sort(unread))
        .drop("asked")
    )


def _is_unread(broker: Column) -> Column:
    """A slave is read for no offsets: of it only silence counts."""
    problems = F.filter("problems", lambda problem: problem["endpoint"] == broker["address"])
    is_hole = ~F.array_contains("brokers_read", broker["broker"])
    unread = (
        (is_hole & F.exists(problems, lambda problem: _is_of(problem, *OF_BROKERS, *OF_ITEMS)))
        | F.exists(problems, lambda problem: _is_of(problem, *NEEDED))
        | (F.aggregate(problems, F.lit(0), _and_failed) >= MANY)
    )
    return broker["silent"] | ((broker["broker_id"] == 0) & F.coalesce(unread, F.lit(False)))


def _is_of(problem: Column, *operations: str) -> Column:
    named = [problem["operation"].startswith(name) for name in operations]
    return reduce(or_, named) & ~F.contains(_message(problem), F.lit(IMPOSSIBLE))


def _and_failed(so_far: Column, problem: Column) -> Column:
    """How many questions about single topics and groups failed, with those of a problem."""
    more = F.regexp_extract(_message(problem), REPEATED, 1).try_cast("int")
    failed = F.coalesce(more, F.lit(0)) + 1
    return so_far + F.when(_is_of(problem, *OF_ITEMS), failed).otherwise(0)


def _message(problem: Column) -> Column:
    return F.coalesce(problem["message"], F.lit(""))
