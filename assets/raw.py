"""From brokers to ``raw.*``: take a snapshot, land it, load landed snapshots."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from assets.dagster_names import own_keys
from assets.metadata import EVERY_TICK, OWNERS, code_version, described, key_of, written
from assets.partitions import HOURLY, ON_WINDOWS, is_tick, partition_key
from assets.resources import CollectorResource, LakeResource
from assets.run import CurrentRun
from tidemark.alerting.incidents.repository import groups_with_incidents
from tidemark.collection.snapshots import take_snapshots
from tidemark.lake.clocks import HOUR
from tidemark.lake.landing import SET_ASIDE, land
from tidemark.lake.loading import load
from tidemark.lake.tables import raw
from tidemark.planning.history import pending_after
from tidemark.rocketmq.records import Snapshot

LANDING = dg.AssetKey("landing")


@dg.asset(
    key=LANDING,
    group_name="collect",
    kinds={"rocketmq", "parquet"},
    owners=OWNERS,
    freshness_policy=EVERY_TICK,
    partitions_def=HOURLY,
    code_version=code_version("landing", take_snapshots, land),
)
@own_keys
def landing(
    context: dg.AssetExecutionContext,
    collector: CollectorResource,
    lake: LakeResource,
) -> dg.MaterializeResult:
    """One snapshot of every configured cluster, landed as Parquet files.

    Only the present can be read: brokers have no history. A cluster that cannot be read has a
    ``FAILED`` snapshot; the others are not touched by it.
    """
    _refuse_the_past(context)
    groups = groups_with_incidents(lake.lake)
    report = context.log.info
    snapshots = collector.collect(lake.lake, groups, report, _created_at(context))
    for snapshot in snapshots:
        land(lake.lake.landing, snapshot)
        for problem in snapshot.problems:
            context.log.warning(f"{snapshot.cluster}: {problem.line}")
    return dg.MaterializeResult(metadata=_described(snapshots))


def _described(snapshots: list[Snapshot]) -> dict[str, Any]:
    """Sums that plot, and each snapshot by its cluster."""
    shown = ("snapshot_id", "status", "transport", "duration_ms")
    headers = {snapshot.cluster: snapshot.header() for snapshot in snapshots}
    sums = ("brokers_answered", "brokers_expected", "requests", "bytes")
    return {
        "status": ", ".join(f"{name}: {header['status']}" for name, header in headers.items()),
        **{name: sum(header[name] for header in headers.values()) for name in sums},
        "duration_ms": max((header["duration_ms"] for header in headers.values()), default=0),
        "snapshots": {
            name: {key: header[key] for key in shown} for name, header in headers.items()
        },
        "problems": [
            f"{snapshot.cluster}: {item.endpoint} {item.message}"
            for snapshot in snapshots
            for item in snapshot.problems[:20]
        ],
    }


def _created_at(context: dg.AssetExecutionContext) -> datetime | None:
    """Return when the run was created, before it waited for others; None where that is unknown.

    A retry takes a snapshot in any case: the one before may have been taken and not landed.
    """
    if context.op_execution_context.retry_number:
        return None
    record = context.instance.get_run_record_by_id(context.run_id)
    return record.create_timestamp.astimezone(UTC) if record else None


def _refuse_the_past(context: dg.AssetExecutionContext) -> None:
    now = datetime.now(UTC)
    # A tick may have waited for another run over the end of its hour.
    oldest = now - HOUR if is_tick(context.run.tags) else now
    keys = context.partition_keys
    if keys[0] < partition_key(oldest) or keys[-1] > partition_key(now):
        raise dg.Failure(
            f"brokers cannot report {keys[0]}: they have no history. Materialize the hour "
            f"under way ({partition_key(now)}), or recompute the past from what was landed: "
            "progress.*, alerting.*",
            allow_retries=False,
        )


@dg.multi_asset(
    name="raw",
    specs=[
        dg.AssetSpec(**described(table), code_version=code_version(table, load)).replace_attributes(
            deps=[LANDING]
        )
        for table in raw.ALL
    ],
    **ON_WINDOWS,
)
@own_keys
def raw_tables(
    context: dg.AssetExecutionContext, run: CurrentRun
) -> Iterator[dg.MaterializeResult]:
    """Load every landed snapshot that is not in ``raw.*`` yet, whatever its hour."""
    run.alone()
    loaded = load(run.lake, run.since)
    if loaded.too_old:
        context.log.warning(
            f"{len(loaded.too_old)} landed snapshots are older than what ticks compute, or than "
            f"raw rows of their cluster: {loaded.too_old[0]} and others stay in the landing"
        )
    for snapshot_id, reason, others in _firsts(loaded.set_aside):
        context.log.error(
            f"{snapshot_id} is of a clock that was wrong, as {reason}: it is set aside in "
            f"{run.lake.landing}/{SET_ASIDE} and never loaded{others}"
        )
    if later := pending_after(run.lake, run.plan.window):
        until = f"{run.plan.window.end:%Y-%m-%dT%H:%MZ}"
        context.log.info(
            f"much is not computed yet: this tick computes until {until}, and {later} snapshots "
            "wait for the next ticks"
        )
    for snapshot_id, reason, others in _firsts(loaded.rejected):
        context.log.error(f"{snapshot_id} is kept out: {reason}{others}")
    for table in raw.ALL:
        yield dg.MaterializeResult(
            asset_key=key_of(table),
            metadata=written(
                loaded.rows[table.name],
                run.plan.window,
                snapshots=len(loaded.snapshots),
                rejected=len(loaded.rejected),
                too_old=len(loaded.too_old) or None,
                set_aside=len(loaded.set_aside) or None,
            ),
        )


def _firsts(reasons: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the first snapshot of each cluster with its reason, and how many others there are.

    Thousands of a cluster have one fault, and a line for each would hide all other lines.

    Args:
        reasons: by id of a snapshot, which ends with the cluster after the instant.
    """
    of_cluster: dict[str, list[str]] = defaultdict(list)
    for snapshot_id in reasons:
        of_cluster[snapshot_id.partition("Z-")[2]].append(snapshot_id)
    for first, *more in of_cluster.values():
        others = f"; so are {len(more):,} others of that cluster" if more else ""
        yield first, reasons[first], others
