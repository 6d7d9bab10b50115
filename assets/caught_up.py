"""Materializations in Dagster for hours that a tick computed besides its own hour.

Dagster records a run under the partitions with which it was started, but a tick learns its hours
only by loading. Without these records the other hours would stay missing in Dagster.
"""

from collections.abc import Iterator

import dagster as dg

from assets.partitions import PARTITION, is_tick, partition_key
from lake.run_plan import RunPlan
from lake.window import HOUR, Window, floor_hour


def caught_up(
    context: dg.AssetExecutionContext, plan: RunPlan
) -> Iterator[dg.AssetMaterialization]:
    """Yield a materialization of each table and hour of a tick that is not the tick's own hour.

    An hour counts when the tick computed a snapshot of it.

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
