"""Throughput by brokers' counters and by observed offsets, and groups that slaves serve.

A console that requests only the master shows 0 for a group that a slave serves.
``progress.throughput`` has the counters of masters and of slaves, and the rate of the observed
offsets over the same window. Only deep snapshots and lines of ``stats.log`` hold counters, so only
their instants have rows. A counter restarts at 0 with its broker, and offsets fall when a topic is
recreated or a group is reset. Over such a fall the rate is unknown.

A master suggests a slave to a reader that is further behind than a share of its memory
(``accessMessageInMemoryMaxRatio``, 40 %), where ``slaveReadEnable`` is on. Only the slave counts
these messages. A reader so far behind also gets smaller batches, 8 messages instead of 32
(`DefaultMessageStore.getMessage`). No broker reports its memory, nor the place of a reader in the
commit log. The bytes behind are estimated from the age of the first message that was not handed
out, as if the log had grown evenly since its oldest message.
"""

from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import (
    SNAPSHOT,
    Added,
    Advance,
    column,
    milliseconds,
    steady_sum,
    unknown_of,
    with_new,
)
from spark.tuning import inside, small
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress
from tidemark.model.consumption import EventKind
from tidemark.planning.observation_steps import STATS_WINDOWS
from tidemark.rocketmq.names import StatsName

RATES = ("produce_tps", "consume_tps", "pull_tps")

NEGLIGIBLE = 1e-6
"""A difference of rates under this share of them is arithmetic noise, not a drain."""

RIPPLE_SECONDS = 60
"""A lag of at most this many seconds of production is no backlog: the floor of `FALLING_BEHIND` and
`CATCHING_UP` (`tidemark.settings.health.Thresholds.rise_seconds`)."""


def rate(advance: Advance, at: Column, longest_gap: timedelta) -> Column:
    """Return messages per second; NULL over a long gap, or where the offset fell.

    Args:
        advance: the offset that moves.
        at: the instant of its observation.
        longest_gap: the longest time between two observations over which a rate is computed.
    """
    seconds = milliseconds(advance.since, at) / 1000
    now, before = advance.now, advance.base
    # The previous observation may lie between: then it must not be lower than the base either.
    previous = F.coalesce(advance.previous, before)
    is_usable = seconds <= longest_gap.total_seconds()
    never_fell = (before <= previous) & (previous <= now)
    return F.when(is_usable & never_fell, (now - before) / seconds)


def drain_seconds(
    *, readable_lag: Column, consume_tps: Column, produce_tps: Column, lag_is_lower_bound: Column
) -> Column:
    """Return the seconds until no readable lag is left at current rates; NULL when never.

    It is also NULL where the lag is at most the production of `RIPPLE_SECONDS`: a group that keeps
    up always has some lag, and the difference of its rates is random. It is NULL where
    ``lag_is_lower_bound``, because the remaining work is unknown.
    """
    gain = consume_tps - produce_tps
    noise = F.greatest(consume_tps, produce_tps) * NEGLIGIBLE
    is_backlog = readable_lag > produce_tps * RIPPLE_SECONDS
    drains = is_backlog & (gain > 0) & (gain >= noise)
    seconds = F.when(readable_lag == 0, F.lit(0.0)).when(drains, readable_lag / gain)
    return F.when(~F.coalesce(lag_is_lower_bound, F.lit(False)), seconds)


COUNTER = ("stats_name", "stats_key", "stats_window")
INSTANT = ("observed_at", "cluster")
REPLICA = ("broker", "broker_id")
QUEUE = ("broker", "queue_id")


class Choice(Added):
    """The offsets of a queue whose advance a counter should show."""

    first_choice = column("bigint", "the offset that counts where it is known all the time")
    second_choice = column("bigint", "the offset that counts else")


class Moved(Added):
    """The advance of a counter's offsets."""

    moved = column("double", "offsets over the window; NULL when unknown for a queue that had one")


