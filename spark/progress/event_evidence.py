"""Evidence of why a queue's offsets moved: members, restarts, masters, delivered messages."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.progress.observed import without_skew


def with_evidence(
    compared: DataFrame, groups: DataFrame, clients: DataFrame, brokers: DataFrame, stats: DataFrame
) -> DataFrame:
    """Add online members and masters at both ends of a step, and the delivered messages.

    Args:
        compared: rows with ``snapshot_id``, ``previous_snapshot_id``, ``broker``,
            ``consumer_group`` and ``topic``.
        groups: ``progress.groups``, as for `spark.progress.events.events`.
        clients: ``raw.clients``.
        brokers: ``raw.brokers``.
        stats: ``raw.broker_stats``.

    Returns:
        The same rows. A column of the step's begin is named ``previous_<name>``.
    """
    online = groups.select("snapshot_id", "consumer_group", "topic", "online")
    starts = F.when(F.col("started_at").isNotNull(), F.struct("client_id", "started_at"))
    members = clients.groupBy("snapshot_id", "consumer_group").agg(
        F.collect_set("client_id").alias("members"),
        F.collect_set(starts).alias("starts"),
        F.flatten(F.collect_set("subscriptions.topic")).alias("subscribed"),
        F.flatten(F.collect_set(_filtered_topics())).alias("filtered"),
    )
    boots = brokers.groupBy("snapshot_id", "broker").agg(
        F.min_by(without_skew("booted_at"), "broker_id").alias("booted_at"),
        F.min_by("address", "broker_id").alias("master"),
    )
    masters = _of_previous(boots, ["broker"], ["master"])
    for frame, key, columns in (
        (online, ["consumer_group", "topic"], ["online"]),
        (members, ["consumer_group"], ["members", "starts", "subscribed", "filtered"]),
    ):
        compared = compared.join(frame, on=["snapshot_id", *key], how="left").join(
            _of_previous(frame, key, columns), on=["previous_snapshot_id", *key], how="left"
        )
    return (
        compared.join(F.broadcast(boots), on=["snapshot_id", "broker"], how="left")
        .join(F.broadcast(masters), on=["previous_snapshot_id", "broker"], how="left")
        .join(
            _delivered(stats), on=["snapshot_id", "broker", "consumer_group", "topic"], how="left"
        )
    )


def _filtered_topics() -> Column:
    """Return the topics that a member subscribes to with a filter."""
    all_messages = ("*", "")
    filtered = F.filter(
        "subscriptions",
        lambda each: (
            (each["expression_type"] == "SQL92")
            | ~F.trim(F.coalesce(each["expression"], F.lit(""))).isin(*all_messages)
        ),
    )
    return F.transform(filtered, lambda each: each["topic"])


def _delivered(stats: DataFrame) -> DataFrame:
    """Return messages a second that a broker and its slaves delivered in the last minute."""
    return (
        stats.where("stats_name = 'GROUP_GET_NUMS' AND stats_window = 'minute'")
        .groupBy("snapshot_id", "broker", "consumer_group", "topic")
        .agg(F.sum("tps").alias("delivered_tps"))
    )


def _of_previous(frame: DataFrame, key: list[str], columns: list[str]) -> DataFrame:
    """Rename columns and ``snapshot_id`` to ``previous_<name>``.

    They are named, because a frame's own list of columns would make Spark resolve its plan.
    """
    renamed = [F.col(name).alias(f"previous_{name}") for name in ("snapshot_id", *columns)]
    return frame.select(*key, *renamed)


def has_other_master() -> Column:
    """Return whether another replica is master than at the previous observation."""
    return F.col("master") != F.col("previous_master")
