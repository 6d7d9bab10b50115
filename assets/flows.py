"""How fast messages come and go, and how many clients that takes: computed where deep looks told.

Most windows of a tick hold no deep look; they cost a look at an empty table each, and no job.
"""

from dataclasses import astuple

import dagster as dg
from pyspark.sql import DataFrame

from assets.computing import asset_of, keys, replace
from assets.frames import has_rows, read_fit, read_snapshots, read_window
from assets.resources import ClientMachineResource, LakeResource
from lake import counters, history
from lake.tables import progress, raw
from lake.window import Window
from spark.capacity import PEAK, capacity
from spark.session import SparkResource
from spark.throughput import throughput

STARTS = (
    "snapshot_id string, broker string, stats_window string, before_id string, "
    "after_id string, share double"
)


@asset_of(
    progress.THROUGHPUT,
    deps=keys(raw.SNAPSHOTS, raw.BROKER_STATS, raw.QUEUE_OFFSETS, progress.QUEUES),
)
def progress_throughput(
    context: dg.AssetExecutionContext, lake: LakeResource, spark: SparkResource
) -> dg.MaterializeResult:
    """Adds up what replicas counted, beside the rate that our own offsets give."""

    def compute(plan: history.Plan) -> DataFrame:
        session, doubts = spark.session_for(plan.rows), lake.doubts(context)
        starts = counters.starts(lake.lake, plan.window)
        earlier = {name for start in starts for name in (start.before_id, start.after_id) if name}
        return throughput(
            read_fit(session, raw.BROKER_STATS, plan, doubts=doubts),
            read_fit(session, raw.QUEUE_OFFSETS, plan, earlier, doubts=doubts),
            read_snapshots(session, progress.QUEUES, plan, earlier),
            session.createDataFrame([astuple(start) for start in starts], STARTS),
            plan.window,
        )

    told = has_rows(lake.lake, raw.BROKER_STATS, lake.plan(context).window)
    return replace(context, lake, progress.THROUGHPUT, compute if told else None)


@asset_of(
    progress.CAPACITY,
    deps=keys(raw.CLIENTS, raw.CLIENT_TOPICS, raw.CLIENT_QUEUES, progress.GROUPS),
)
def progress_capacity(
    context: dg.AssetExecutionContext,
    lake: LakeResource,
    spark: SparkResource,
    client_machine: ClientMachineResource,
) -> dg.MaterializeResult:
    """Computes what the members of a group could carry, and how many the peak takes."""

    def compute(plan: history.Plan) -> DataFrame:
        session, doubts = spark.session_for(plan.rows), lake.doubts(context)
        reach = Window(plan.window.start - PEAK, plan.window.end)
        return capacity(
            read_fit(session, raw.CLIENTS, plan, doubts=doubts),
            read_fit(session, raw.CLIENT_TOPICS, plan, doubts=doubts),
            read_fit(session, raw.CLIENT_QUEUES, plan, doubts=doubts),
            read_window(session, progress.GROUPS, reach),
            plan.window,
            client_machine.machine(),
        )

    told = has_rows(lake.lake, raw.CLIENT_TOPICS, lake.plan(context).window)
    return replace(context, lake, progress.CAPACITY, compute if told else None)
