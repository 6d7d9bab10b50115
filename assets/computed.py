"""The marks of computed snapshots, written by a run's last step so that later ticks skip them."""

import dagster as dg

from assets.caught_up import caught_up
from assets.metadata import written
from assets.run import CurrentRun, Run, window_asset
from lake.history import computed_ids
from lake.tables import alerting, progress, quality

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
    *(progress.CAPACITY, progress.EVENTS, progress.TOPICS),
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
