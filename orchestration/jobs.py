"""The jobs, and the schedule that ticks."""

from datetime import UTC, datetime

import dagster as dg

from assets.maintenance import MAINTENANCE
from assets.metadata import key_of
from assets.partitions import PENDING, partition_key
from assets.quality_audit import DATA_DOCS, audit
from assets.raw import LANDING
from lake.tables import raw
from orchestration.instance.dead_runs import end_dead_runs

ACTIVE = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
)

TICK = dg.define_asset_job(
    "tick",
    selection=dg.AssetSelection.all()
    - dg.AssetSelection.assets(MAINTENANCE, DATA_DOCS)
    - dg.AssetSelection.checks(audit),
    description="Take a snapshot, load it, judge it, compute what is not computed yet, alert.",
    tags={**PENDING, "dagster/max_retries": "1"},
    executor_def=dg.in_process_executor,
)

RECOMPUTE = dg.define_asset_job(
    "recompute",
    selection=dg.AssetSelection.all()
    - dg.AssetSelection.assets(
        LANDING, MAINTENANCE, DATA_DOCS, *(key_of(table) for table in raw.ALL)
    )
    - dg.AssetSelection.checks(audit),
    description="Compute progress.* and alerting.* of whole hours again, in one run.",
    executor_def=dg.in_process_executor,
)

MAINTAIN = dg.define_asset_job(
    "maintain",
    selection=dg.AssetSelection.assets(MAINTENANCE),
    description="Remove what is too old, join small files, forget old states of tables.",
    executor_def=dg.in_process_executor,
)

AUDIT = dg.define_asset_job(
    "audit",
    selection=dg.AssetSelection.checks(audit) | dg.AssetSelection.assets(DATA_DOCS),
    description="Judge all rows of the last hour, and make pages of what was found.",
    executor_def=dg.in_process_executor,
)


def every_minute(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Start a tick, unless the one before still runs."""
    end_dead_runs(context.instance)
    active = context.instance.get_runs(
        dg.RunsFilter(job_name=TICK.name, statuses=list(ACTIVE)), limit=1
    )
    if active:
        return dg.SkipReason(f"the tick before ({active[0].run_id}) is not done")
    return dg.RunRequest(partition_key=partition_key(datetime.now(UTC)), tags=PENDING)


def schedules(*, running: bool) -> list[dg.ScheduleDefinition]:
    """Return the schedules of all jobs that have one.

    Args:
        running: whether they run from the start, without being switched on in the UI.
    """
    status = dg.DefaultScheduleStatus.RUNNING if running else dg.DefaultScheduleStatus.STOPPED
    tick = dg.schedule(
        job=TICK, cron_schedule="* * * * *", execution_timezone="UTC", default_status=status
    )
    return [
        tick(every_minute),
        # Not at the start of an hour, when a tick begins a new partition of every table.
        *(
            dg.ScheduleDefinition(
                name=f"{job.name}_every_hour",
                job=job,
                cron_schedule=f"{minute} * * * *",
                execution_timezone="UTC",
                default_status=status,
            )
            for job, minute in ((MAINTAIN, 7), (AUDIT, 12))
        ),
    ]