def throughput(
    stats: DataFrame,
    queue_offsets: DataFrame,
    queues: DataFrame,
    starts: DataFrame,
    brokers: DataFrame,
    window: Window,
) -> DataFrame:
    """Compute ``progress.throughput`` of a window.

    Args:
        stats: ``raw.broker_stats`` of the window.
        queue_offsets: valid rows of ``raw.queue_offsets``, of the window and of the snapshots that
            `starts` names.
        queues: ``progress.queues`` of the same snapshots.
        starts: one row per `tidemark.planning.observation_steps.CounterWindow`.
        brokers: ``raw.brokers`` of the window.
        window: the window to compute.

    Returns:
        One row per cluster, instant and counter with the columns of
        `tidemark.lake.tables.progress.THROUGHPUT`. ``snapshot_id`` names a snapshot of the cluster
        where there is one, else one of a log.
    """
    counted = stats.where(inside(window)).dropna(subset=[*SNAPSHOT, *COUNTER])
    deep = counted.select("snapshot_id").distinct()
    moved = _moved(
        _written(queue_offsets).unionByName(_served(queues)),
        starts.join(deep, on="snapshot_id", how="left_semi"),
    )
    return (
        _counted(counted)
        .join(moved, on=["snapshot_id", *COUNTER], how="left")
        .join(_reasons(slave_reads(counted, brokers, queues)), on=list(_REASON), how="left")
        .transform(with_new, tps_observed=Moved.moved / seconds(F.col("stats_window")))
        .select(*progress.THROUGHPUT.column_names)
    )


_REASON = ("snapshot_id", "stats_name", "stats_key")


def _reasons(served: DataFrame) -> DataFrame:
    """Return why slaves serve a counter, by the broker whose reader is furthest behind."""
    key = F.concat_ws("@", "topic", "consumer_group")
    order = F.struct(SlaveRead.behind_bytes, SlaveRead.behind_ms, F.col("broker"))
    return served.groupBy(
        "snapshot_id", F.lit(StatsName.SERVED).alias("stats_name"), key.alias("stats_key")
    ).agg(
        F.max_by(F.concat_ws(": ", "likely_cause", "evidence"), order).alias("slaves_serve_because")
    )


def seconds(stats_window: Column) -> Column:
    """Return the length of a ``stats_window`` in seconds; NULL for an unknown one."""
    lengths = [(F.lit(name), F.lit(it.total_seconds())) for name, it in STATS_WINDOWS.items()]
    return F.try_element_at(
        F.create_map(*[part for pair in lengths for part in pair]), stats_window
    )


def _counted(stats: DataFrame) -> DataFrame:
    """Return one row per cluster, instant and counter: the sum over the replicas of all brokers.

    The logs of different brokers are different snapshots of the same instants.
    """
    on_master = F.col("broker_id") == 0
    tps = _plausible("tps")
    count, mean = _plausible("sum"), _plausible("avgpt")
    # A broker reports the mean, not the calls; it reports 0 as the mean of no calls.
    calls = F.when(count == 0, F.lit(0.0)).when(mean > 0, count / mean)
    counted = steady_sum(F.when(calls.isNotNull(), count.cast("double")))
    return (
        _without_repetitions(stats)
        .groupBy(*INSTANT, *COUNTER)
        .agg(
            F.min("snapshot_id").alias("snapshot_id"),
            F.max("topic").alias("topic"),
            F.max("consumer_group").alias("consumer_group"),
            steady_sum(F.when(on_master, tps)).alias("tps_master"),
            steady_sum(F.when(~on_master, tps)).alias("tps_replicas"),
            steady_sum(tps).alias("tps"),
            F.try_sum(count).alias("sum"),
            F.try_divide(counted, steady_sum(calls)).alias("avgpt"),
        )
        .transform(with_new, served_by_replicas=F.try_divide("tps_replicas", "tps"))
    )


