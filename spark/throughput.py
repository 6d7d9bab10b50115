"""What brokers counted, over masters and slaves, beside what offsets say: ``progress.throughput``.

A console that asks the master alone shows 0 for a group that a slave serves; both are here, and the
rate that our own observations of the offsets give over the same window. Only deep looks and lines
of ``stats.log`` tell the counters, so only their instants have rows.

A counter starts again at 0 with its broker, and offsets go back when a topic is recreated or a
group is reset: the difference over that says nothing, so there is no rate then.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake.counters import STATS_WINDOWS
from lake.tables import progress
from lake.window import Window
from spark.columns import SNAPSHOT, inside, steady_sum

WRITTEN = "TOPIC_PUT_NUMS"
SERVED = "GROUP_GET_NUMS"

COUNTER = ("stats_name", "stats_key", "stats_window")
INSTANT = ("observed_at", "cluster")
REPLICA = ("broker", "broker_id")
QUEUE = ("broker", "queue_id")


def throughput(
    stats: DataFrame, queue_offsets: DataFrame, queues: DataFrame, starts: DataFrame, window: Window
) -> DataFrame:
    """``progress.throughput`` of a window.

    Args:
        stats: ``raw.broker_stats`` of the window.
        queue_offsets: ``raw.queue_offsets`` that are fit to compute on, of the window and of the
            snapshots that `starts` names.
        queues: ``progress.queues`` of the same snapshots.
        starts: `lake.counters.Start` as rows.
        window: what is computed.

    Returns:
        One row per cluster, instant and counter with the columns of
        `lake.tables.progress.THROUGHPUT`; the snapshot named is a look where there was one.
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
        .withColumn("tps_observed", F.col("moved") / seconds())
        .select(*progress.THROUGHPUT.column_names)
    )


def seconds() -> Column:
    """The length of a row's ``stats_window``; NULL for one that is not known."""
    lengths = [(F.lit(name), F.lit(it.total_seconds())) for name, it in STATS_WINDOWS.items()]
    return F.try_element_at(
        F.create_map(*[part for pair in lengths for part in pair]), F.col("stats_window")
    )


def _counted(stats: DataFrame) -> DataFrame:
    """One row per cluster, instant and counter: the replicas of all brokers added up.

    Every broker's log is snapshots of its own, and all brokers print at the same instants.
    """
    on_master = F.col("broker_id") == 0
    tps = _sound("tps")
    count, mean = _sound("sum"), _sound("avgpt")
    # A broker tells the mean, not the calls; 0 of 0 calls is a mean of 0 to it.
    calls = F.when(count == 0, F.lit(0.0)).when(mean > 0, count / mean)
    return (
        _once(stats)
        .groupBy(*INSTANT, *COUNTER)
        .agg(
            F.min("snapshot_id").alias("snapshot_id"),
            F.max("topic").alias("topic"),
            F.max("consumer_group").alias("consumer_group"),
            steady_sum(F.when(on_master, tps)).alias("tps_master"),
            steady_sum(F.when(~on_master, tps)).alias("tps_replicas"),
            steady_sum(tps).alias("tps"),
            F.try_sum(count).alias("sum"),
            F.try_divide(F.sum(F.when(calls.isNotNull(), count)), steady_sum(calls)).alias("avgpt"),
        )
        .withColumn("served_by_replicas", F.try_divide("tps_replicas", "tps"))
    )


def _once(stats: DataFrame) -> DataFrame:
    """Each counter of a replica once an instant: its log tells again what a look was told.

    Of a cluster's snapshots of one instant a look has the first id: those of logs only begin
    with it.
    """
    rest = ("topic", "consumer_group", "tps", "sum", "avgpt")
    first = F.min(F.struct("snapshot_id", *rest)).alias("first")
    return (
        stats.groupBy(*INSTANT, *REPLICA, *COUNTER)
        .agg(first)
        .select(*INSTANT, *REPLICA, *COUNTER, "first.*")
    )


def _sound(name: str) -> Column:
    """A number that a counter can have; a clock that was set can make it negative, or no number."""
    value = F.col(name)
    return F.when((value >= 0) & (value < float("inf")), value)


def _written(queue_offsets: DataFrame) -> DataFrame:
    return queue_offsets.select(
        "snapshot_id",
        F.lit(WRITTEN).alias("stats_name"),
        F.col("topic").alias("stats_key"),
        *QUEUE,
        F.col("max_offset").alias("first_choice"),
        F.lit(None).cast("bigint").alias("second_choice"),
    )


def _served(queues: DataFrame) -> DataFrame:
    """Of groups that share queues: what one of many broadcasting clients got says nothing."""
    return queues.where(F.col("offset_store") == "broker").select(
        "snapshot_id",
        F.lit(SERVED).alias("stats_name"),
        F.concat_ws("@", "topic", "consumer_group").alias("stats_key"),
        *QUEUE,
        F.col("pull_offset").alias("first_choice"),
        F.col("consumer_offset").alias("second_choice"),
    )


def _moved(offsets: DataFrame, starts: DataFrame) -> DataFrame:
    """How far the offsets of a counter moved over its window, between observations in proportion.

    Returns:
        One row per snapshot and counter: ``moved``, NULL unless it is known of all queues that had
        an offset at all.
    """
    roles = {"before": "before_id", "after": "after_id", "now": "snapshot_id"}
    role = F.explode(
        F.array(
            *[F.struct(F.col(of).alias("id"), F.lit(at).alias("at")) for at, of in roles.items()]
        )
    )
    marks = starts.withColumn("role", role).select(
        F.col("role.id").alias("snapshot_id"),
        "broker",
        F.col("snapshot_id").alias("ends_in"),
        "stats_window",
        "share",
        F.col("role.at").alias("role"),
    )
    choices = ("first_choice", "second_choice")
    observed = (
        offsets.join(F.broadcast(marks), on=["snapshot_id", "broker"], how="inner")
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
        .withColumn("step", F.when(_all_known("first_choice"), first).otherwise(second))
        .groupBy(F.col("ends_in").alias("snapshot_id"), *COUNTER)
        .agg(F.when(F.every(F.col("step").isNotNull()), steady_sum(F.col("step"))).alias("moved"))
    )


def _all_known(name: str) -> Column:
    before, after, now = (F.col(f"{name}_{at}") for at in ("before", "after", "now"))
    return before.isNotNull() & after.isNotNull() & now.isNotNull()


def _step(name: str) -> Column:
    """From the beginning of the window until now; NULL when the offset went back meanwhile."""
    before, after, now = (F.col(f"{name}_{at}") for at in ("before", "after", "now"))
    begin = before + (after - before) * F.col("share")
    return F.when((before <= after) & (after <= now), now - begin)
