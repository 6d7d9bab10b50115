"""How far every queue of every group has got: ``progress.queues``.

Definitions are those of the contract, one small function per question; a name that is not
known is NULL all the way through, because SQL's arithmetic keeps it so.
"""

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake.history import HOLE
from lake.tables import progress
from lake.window import Window
from rocketmq import names
from spark.columns import QUEUE, at_least_zero, inside, milliseconds, with_previous
from spark.delay import observations, steps, with_times

CONSUMED_QUEUE = (*QUEUE, "consumer_group", "client_id")
"""A queue as one group, or one broadcasting client, reads it over time."""

RATES = ("produce_tps", "consume_tps", "pull_tps")

NEGLIGIBLE = 1e-6
"""A difference of rates under this share of them is arithmetic noise, not a drain."""

WATERMARK_SETTING = "diskMaxUsedSpaceRatio"
DISK_WATERMARK = 75
"""Percent of disk use past which a broker expires messages early, where it does not tell."""


@dataclass(frozen=True)
class RawFrames:
    """Rows of ``raw.*`` that are fit to compute on: the window's and the previous observations.

    Attributes:
        snapshots: ``raw.snapshots``.
        brokers: ``raw.brokers``.
        queue_offsets: ``raw.queue_offsets``.
        consumer_offsets: ``raw.consumer_offsets``.
        topics: ``raw.topics``.
        clients: ``raw.clients``.
    """

    snapshots: DataFrame
    brokers: DataFrame
    queue_offsets: DataFrame
    consumer_offsets: DataFrame
    topics: DataFrame
    clients: DataFrame


def of_users() -> Column:
    """Whether topic and group are users' own, not RocketMQ's."""
    topic, group = F.col("topic"), F.col("consumer_group")
    system_topic = topic.isin(*names.SYSTEM_TOPICS) | topic.startswith(names.SYSTEM_TOPIC_PREFIX)
    system_group = group.isin(*names.SYSTEM_GROUPS) | group.startswith(names.SYSTEM_GROUP_PREFIX)
    return ~system_topic & ~system_group


def queues(
    raw: RawFrames,
    window: Window,
    hole: timedelta = HOLE,
    timeline: DataFrame | None = None,
) -> DataFrame:
    """``progress.queues`` of a window.

    Args:
        raw: one row per key and snapshot each; snapshots before the window serve as previous
            observations and give no rows.
        window: what is computed.
        hole: the longest time between two observations that a rate is computed over.
        timeline: ``progress.timeline`` from before the window, as far back as messages are to be
            dated.

    Returns:
        One row per snapshot of the window, queue, group and broadcasting client, with the columns
        of `lake.tables.progress.QUEUES`. System topics and groups are left out.
    """
    since = None if timeline is None else window
    written = observations(with_previous(raw.queue_offsets, QUEUE, "max_offset"), since)
    read = with_previous(raw.consumer_offsets, CONSUMED_QUEUE, "consumer_offset", "pull_offset")
    joined = (
        read.where(inside(window) & of_users())
        .withColumnRenamed("previous_at", "consumer_previous_at")
        .join(
            written.where(inside(window)).drop("observed_at", "cluster", "before"),
            on=["snapshot_id", "broker", "topic", "queue_id"],
            how="inner",
        )
        .join(F.broadcast(_retention(raw.brokers)), on=["snapshot_id", "broker"], how="left")
    )
    counted = joined.withColumns(_counts()).withColumns(_more_counts())
    now = raw.consumer_offsets.where(inside(window) & of_users())
    grown = steps(raw.queue_offsets, timeline, now, window)
    rated = with_times(counted, grown).withColumns(_rates(hole))
    return rated.withColumns(
        {
            "drain_seconds": drain_seconds(),
            "loss_in_seconds": _loss_in_seconds(),
            "condition": _condition(),
        }
    ).select(*progress.QUEUES.column_names)


def _retention(brokers: DataFrame) -> DataFrame:
    """How long each broker group keeps messages, and how full it is: by the smallest id that tells.

    A broker may tell its configuration and not its counters, or the other way round.
    """
    watermark = F.col("config")[WATERMARK_SETTING].try_cast("double")
    told = brokers.withColumn("watermark", watermark / 100)
    return told.groupBy("snapshot_id", "broker").agg(
        *(
            F.min_by(name, F.when(F.col(name).isNotNull(), F.col("broker_id"))).alias(name)
            for name in ("retention_hours", "disk_ratio", "watermark")
        )
    )


def _counts() -> dict[str, Column]:
    maximum, minimum = F.col("max_offset"), F.col("min_offset")
    committed, pulled = F.col("consumer_offset"), F.col("pull_offset")
    return {
        "lag": maximum - committed,
        "inflight": pulled - committed,
        "available": maximum - pulled,
        "lost": at_least_zero(minimum - committed),
    }


def _more_counts() -> dict[str, Column]:
    readable = at_least_zero(F.col("lag") - F.col("lost"))
    stored = F.col("max_offset") - F.col("min_offset")
    return {
        "readable_lag": readable,
        "lag_upper": F.when(F.col("consumer_offset").isNull(), stored).otherwise(readable),
    }


def _rates(hole: timedelta) -> dict[str, Column]:
    return {
        "produce_tps": _rate("max_offset", "previous_at", hole),
        "consume_tps": _rate("consumer_offset", "consumer_previous_at", hole),
        "pull_tps": _rate("pull_offset", "consumer_previous_at", hole),
    }


def _rate(offset: str, previous_at: str, hole: timedelta) -> Column:
    """Messages a second since the previous observation; NULL over a long hole or a step back."""
    seconds = milliseconds(previous_at, F.col("observed_at")) / 1000
    step = F.col(offset) - F.col(f"previous_{offset}")
    usable = (seconds > 0) & (seconds <= hole.total_seconds()) & (step >= 0)
    return F.when(usable, step / seconds)


def drain_seconds() -> Column:
    """Seconds until nothing readable is left at the rates of now; NULL when that never comes."""
    readable, gain = F.col("readable_lag"), F.col("consume_tps") - F.col("produce_tps")
    noise = F.greatest("consume_tps", "produce_tps") * NEGLIGIBLE
    return F.when(readable == 0, F.lit(0.0)).when((gain > 0) & (gain >= noise), readable / gain)


def _loss_in_seconds() -> Column:
    """Seconds until the first readable unconsumed message may expire, now if the disk is full."""
    age = milliseconds("consumer_at", F.col("observed_at")) / 1000
    left = F.col("retention_hours") * 3600 - age
    watermark = F.coalesce("watermark", F.lit(DISK_WATERMARK / 100))
    full = (F.col("disk_ratio") >= watermark) & (F.col("readable_lag") > 0)
    return F.when(full | (left < 0), F.lit(0.0)).otherwise(left)


def _condition() -> Column:
    return (
        F.when(F.col("max_offset") < F.col("previous_max_offset"), "RECREATED")
        .when(F.col("consumer_offset") > F.col("max_offset"), "AHEAD_OF_BROKER")
        .when(F.col("lost") > 0, "LOST")
        .when(F.col("consumer_offset").isNull(), "NEVER_COMMITTED")
        .when(F.col("consumer_offset") < F.col("previous_consumer_offset"), "REWOUND")
        .otherwise("OK")
    )
