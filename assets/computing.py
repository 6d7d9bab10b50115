"""From ``raw.*`` to ``progress.*`` and ``alerting.*``, one window at a time."""

import dataclasses
from collections.abc import Callable
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame

from assets.frames import (
    clear_window,
    filter_evidence,
    numbers_frame,
    quarantine_frame,
    raw_frames,
    read_fit,
    read_hours,
    read_of,
    read_snapshots,
    silent_frame,
    write_window,
)
from assets.metadata import described, key_of, written
from assets.partitions import BACKFILL, HOURLY
from assets.resources import HealthResource, LakeResource
from lake import history
from lake.catalog import Lake
from lake.schema import Table
from lake.tables import alerting, progress, quality, raw
from lake.window import Window
from spark.delay import timeline
from spark.groups import groups
from spark.health import with_health
from spark.progress import queues
from spark.session import SparkResource


def keys(*tables: Table) -> list[dg.AssetKey]:
    """The asset keys of tables."""
    return [key_of(table) for table in tables]


def asset_of(table: Table, deps: list[dg.AssetKey]) -> Callable[..., dg.AssetsDefinition]:
    """The decorator of an asset that replaces windows of a table."""
    return dg.asset(**described(table), deps=deps, partitions_def=HOURLY, backfill_policy=BACKFILL)


def replace(
    context: dg.AssetExecutionContext,
    lake: LakeResource,
    table: Table,
    compute: Callable[[history.Plan], DataFrame] | None,
    tell: Callable[[Window], dict[str, Any]] = lambda window: {},
) -> dg.MaterializeResult:
    """Replaces the run's window of a table by what `compute` makes of it.

    Args:
        context: of the asset.
        lake: the tables.
        table: the one replaced.
        compute: from the plan of the window to the rows of the table; None where it is known
            without a job that there are none.
        tell: more metadata, asked for when the rows stand.
    """
    plan = lake.plan(context)
    if plan.window.empty:
        context.log.info("nothing is loaded that is not computed yet")
        return dg.MaterializeResult(asset_key=key_of(table), metadata=written(0, plan.window))
    if compute is None:
        rows = clear_window(table, plan.window, lake.lake)
    else:
        rows = write_window(compute(plan), table, plan.window, lake.lake)
    metadata = written(rows, plan.window, **tell(plan.window))
    return dg.MaterializeResult(asset_key=key_of(table), metadata=metadata)


@asset_of(quality.QUARANTINE, deps=keys(*raw.ALL))
def quarantine(
    context: dg.AssetExecutionContext, lake: LakeResource, spark: SparkResource
) -> dg.MaterializeResult:
    """Sets raw rows aside that cannot be measurements; nothing is computed on them."""

    def compute(plan: history.Plan) -> DataFrame:
        return quarantine_frame(spark.session_for(plan.rows), plan)

    return replace(context, lake, quality.QUARANTINE, compute if lake.doubts(context) else None)


decisions = dg.AssetSpec(**described(quality.DECISIONS), deps=[key_of(quality.QUARANTINE)])
"""Not made by runs: people decide, with `tidemark quarantine`."""


@asset_of(progress.TIMELINE, deps=keys(raw.QUEUE_OFFSETS))
def progress_timeline(
    context: dg.AssetExecutionContext, lake: LakeResource, spark: SparkResource
) -> dg.MaterializeResult:
    """Keeps how queues grew, for as long as anybody may ask when a message was stored."""

    def compute(plan: history.Plan) -> DataFrame:
        session = spark.session_for(plan.rows)
        known = read_fit(
            session, raw.QUEUE_OFFSETS, plan, plan.earlier, doubts=lake.doubts(context)
        )
        return timeline(known, plan.window)

    return replace(context, lake, progress.TIMELINE, compute)


