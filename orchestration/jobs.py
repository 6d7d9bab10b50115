"""The jobs, and the schedules that start them.

Runs that change tables follow each other by a lease. Collecting needs no lease of a run: a tick
collects before it requests that, and while no tick can begin, `COLLECT` does it in its place.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from assets.dagster_names import JOB_TAG, OF_TIDEMARK, PROCESS_TAG, job_tags, own_keys, process_of
from assets.maintenance import MAINTENANCE
from assets.metadata import key_of
from assets.partitions import PENDING, partition_key, run_hours
from assets.quality import audit
from assets.raw import LANDING
from assets.resources import LakeResource, RulesResource
from orchestration.instance.runs import end_dead_runs, is_dead
from tidemark.alerting.delivery.receivers import open_channels
from tidemark.alerting.delivery.reports import deliver_reports, due_reports
from tidemark.alerting.weekly_report import weekly_report
from tidemark.lake.tables import raw
from tidemark.settings.sections import NotificationSettings

BEFORE_BACKFILLS = {"dagster/priority": "1"}
"""Tags of a run that leaves Dagster's queue before the parts of a backfill, which have 0."""

EVERYTHING = dg.AssetSelection.all()

ScheduleFunction = Callable[[dg.ScheduleEvaluationContext], dg.RunRequest | dg.SkipReason]

ACTIVE = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)

ENDED = (
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
)

TICK_MAY_TAKE = timedelta(minutes=30)
"""Time for which a tick may keep snapshots waiting without an alert, as after a backfill."""

TICK_BEGINS_WITHIN = timedelta(minutes=3)
"""The schedule has the next tick within a minute; the rest is for a machine under load."""

INTERRUPTS = (KeyboardInterrupt, dg.DagsterExecutionInterruptedError)


class UnlessInterrupted(dg.RetryPolicy):
    """A retry policy that repeats a failed step, but no step that a person has interrupted.

    Dagster's own policy repeats those too, so a run that is terminated in the UI would continue and
    succeed.
    """

    def calculate_delay(self, attempt_num: int) -> float:
        """Return the seconds until the next attempt.

        Raises:
            KeyboardInterrupt: the error under way, where it is an interrupt.
            DagsterExecutionInterruptedError: likewise.
        """
        if isinstance(interrupt := sys.exception(), INTERRUPTS):
            raise interrupt
        return super().calculate_delay(attempt_num)


RETRY = UnlessInterrupted(max_retries=1, delay=2)
"""Retries of a tick's steps: a server may be restarting, or another writer committed first."""


def _job(
    prefix: str,
    name: str,
    description: str,
    selection: dg.AssetSelection,
    tags: Mapping[str, str] | None = None,
    **more: Any,
) -> Any:
    return dg.define_asset_job(
        prefix + name,
        selection=selection,
        description=description,
        executor_def=dg.in_process_executor,
        # From the start, so that a run which never begins is known by it too.
        tags={**job_tags(name), **(tags or {})},
        **more,
    )


def jobs_with(
    audit: dg.AssetChecksDefinition,
    rows: dg.AssetSelection = EVERYTHING,
    prefix: str = "",
) -> list[Any]:
    """Return all jobs, in the order tick, collect, recompute, maintain, audit.

    Args:
        audit: the checks of the hourly audit, of our expectations and those that people bring.
        rows: all assets of Tidemark, with their checks.
        prefix: of their names; runs name their job in a tag too, without it.
    """
    rows = rows - dg.AssetSelection.checks(audit)
    every_tick = rows - dg.AssetSelection.assets(MAINTENANCE)
    raw_keys = [LANDING, *(key_of(table) for table in raw.ALL)]
    return [
        _job(
            prefix,
            "tick",
            "Take a snapshot, load it, validate it, compute what is not computed yet, alert.",
            every_tick,
            tags=PENDING | BEFORE_BACKFILLS,
            op_retry_policy=RETRY,
        ),
        _job(
            prefix,
            "collect",
            "Take a snapshot and land it, while other runs keep ticks waiting.",
            dg.AssetSelection.assets(LANDING),
        ),
        _job(
            prefix,
            "recompute",
            "Compute progress.* and alerting.* of whole hours again, in one run.",
            every_tick - dg.AssetSelection.assets(*raw_keys),
        ),
        _job(
            prefix,
            "maintain",
            "Remove what is too old, join small files, forget old states of tables.",
            dg.AssetSelection.assets(MAINTENANCE),
        ),
        _job(
            prefix,
            "audit",
            "Validate all rows of the last hour, and make pages of what was found.",
            dg.AssetSelection.checks(audit),
        ),
    ]


