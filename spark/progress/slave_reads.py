"""Groups whose messages slaves hand out, and why the master sends them there.

A master suggests a slave to a reader that is further behind than a share of its memory
(``accessMessageInMemoryMaxRatio``, 40 %), where ``slaveReadEnable`` is on. Only the slave counts
these messages, so the console shows TPS 0 for the group at the master. A reader so far behind also
gets smaller batches, 8 messages instead of 32 (`DefaultMessageStore.getMessage`).

No broker reports its memory, nor the place of a reader in the commit log. The bytes behind are
estimated from the age of the first message that was not handed out, as if the log had grown evenly
since its oldest message.
"""

from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import SNAPSHOT, Added, column, milliseconds, unknown_of, with_new
from spark.tuning import inside, small
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress
from tidemark.model.consumption import EventKind
from tidemark.rocketmq.names import StatsName

HISTORY = timedelta(hours=1)
"""Time in which an earlier count of the same broker is searched."""

DEFAULT_MEMORY_RATIO = 40
"""Percent of its memory within which a master serves reads, unless it is configured."""

BEYOND_MEMORY = "reads lie beyond the master's share of memory"
MASTER_UNREACHABLE = "master unreachable"
SLAVE_PREFERRED = "slaveReadEnable is off: the client reads from the slave by itself"

READER = ("snapshot_id", "broker", "topic", "consumer_group")
"""A group on a topic of one broker, in a snapshot."""

_MIB = 1024 * 1024


class SlaveRead(Added):
    """Messages that slaves hand out to a reader, and how far it is behind."""

    slave_tps = column("double", "messages a second that slaves hand out")
    behind_ms = column("bigint", "age of the first message that was not handed out")
    behind_bytes = column("bigint", "estimated place of that message before the end of the log")


class Master(Added):
    """Facts that a row takes from the master of its broker group."""

    is_listed = column("boolean", "the snapshot lists it, reachable or not; NULL where not")
    memory_percent = column("int", "percent of its memory within which it serves reads")


def slave_reads(stats: DataFrame, brokers: DataFrame, queues: DataFrame) -> DataFrame:
    """Return one row per snapshot, broker, topic and group that a slave served, with the reason.

    Args:
        stats: ``raw.broker_stats``.
        brokers: ``raw.brokers`` of the same snapshots.
        queues: ``progress.queues`` of the same snapshots.

    Returns:
        The columns of `READER`, `SlaveRead`, ``likely_cause`` and ``evidence``.
    """
    served = (
        stats.where((F.col("stats_name") == StatsName.SERVED) & (F.col("stats_window") == "minute"))
        .where((F.col("broker_id") > 0) & (F.col("tps") > 0))
        .groupBy(*READER)
        .agg(*SlaveRead.named(slave_tps=F.sum("tps")))
    )
    # The master would read next the first message that was not handed out.
    waiting = queues.groupBy(*READER).agg(
        F.min(F.when(F.col("readable_lag") > 0, F.coalesce("pull_at", "consumer_at"))).alias("at")
    )
    return (
        served.join(small(_masters(brokers)), on=["snapshot_id", "broker"], how="left")
        .join(waiting, on=list(READER), how="left")
        .transform(SlaveRead.to, behind_ms=milliseconds(F.col("at"), F.col("observed_at")))
        .transform(SlaveRead.to, behind_bytes=_behind_bytes())
        .transform(with_new, likely_cause=_likely_cause())
        .transform(with_new, evidence=_evidence())
        .select(*READER, *SlaveRead.types(), "likely_cause", "evidence")
    )


