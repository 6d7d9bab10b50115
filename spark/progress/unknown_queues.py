"""Queues of groups whose offsets a snapshot should hold and does not."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rocketmq import names
from spark.columns import SNAPSHOT
from spark.progress.keys import GROUP_QUEUE, GROUP_TOPIC


def queues_of_unreachable_brokers(
    consumer_offsets: DataFrame, snapshots: DataFrame, unreachable: DataFrame
) -> DataFrame:
    """Return the queues that groups last had on brokers which are unreachable now.

    Args:
        consumer_offsets: ``raw.consumer_offsets`` of each `last_snapshot_id`.
        snapshots: ``raw.snapshots`` of the window.
        unreachable: ``snapshot_id, broker, last_snapshot_id``, one row per unreachable broker.

    Returns:
        One row per queue, group and client: `GROUP_QUEUE`.
    """
    last = consumer_offsets.select(
        F.col("snapshot_id").alias("last_snapshot_id"),
        "broker",
        "consumer_group",
        "topic",
        "queue_id",
    )
    missing = unreachable.join(snapshots.select(*SNAPSHOT), on="snapshot_id", how="inner")
    return missing.join(last, on=["last_snapshot_id", "broker"], how="inner").select(*GROUP_QUEUE)


def queues_with_invalid_rows_only(
    consumer_offsets: DataFrame, queues: DataFrame, listed: DataFrame
) -> DataFrame:
    """Return the queues of groups that only have quarantined rows.

    A commit on a queue that its broker does not list, although it lists others of the topic, has
    outlived a queue: it makes nothing unknown. Where the whole topic is missing, it was not read.

    Args:
        consumer_offsets: ``raw.consumer_offsets`` of the window, quarantined rows included.
        queues: ``progress.queues`` of the window, computed from valid rows.
        listed: ``raw.queue_offsets`` of the window, quarantined rows included.

    Returns:
        One row per queue, group and client: `GROUP_QUEUE`.
    """
    topic = ["snapshot_id", "broker", "topic"]
    named = consumer_offsets.select(*GROUP_QUEUE).dropna()
    unknown = named.join(queues.select(*GROUP_QUEUE), on=list(GROUP_QUEUE), how="left_anti")
    listed_queues = listed.groupBy(*topic).agg(F.collect_set("queue_id").alias("listed"))
    is_listed = F.col("listed").isNull() | F.array_contains("listed", F.col("queue_id"))
    return unknown.join(listed_queues, on=topic, how="left").where(is_listed).select(*GROUP_QUEUE)


def queues_of_broadcasting_groups(members: DataFrame, queue_offsets: DataFrame) -> DataFrame:
    """Return all queues that broadcasting members consume, whether their offsets are known or not.

    Args:
        members: rows of `spark.progress.group_members.group_members`.
        queue_offsets: ``raw.queue_offsets`` of the window.

    Returns:
        One row per queue and group: `GROUP_QUEUE` and ``is_broadcast``, 1.
    """
    broadcasting = (
        members.where(F.col("message_model") == "BROADCASTING")
        .where(~F.col("topic").startswith(names.RETRY_PREFIX))
        .select(*GROUP_TOPIC)
        .distinct()
    )
    stored = queue_offsets.select("snapshot_id", "topic", "broker", "queue_id")
    return broadcasting.join(stored, on=["snapshot_id", "topic"], how="inner").select(
        *GROUP_QUEUE, F.lit(1).alias("is_broadcast")
    )