TICK, COLLECT, RECOMPUTE, MAINTAIN, AUDIT = jobs_with(audit)


REPORT = "report"
"""Name of the job that sends weekly reports; it reads tables and changes none."""

NEVER_IN_THE_WAY = (COLLECT.name, REPORT)
"""Names of jobs that no tick waits for."""


def report_job(prefix: str = "") -> dg.JobDefinition:
    """Return the job that sends the weekly reports that are due.

    Args:
        prefix: of its name.
    """

    @dg.op(name=f"{prefix}send_reports")
    @own_keys
    def send_reports(
        context: dg.OpExecutionContext,
        lake: LakeResource,
        alert_rules: RulesResource,
        notification_settings: dg.ResourceParam[NotificationSettings],
    ) -> None:
        """Compute the reports that are due, and send them on the channels of their receivers.

        A channel that fails is tried again later, by another run.
        """
        declared, now = alert_rules.rule_set(), datetime.now(UTC)
        channels, problems = open_channels(notification_settings, declared.report_receivers)
        owners, wrong = alert_rules.owners()
        problems += wrong + deliver_reports(
            lake.lake.shared,
            declared.reports,
            channels,
            lambda week, team: weekly_report(lake.lake, week, now, owners, team),
            now,
        )
        for problem in problems:
            context.log.warning(problem)

    @dg.job(
        name=prefix + REPORT,
        executor_def=dg.in_process_executor,
        tags=job_tags(REPORT),
        description="Send the weekly reports that are due.",
    )
    def report() -> None:
        send_reports()

    return report


def when_due(
    context: dg.ScheduleEvaluationContext, lake: LakeResource, alert_rules: RulesResource
) -> dg.RunRequest | dg.SkipReason:
    """Start the job of reports where one is due, unless the run before still sends."""
    end_dead_runs(context.instance)
    if any(job_of(run) == REPORT for run in runs_under_way(context.instance)):
        return dg.SkipReason("the run before is not done")
    due = due_reports(lake.lake.shared.state, alert_rules.rule_set().reports, datetime.now(UTC))
    return dg.RunRequest() if due else dg.SkipReason("no report is due")


