"""How brokers hand messages of a topic to a group, queue by queue or by POP: ``consume_mode``.

A broker can be set to (402), but gRPC clients pop without it. Then other signs show it: counters
of acknowledgements, POP retry topics, and subscriptions without the group's retry topic. A member
that pulls in cluster mode subscribes to that.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rocketmq import names
from spark.progress.keys import GROUP_TOPIC_ID
from spark.progress.retry_topics import pop_retry_readings

POP, PULL = "pop", "pull"

POP_COUNTERS = ("GROUP_ACK_NUMS", "GROUP_CK_NUMS")
"""Counters of messages acknowledged, and of calls that popped some; no other group has them."""

GRPC_CLIENT_ID = r"@\d+@\d+@[0-9A-Za-z]+$"
"""End of the client id of every gRPC client, see `rocketmq.snapshot.online.speaks_grpc`."""

POP_CLIENT, PULLING_CLIENT = "CONSUME_POP", "CONSUME_ACTIVELY"


def signs_of_modes(
    clients: DataFrame, topics: DataFrame, broker_stats: DataFrame | None
) -> DataFrame:
    """Return the consume mode that snapshots show by other signs than 402.

    Args:
        clients: ``raw.clients``.
        topics: ``raw.topics``.
        broker_stats: ``raw.broker_stats``; None where there are none.

    Returns:
        One row per snapshot, group and topic with a sign: `GROUP_TOPIC_ID` and ``shown_mode``. A
        sign of POP outweighs one of pulling: members of both kinds share such a group.
    """
    signs = [_of_members(clients), *_of_pop_retry_topics(topics)]
    if broker_stats is not None:
        counted = F.col("stats_name").isin(*POP_COUNTERS) & (F.col("sum") > 0)
        signs.append(broker_stats.where(counted).select(*GROUP_TOPIC_ID, F.lit(POP).alias("mode")))
    return (
        reduce(DataFrame.unionByName, signs)
        .where(F.col("mode").isNotNull() & F.col("topic").isNotNull())
        .groupBy(*GROUP_TOPIC_ID)
        .agg(F.min("mode").alias("shown_mode"))
    )


def consume_mode(set_mode: Column, never_pops: Column) -> Column:
    """Return ``pop``, ``pull`` or NULL, of a row with ``shown_mode``.

    Args:
        set_mode: the mode that the broker is set to (402); NULL where nobody set one.
        never_pops: whether the broker is older than POP.
    """
    pops = (set_mode == POP) | (F.col("shown_mode") == POP)
    pulls = never_pops | set_mode.isNotNull() | F.col("shown_mode").isNotNull()
    return F.when(pops, POP).when(pulls, PULL)


def is_lite() -> Column:
    """Return whether a topic is a lite topic.

    Its messages are popped, but the commit follows the acknowledgements: it is the first message of
    the last popped batch that is not acknowledged (`QueueLevelConsumerManager.commitAndNext`).
    """
    return F.col("topic").startswith(names.LITE_PREFIX)


def _of_members(clients: DataFrame) -> DataFrame:
    """Return the sign of each member on each topic that it subscribes to; NULL where it has none.

    Members that broadcast or poll (`DefaultLitePullConsumer`) never subscribe to a retry topic.
    """
    retry = F.concat(F.lit(names.RETRY_PREFIX), F.col("consumer_group"))
    takes_retries = F.array_contains(F.col("subscriptions.topic"), retry)
    broadcasts = F.col("message_model") == "BROADCASTING"
    polls = F.col("consume_type") == PULLING_CLIENT
    mode = (
        F.when(F.col("consume_type") == POP_CLIENT, POP)
        .when(takes_retries | broadcasts, PULL)
        .when(F.col("client_id").rlike(GRPC_CLIENT_ID) | ~polls, POP)
    )
    return clients.where(F.size("subscriptions") > 0).select(
        "snapshot_id",
        "consumer_group",
        F.explode("subscriptions.topic").alias("topic"),
        mode.alias("mode"),
    )


def _of_pop_retry_topics(topics: DataFrame) -> list[DataFrame]:
    """Return signs for the groups and topics whose popped messages a POP retry topic takes."""
    named = topics.where("kind = 'pop_retry'").select(
        "snapshot_id", F.col("topic").alias("retry"), F.explode(pop_retry_readings()).alias("read")
    )
    mode = F.lit(POP).alias("mode")
    return [
        named.select("snapshot_id", "read.*", mode),
        named.select("snapshot_id", "read.consumer_group", F.col("retry").alias("topic"), mode),
    ]
