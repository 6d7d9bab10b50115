"""Knowledge of popped messages: whether they are acknowledged, and how many are in flight.

Offsets of POP show neither. Brokers count both for the last minute, remoting clients report their
unacknowledged messages, and brokers with a Prometheus endpoint report messages in flight.
`tidemark.rocketmq.consume_modes` states how far each of these reports can be trusted.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import (
    GROUP_ID,
    GROUP_TOPIC_ID,
    Added,
    at_least_zero,
    column,
    unknown_of,
    with_new,
    with_replaced,
)
from spark.progress.consume_modes import GRPC_CLIENT_ID, is_any, is_lite
from spark.tuning import small
from tidemark.lake.tables import progress
from tidemark.rocketmq import names
from tidemark.rocketmq.consume_modes import NUMBERS, REPORTS, Certainty, Kind, Number, Witness
from tidemark.rocketmq.names import StatsName


@dataclass(frozen=True)
class Witnesses:
    """The sources of messages in flight besides offsets.

    Attributes:
        metrics: ``raw.broker_metrics``; None where no endpoint was read.
        reports: ``raw.client_queues``; None where no client was requested.
    """

    metrics: DataFrame | None = None
    reports: DataFrame | None = None


NO_WITNESSES = Witnesses()


class Witnessed(Added):
    """Messages in flight of a group on a topic by other reports than offsets."""

    witnessed = column("bigint", "by brokers' endpoints")
    all_endpoints = column("boolean", "the endpoint of every broker of the snapshot responded")
    unacknowledged = column("bigint", "by its members, where all of them reported")


def with_acknowledgements(groups: DataFrame, throughput: DataFrame | None) -> DataFrame:
    """Add ``ack_tps`` and ``acknowledged``, from the brokers' counters of the snapshot's minute.

    Brokers count acknowledgements of lite topics at the topic that these belong to, so its lite
    topics share them.

    Args:
        groups: one row per snapshot, group and topic.
        throughput: ``progress.throughput``; None where there is none.

    Returns:
        The rows with both columns: NULL where no broker counts them, as of groups that pull.
    """
    if throughput is None:
        return with_new(groups, **unknown_of(progress.GROUPS, "ack_tps", "acknowledged"))
    of_minute = throughput.where(F.col("stats_window") == "minute")
    retry = F.concat(F.lit(names.RETRY_PREFIX), F.col("consumer_group"))

    def counted(name: str, column: str) -> Column:
        return F.max(F.when(F.col("stats_name") == name, F.col(column)))

    by_topic = of_minute.groupBy(*GROUP_ID, F.col("topic").alias("counted_at")).agg(
        counted(StatsName.ACKNOWLEDGED, "tps").alias("acks"),
        counted(StatsName.CHECKPOINTS, "tps").alias("checkpoints"),
        counted(StatsName.SERVED, "tps").alias("served"),
    )
    # Brokers count pops of retry topics as checkpoints of the topic itself.
    of_retries = (
        of_minute.where(
            (F.col("stats_name") == StatsName.SERVED)
            & F.col("topic").startswith(retry)
            & (F.col("tps") > 0)
        )
        .groupBy(*GROUP_ID)
        .agg(F.lit(True).alias("served_retries"))
    )
    parent = F.element_at(F.split("topic", r"\$"), 2)
    least = F.greatest(F.col("acks") - F.coalesce("checkpoints", F.lit(0.0)), F.lit(0.0))
    handed_out_none = (F.col("served") == 0) & F.col("served_retries").isNull()
    # Where brokers count no acknowledgements, 0 of them shows nothing.
    uncounted = is_any(
        F.col("consume_kind"),
        lambda kind: NUMBERS[kind][Number.ACK_TPS].certainty is Certainty.UNKNOWN,
    )
    counts = ~F.coalesce(uncounted, F.lit(False))
    is_none = counts & ((F.col("acks") == 0) | ((least == 0) & handed_out_none))
    frame = (
        with_new(
            groups, counted_at=F.when(is_lite(F.col("topic")), parent).otherwise(F.col("topic"))
        )
        .join(small(by_topic), on=[*GROUP_ID, "counted_at"], how="left")
        .join(small(of_retries), on=list(GROUP_ID), how="left")
    )
    return with_new(
        frame,
        ack_tps=F.when(F.col("acks").isNotNull() & (counts | (least > 0)), least),
        acknowledged=F.when(least > 0, F.lit(True)).when(is_none, F.lit(False)),
    )


def with_inflight(
    groups: DataFrame, clients: DataFrame, brokers: DataFrame, witnesses: Witnesses
) -> DataFrame:
    """Fill ``inflight`` of popped messages where a client or a broker reports it.

    Args:
        groups: one row per snapshot, group and topic, with the columns of `group_sums`.
        clients: ``raw.clients`` of the window.
        brokers: ``raw.brokers`` of the window.
        witnesses: the reports of messages in flight.

    Returns:
        The rows with ``inflight``, ``inflight_source`` and ``inflight_witness``.
    """
    rows = _joined(groups, _witnessed_by_endpoints(witnesses.metrics), "witnessed")
    rows = _with_responding_endpoints(rows, brokers, witnesses.metrics)
    rows = _joined(rows, _reported_by_members(witnesses.reports, clients), "unacknowledged")
    members = clients.groupBy(*GROUP_ID).agg(
        F.bool_and(F.col("client_id").rlike(GRPC_CLIENT_ID)).alias("speak_grpc")
    )
    cells = {kind: NUMBERS[kind][Number.INFLIGHT] for kind in Kind}
    by_clients = is_any(F.col("consume_kind"), lambda kind: cells[kind].requests == (REPORTS,))
    by_metrics = is_any(F.col("consume_kind"), lambda kind: cells[kind].metrics) & F.col(
        "speak_grpc"
    )
    reported = F.when(by_clients, Witnessed.unacknowledged)
    # An endpoint counts 0 for remoting members, and for a group whose pops have expired.
    measured = F.when(
        by_metrics & Witnessed.all_endpoints & (Witnessed.witnessed > 0), Witnessed.witnessed
    )
    named = (
        (F.col("inflight"), F.col("inflight_source")),
        (reported, F.lit(Witness.CLIENT_CACHE.value)),
        (measured, F.lit(Witness.BROKER_METRICS.value)),
    )
    witnessed = with_new(
        rows.join(small(members), on=list(GROUP_ID), how="left"),
        inflight_witness=Witnessed.witnessed,
    )
    return with_replaced(
        witnessed,
        inflight=F.coalesce(*(count for count, _ in named)),
        inflight_source=F.coalesce(*(F.when(count.isNotNull(), source) for count, source in named)),
    )


def _joined(groups: DataFrame, frame: DataFrame | None, name: str) -> DataFrame:
    """Join a witness's number by group and topic; without a witness it is NULL."""
    if frame is None:
        return Witnessed.to(groups, **{name: Witnessed.unknown()[name]})
    return groups.join(small(frame), on=list(GROUP_TOPIC_ID), how="left")


