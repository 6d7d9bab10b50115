"""The marks of computed snapshots, written by a run's last step so that later ticks skip them."""

from collections.abc import Iterator

import dagster as dg

from assets.metadata import written
from assets.partitions import PARTITION, is_tick, partition_key
from assets.run import CurrentRun, Run, window_asset
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.tables import alerting, progress, quality
from tidemark.planning.history import computed_ids
from tidemark.planning.run_plan import RunPlan

COMPUTED = (
    quality.QUARANTINE,
    *(table for table in progress.ALL if table is not progress.SNAPSHOTS),
    alerting.ALERTS,
    alerting.INCIDENTS,
)
"""The tables that hold the numbers of a computed snapshot."""


@window_asset(
    progress.SNAPSHOTS,
    *(alerting.INCIDENTS, progress.ASSIGNMENTS, progress.IDLE_CLIENTS, progress.SUBSCRIPTIONS),
    *(progress.CAPACITY, progress.EVENTS, progress.TOPICS, progress.OBJECTIVES),
)
def computed(context: dg.AssetExecutionContext, run: CurrentRun) -> dg.MaterializeResult:
    """Mark the window's snapshots as computed; the next tick repeats a run that dies before.

    It is the last step, so every other step has computed the marked snapshots. Here Dagster also
    learns the other hours of a tick that caught up. A run without some of these steps marks
    nothing, because no later tick would compute the parts that it left out.
    """
    if lacking := run.lacks(COMPUTED):
        return _nothing_marked(context, run, lacking)
    rows = [
        {
            "snapshot_id": snapshot.snapshot_id,
            "observed_at": snapshot.observed_at,
            "cluster": snapshot.cluster,
        }
        for snapshot in run.plan.snapshots
    ]
    run.lake.upsert(progress.SNAPSHOTS, rows)
    for event in caught_up(context, run.plan):
        context.log_event(event)
    return dg.MaterializeResult(metadata=written(len(rows), run.plan.window))


def _nothing_marked(
    context: dg.AssetExecutionContext, run: Run, lacking: list[str]
) -> dg.MaterializeResult:
    window, ids = run.plan.window, set(run.plan.snapshot_ids)
    marked = ids & computed_ids(run.lake, window)
    pending = len(ids - marked)
    if pending:
        context.log.warning(
            f"{pending} snapshots stay pending, and the next tick computes them: this run computed "
            f"only some tables, without {', '.join(lacking)}"
        )
    return dg.MaterializeResult(metadata=written(len(marked), window, pending=pending))


def caught_up(
    context: dg.AssetExecutionContext, plan: RunPlan
) -> Iterator[dg.AssetMaterialization]:
    """Yield a materialization of each table and hour of a tick that is not the tick's own hour.

    Dagster records a run under the partitions with which it was started, but a tick learns its
    hours only by loading. Without these records the other hours would stay missing in Dagster. An
    hour counts when the tick computed a snapshot of it.

    Args:
        context: of the last step of the run.
        plan: the plan of the run.
    """
    if not is_tick(context.run.tags):
        return
    own = context.run.tags.get(PARTITION)
    hours = sorted({floor_hour(snapshot.observed_at) for snapshot in plan.snapshots})
    layer = context.job_def.asset_layer
    keys = [
        key
        for key in sorted(layer.executable_asset_keys)
        if layer.get(key).partitions_def is not None
    ]
    for hour in hours:
        if (partition := partition_key(hour)) == own:
            continue
        window = Window(max(hour, plan.window.start), min(hour + HOUR, plan.window.end))
        metadata = {
            "window_start": window.start.isoformat(),
            "window_end": window.end.isoformat(),
        }
        for key in keys:
            yield dg.AssetMaterialization(key, partition=partition, metadata=metadata)
