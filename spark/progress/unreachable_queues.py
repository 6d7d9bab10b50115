"""Queues that topic routes hide from consumers, and the messages in them for each group.

Clients learn the number of queues to read from a topic's route. A queue whose id is not below it
may hold messages that producers wrote there, or that came before the topic shrank. No group
consumes them until ``read_queues`` is raised. They are not lag, which consumers can reduce.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import at_least_zero

SNAPSHOT_QUEUE = ("snapshot_id", "broker", "topic", "queue_id")
"""A queue in a snapshot."""


def is_beyond() -> Column:
    """Return whether ``queue_id`` lies beyond ``read_queues``; NULL where that is unknown.

    A queue without known offsets does not: ids of static topics (5.x) do not count from 0.
    """
    return F.col("max_offset").isNotNull() & (F.col("queue_id") >= F.col("read_queues"))


def unreachable_queues(queue_offsets: DataFrame, topics: DataFrame) -> DataFrame:
    """Return the queues beyond ``read_queues``.

    Args:
        queue_offsets: ``raw.queue_offsets``.
        topics: ``raw.topics`` of the same snapshots, or of more.

    Returns:
        One row per queue: `SNAPSHOT_QUEUE`.
    """
    beyond = _with_read_queues(queue_offsets, topics).where(is_beyond())
    return beyond.select(*SNAPSHOT_QUEUE).distinct()


def _with_read_queues(queue_offsets: DataFrame, topics: DataFrame) -> DataFrame:
    topic = ["snapshot_id", "broker", "topic"]
    configured = topics.select(*topic, "read_queues").distinct()
    return queue_offsets.join(F.broadcast(configured), on=topic, how="inner")


def unreachable_messages(
    queue_offsets: DataFrame, topics: DataFrame, consumer_offsets: DataFrame
) -> tuple[DataFrame, DataFrame]:
    """Return messages of topics beyond ``read_queues``, and those that groups consumed of them.

    Args:
        queue_offsets: valid ``raw.queue_offsets`` of a window.
        topics: ``raw.topics`` of it.
        consumer_offsets: ``raw.consumer_offsets`` of it.

    Returns:
        ``snapshot_id, topic, stored_beyond``, one row per topic with known queues; and
        ``snapshot_id, topic, consumer_group, consumed_beyond``, one row per group with a commit on
        a queue beyond.
    """
    stored = F.col("max_offset") - F.col("min_offset")
    known = _with_read_queues(queue_offsets, topics)
    of_topics = known.groupBy("snapshot_id", "topic").agg(
        F.try_sum(F.when(is_beyond(), stored).when(F.col("max_offset").isNotNull(), 0)).alias(
            "stored_beyond"
        )
    )
    beyond = known.where(is_beyond()).select(*SNAPSHOT_QUEUE, "min_offset", "max_offset")
    until = F.least("consumer_offset", "max_offset")
    of_groups = (
        consumer_offsets.where("offset_store = 'broker'")
        .join(F.broadcast(beyond), on=[*SNAPSHOT_QUEUE], how="inner")
        .groupBy("snapshot_id", "topic", "consumer_group")
        .agg(
            F.try_sum(
                F.when(
                    F.col("consumer_offset").isNotNull(),
                    at_least_zero(until - F.col("min_offset")),
                )
            ).alias("consumed_beyond")
        )
    )
    return of_topics, of_groups
