"""Members of groups, as brokers and clients report them in ``raw.clients``."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import SNAPSHOT, with_new
from spark.progress.keys import GROUP_ID

REPORTED_OF_GROUP = ("message_model", "consume_type", "version", "version_order")
"""Columns of `group_members` that each member reports about its group."""


def group_members(clients: DataFrame) -> DataFrame:
    """Return the topics that each member of a group subscribes to.

    Args:
        clients: ``raw.clients``.

    Returns:
        One row per snapshot, group, client and topic: `SNAPSHOT`, ``consumer_group, client_id,
        topic`` (NULL for a member without subscriptions), ``connections`` and
        `REPORTED_OF_GROUP`.
    """
    return with_new(
        clients,
        {"subscription": F.explode_outer("subscriptions"), "version_order": _version_order()},
    ).select(
        *SNAPSHOT,
        "consumer_group",
        "client_id",
        "connections",
        *REPORTED_OF_GROUP,
        F.col("subscription.topic").alias("topic"),
    )


def _version_order() -> Column:
    """Return an array that orders versions as `rocketmq.names.version_order` does."""
    version = F.col("version")
    numbers = F.transform(
        F.regexp_extract_all(version, F.lit(r"(\d+)"), 1), lambda text: text.try_cast("bigint")
    )
    release = F.when(version.endswith("_SNAPSHOT"), 0).otherwise(1)
    # Clients in other languages than Java report a bare number.
    return (
        F.when(version == "HIGHER_VERSION", F.array(F.lit(99)))
        .when(version.rlike(r"^\d+$"), F.concat(F.array(F.lit(0)), numbers))
        .when(version == "V3", numbers)
        .otherwise(F.concat(numbers, F.array(release)))
    )


def without_leftover_commits(queues: DataFrame, members: DataFrame) -> DataFrame:
    """Leave out broker-side commits of groups that are broadcasting now.

    Such a group made them as a cluster and no longer uses them.

    Args:
        queues: ``progress.queues``.
        members: rows of `group_members`.

    Returns:
        Rows of `queues`.
    """
    models = members.groupBy(*GROUP_ID).agg(F.min("message_model").alias("model"))
    broadcasting = models.where("model = 'BROADCASTING'").select(
        *GROUP_ID, F.lit("broker").alias("offset_store")
    )
    return queues.join(F.broadcast(broadcasting), on=[*GROUP_ID, "offset_store"], how="left_anti")
