"""How far every queue of every group has got: ``progress.queues``.

Definitions are those of the contract, one small function per question; a name that is not
known is NULL all the way through, because SQL's arithmetic keeps it so.
"""

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from lake.history import HOLE
from lake.tables import progress
from lake.window import Window
from rocketmq import names

QUEUE = ("cluster", "broker", "topic", "queue_id")
"""A queue over time."""

CONSUMED_QUEUE = (*QUEUE, "consumer_group", "client_id")
"""A queue as one group, or one broadcasting client, reads it over time."""

RATES = ("produce_tps", "consume_tps", "pull_tps")

NEGLIGIBLE = 1e-6
"""A difference of rates under this share of them is arithmetic noise, not a drain."""

DISK_WATERMARK = 0.75
"""Disk use past which a broker expires messages early (`diskMaxUsedSpaceRatio`, default 75 %)."""


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


def inside(window: Window) -> Column:
    """Whether a row's ``observed_at`` lies in the window."""
    at = F.col("observed_at")
    return (at >= F.lit(window.start)) & (at < F.lit(window.end))


def of_users() -> Column:
    """Whether topic and group are users' own, not RocketMQ's."""
    topic, group = F.col("topic"), F.col("consumer_group")
    system_topic = topic.isin(*names.SYSTEM_TOPICS) | topic.startswith(names.SYSTEM_TOPIC_PREFIX)
    system_group = group.isin(*names.SYSTEM_GROUPS) | group.startswith(names.SYSTEM_GROUP_PREFIX)
    return ~system_topic & ~system_group


def queues(raw: RawFrames, window: Window, hole: timedelta = HOLE) -> DataFrame:
    """``progress.queues`` of a window.

    Args:
        raw: one row per key and snapshot each; snapshots before the window serve as previous
            observations and give no rows.
        window: what is computed.
        hole: the longest time between two observations that a rate is computed over.

    Returns:
        One row per snapshot of the window, queue, group and broadcasting client, with the columns
        of `lake.tables.progress.QUEUES`. System topics and groups are left out.
    """
    written = _with_previous(raw.queue_offsets, QUEUE, "max_offset")
    read = _with_previous(raw.consumer_offsets, CONSUMED_QUEUE, "consumer_offset", "pull_offset")
    joined = (
        read.where(inside(window) & of_users())
        .withColumnRenamed("previous_at", "consumer_previous_at")
        .join(
            written.where(inside(window)).drop("observed_at", "cluster"),
            on=["snapshot_id", "broker", "topic", "queue_id"],
            how="inner",
        )
        .join(F.broadcast(_retention(raw.brokers)), on=["snapshot_id", "broker"], how="left")
    )
    counted = joined.withColumns(_counts()).withColumns(_more_counts())
    timed = counted.withColumns(_instants()).withColumns(_durations())
    rated = timed.withColumns(_rates(hole))
    return rated.withColumns(
        {
            "drain_seconds": drain_seconds(),
            "loss_in_seconds": _loss_in_seconds(),
            "condition": _condition(),
        }
    ).select(*progress.QUEUES.column_names)


def _with_previous(frame: DataFrame, key: tuple[str, ...], *offsets: str) -> DataFrame:
    """Adds each row's previous observation: ``previous_at`` and ``previous_<offset>``."""
    order = SparkWindow.partitionBy(*key).orderBy("observed_at", "snapshot_id")
    previous = {f"previous_{name}": F.lag(name).over(order) for name in offsets}
    return frame.withColumns({"previous_at": F.lag("observed_at").over(order), **previous})


def _retention(brokers: DataFrame) -> DataFrame:
    """How long each broker group keeps messages, and how full it is: by its smallest id."""
    facts = F.struct("retention_hours", "disk_ratio")
    return (
        brokers.where(F.col("version").isNotNull())
        .groupBy("snapshot_id", "broker")
        .agg(F.min_by(facts, "broker_id").alias("facts"))
        .select("snapshot_id", "broker", "facts.retention_hours", "facts.disk_ratio")
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


def _instants() -> dict[str, Column]:
    """Store times as far as a snapshot itself tells them.

    The newest message's is told by the broker; it is also that of the first unconsumed message
    when only one is left. A broker's clock may run ahead of ours: nothing is stored later than
    it was seen.
    """
    newest = F.least(F.col("newest_stored_at"), F.col("observed_at"))
    newest = F.when(F.col("newest_stored_at").isNotNull(), newest)
    asked = F.when(F.col("lost") == 0, F.least("first_unconsumed_at", "observed_at"))
    asked = F.when(F.col("first_unconsumed_at").isNotNull(), asked)
    first = F.greatest("consumer_offset", "min_offset")
    last = F.col("max_offset") - 1
    return {
        "newest_at": newest,
        "consumer_at": F.when(
            F.col("readable_lag") > 0, F.coalesce(F.when(first == last, newest), asked)
        ),
        "pull_at": F.when(F.col("pull_offset") == last, newest),
    }


def _durations() -> dict[str, Column]:
    nothing_left = (F.col("readable_lag") == 0) & (F.col("lag") >= 0)
    delay = F.when(nothing_left, F.lit(0).cast("bigint")).otherwise(
        _milliseconds("consumer_at", "observed_at")
    )
    exact = delay.isNotNull()
    handed_out = F.when(F.col("available") == 0, F.col("newest_at")).otherwise(F.col("pull_at"))
    return {
        "delay_ms": delay,
        "delay_source": F.when(exact, F.lit("exact")),
        "delay_error_ms": F.when(exact, F.lit(0).cast("bigint")),
        "lag_span_ms": _span("lag", "consumer_at", F.col("newest_at")),
        "inflight_span_ms": _span("inflight", "consumer_at", handed_out),
        "available_span_ms": _span("available", "pull_at", F.col("newest_at")),
    }


def _span(count: str, start: str, end: Column) -> Column:
    length = at_least_zero(_milliseconds(start, end))
    return F.when(F.col(count) == 0, F.lit(0).cast("bigint")).when(F.col(count) > 0, length)


def _rates(hole: timedelta) -> dict[str, Column]:
    return {
        "produce_tps": _rate("max_offset", "previous_at", hole),
        "consume_tps": _rate("consumer_offset", "consumer_previous_at", hole),
        "pull_tps": _rate("pull_offset", "consumer_previous_at", hole),
    }


def _rate(offset: str, previous_at: str, hole: timedelta) -> Column:
    """Messages a second since the previous observation; NULL over a long hole or a step back."""
    seconds = _milliseconds(previous_at, F.col("observed_at")) / 1000
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
    age = _milliseconds("consumer_at", F.col("observed_at")) / 1000
    left = F.col("retention_hours") * 3600 - age
    full = (F.col("disk_ratio") >= DISK_WATERMARK) & (F.col("readable_lag") > 0)
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


def at_least_zero(count: Column) -> Column:
    """The count, 0 where it is negative, NULL where it is not known (`greatest` skips NULL)."""
    return F.when(count < 0, F.lit(0).cast("bigint")).otherwise(count)


def _milliseconds(start: str, end: str | Column) -> Column:
    until = F.col(end) if isinstance(end, str) else end
    return F.unix_millis(until) - F.unix_millis(F.col(start))


def steady_sum(value: Column) -> Column:
    """The sum of real numbers, the same in whatever order rows come: a backfill gives a tick's."""
    found = F.array_sort(F.collect_list(value))
    total = F.aggregate(found, F.lit(0.0), lambda sum, each: sum + each)
    return F.when(F.size(found) > 0, total)
