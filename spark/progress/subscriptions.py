"""Consistency of the subscriptions in a group: ``progress.subscriptions``.

Groups whose members differ lose messages. Each broker keeps only the filter of the last heartbeat,
and members assign queues among all members, also those that do not subscribe to the topic. Brokers
report one subscription for the whole group; only members report their own
(`GET_CONSUMER_RUNNING_INFO`), in deep snapshots. Other snapshots have no rows.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import GROUP, with_new
from spark.tuning import inside
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress
from tidemark.rocketmq import names

DIFFERENCES = ("TOPICS", "EXPRESSION", "EXPRESSION_TYPE", "MESSAGE_MODEL", "ALLOCATION_STRATEGY")
"""Kinds of differences, most important first."""

ALL_TAGS = "*"


def subscriptions(clients: DataFrame, window: Window) -> DataFrame:
    """Compute ``progress.subscriptions`` of a window.

    Args:
        clients: ``raw.clients`` of the window.
        window: the window to compute.

    Returns:
        One row per snapshot and group with a reporting member, with the columns of
        `tidemark.lake.tables.progress.SUBSCRIPTIONS`. Members that do not report differ from none,
        and while one does not report and the others agree, ``consistent`` is NULL. Retry topics do
        not count, because clients add them by themselves.
    """
    reports = F.col("subscriptions_source") == "client"
    reported = F.transform(
        _declared(),
        lambda column: F.struct(
            column["topic"].alias("topic"),
            F.coalesce(column["expression_type"], F.lit("TAG")).alias("type"),
            meaning(column).alias("meaning"),
        ),
    )
    return (
        clients.where(inside(window))
        .dropna(subset=[*GROUP, "client_id"])
        .transform(with_new, reports=F.coalesce(reports, F.lit(False)))
        .transform(with_new, reported=F.when(F.col("reports"), reported))
        .groupBy(*GROUP)
        .agg(
            F.some("reports").alias("one_reports"),
            F.every("reports").alias("all_report"),
            F.collect_set(F.array_sort("reported.topic")).alias("topics"),
            F.array_distinct(F.flatten(F.collect_list("reported"))).alias("reported"),
            F.collect_set(F.when(F.col("reports"), F.col("message_model"))).alias("models"),
            F.collect_set(F.when(F.col("reports"), F.col("allocation_strategy"))).alias(
                "strategies"
            ),
            F.array_sort(F.collect_set(_evidence(F.col("reports")))).alias("evidence"),
        )
        .where(F.col("one_reports"))
        .transform(
            with_new,
            differences=F.array_compact(
                _differences(
                    reported=F.col("reported"),
                    topics=F.col("topics"),
                    models=F.col("models"),
                    strategies=F.col("strategies"),
                )
            ),
        )
        .transform(
            with_new,
            difference=F.get("differences", F.lit(0)),
            consistent=F.when(F.size("differences") > 0, F.lit(False)).when(
                F.col("all_report"), F.lit(True)
            ),
        )
        .select(*progress.SUBSCRIPTIONS.column_names)
    )


def _declared() -> Column:
    """Return the subscriptions without retry topics, which clients add by themselves."""
    return F.filter("subscriptions", lambda column: ~column["topic"].startswith(names.RETRY_PREFIX))


def meaning(subscription: Column) -> Column:
    """Return a filter in a normal form: filters that select the same are equal."""
    is_tags = F.coalesce(subscription["expression_type"], F.lit("TAG")) == "TAG"
    written = F.coalesce(subscription["expression"], F.array_join(subscription["tags"], "||"))
    tags = F.transform(F.split(F.coalesce(written, F.lit("")), r"\|\|"), lambda tag: F.trim(tag))
    named = F.array_sort(F.array_distinct(F.filter(tags, lambda tag: tag != "")))
    # Without any tag, all messages are selected (`FilterAPI.buildSubscriptionData`).
    selected = F.when(F.size(named) == 0, ALL_TAGS).otherwise(F.array_join(named, "||"))
    return F.when(is_tags, selected).otherwise(F.trim(written))


def _differences(*, reported: Column, topics: Column, models: Column, strategies: Column) -> Column:
    """Return an array of the `DIFFERENCES` that hold, in their order, NULL for the others.

    Args:
        reported: array of all subscriptions, structs of topic, type and meaning.
        topics: array of the sets of topics that members subscribe to.
        models: array of their message models.
        strategies: array of their allocation strategies.
    """

    def variety(*fields: str) -> Column:
        return F.size(
            F.array_distinct(
                F.transform(reported, lambda column: F.struct(*[column[name] for name in fields]))
            )
        )

    holds = (
        F.size(topics) > 1,
        variety("topic", "meaning") > variety("topic"),
        variety("topic", "type") > variety("topic"),
        F.size(models) > 1,
        F.size(strategies) > 1,
    )
    return F.array(*[F.when(column, name) for name, column in zip(DIFFERENCES, holds, strict=True)])


def _evidence(reports: Column) -> Column:
    """Return the report of a member; without subscriptions where it does not report."""
    filters = F.transform(
        _declared(),
        lambda column: F.struct(
            *[column[name].alias(name) for name in ("topic", "expression_type", "expression")]
        ),
    )
    return F.struct(
        "client_id",
        "client_address",
        "message_model",
        "allocation_strategy",
        F.when(reports, filters).alias("subscriptions"),
    )
