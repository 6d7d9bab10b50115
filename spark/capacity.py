"""What the members of a group can carry, and how many the peak takes: ``progress.capacity``.

From what members told of themselves (`GET_CONSUMER_RUNNING_INFO`), so only snapshots in which some
did have rows. A thread handles one listener call at a time, so a client carries ``threads / consume
time``; an ordered one has no use for more threads than it holds queues, and a group none for more
members than queues. Calls are taken to be of one message (``consumeMessageBatchMaxSize``, 1 unless
set): with batches a group carries more than is said here.
"""

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake.tables import progress
from lake.window import Window
from spark.columns import SNAPSHOT, inside, reaching_back, steady_sum
from spark.progress import NEGLIGIBLE

PEAK = timedelta(hours=1)
"""How far back the largest rate of production is looked for: ``progress.groups`` of this long
before a window have to be given with it."""

MEMBER = ("snapshot_id", "consumer_group", "client_id")
PAIR = ("snapshot_id", "consumer_group", "topic")


@dataclass(frozen=True)
class Machine:
    """What no client tells: what it runs on, and how much of a call is work for a processor.

    Attributes:
        cores: cores that a client may use.
        compute_ms: milliseconds of a listener call that are not waiting.
    """

    cores: float
    compute_ms: float


def capacity(
    clients: DataFrame,
    client_topics: DataFrame,
    client_queues: DataFrame,
    groups: DataFrame,
    window: Window,
    machine: Machine | None = None,
) -> DataFrame:
    """``progress.capacity`` of a window.

    Args:
        clients: ``raw.clients`` of the window.
        client_topics: ``raw.client_topics`` of the window.
        client_queues: ``raw.client_queues`` of the window.
        groups: ``progress.groups`` of the window and of `PEAK` before it.
        window: what is computed.
        machine: what clients run on; without it the best number of threads is not known.

    Returns:
        One row per snapshot, group and topic that a member told its statistics of, with the columns
        of `lake.tables.progress.CAPACITY`.
    """
    told = _members(clients, client_topics.where(inside(window)), client_queues)
    carried = told.groupBy(*PAIR).agg(
        F.count(F.lit(1)).cast("int").alias("clients_told"),
        F.sum("threads").alias("threads"),
        F.avg("threads").alias("threads_per_client"),
        steady_sum(F.col("consume_tps")).alias("consume_tps"),
        _mean("consume_tps").alias("consume_tps_per_client"),
        F.coalesce(
            F.try_divide(
                steady_sum(F.col("consume_rt_ms") * F.col("consume_tps")),
                steady_sum(F.when(F.col("consume_rt_ms").isNotNull(), F.col("consume_tps"))),
            ),
            _mean("consume_rt_ms"),
        ).alias("consume_rt_ms"),
        _mean("capacity_tps").alias("capacity_tps_per_client"),
        F.some("is_ordered").alias("is_ordered"),
        F.array_sort(F.collect_list(_evidence())).alias("members"),
    )
    best = F.lit(None).cast("double")
    if machine is not None:
        best = F.lit(machine.cores) * F.col("consume_rt_ms") / F.lit(machine.compute_ms)
    return (
        carried.join(_loads(groups, window), on=list(PAIR), how="inner")
        .withColumn("best_threads", best)
        .withColumns(_needed())
        .withColumn("drain_by_clients", _drain_by_clients())
        .select(*progress.CAPACITY.column_names)
    )


def _members(clients: DataFrame, client_topics: DataFrame, client_queues: DataFrame) -> DataFrame:
    """One row per snapshot, member and topic it told its statistics of."""
    held = (
        client_queues.where(~F.coalesce("dropped", F.lit(False)))
        .groupBy(*MEMBER, "topic")
        .agg(
            F.count(F.lit(1)).alias("queues"),
            # Only an ordered consumer locks its queues.
            F.some(F.coalesce("locked", F.lit(False))).alias("is_ordered"),
        )
    )
    threads = F.col("thread_count").cast("bigint").alias("threads")
    ordered = F.coalesce("is_ordered", F.lit(False))
    at_once = F.when(ordered & (F.col("queues") < F.col("threads")), F.col("queues")).otherwise(
        F.col("threads")
    )
    took_time = F.when(F.col("consume_rt_ms") > 0, F.col("consume_rt_ms"))
    return (
        client_topics.join(clients.select(*MEMBER, threads), on=list(MEMBER), how="left")
        .join(held, on=[*MEMBER, "topic"], how="left")
        .withColumns(
            {
                "is_ordered": ordered,
                # Clients tell 0 where they have not called a listener for an hour.
                "consume_rt_ms": took_time,
                "consume_tps": F.col("consume_ok_tps") + F.col("consume_failed_tps"),
                "capacity_tps": at_once * 1000 / took_time,
            }
        )
    )


def _mean(name: str) -> Column:
    return F.try_divide(steady_sum(F.col(name)), F.count(name))


def _evidence() -> Column:
    """What one member told, and what it could carry."""
    return F.struct(
        "client_id", "threads", "queues", "consume_tps", "consume_rt_ms", "capacity_tps"
    )


def _loads(groups: DataFrame, window: Window) -> DataFrame:
    """One row per snapshot of the window, group and topic: what is asked of the group."""
    peak = reaching_back(PEAK, "cluster", "consumer_group", "topic")
    # What is filtered out is never handed to a client; where that is not known, all may be.
    share = F.coalesce("match_ratio", F.lit(1.0))
    return (
        groups.withColumn("peak_tps", F.max("produce_tps").over(peak))
        .where(inside(window))
        .select(
            *SNAPSHOT,
            "consumer_group",
            "topic",
            "clients",
            "queues",
            (F.col("peak_tps") * share).alias("peak_tps"),
            (F.col("produce_tps") * share).alias("load_tps"),
            F.coalesce("filtered_lag", "readable_lag").alias("waiting"),
        )
    )


def _needed() -> dict[str, Column]:
    carries = F.col("capacity_tps_per_client")
    clients, queues = F.col("clients"), F.col("queues")
    useful = F.when(clients > queues, queues).otherwise(clients)
    limit = F.when(F.col("is_ordered"), F.lit(1000.0) / F.col("consume_rt_ms")).otherwise(carries)
    return {
        "capacity_tps": useful * carries,
        "clients_needed": F.ceil(F.try_divide(F.col("peak_tps"), carries)).cast("bigint"),
        "capacity_limit_tps": queues * limit,
    }


def _drain_by_clients() -> Column:
    """Seconds to drain with so many members, for the numbers worth looking at up to the queues."""
    clients, queues = F.coalesce("clients", F.lit(1)), F.col("queues")
    numbers = F.array(
        F.lit(1),
        clients,
        clients + 1,
        clients * 2,
        F.least(F.coalesce("clients_needed", F.lit(1)), queues.cast("bigint")).cast("int"),
        queues,
    )
    possible = F.filter(
        F.array_sort(F.array_distinct(numbers)), lambda number: (number >= 1) & (number <= queues)
    )
    return F.transform(
        possible,
        lambda number: F.struct(number.alias("clients"), _drain(number).alias("drain_seconds")),
    )


def _drain(clients: Column) -> Column:
    carried = clients * F.col("capacity_tps_per_client")
    gain = carried - F.col("load_tps")
    return F.when(F.col("waiting") == 0, F.lit(0.0)).when(
        (gain > 0) & (gain >= carried * NEGLIGIBLE), F.col("waiting") / gain
    )
