"""Capacity of groups, and the clients needed at the peak: ``progress.capacity``.

It follows from reports of members (`GET_CONSUMER_RUNNING_INFO`); only snapshots with reports have
rows. A thread handles one listener call at a time, and a call handles up to
``consumeMessageBatchMaxSize`` messages, so a client handles ``threads x batch size / consume time``
messages a second. That is an upper bound where calls were not full when their time was measured.

A client reports the consumption of its last minute. With few messages the time of a call is random,
and without any it was measured long ago: then capacity is NULL with a `Reason`. The time of calls
is averaged over the reports of `MEASURED`, weighted by consumed messages, so that one minute does
not move the numbers that people plan with.

The number of queues limits the clients of concurrent consumers, because a queue has one owner. It
limits the threads of ordered consumers, because one thread at a time consumes a queue.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import StrEnum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import (
    GROUP_ID,
    GROUP_TOPIC_HISTORY,
    GROUP_TOPIC_ID,
    SNAPSHOT,
    Added,
    column,
    matches,
    reaching_back,
    steady_sum,
    with_new,
    with_replaced,
)
from spark.progress.throughput import NEGLIGIBLE
from spark.tuning import inside
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress
from tidemark.model.health import Health
from tidemark.settings.owners import DEFAULT_SIZING, Machine, MachineOverride, Sizing

PEAK = timedelta(days=7)
"""Time in which the largest rate of production is searched: inputs need ``progress.peaks`` of this
time before the window."""

MEASURED = timedelta(minutes=30)
"""Time in which reports count for the time of a listener call: ``client_topics`` need those of this
time before the window."""

MINUTE = 60
"""Seconds of consumption that a report covers (`ConsumerStatsManager.consumeStatus`)."""

FINEST_MS = 1.0
"""Clients measure a call in whole milliseconds (`System.currentTimeMillis`), so a mean below 1 ms
counts as 1 ms."""


class Reason(StrEnum):
    """Reasons why capacity is NULL."""

    BLOCKED = Health.BLOCKED
    STALLED = Health.STALLED
    STOPPED = Health.STOPPED
    FEW_MESSAGES = "FEW_MESSAGES"
    NO_THREADS = "NO_THREADS"


NOT_CONSUMING = (Reason.BLOCKED, Reason.STALLED, Reason.STOPPED)
"""States of health of groups whose consumption cannot be measured."""

MEMBER = (*GROUP_ID, "client_id")
"""A client of a group in a snapshot."""

CLIENTS, THREADS = "clients", "threads"
"""Values of ``queues_limit``: the number of queues limits clients, or threads."""


class Load(Added):
    """The work that a group has."""

    load_tps = column("double", "messages a second that are produced and pass its filter")
    waiting = column("bigint", "readable messages that pass its filter, where that is known")


class Hardware(Added):
    """The machine of a group's clients."""

    cores = column("double", "processor cores")
    compute_share = column("double", "share of a listener call that computes; NULL when unknown")


class Threads(Added):
    """The work of threads."""

    batch = column("double", "messages of a full listener call, the mean of the members")
    thread_tps = column("double", "messages a second that one thread can handle")
    threads_needed = column("bigint", "threads that the peak requires")


