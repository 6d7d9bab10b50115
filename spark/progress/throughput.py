"""Throughput by brokers' counters and by observed offsets: ``progress.throughput``.

A console that requests only the master shows 0 for a group that a slave serves. This table has the
counters of masters and of slaves, and the rate of the observed offsets over the same window. Only
deep snapshots and lines of ``stats.log`` hold counters, so only their instants have rows.

A counter restarts at 0 with its broker, and offsets fall when a topic is recreated or a group is
reset. Over such a fall the rate is unknown.
"""

from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import SNAPSHOT, Added, Advance, column, milliseconds, steady_sum, with_new
from spark.progress.slave_reads import SlaveRead, slave_reads
from spark.tuning import inside, small
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress
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
