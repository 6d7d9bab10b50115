"""What members told of themselves: who holds which queue, and whether all ask for the same."""

from collections.abc import Callable, Collection, Iterator

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from assets.computing import keys, replace
from assets.frames import has_rows, read_fit, read_snapshots
from assets.metadata import described
from assets.partitions import BACKFILL, HOURLY
from assets.resources import LakeResource
from lake import history
from lake.catalog import Lake, all_of, one_of, window_filter
from lake.schema import Table
from lake.tables import progress, raw
from lake.window import Window
from spark.assignment import HISTORY, assignments, idle_clients
from spark.session import SparkResource
from spark.subscriptions import subscriptions


@dg.multi_asset(
    name="members",
    specs=[
        dg.AssetSpec(
            **described(progress.ASSIGNMENTS),
            deps=keys(raw.CLIENTS, raw.CLIENT_QUEUES, raw.TOPICS),
        ),
        dg.AssetSpec(
            **described(progress.IDLE_CLIENTS), deps=keys(progress.ASSIGNMENTS, raw.CLIENTS)
        ),
        dg.AssetSpec(**described(progress.SUBSCRIPTIONS), deps=keys(raw.CLIENTS)),
    ],
    partitions_def=HOURLY,
    backfill_policy=BACKFILL,
)
def members(
    context: dg.AssetExecutionContext, lake: LakeResource, spark: SparkResource
) -> Iterator[dg.MaterializeResult]:
    """Computes what only members themselves can tell; a window in which none did costs no job."""
    plan = lake.plan(context)
    compute: dict[Table, Callable[[history.Plan], DataFrame]] = {}
    if _told(lake.lake, plan.window):
        compute = _computed(lake.lake, plan, spark.session_for(plan.rows), lake.doubts(context))
    for table in (progress.ASSIGNMENTS, progress.IDLE_CLIENTS, progress.SUBSCRIPTIONS):
        yield replace(context, lake, table, compute.get(table))


def _computed(
    lake: Lake, plan: history.Plan, session: SparkSession, doubts: Collection[str]
) -> dict[Table, Callable[[history.Plan], DataFrame]]:
    window = plan.window
    before = history.looks(lake, Window(window.start - HISTORY, window.start))
    clients = read_fit(session, raw.CLIENTS, plan, doubts=doubts)
    held = read_fit(
        session, raw.CLIENT_QUEUES, plan, [look.snapshot_id for look in before], doubts=doubts
    )
    topics = read_fit(session, raw.TOPICS, plan, doubts=doubts)
    return {
        progress.ASSIGNMENTS: lambda _: assignments(clients, held, topics, window),
        progress.IDLE_CLIENTS: lambda _: idle_clients(
            read_snapshots(session, progress.ASSIGNMENTS, plan), clients, window
        ),
        progress.SUBSCRIPTIONS: lambda _: subscriptions(clients, window),
    }


def _told(lake: Lake, window: Window) -> bool:
    """Whether a member told anything in the window."""
    by_client = one_of("subscriptions_source", ["client"])
    where = all_of(window_filter(raw.CLIENTS, window), by_client)
    told = lake.read(raw.CLIENTS, where, columns=("snapshot_id",), limit=1).num_rows > 0
    return told or has_rows(lake, raw.CLIENT_QUEUES, window)