def capacity(
    clients: DataFrame,
    client_topics: DataFrame,
    client_queues: DataFrame,
    groups: DataFrame,
    peaks: DataFrame,
    window: Window,
    machine: Machine | None = None,
    overrides: Sequence[MachineOverride] = (),
    sizing: Sizing = DEFAULT_SIZING,
) -> DataFrame:
    """Compute ``progress.capacity`` of a window.

    Args:
        clients: ``raw.clients`` of the window.
        client_topics: ``raw.client_topics`` of the window and of `MEASURED` before it.
        client_queues: ``raw.client_queues`` of the window.
        groups: ``progress.groups`` from the hour on in which the window begins.
        peaks: ``progress.peaks`` of `PEAK` before that hour.
        window: the window to compute.
        machine: the machine of clients; without it the best number of threads is unknown.
        overrides: the machines of clients of some groups; the first that matches applies.
        sizing: how members are counted.

    Returns:
        One row per snapshot, group and topic with statistics from a member, with the columns of
        `tidemark.lake.tables.progress.CAPACITY`.
    """
    measured = _measured(client_topics).where(inside(window))
    members = _members(clients, measured, client_queues)
    by_topic = members.groupBy(*GROUP_TOPIC_ID).agg(
        F.count(F.lit(1)).cast("int").alias("clients_told"),
        F.sum("threads").alias("threads"),
        F.avg("threads").alias("threads_per_client"),
        F.max("batch_size").alias("batch_size"),
        *Threads.named(batch=F.avg(_batch())),
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
        F.sum("measured_messages").cast("bigint").alias("measured_messages"),
        F.array_sort(F.collect_list(_evidence())).alias("members"),
    )
    return (
        by_topic.join(_loads(groups, peaks, window), on=list(GROUP_TOPIC_ID), how="inner")
        .transform(with_new, reason=_reason(sizing))
        .transform(with_replaced, **_where_measured())
        .transform(with_new, use_limit=F.lit(sizing.most_used))
        .transform(Hardware.to, **_machine(machine or Machine(), overrides))
        .transform(with_new, wait_share=1 - Hardware.compute_share)
        .transform(with_new, best_threads=Hardware.cores / Hardware.compute_share)
        .transform(Threads.to, **_work_of_threads())
        .transform(with_new, **_needed())
        .transform(with_new, needed_drain_seconds=_drain(F.col("clients_needed")))
        .transform(with_new, drain_by_clients=_drain_by_clients())
        .select(*progress.CAPACITY.column_names)
    )


def _machine(machine: Machine, overrides: Sequence[MachineOverride]) -> dict[str, Column]:
    """Return ``cores``, and the ``compute_share`` of a listener call, of each group on a topic."""

    def columns(value: Machine) -> tuple[Column, Column]:
        cores = machine.cores if value.cores is None else value.cores
        share = F.lit(value.compute_share).cast("double")
        if value.compute_share is None:
            compute_ms = machine.compute_ms if value.compute_ms is None else value.compute_ms
            share = F.lit(compute_ms).cast("double") / _call_ms()
        # A call that was never measured has no share. No call computes longer than it takes.
        share = F.when(share > 1, F.lit(1.0)).otherwise(share)
        return F.lit(cores).cast("double"), F.when(F.col("consume_rt_ms").isNotNull(), share)

    cores, share = columns(machine)
    for override in reversed(overrides):
        is_theirs = matches(override.match)
        own_cores, own_share = columns(override.machine)
        cores = F.when(is_theirs, own_cores).otherwise(cores)
        share = F.when(is_theirs, own_share).otherwise(share)
    return {"cores": cores, "compute_share": share}


def _measured(client_topics: DataFrame) -> DataFrame:
    """Return reports with the time of a listener call over those of `MEASURED` up to each.

    A report without consumption repeats a time of the hour before and does not count.

    Returns:
        The rows, with ``consume_rt_ms`` of that time and ``measured_messages``, how many messages
        were consumed in the minutes of these reports.
    """
    consumed = MINUTE * (
        F.coalesce("consume_ok_tps", F.lit(0.0)) + F.coalesce("consume_failed_tps", F.lit(0.0))
    )
    # A negative or absurd number of a client is none.
    is_report = (F.col("consume_rt_ms") >= 0) & (consumed > 0) & (consumed < 1e12)
    weight = F.when(is_report, consumed)
    reports = reaching_back(MEASURED, *GROUP_TOPIC_HISTORY, "client_id")
    collected = F.collect_list(
        F.when(is_report, F.struct(weight.alias("weight"), F.col("consume_rt_ms").alias("rt_ms")))
    )
    with_reports = with_new(client_topics, reports=F.array_sort(collected.over(reports)))

    def total(value: Callable[[Column], Column]) -> Column:
        return F.aggregate("reports", F.lit(0.0), lambda sum, column: sum + value(column))

    messages = total(lambda column: column["weight"])
    time = total(lambda column: column["weight"] * column["rt_ms"])
    return with_new(with_reports, measured_messages=F.round(messages)).transform(
        with_replaced, consume_rt_ms=F.try_divide(time, messages)
    )


