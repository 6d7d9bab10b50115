"""Capacity of groups, and the clients needed at the peak: ``progress.capacity``.

It follows from reports of members (`GET_CONSUMER_RUNNING_INFO`); only snapshots with reports have
rows. A thread handles one listener call at a time, and a call handles up to
``consumeMessageBatchMaxSize`` messages, so a client handles ``threads x batch size / consume time``
messages a second. That is an upper bound where calls were not full when their time was measured.

Queues are the limit: of concurrent consumers on clients, because a queue has one owner; of ordered
consumers on threads, because each queue is consumed by one thread at a time.
"""

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake.tables import progress
from lake.window import Window
from settings.machines import Machine, MachineOverride
from spark.columns import SNAPSHOT, inside, matches, reaching_back, steady_sum
from spark.progress.keys import GROUP_ID, GROUP_TOPIC_HISTORY, GROUP_TOPIC_ID
from spark.progress.rates import NEGLIGIBLE

PEAK = timedelta(days=7)
"""How far back the largest rate of production is searched: inputs need ``progress.peaks`` of this
time before the window."""

MEMBER = (*GROUP_ID, "client_id")
"""A client of a group in a snapshot."""

CLIENTS, THREADS = "clients", "threads"
"""What the number of queues limits."""


def capacity(
    clients: DataFrame,
    client_topics: DataFrame,
    client_queues: DataFrame,
    groups: DataFrame,
    peaks: DataFrame,
    window: Window,
    machine: Machine | None = None,
    overrides: Sequence[MachineOverride] = (),
) -> DataFrame:
    """Compute ``progress.capacity`` of a window.

    Args:
        clients: ``raw.clients`` of the window.
        client_topics: ``raw.client_topics`` of the window.
        client_queues: ``raw.client_queues`` of the window.
        groups: ``progress.groups`` from the hour on in which the window begins.
        peaks: ``progress.peaks`` of `PEAK` before that hour.
        window: the window to compute.
        machine: what clients run on; without it the best number of threads is unknown.
        overrides: what the clients of some groups run on; the first that matches applies.

    Returns:
        One row per snapshot, group and topic with statistics from a member, with the columns of
        `lake.tables.progress.CAPACITY`.
    """
    members = _members(clients, client_topics.where(inside(window)), client_queues)
    by_topic = members.groupBy(*GROUP_TOPIC_ID).agg(
        F.count(F.lit(1)).cast("int").alias("clients_told"),
        F.sum("threads").alias("threads"),
        F.avg("threads").alias("threads_per_client"),
        F.max("batch_size").alias("batch_size"),
        F.avg(_batch()).alias("batch"),
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
    return (
        by_topic.join(_loads(groups, peaks, window), on=list(GROUP_TOPIC_ID), how="inner")
        .withColumns(_machine(machine or Machine(), overrides))
        .withColumn("wait_share", 1 - F.col("compute_share"))
        .withColumn("best_threads", F.col("cores") / F.col("compute_share"))
        .withColumns(_of_thread())
        .withColumns(_needed())
        .withColumn("drain_by_clients", _drain_by_clients())
        .select(*progress.CAPACITY.column_names)
    )


def _machine(machine: Machine, overrides: Sequence[MachineOverride]) -> dict[str, Column]:
    """Return ``cores``, and the ``compute_share`` of a listener call, of each group on a topic."""

    def columns(found: Machine) -> tuple[Column, Column]:
        cores = machine.cores if found.cores is None else found.cores
        share = F.lit(found.compute_share).cast("double")
        if found.compute_share is None:
            compute_ms = machine.compute_ms if found.compute_ms is None else found.compute_ms
            share = F.lit(compute_ms).cast("double") / F.col("consume_rt_ms")
        # Of a call that was never measured nothing is known; no call computes longer than it takes.
        share = F.when(share > 1, F.lit(1.0)).otherwise(share)
        return F.lit(cores).cast("double"), F.when(F.col("consume_rt_ms").isNotNull(), share)

    cores, share = columns(machine)
    for override in reversed(overrides):
        is_theirs = matches(override.match)
        own_cores, own_share = columns(override.machine)
        cores = F.when(is_theirs, own_cores).otherwise(cores)
        share = F.when(is_theirs, own_share).otherwise(share)
    return {"cores": cores, "compute_share": share}


def _members(clients: DataFrame, client_topics: DataFrame, client_queues: DataFrame) -> DataFrame:
    """Return one row per snapshot, member and topic that the member reports statistics of."""
    owned = (
        client_queues.where(~F.coalesce("dropped", F.lit(False)))
        .groupBy(*MEMBER, "topic")
        .agg(F.count(F.lit(1)).alias("queues"))
    )
    # Not by locks: a concurrent consumer reports its queues as locked too.
    reported = {
        "threads": F.col("thread_count").cast("bigint"),
        "is_ordered": F.col("consume_orderly"),
        "batch_size": F.col("consume_batch_size"),
    }
    own = clients.select(*MEMBER, *(value.alias(name) for name, value in reported.items()))
    at_once = F.when(
        F.col("is_ordered") & (F.col("queues") < F.col("threads")), F.col("queues")
    ).otherwise(F.col("threads"))
    took_time = F.when(F.col("consume_rt_ms") > 0, F.col("consume_rt_ms"))
    return (
        client_topics.join(own, on=list(MEMBER), how="left")
        .join(owned, on=[*MEMBER, "topic"], how="left")
        .withColumns(
            {
                # Clients report 0 when they have not called a listener for an hour.
                "consume_rt_ms": took_time,
                "consume_tps": F.col("consume_ok_tps") + F.col("consume_failed_tps"),
                "capacity_tps": at_once.cast("double") * _batch() * 1000 / took_time,
            }
        )
    )


def _batch() -> Column:
    """Return the messages of a full listener call; without a report 1, the default."""
    return F.coalesce("batch_size", F.lit(1))


def _mean(name: str) -> Column:
    return F.try_divide(steady_sum(F.col(name)), F.count(name))


def _evidence() -> Column:
    """Return the report of one member, and its capacity."""
    return F.struct(
        "client_id",
        "threads",
        "queues",
        "consume_tps",
        "consume_rt_ms",
        "capacity_tps",
        "batch_size",
    )


def _loads(groups: DataFrame, peaks: DataFrame, window: Window) -> DataFrame:
    """Return one row per snapshot of the window, group and topic: the load on the group."""
    earlier = peaks.select(
        *GROUP_TOPIC_HISTORY, F.col("peak_at").alias("observed_at"), F.col("peak_tps").alias("rate")
    )
    rates = groups.withColumn("rate", F.col("produce_tps"))
    rate = F.when(F.col("rate").isNotNull(), F.struct("rate", "observed_at"))
    # Filtered messages never reach a client; with an unknown filter, all may.
    share = F.coalesce("match_ratio", F.lit(1.0))
    return (
        rates.unionByName(earlier, allowMissingColumns=True)
        .withColumn("peak", F.max(rate).over(reaching_back(PEAK, *GROUP_TOPIC_HISTORY)))
        .where(inside(window) & F.col("snapshot_id").isNotNull())
        .select(
            *SNAPSHOT,
            "consumer_group",
            "topic",
            "clients",
            "queues",
            (F.col("peak.rate") * share).alias("peak_tps"),
            F.col("peak.observed_at").alias("peak_at"),
            (F.col("produce_tps") * share).alias("load_tps"),
            F.coalesce("filtered_lag", "readable_lag").alias("waiting"),
        )
    )


def _of_thread() -> dict[str, Column]:
    """Return what one thread consumes, and the threads that the peak requires."""
    return {
        "thread_tps": F.col("batch") * 1000.0 / F.col("consume_rt_ms"),
        "threads_needed": F.ceil(
            F.col("peak_tps") * F.col("consume_rt_ms") / (F.col("batch") * 1000.0)
        ).cast("bigint"),
    }


def _needed() -> dict[str, Column]:
    per_client, queues = F.col("capacity_tps_per_client"), F.col("queues")
    by_threads = F.ceil(F.try_divide("threads_needed", F.col("threads_per_client")))
    by_clients = F.ceil(F.try_divide("peak_tps", per_client))
    needed = F.when(F.col("is_ordered"), by_threads).otherwise(by_clients).cast("bigint")
    return {
        "capacity_tps": _capacity_of(F.col("clients")),
        "clients_needed": needed,
        "queues_needed": F.when(F.col("is_ordered"), F.col("threads_needed")).otherwise(needed),
        "queues_limit": F.when(F.col("is_ordered"), THREADS).when(~F.col("is_ordered"), CLIENTS),
        "capacity_limit_tps": _capacity_of(queues),
    }


def _capacity_of(clients: Column) -> Column:
    """Return the messages a second that a number of clients can consume with the queues there are.

    Clients beyond the queues get none; threads of ordered clients beyond the queues have no work.
    """
    queues = F.col("queues")
    useful = F.when(clients > queues, queues).otherwise(clients)
    threads = useful * F.col("threads_per_client")
    busy = F.when(threads > queues, queues).otherwise(threads)
    ordered = busy * F.col("thread_tps")
    return F.when(F.col("is_ordered"), ordered).otherwise(useful * F.col("capacity_tps_per_client"))


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
    capacity_tps = _capacity_of(clients)
    gain = capacity_tps - F.col("load_tps")
    return F.when(F.col("waiting") == 0, F.lit(0.0)).when(
        (gain > 0) & (gain >= capacity_tps * NEGLIGIBLE), F.col("waiting") / gain
    )