def slave_read_events(
    stats: DataFrame, brokers: DataFrame, queues: DataFrame, window: Window
) -> DataFrame:
    """Compute the ``SERVED_BY_SLAVE`` events of a window, one where a slave begins to serve.

    Args:
        stats: ``raw.broker_stats`` of the window and of `HISTORY` before it, from snapshots of
            whole clusters: a line of one replica's log does not show that others stopped serving.
        brokers: ``raw.brokers`` of the window.
        queues: ``progress.queues`` of the window.
        window: the window to compute.

    Returns:
        One row per event with the columns of `tidemark.lake.tables.progress.EVENTS`.
    """
    order = SparkWindow.partitionBy("cluster", "broker").orderBy("observed_at", "snapshot_id")
    counts = (
        stats.select(*SNAPSHOT, "broker")
        .distinct()
        .transform(
            with_new,
            previous_snapshot_id=F.lag("snapshot_id").over(order),
            previous_at=F.lag("observed_at").over(order),
        )
    )
    served = slave_reads(stats, brokers, queues)
    before = served.select(
        F.col("snapshot_id").alias("previous_snapshot_id"), *READER[1:], F.lit(True).alias("was")
    )
    unknown = unknown_of(
        progress.EVENTS,
        *("queue_id", "client_id", "from_offset", "to_offset", "messages"),
        *("previous_client_id", "unowned_ms"),
    )
    return (
        served.join(counts.where(inside(window)), on=["snapshot_id", "broker"])
        .join(before, on=["previous_snapshot_id", *READER[1:]], how="left")
        .where(F.col("was").isNull())
        .transform(with_new, **unknown)
        .transform(with_new, kind=F.lit(EventKind.SERVED_BY_SLAVE))
        .select(*progress.EVENTS.column_names)
    )


def _masters(brokers: DataFrame) -> DataFrame:
    """Return one row per snapshot and broker group that holds its master."""
    percent = F.col("config")["accessMessageInMemoryMaxRatio"].try_cast("int")
    return brokers.where(F.col("broker_id") == 0).select(
        "snapshot_id",
        "broker",
        "observed_at",
        "commit_log_min_offset",
        "commit_log_max_offset",
        "earliest_stored_at",
        "slave_read_enabled",
        *Master.named(
            is_listed=F.lit(True), memory_percent=F.coalesce(percent, F.lit(DEFAULT_MEMORY_RATIO))
        ),
    )


def _behind_bytes() -> Column:
    stored = F.col("commit_log_max_offset") - F.col("commit_log_min_offset")
    share = F.try_divide(
        SlaveRead.behind_ms, milliseconds(F.col("earliest_stored_at"), F.col("observed_at"))
    )
    share = F.when(share > 1, F.lit(1.0)).otherwise(share)
    return F.when(SlaveRead.behind_ms >= 0, (stored * share).cast("bigint"))


def _likely_cause() -> Column:
    # A line of a slave's log holds nothing of the master; a snapshot lists an unreachable one too.
    is_unreachable = Master.is_listed & F.col("commit_log_max_offset").isNull()
    return (
        F.when(is_unreachable, MASTER_UNREACHABLE)
        .when(~F.col("slave_read_enabled"), SLAVE_PREFERRED)
        .when(SlaveRead.behind_ms > 0, BEYOND_MEMORY)
    )


def _evidence() -> Column:
    behind = F.concat(
        F.lit("the next message to hand out is "),
        (SlaveRead.behind_ms / 1000).cast("bigint").cast("string"),
        F.lit(" s old"),
    )
    size = F.concat(
        F.lit("about "), F.round(SlaveRead.behind_bytes / _MIB).cast("bigint").cast("string"),
        F.lit(" MiB before the end of the commit log"),
    )  # fmt: skip
    limit = F.concat(
        F.lit("the master serves reads within "),
        Master.memory_percent.cast("string"),
        F.lit(" % of its memory"),
    )
    counted = F.concat(
        F.lit("a slave hands out "),
        F.round(SlaveRead.slave_tps, 1).cast("string"),
        F.lit(" messages a second"),
    )
    # Parts that are not known are left out.
    return F.concat_ws(", ", counted, behind, size, limit)