def _reason(sizing: Sizing) -> Column:
    """Return why capacity is NULL, NULL where it is known."""
    states = [state.value for state in NOT_CONSUMING]
    is_measured = F.col("measured_messages") >= sizing.fewest_messages
    return (
        F.when(F.col("health").isin(states), F.col("health"))
        .when(~F.coalesce(is_measured, F.lit(False)), Reason.FEW_MESSAGES)
        .when(F.col("threads").isNull(), Reason.NO_THREADS)
    )


def _where_measured() -> dict[str, Column]:
    """Return the measured columns, NULL where a `Reason` speaks against them."""
    is_measured = F.col("reason").isNull() | (F.col("reason") == Reason.NO_THREADS)

    def without_capacity(member: Column) -> Column:
        return member.withField("capacity_tps", F.lit(None).cast("double"))

    return {
        **{
            name: F.when(is_measured, F.col(name))
            for name in ("consume_rt_ms", "capacity_tps_per_client")
        },
        "members": F.when(is_measured, F.col("members")).otherwise(
            F.transform("members", without_capacity)
        ),
    }


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
    return (
        client_topics.join(own, on=list(MEMBER), how="left")
        .join(owned, on=[*MEMBER, "topic"], how="left")
        .transform(
            with_new,
            consume_tps=F.col("consume_ok_tps") + F.col("consume_failed_tps"),
            capacity_tps=at_once.cast("double") * _batch() * 1000 / _call_ms(),
        )
    )


def _call_ms() -> Column:
    """Return the milliseconds that a listener call is planned with."""
    return F.when(F.col("consume_rt_ms").isNotNull(), F.greatest("consume_rt_ms", F.lit(FINEST_MS)))


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
    rates = with_new(groups, rate=F.col("produce_tps"))
    rate = F.when(F.col("rate").isNotNull(), F.struct("rate", "observed_at"))
    # Filtered messages never reach a client; with an unknown filter, all may.
    share = F.coalesce("match_ratio", F.lit(1.0))
    return (
        rates.unionByName(earlier, allowMissingColumns=True)
        .transform(with_new, peak=F.max(rate).over(reaching_back(PEAK, *GROUP_TOPIC_HISTORY)))
        .where(inside(window) & F.col("snapshot_id").isNotNull())
        .select(
            *SNAPSHOT,
            "consumer_group",
            "topic",
            "clients",
            "queues",
            "health",
            (F.col("peak.rate") * share).alias("peak_tps"),
            F.col("peak.observed_at").alias("peak_at"),
            *Load.named(
                load_tps=F.col("produce_tps") * share,
                waiting=F.coalesce("filtered_lag", "readable_lag"),
            ),
        )
    )


def _work_of_threads() -> dict[str, Column]:
    """Return the rate of one thread, and the threads that the peak requires."""
    thread_tps = Threads.batch * 1000.0 / _call_ms()
    busy = F.col("peak_tps") * _call_ms() / (Threads.batch * 1000.0)
    return {
        "thread_tps": thread_tps,
        "threads_needed": F.ceil(F.try_divide(busy, "use_limit")).cast("bigint"),
    }


def _needed() -> dict[str, Column]:
    per_client, queues = F.col("capacity_tps_per_client"), F.col("queues")
    by_threads = F.ceil(F.try_divide(Threads.threads_needed, F.col("threads_per_client")))
    by_clients = F.ceil(F.try_divide("peak_tps", per_client * F.col("use_limit")))
    needed = F.when(F.col("is_ordered"), by_threads).otherwise(by_clients).cast("bigint")
    return {
        "capacity_tps": _capacity_of(F.col("clients")),
        "clients_needed": needed,
        "queues_needed": F.when(F.col("is_ordered"), Threads.threads_needed).otherwise(needed),
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
    ordered = busy * Threads.thread_tps
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
    """Return the seconds to drain; NULL while messages expire, because a queue is not consumed."""
    capacity_tps = _capacity_of(clients)
    gain = capacity_tps - Load.load_tps
    drains = (
        (gain > 0)
        & (gain >= capacity_tps * NEGLIGIBLE)
        & ~F.col("health").eqNullSafe(Health.LOSING)
    )
    return F.when(Load.waiting == 0, F.lit(0.0)).when(drains, Load.waiting / gain)
