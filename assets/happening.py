"""What happened between observations."""

import dagster as dg
from pyspark.sql import DataFrame

from assets.computing import asset_of, keys, replace
from assets.frames import read_fit, read_snapshots, steps_frame
from assets.resources import LakeResource
from lake import history
from lake.steps import steps
from lake.tables import progress, quality, raw
from spark.events import events
from spark.session import SparkResource


@asset_of(
    progress.EVENTS,
    deps=keys(
        progress.QUEUES,
        progress.GROUPS,
        quality.QUARANTINE,
        raw.SNAPSHOTS,
        raw.CLIENTS,
        raw.BROKERS,
        raw.BROKER_STATS,
    ),
)
def progress_events(
    context: dg.AssetExecutionContext, lake: LakeResource, spark: SparkResource
) -> dg.MaterializeResult:
    """Finds what happened to queues and brokers: each transition once."""

    def compute(plan: history.Plan) -> DataFrame:
        session, doubts = spark.session_for(plan.rows), lake.doubts(context)
        found = steps(lake.lake, plan.window)
        before = {step.previous_snapshot_id for step in found} - set(plan.snapshots)

        return events(
            read_snapshots(session, progress.QUEUES, plan, before),
            read_snapshots(session, progress.GROUPS, plan, before),
            read_fit(session, raw.CLIENTS, plan, before, doubts=doubts),
            read_fit(session, raw.BROKERS, plan, doubts=doubts),
            read_fit(session, raw.BROKER_STATS, plan, doubts=doubts),
            steps_frame(session, found),
        )

    return replace(context, lake, progress.EVENTS, compute)
