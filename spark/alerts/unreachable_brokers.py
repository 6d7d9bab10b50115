"""Broker addresses that a snapshot could not read, although they may have responded.

A broker that responds with its version and without its offsets is up, and its queues are unknown.
Not every problem of a snapshot means that. A failed request about one topic or group concerns only
that topic or group. Requests that only deep snapshots send do not count.
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake.tables.raw import BROKERS
from rocketmq.names import CONNECTIONS
from spark.columns import with_new

MANY = 10
"""Failed requests about single topics or groups from which the broker counts as unreachable."""

OF_BROKERS = (
    *("GET_ALL_CONSUMER_OFFSET", "GET_ALL_TOPIC_CONFIG", "GET_ALL_SUBSCRIPTIONGROUP_CONFIG"),
    *("GET_BROKER_CONFIG", "GET_BROKER_RUNTIME_INFO"),
)
"""Requests that every snapshot sends once to each broker, as its problems name them."""

NEEDED = OF_BROKERS[:3]
"""Requests without whose response the snapshot lacks a part of the broker's queues."""

OF_ITEMS = ("GET_TOPIC_STATS_INFO ", CONNECTIONS)
"""Requests that every snapshot sends for each topic and group; the problem names it."""

IMPOSSIBLE = "offsets below 0"
"""Text in the message of a problem with a response that was read."""

REPEATED = r"\((\d+) more requests failed\)$"
"""Count in a problem of those that it represents (`rocketmq.snapshot.problems.Problems`)."""

_MEASUREMENTS = [
    name
    for name in BROKERS.column_names
    if name
    not in ("snapshot_id", "observed_at", "config", "cluster", "broker", "broker_id", "address")
]


def is_unreachable() -> Column:
    """Return whether the broker of a row of ``raw.brokers`` did not respond."""
    return F.coalesce(*[F.col(name).cast("string") for name in _MEASUREMENTS]).isNull()


def with_unreachable(snapshots: DataFrame, brokers: DataFrame) -> DataFrame:
    """Add ``unreachable``, the addresses that a snapshot could not read; NULL without any broker.

    Args:
        snapshots: rows of ``raw.snapshots``.
        brokers: rows of ``raw.brokers`` of the same snapshots.
    """
    requested = brokers.groupBy("snapshot_id").agg(
        F.collect_set(
            F.struct("address", "broker", "broker_id", is_unreachable().alias("unreachable"))
        ).alias("requested")
    )
    not_read = F.transform(F.filter("requested", _is_not_read), lambda broker: broker["address"])
    return snapshots.join(F.broadcast(requested), on="snapshot_id", how="left").transform(
        with_new, {"unreachable": F.array_sort(not_read)}
    )


def _is_not_read(broker: Column) -> Column:
    """Return whether a snapshot lacks a broker's queues; a slave only has to respond."""
    problems = F.filter("problems", lambda problem: problem["endpoint"] == broker["address"])
    is_missing = ~F.array_contains("brokers_read", broker["broker"])
    not_read = (
        (is_missing & F.exists(problems, lambda problem: _is_of(problem, *OF_BROKERS, *OF_ITEMS)))
        | F.exists(problems, lambda problem: _is_of(problem, *NEEDED))
        | (F.aggregate(problems, F.lit(0), _and_failed) >= MANY)
    )
    is_master = broker["broker_id"] == 0
    return broker["unreachable"] | (is_master & F.coalesce(not_read, F.lit(False)))


def _is_of(problem: Column, *operations: str) -> Column:
    named = [problem["operation"].startswith(name) for name in operations]
    return reduce(or_, named) & ~F.contains(_message(problem), F.lit(IMPOSSIBLE))


def _and_failed(so_far: Column, problem: Column) -> Column:
    """Add to a count the failed requests about topics and groups that a problem represents."""
    more = F.regexp_extract(_message(problem), REPEATED, 1).try_cast("int")
    failed = F.coalesce(more, F.lit(0)) + 1
    return so_far + F.when(_is_of(problem, *OF_ITEMS), failed).otherwise(0)


def _message(problem: Column) -> Column:
    return F.coalesce(problem["message"], F.lit(""))