@asset_of(
    progress.QUEUES,
    deps=keys(
        raw.SNAPSHOTS, raw.BROKERS, raw.QUEUE_OFFSETS, raw.CONSUMER_OFFSETS, progress.TIMELINE
    ),
)
def progress_queues(
    context: dg.AssetExecutionContext, lake: LakeResource, spark: SparkResource
) -> dg.MaterializeResult:
    """Computes every queue of every group."""

    def compute(plan: history.Plan) -> DataFrame:
        session = spark.session_for(plan.rows)
        measured = (raw.QUEUE_OFFSETS, raw.CONSUMER_OFFSETS)
        frames = raw_frames(session, plan, plan.earlier, fit=measured, doubts=lake.doubts(context))
        before = read_hours(session, progress.TIMELINE, plan.dated)
        return queues(frames, plan.window, timeline=before)

    return replace(context, lake, progress.QUEUES, compute)


@asset_of(
    progress.GROUPS,
    deps=keys(
        progress.QUEUES,
        progress.THROUGHPUT,
        raw.SNAPSHOTS,
        raw.CLIENTS,
        raw.TOPICS,
        raw.QUEUE_TAGS,
        raw.CLIENT_QUEUES,
    ),
)
def progress_groups(
    context: dg.AssetExecutionContext,
    lake: LakeResource,
    spark: SparkResource,
    health: HealthResource,
) -> dg.MaterializeResult:
    """Computes every group on every topic, with what is not known of it and how it is doing."""
    of_some, mistakes = health.thresholds()
    for mistake in mistakes:
        context.log.error(f"left out: {mistake}")

    def compute(plan: history.Plan) -> DataFrame:
        session = spark.session_for(plan.rows)
        last = {hole.last_snapshot_id for hole in plan.silent}
        doubts = lake.doubts(context)
        frames = raw_frames(session, plan, last, fit=[raw.QUEUE_OFFSETS], doubts=doubts)
        if not doubts & {raw.QUEUE_OFFSETS.name, raw.CONSUMER_OFFSETS.name}:
            # Each row of the window is in progress.queues: only what is silent has to be asked.
            of_silent = read_of(session, raw.CONSUMER_OFFSETS, plan, last)
            frames = dataclasses.replace(frames, consumer_offsets=of_silent)
        found = groups(
            read_snapshots(session, progress.QUEUES, plan),
            frames,
            silent_frame(session, plan.silent),
            plan.window,
            filter_evidence(session, lake.lake, plan),
        )
        return with_health(
            found,
            read_of(session, progress.GROUPS, plan, plan.recent),
            read_snapshots(session, progress.QUEUES, plan, plan.recent),
            read_fit(session, raw.CLIENT_QUEUES, plan, plan.recent, doubts=doubts),
            numbers_frame(session, plan.observations),
            plan.window,
            of_some=of_some,
        )

    return replace(context, lake, progress.GROUPS, compute, lambda window: _now(lake.lake, window))


def _now(lake: Lake, window: Window) -> dict[str, Any]:
    """Total lag and worst delay of the window's newest snapshots, for the plots in the UI."""
    columns = ("observed_at", "cluster", "lag", "delay_ms", "complete")
    found = lake.read(progress.GROUPS, window, columns=columns).to_pylist()
    newest: dict[str, Any] = {}
    for row in found:
        newest[row["cluster"]] = max(row["observed_at"], newest.get(row["cluster"], window.start))
    rows = [row for row in found if row["observed_at"] == newest[row["cluster"]]]
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    delays = [row["delay_ms"] for row in rows if row["delay_ms"] is not None]
    return {
        "total_lag": sum(lags) if lags else None,
        "worst_delay_ms": max(delays, default=None),
        "incomplete_groups": sum(not row["complete"] for row in rows),
    }


@asset_of(
    progress.SNAPSHOTS,
    deps=keys(
        alerting.INCIDENTS,
        progress.ASSIGNMENTS,
        progress.IDLE_CLIENTS,
        progress.SUBSCRIPTIONS,
        progress.CAPACITY,
        progress.EVENTS,
    ),
)
def computed(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Marks the window's snapshots as computed; a run that died before this is done again."""
    plan = lake.plan(context)
    rows = [
        {"snapshot_id": look.snapshot_id, "observed_at": look.observed_at, "cluster": look.cluster}
        for look in plan.looks
    ]
    lake.lake.gather(progress.SNAPSHOTS, rows)
    return dg.MaterializeResult(metadata=written(len(rows), plan.window))
