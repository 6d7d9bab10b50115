"""Clients that own no queue of a topic they subscribe to, and why: ``progress.idle_clients``."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import with_new
from spark.progress.keys import GROUP_ID, GROUP_TOPIC_ID, is_of_users
from spark.tuning import inside, small
from tidemark.lake.clocks import Window
from tidemark.lake.system_topics import NamedTopics
from tidemark.lake.tables import progress
from tidemark.model.consumption import IdleReason
from tidemark.rocketmq import names
from tidemark.rocketmq.allocation import CONFIG, CONSISTENT_HASH, MACHINE_ROOM


def idle_clients(
    assigned: DataFrame, clients: DataFrame, window: Window, system_topics: NamedTopics = ()
) -> DataFrame:
    """Compute ``progress.idle_clients`` of a window.

    Args:
        assigned: ``progress.assignments`` of the window.
        clients: ``raw.clients`` of the window.
        window: the window to compute.
        system_topics: system topics that their names do not show, by cluster.

    Returns:
        One row per snapshot, member that reports to hold no queue, and topic it subscribes to, with
        the columns of `tidemark.lake.tables.progress.IDLE_CLIENTS`. Retry topics are left out: with
        one queue per broker they always leave members idle.
    """
    retry = F.col("topic").startswith(names.RETRY_PREFIX)
    of_topics = (
        assigned.where(inside(window) & ~retry)
        .groupBy(*GROUP_TOPIC_ID)
        .agg(
            F.max("strategy").alias("strategy"),
            F.count(F.lit(1)).cast("int").alias("assigned"),
            F.collect_set("expected_client_id").alias("expected"),
            F.flatten(F.collect_set("owners")).alias("holders"),
        )
    )
    group = SparkWindow.partitionBy(*GROUP_ID)
    client = SparkWindow.partitionBy(*GROUP_ID, "client_id")
    reported = F.col("subscriptions_source") == "client"
    return (
        clients.where(inside(window))
        .transform(with_new, clients=F.size(F.collect_set("client_id").over(group)))
        .where(reported)
        .transform(with_new, topic=F.explode(F.array_distinct("subscriptions.topic")))
        .where(is_of_users(system_topics) & ~retry)
        .join(small(of_topics), on=list(GROUP_TOPIC_ID), how="left")
        .transform(
            with_new,
            queues=F.coalesce("assigned", F.lit(0)),
            is_assigned=F.some(F.col("assigned").isNotNull()).over(group),
            holds=F.some(
                F.coalesce(F.array_contains("holders", F.col("client_id")), F.lit(False))
            ).over(client),
        )
        .where(F.col("is_assigned") & ~F.col("holds"))
        .transform(with_new, reason=_reason())
        .select(*progress.IDLE_CLIENTS.column_names)
        .distinct()
    )


def _reason() -> Column:
    strategy = F.col("strategy")
    return (
        F.when(F.col("queues") == 0, IdleReason.NO_READABLE_QUEUE)
        .when(F.array_contains("expected", F.col("client_id")), IdleReason.NOT_REBALANCED)
        .when(F.col("clients") > F.col("queues"), IdleReason.MORE_CLIENTS_THAN_QUEUES)
        .when(strategy == CONSISTENT_HASH, IdleReason.HASH_LUCK)
        .when(strategy.startswith(MACHINE_ROOM), IdleReason.NO_QUEUE_IN_ROOM)
        .when(strategy == CONFIG, IdleReason.NOT_CONFIGURED)
        .otherwise(IdleReason.UNKNOWN)
    )
