"""Queues of groups whose offsets a snapshot should contain but does not."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import GROUP_QUEUE, GROUP_TOPIC, SNAPSHOT, Added, at_least_zero, column
from spark.tuning import small
from tidemark.rocketmq import names

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
    return queue_offsets.join(small(configured), on=topic, how="inner")


class Beyond(Added):
    """Messages beyond ``read_queues``, which no consumer gets."""

    stored_beyond = column("bigint", "those stored in the topic")
    consumed_beyond = column("bigint", "those that the group has consumed nevertheless")


def unreachable_messages(
    queue_offsets: DataFrame, topics: DataFrame, consumer_offsets: DataFrame
) -> tuple[DataFrame, DataFrame]:
    """Return messages of topics beyond ``read_queues``, and those that groups consumed of them.

    Args:
        queue_offsets: valid ``raw.queue_offsets`` of a window.
        topics: ``raw.topics`` of it.
        consumer_offsets: ``raw.consumer_offsets`` of it.

    Returns:
        One row per snapshot and topic with known queues, with `Beyond.stored_beyond`; and one row
        per snapshot, topic and group with a commit on a queue beyond, with
        `Beyond.consumed_beyond`.
    """
    stored = F.col("max_offset") - F.col("min_offset")
    known = _with_read_queues(queue_offsets, topics)
    of_topics = known.groupBy("snapshot_id", "topic").agg(
        *Beyond.named(
            stored_beyond=F.try_sum(
                F.when(is_beyond(), stored).when(F.col("max_offset").isNotNull(), 0)
            )
        )
    )
    beyond = known.where(is_beyond()).select(*SNAPSHOT_QUEUE, "min_offset", "max_offset")
    until = F.least("consumer_offset", "max_offset")
    of_groups = (
        consumer_offsets.where(F.col("offset_store") == "broker")
        .join(small(beyond), on=[*SNAPSHOT_QUEUE], how="inner")
        .groupBy("snapshot_id", "topic", "consumer_group")
        .agg(
            *Beyond.named(
                consumed_beyond=F.try_sum(
                    F.when(
                        F.col("consumer_offset").isNotNull(),
                        at_least_zero(until - F.col("min_offset")),
                    )
                )
            )
        )
    )
    return of_topics, of_groups


def queues_of_unreachable_brokers(
    consumer_offsets: DataFrame,
    snapshots: DataFrame,
    unreachable: DataFrame,
    listed: DataFrame,
    topics: DataFrame,
) -> DataFrame:
    """Return the queues that groups last had on brokers which are unreachable now.

    Args:
        consumer_offsets: ``raw.consumer_offsets`` of each `last_snapshot_id`.
        snapshots: ``raw.snapshots`` of the window.
        unreachable: ``snapshot_id, broker, last_snapshot_id``, one row per unreachable broker.
        listed: ``raw.queue_offsets`` of each `last_snapshot_id`, quarantined rows included.
        topics: ``raw.topics`` of them.

    Returns:
        One row per queue, group and client: `GROUP_QUEUE`.
    """
    named = consumer_offsets.select("snapshot_id", "broker", *_CONSUMER)
    last = _without_deleted_queues(named, listed, topics).select(
        F.col("snapshot_id").alias("last_snapshot_id"), "broker", *_CONSUMER
    )
    missing = unreachable.join(snapshots.select(*SNAPSHOT), on="snapshot_id", how="inner")
    return missing.join(last, on=["last_snapshot_id", "broker"], how="inner").select(*GROUP_QUEUE)


def queues_with_invalid_rows_only(
    consumer_offsets: DataFrame, queues: DataFrame, listed: DataFrame, topics: DataFrame
) -> DataFrame:
    """Return the queues of groups that only have quarantined rows.

    Args:
        consumer_offsets: ``raw.consumer_offsets`` of the window, quarantined rows included.
        queues: ``progress.queues`` of the window, computed from valid rows.
        listed: ``raw.queue_offsets`` of the window, quarantined rows included.
        topics: ``raw.topics`` of the window.

    Returns:
        One row per queue, group and client: `GROUP_QUEUE`.
    """
    named = consumer_offsets.select(*GROUP_QUEUE)
    unknown = named.join(queues.select(*GROUP_QUEUE), on=list(GROUP_QUEUE), how="left_anti")
    return _without_deleted_queues(unknown, listed, topics).select(*GROUP_QUEUE)


_CONSUMER = ("consumer_group", "topic", "queue_id")


def _without_deleted_queues(rows: DataFrame, listed: DataFrame, topics: DataFrame) -> DataFrame:
    """Leave out commits on queues or topics that no longer exist for consumers.

    A commit has outlived its queue where the broker lists other queues of the topic but not this
    one. It has outlived its topic where the broker's own list lacks the topic. Such a commit makes
    no number unknown, nor does one on a queue that consumers no longer read. A topic that is
    missing only among the queues was not read.
    """
    topic = ["snapshot_id", "broker", "topic"]
    rows = rows.join(unreachable_queues(listed, topics), on=[*SNAPSHOT_QUEUE], how="left_anti")
    queues = listed.groupBy(*topic).agg(F.collect_set("queue_id").alias("listed_queues"))
    of_broker = topics.groupBy(*topic[:2]).agg(F.collect_set("topic").alias("listed_topics"))
    is_topic = F.col("listed_topics").isNull() | F.array_contains("listed_topics", F.col("topic"))
    is_queue = F.array_contains("listed_queues", F.col("queue_id"))
    return (
        rows.dropna(subset=["snapshot_id", "broker", *_CONSUMER])
        .join(queues, on=topic, how="left")
        .join(of_broker, on=topic[:2], how="left")
        .where(F.coalesce(is_queue, is_topic))
    )


class Broadcast(Added):
    """The mark of a queue that every member of its group consumes."""

    is_broadcast = column("int", "1, and NULL of other queues")


def queues_of_broadcasting_groups(
    members: DataFrame, queue_offsets: DataFrame, topics: DataFrame
) -> DataFrame:
    """Return all queues that broadcasting members consume, whether their offsets are known or not.

    Args:
        members: rows of `spark.progress.group_sums.group_members`.
        queue_offsets: ``raw.queue_offsets`` of the window.
        topics: ``raw.topics`` of the window.

    Returns:
        One row per queue and group: `GROUP_QUEUE` and `Broadcast`.
    """
    broadcasting = (
        members.where(F.col("message_model") == "BROADCASTING")
        .where(~F.col("topic").startswith(names.RETRY_PREFIX))
        .select(*GROUP_TOPIC)
        .distinct()
    )
    stored = queue_offsets.join(
        unreachable_queues(queue_offsets, topics),
        on=[*SNAPSHOT_QUEUE],
        how="left_anti",
    ).select("snapshot_id", "topic", "broker", "queue_id")
    return broadcasting.join(stored, on=["snapshot_id", "topic"], how="inner").select(
        *GROUP_QUEUE, *Broadcast.named(is_broadcast=F.lit(1))
    )