def _without_repetitions(stats: DataFrame) -> DataFrame:
    """Keep each counter of a replica once per instant, because logs repeat those of deep snapshots.

    The cluster's snapshot has the lowest id of an instant: the ids of logs begin with it and are
    longer.
    """
    rest = ("topic", "consumer_group", "tps", "sum", "avgpt")
    first = F.min(F.struct("snapshot_id", *rest)).alias("first")
    return (
        stats.groupBy(*INSTANT, *REPLICA, *COUNTER)
        .agg(first)
        .select(*INSTANT, *REPLICA, *COUNTER, "first.*")
    )


def _plausible(name: str) -> Column:
    """Return a counter's value, NULL if impossible: a clock change can make it negative or NaN."""
    value = F.col(name)
    return F.when((value >= 0) & (value < float("inf")), value)


def _written(queue_offsets: DataFrame) -> DataFrame:
    return queue_offsets.select(
        "snapshot_id",
        F.lit(StatsName.WRITTEN).alias("stats_name"),
        F.col("topic").alias("stats_key"),
        *QUEUE,
        *Choice.named(first_choice=F.col("max_offset"), second_choice=F.lit(None).cast("bigint")),
    )


def _served(queues: DataFrame) -> DataFrame:
    """Return pull and consumer offsets of clustering groups, the only ones with such counters."""
    return queues.where(F.col("offset_store") == "broker").select(
        "snapshot_id",
        F.lit(StatsName.SERVED).alias("stats_name"),
        F.concat_ws("@", "topic", "consumer_group").alias("stats_key"),
        *QUEUE,
        *Choice.named(first_choice=F.col("pull_offset"), second_choice=F.col("consumer_offset")),
    )


def _moved(offsets: DataFrame, starts: DataFrame) -> DataFrame:
    """Return how far the offsets of a counter advanced over its window.

    The window begins between two observations; the offset there is interpolated.

    Returns:
        One row per snapshot and counter: `Moved`.
    """
    roles = {"before": "before_id", "after": "after_id", "now": "snapshot_id"}
    role = F.explode(
        F.array(
            *[F.struct(F.col(of).alias("id"), F.lit(at).alias("at")) for at, of in roles.items()]
        )
    )
    marks = with_new(starts, role=role).select(
        F.col("role.id").alias("snapshot_id"),
        "broker",
        F.col("snapshot_id").alias("ends_in"),
        "stats_window",
        "share",
        F.col("role.at").alias("role"),
    )
    choices = tuple(Choice.types())
    observed = (
        offsets.join(small(marks), on=["snapshot_id", "broker"], how="inner")
        .groupBy("ends_in", *COUNTER, *QUEUE)
        .agg(
            F.max("share").alias("share"),
            *(
                F.max(F.when(F.col("role") == at, F.col(name))).alias(f"{name}_{at}")
                for name in choices
                for at in roles
            ),
        )
    )
    first, second = (_step(name) for name in choices)
    seen = F.coalesce(*(f"{name}_{at}" for name in choices for at in roles)).isNotNull()
    return (
        observed.where(seen)
        .transform(with_new, step=F.when(_all_known(choices[0]), first).otherwise(second))
        .groupBy(F.col("ends_in").alias("snapshot_id"), *COUNTER)
        .agg(
            *Moved.named(
                moved=F.when(F.every(F.col("step").isNotNull()), steady_sum(F.col("step")))
            )
        )
    )


def _all_known(name: str) -> Column:
    before, after, now = (F.col(f"{name}_{at}") for at in ("before", "after", "now"))
    return before.isNotNull() & after.isNotNull() & now.isNotNull()


def _step(name: str) -> Column:
    """Return the advance since the beginning of the window; NULL when the offset fell."""
    before, after, now = (F.col(f"{name}_{at}") for at in ("before", "after", "now"))
    begin = before + (after - before) * F.col("share")
    return F.when((before <= after) & (after <= now), now - begin)


SLAVE_HISTORY = timedelta(hours=1)
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
        stats: ``raw.broker_stats`` of the window and of `SLAVE_HISTORY` before it, from snapshots
            of whole clusters: a line of one replica's log does not show that others stopped
            serving.
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
