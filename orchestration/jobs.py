"""The jobs, and the schedule that ticks."""

import os
from datetime import UTC, datetime

import dagster as dg

from assets.audit import DATA_DOCS, audit
from assets.collecting import LANDING
from assets.maintenance import MAINTENANCE
from assets.metadata import key_of
from assets.partitions import PENDING, partition_key
from lake.tables import raw
from orchestration.dead_runs import end_dead_runs

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

SCHEDULED = os.environ.get("TIDEMARK_SCHEDULE") == "on"
"""Whether schedules and sensors run from the start (``TIDEMARK_SCHEDULE``)."""

STATUS = dg.DefaultScheduleStatus.RUNNING if SCHEDULED else dg.DefaultScheduleStatus.STOPPED

# Neither with the hour, when a tick begins a new partition of every table.
maintain_every_hour, audit_every_hour = (
    dg.ScheduleDefinition(
        name=f"{job.name}_every_hour",
        job=job,
        cron_schedule=f"{minute} * * * *",
        execution_timezone="UTC",
        default_status=STATUS,
    )
    for job, minute in ((MAINTAIN, 7), (AUDIT, 12))
)


@dg.schedule(job=TICK, cron_schedule="* * * * *", execution_timezone="UTC", default_status=STATUS)
def every_minute(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """A tick every minute, unless the one before is still at it."""
    end_dead_runs(context.instance)
    active = context.instance.get_runs(
        dg.RunsFilter(job_name=TICK.name, statuses=list(ACTIVE)), limit=1
    )
    if active:
        return dg.SkipReason(f"the tick before ({active[0].run_id}) is not done")
    return dg.RunRequest(partition_key=partition_key(datetime.now(UTC)), tags=PENDING)
