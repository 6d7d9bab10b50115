"""Capacity of groups, and the clients needed at the peak: ``progress.capacity``.

It follows from reports of members (`GET_CONSUMER_RUNNING_INFO`); only snapshots with reports have
rows. A thread handles one listener call at a time, so a client handles ``threads / consume time``
messages a second. An ordered client cannot use more threads than it holds queues, and a
group cannot use more members than it has queues. A call is assumed to handle one message
(``consumeMessageBatchMaxSize``, 1 unless set): with larger batches the capacity is higher.
"""

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake.tables import progress
from lake.window import Window
from spark.columns import SNAPSHOT, inside, reaching_back, steady_sum
from spark.progress.keys import GROUP_ID, GROUP_TOPIC_HISTORY, GROUP_TOPIC_ID
from spark.progress.queues import NEGLIGIBLE

PEAK = timedelta(hours=1)
"""How far back the largest rate of production is searched: inputs need ``progress.groups`` of this
time before the window."""

MEMBER = (*GROUP_ID, "client_id")
"""A client of a group in a snapshot."""


@dataclass(frozen=True)
class Machine:
    """The machine that clients run on, which no client reports.

    Attributes:
        cores: cores that a client may use.
        compute_ms: milliseconds of a listener call that use a processor and do not wait.
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
    """Compute ``progress.capacity`` of a window.

    Args:
        clients: ``raw.clients`` of the window.
        client_topics: ``raw.client_topics`` of the window.
        client_queues: ``raw.client_queues`` of the window.
        groups: ``progress.groups`` of the window and of `PEAK` before it.
        window: the window to compute.
        machine: what clients run on; without it the best number of threads is unknown.

    Returns:
        One row per snapshot, group and topic with statistics from a member, with the columns of
        `lake.tables.progress.CAPACITY`.
    """
    members = _members(clients, client_topics.where(inside(window)), client_queues)
    by_topic = members.groupBy(*GROUP_TOPIC_ID).agg(
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
        by_topic.join(_loads(groups, window), on=list(GROUP_TOPIC_ID), how="inner")
        .withColumn("best_threads", best)
        .withColumns(_needed())
        .withColumn("drain_by_clients", _drain_by_clients())
        .select(*progress.CAPACITY.column_names)
    )


def _members(clients: DataFrame, client_topics: DataFrame, client_queues: DataFrame) -> DataFrame:
    """Return one row per snapshot, member and topic that the member reports statistics of."""
    held = (
        client_queues.where(~F.coalesce("dropped", F.lit(False)))
        .groupBy(*MEMBER, "topic")
        .agg(F.count(F.lit(1)).alias("queues"))
    )
    # Not by locks: a concurrent consumer reports its queues as locked too.
    ordered = F.col("consume_orderly").alias("is_ordered")
    threads = F.col("thread_count").cast("bigint").alias("threads")
    at_once = F.when(
        F.col("is_ordered") & (F.col("queues") < F.col("threads")), F.col("queues")
    ).otherwise(F.col("threads"))
    took_time = F.when(F.col("consume_rt_ms") > 0, F.col("consume_rt_ms"))
    return (
        client_topics.join(clients.select(*MEMBER, threads, ordered), on=list(MEMBER), how="left")
        .join(held, on=[*MEMBER, "topic"], how="left")
        .withColumns(
            {
                # Clients report 0 when they have not called a listener for an hour.
                "consume_rt_ms": took_time,
                "consume_tps": F.col("consume_ok_tps") + F.col("consume_failed_tps"),
                "capacity_tps": at_once * 1000 / took_time,
            }
        )
    )


def _mean(name: str) -> Column:
    return F.try_divide(steady_sum(F.col(name)), F.count(name))


def _evidence() -> Column:
    """Return the report of one member, and its capacity."""
    return F.struct(
        "client_id", "threads", "queues", "consume_tps", "consume_rt_ms", "capacity_tps"
    )


def _loads(groups: DataFrame, window: Window) -> DataFrame:
    """Return one row per snapshot of the window, group and topic: the load on the group."""
    peak = reaching_back(PEAK, *GROUP_TOPIC_HISTORY)
    # Filtered messages never reach a client; with an unknown filter, all may.
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
    per_client = F.col("capacity_tps_per_client")
    clients, queues = F.col("clients"), F.col("queues")
    useful = F.when(clients > queues, queues).otherwise(clients)
    limit = F.when(F.col("is_ordered"), F.lit(1000.0) / F.col("consume_rt_ms")).otherwise(
        per_client
    )
    return {
        "capacity_tps": useful * per_client,
        "clients_needed": F.ceil(F.try_divide(F.col("peak_tps"), per_client)).cast("bigint"),
        "capacity_limit_tps": queues * limit,
    }


def _drain_by_clients() -> Column:
    """Return the seconds to drain for useful numbers of clients, at most one per queue."""
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
    capacity_tps = clients * F.col("capacity_tps_per_client")
    gain = capacity_tps - F.col("load_tps")
    return F.when(F.col("waiting") == 0, F.lit(0.0)).when(
        (gain > 0) & (gain >= capacity_tps * NEGLIGIBLE), F.col("waiting") / gain
    )
