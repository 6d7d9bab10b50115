"""The topics that RocketMQ keeps for a group: messages to try again, and dead letters."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import Added, column
from tidemark.rocketmq import names

POP_SEPARATORS = ("_", "+")
"""Separators of group and topic in the name of a POP retry topic, in both namings."""

_FIRST, _SECOND = POP_SEPARATORS

_PREFIX = f"^({'|'.join(names.OWN_TOPICS)})"


def pop_retry_readings(topic: Column) -> Column:
    """Return the groups and topics that a POP retry topic may belong to.

    The first naming, ``%RETRY%group_topic``, can be read in several ways. For wrong readings no
    group has such a topic. A group's name never contains the separator of the second naming.

    Returns:
        An array of structs of ``consumer_group`` and ``topic``.
    """
    name = F.substring(topic, len(names.RETRY_PREFIX) + 1, 2**31 - 1)
    parts = F.split(name, _FIRST)

    def read_at(cut: Column) -> Column:
        ends = F.slice(parts, F.lit(1), cut), F.slice(parts, cut + 1, F.size(parts))
        group, name_of_topic = (F.concat_ws(_FIRST, part) for part in ends)
        return F.struct(group.alias("consumer_group"), name_of_topic.alias("topic"))

    first = F.transform(F.sequence(F.lit(1), F.size(parts) - 1), read_at)
    split = F.split(name, rf"\{_SECOND}")
    second = F.array(
        F.struct(
            F.element_at(split, 1).alias("consumer_group"), F.element_at(split, 2).alias("topic")
        )
    )
    return F.when(F.size(split) == 2, second).when(F.size(parts) > 1, first)


def belongs_to_group(topic: Column, group: Column) -> Column:
    """Return whether a topic is a retry topic of a group, those of POP included."""
    own = F.concat(F.lit(names.RETRY_PREFIX), group)
    after = F.substr(topic, F.length(own) + 1, F.lit(1))
    return topic.startswith(own) & after.isin("", *POP_SEPARATORS)


class OwnTopic(Added):
    """A topic that RocketMQ keeps for a group."""

    waiting = column("string", "its name, where messages to try again are stored in it or may be")
    has_dlq = column("boolean", "true of a dead-letter topic, NULL of others")
    dead_letters = column("bigint", "messages stored in a dead-letter topic")


def topics_of_groups(queue_offsets: DataFrame, topics: DataFrame) -> DataFrame:
    """Return the topics of each group, with the messages stored in them.

    Args:
        queue_offsets: ``raw.queue_offsets``.
        topics: ``raw.topics`` of the same snapshots. Only they contain a topic without queues.

    Returns:
        One row per snapshot, group and topic: ``snapshot_id, consumer_group`` and `OwnTopic`.
    """
    is_retry, is_dlq = (
        F.col("topic").startswith(literal) for literal in (names.RETRY_PREFIX, names.DLQ_PREFIX)
    )
    stored = (F.col("max_offset") - F.col("min_offset")).alias("stored")
    owner = F.regexp_replace("topic", _PREFIX, "")
    of_pop = F.when(F.col("is_pop"), pop_retry_readings(F.col("topic"))["consumer_group"])
    return (
        queue_offsets.select("snapshot_id", "topic", stored)
        .unionByName(topics.select("snapshot_id", "topic", "kind"), allowMissingColumns=True)
        .where(is_retry | is_dlq)
        .groupBy("snapshot_id", "topic")
        .agg(
            F.try_sum("stored").alias("stored"),
            F.max(F.col("kind") == names.TopicKind.POP_RETRY).alias("is_pop"),
        )
        .select(
            "snapshot_id",
            F.explode(F.coalesce(of_pop, F.array(owner))).alias("consumer_group"),
            *OwnTopic.named(
                waiting=F.when(is_retry & ~F.col("stored").eqNullSafe(0), F.col("topic")),
                has_dlq=F.when(is_dlq, F.lit(True)),
                dead_letters=F.when(is_dlq, F.col("stored")),
            ),
        )
    )