def every_minute(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Start a tick, unless the one before still runs.

    While hours are computed again it waits, and has its turn after the part under way.
    """
    end_dead_runs(context.instance)
    for run in runs_under_way(context.instance):
        if job_of(run) == TICK.name:
            return dg.SkipReason(f"the tick before ({run.run_id}) is not done")
    return _now(PENDING)


def meanwhile(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Collect in place of the tick that cannot start, or that waits for another run."""
    minute = context.scheduled_execution_time.timestamp()
    records = [it for it in _records(context.instance) if job_of(it.dagster_run) != REPORT]
    if any(job_of(record.dagster_run) == COLLECT.name for record in records):
        return dg.SkipReason("the run before is not done")
    # A tick of this minute collects by itself.
    if any(record.create_timestamp.timestamp() < minute for record in records):
        return _now()
    return dg.SkipReason("the tick collects")


def hourly_unless_recomputing(job: str) -> ScheduleFunction:
    """Return a schedule's function that starts a job, unless a backfill would keep it waiting."""

    def start(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        return _recomputing(runs_under_way(context.instance)) or dg.RunRequest()

    start.__doc__ = f"Start the job {job}, unless hours are computed again."
    return start


def runs_under_way(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """Return the runs of Tidemark that have not ended; Dagster may have others."""
    return [record.dagster_run for record in _records(instance)]


def job_of(run: dg.DagsterRun) -> str | None:
    """Return the name of the job of a run of Tidemark; None for assets that a person selected."""
    return run.tags.get(JOB_TAG)


def is_recomputation(run: dg.DagsterRun) -> bool:
    """Return whether a run computes given hours: a person started it, and it may take long."""
    return run_hours(run.tags) > 0 and job_of(run) != COLLECT.name


def is_at_work(instance: dg.DagsterInstance, now: datetime) -> bool:
    """Return whether landed snapshots wait for a running run, for no longer than they may.

    A tick may keep them waiting for `TICK_MAY_TAKE`. Any other run may keep them waiting for as
    long as it runs, and until a tick has had the time to begin after it.
    """
    for record in _records(instance):
        run, start = record.dagster_run, record.start_time
        if process_of(run.run_id, run.tags) and not is_dead(run) and start:
            is_young = now.timestamp() - start < TICK_MAY_TAKE.total_seconds()
            if job_of(run) not in NEVER_IN_THE_WAY and (is_young or job_of(run) != TICK.name):
                return True
    ended = dg.RunsFilter(statuses=list(ENDED), updated_after=now - TICK_BEGINS_WITHIN)
    return any(
        job_of(run) not in (TICK.name, *NEVER_IN_THE_WAY) and PROCESS_TAG in run.tags
        for run in instance.get_runs(ended)
    )


def last_tick_took(instance: dg.DagsterInstance) -> timedelta:
    """Return how long the last tick that succeeded took, at most `TICK_MAY_TAKE`; 0 without one."""
    succeeded = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS], tags=job_tags(TICK.name))
    for record in instance.get_run_records(succeeded, limit=1):
        if record.start_time and record.end_time:
            return min(timedelta(seconds=record.end_time - record.start_time), TICK_MAY_TAKE)
    return timedelta(0)


def _records(instance: dg.DagsterInstance) -> list[dg.RunRecord]:
    # Not by name: other pipelines of the same Dagster may have a job "collect" too.
    ours = dg.RunsFilter(statuses=list(ACTIVE), tags=OF_TIDEMARK)
    return list(instance.get_run_records(ours))


def _recomputing(under_way: Sequence[dg.DagsterRun]) -> dg.SkipReason | None:
    for run in under_way:
        if is_recomputation(run):
            return dg.SkipReason(f"run {run.run_id} computes hours again")
    return None


def _now(tags: Mapping[str, str] | None = None) -> dg.RunRequest:
    return dg.RunRequest(partition_key=partition_key(datetime.now(UTC)), tags=tags)


def schedules(*, running: bool, prefix: str = "") -> list[dg.ScheduleDefinition]:
    """Return the schedules of all jobs that have one.

    Args:
        prefix: of the names of jobs and schedules.
        running: whether they run from the start, without being switched on in the UI.
    """
    status = dg.DefaultScheduleStatus.RUNNING if running else dg.DefaultScheduleStatus.STOPPED

    def schedule(
        job: Any, cron: str, start: ScheduleFunction, name: str | None = None
    ) -> dg.ScheduleDefinition:
        return dg.schedule(
            name=f"{prefix}{name or start.__name__}",
            job_name=prefix + job.name,
            cron_schedule=cron,
            execution_timezone="UTC",
            default_status=status,
        )(start)

    return [
        schedule(TICK, "* * * * *", every_minute),
        schedule(COLLECT, "* * * * *", meanwhile, "collect_meanwhile"),
        # Not at the start of an hour, when a tick begins a new partition of every table.
        *(
            schedule(
                job,
                f"{minute} * * * *",
                hourly_unless_recomputing(job.name),
                f"{job.name}_every_hour",
            )
            for job, minute in ((MAINTAIN, 7), (AUDIT, 12))
        ),
        dg.schedule(
            name=f"{prefix}report_when_due",
            job_name=prefix + REPORT,
            cron_schedule="*/5 * * * *",
            execution_timezone="UTC",
            default_status=status,
        )(own_keys(when_due)),
    ]
