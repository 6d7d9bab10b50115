"""Whether the members of a group ask for the same: ``progress.subscriptions``.

Members that differ lose messages: each broker keeps the filter of the last heartbeat only, and
every member counts all others when queues are shared, whether they read the topic or not. Brokers
show one subscription for the whole group; only members themselves tell them apart
(`GET_CONSUMER_RUNNING_INFO`), in some snapshots. In others there are no rows.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake.tables import progress
from lake.window import Window
from rocketmq import names
from spark.columns import SNAPSHOT, inside

GROUP = (*SNAPSHOT, "consumer_group")

DIFFERENCES = ("TOPICS", "EXPRESSION", "EXPRESSION_TYPE", "MESSAGE_MODEL", "ALLOCATION_STRATEGY")
"""In the order in which the first is named."""

ALL_TAGS = "*"


def subscriptions(clients: DataFrame, window: Window) -> DataFrame:
    """``progress.subscriptions`` of a window.

    Args:
        clients: ``raw.clients`` of the window.
        window: what is computed.

    Returns:
        One row per snapshot and group of which a member told what it subscribes to. What a member
        did not tell differs from nothing; as long as those who told agree and others did not tell,
        ``consistent`` is NULL. Own retry topics do not count: clients add them by themselves.
    """
    told = F.col("subscriptions_source") == "client"
    asked = F.transform(
        _own(),
        lambda each: F.struct(
            each["topic"].alias("topic"),
            F.coalesce(each["expression_type"], F.lit("TAG")).alias("type"),
            meaning(each).alias("meaning"),
        ),
    )
    return (
        clients.where(inside(window))
        .dropna(subset=[*GROUP, "client_id"])
        .withColumn("told", F.coalesce(told, F.lit(False)))
        .withColumn("asked", F.when(F.col("told"), asked))
        .groupBy(*GROUP)
        .agg(
            F.some("told").alias("one_told"),
            F.every("told").alias("all_told"),
            F.collect_set(F.array_sort("asked.topic")).alias("topics"),
            F.array_distinct(F.flatten(F.collect_list("asked"))).alias("asked"),
            F.collect_set(F.when(F.col("told"), F.col("message_model"))).alias("models"),
            F.collect_set(F.when(F.col("told"), F.col("allocation_strategy"))).alias("strategies"),
            F.array_sort(F.collect_set(_evidence())).alias("evidence"),
        )
        .where("one_told")
        .withColumn("differences", F.array_compact(_differences()))
        .withColumns(
            {
                "difference": F.get("differences", F.lit(0)),
                "consistent": F.when(F.size("differences") > 0, F.lit(False)).when(
                    F.col("all_told"), F.lit(True)
                ),
            }
        )
        .select(*progress.SUBSCRIPTIONS.column_names)
    )


def _own() -> Column:
    """The subscriptions of the user's making."""
    return F.filter("subscriptions", lambda each: ~each["topic"].startswith(names.RETRY_PREFIX))


def meaning(subscription: Column) -> Column:
    """A filter such that two texts that ask for the same are equal: tags have no order."""
    is_tags = F.coalesce(subscription["expression_type"], F.lit("TAG")) == "TAG"
    written = F.coalesce(subscription["expression"], F.array_join(subscription["tags"], "||"))
    tags = F.transform(F.split(F.coalesce(written, F.lit("")), r"\|\|"), lambda tag: F.trim(tag))
    named = F.array_sort(F.array_distinct(F.filter(tags, lambda tag: tag != "")))
    # Without any tag all are wanted (`FilterAPI.buildSubscriptionData`).
    wanted = F.when(F.size(named) == 0, ALL_TAGS).otherwise(F.array_join(named, "||"))
    return F.when(is_tags, wanted).otherwise(F.trim(written))


def _differences() -> Column:
    """Those of `DIFFERENCES` that hold, in their order; NULLs between."""

    def variety(*fields: str) -> Column:
        return F.size(
            F.array_distinct(
                F.transform("asked", lambda each: F.struct(*[each[name] for name in fields]))
            )
        )

    holds = (
        F.size("topics") > 1,
        variety("topic", "meaning") > variety("topic"),
        variety("topic", "type") > variety("topic"),
        F.size("models") > 1,
        F.size("strategies") > 1,
    )
    return F.array(*[F.when(each, name) for name, each in zip(DIFFERENCES, holds, strict=True)])


def _evidence() -> Column:
    """What a member told."""
    filters = F.transform(
        _own(),
        lambda each: F.struct(
            *[each[name].alias(name) for name in ("topic", "expression_type", "expression")]
        ),
    )
    return F.struct(
        "client_id",
        "client_address",
        "message_model",
        "allocation_strategy",
        F.when(F.col("told"), filters).alias("subscriptions"),
    )