def _witnessed_by_endpoints(metrics: DataFrame | None) -> DataFrame | None:
    if metrics is None:
        return None
    counted = F.try_sum(at_least_zero(F.col("inflight")))
    return metrics.groupBy(*GROUP_TOPIC_ID).agg(*Witnessed.named(witnessed=counted))


def _with_responding_endpoints(
    groups: DataFrame, brokers: DataFrame, metrics: DataFrame | None
) -> DataFrame:
    """Add ``all_endpoints``: whether the endpoint of each broker of the snapshot responded.

    The sum of those that responded is no fact where another broker may hold messages in flight.
    """
    if metrics is None:
        return Witnessed.to(groups, all_endpoints=F.lit(False))
    is_responding = metrics.select("snapshot_id", "broker").distinct()
    of_brokers = brokers.select("snapshot_id", "broker").distinct()
    unreachable = of_brokers.join(is_responding, on=["snapshot_id", "broker"], how="left_anti")
    with_unreachable = unreachable.select(
        "snapshot_id", F.lit(True).alias("is_unreachable")
    ).distinct()
    frame = groups.join(small(with_unreachable), on="snapshot_id", how="left")
    return Witnessed.to(frame, all_endpoints=F.col("is_unreachable").isNull())


def _reported_by_members(reports: DataFrame | None, clients: DataFrame) -> DataFrame | None:
    """Return ``unacknowledged`` of groups whose members all reported in the snapshot."""
    if reports is None:
        return None
    popped = reports.where(F.col("popped") & ~F.coalesce("dropped", F.lit(False)))
    online = clients.groupBy(*GROUP_ID).agg(F.count(F.lit(1)).alias("members"))
    return (
        popped.groupBy(*GROUP_TOPIC_ID)
        .agg(
            F.try_sum("cached_messages").alias("counted"),
            F.size(F.collect_set("client_id")).alias("reporting"),
        )
        .join(online, on=list(GROUP_ID))
        .select(
            *GROUP_TOPIC_ID,
            *Witnessed.named(
                unacknowledged=F.when(F.col("reporting") == F.col("members"), F.col("counted"))
            ),
        )
    )
