"""The sensors: one tells people, one watches that there is something to tell."""

from collections.abc import Mapping
from datetime import UTC, datetime

import dagster as dg

from alerting import watch as pipeline
from alerting.channels import open_channels
from alerting.outbox import deliver
from alerting.silences import SilenceError, silences, withholding
from alerting.store import live_on
from alerting.unwatched import close_unwatched, unwatched
from assets.metadata import key_of
from assets.resources import LakeResource, RulesResource
from lake.tables.alerting import NOTIFICATIONS
from orchestration.dead_runs import end_dead_runs
from orchestration.jobs import AUDIT, MAINTAIN, SCHEDULED, TICK

STATUS = dg.DefaultSensorStatus.RUNNING if SCHEDULED else dg.DefaultSensorStatus.STOPPED

MOST_RUNS = 10
"""So many runs back is looked for the last one that succeeded."""


@dg.sensor(minimum_interval_seconds=15, default_status=STATUS)
def notify(
    context: dg.SensorEvaluationContext, lake: LakeResource, alert_rules: RulesResource
) -> dg.SensorResult:
    """Tells what became of incidents, on every channel.

    A channel that fails is tried again later; what was delivered is not repeated. A digest wakes
    nobody, so it knows no quiet hours.
    """
    channels, problems = open_channels()
    rules, _ = alert_rules.rules()
    try:
        quiet = silences(lake.lake.home)
    except SilenceError as error:
        problems.append(str(error))
        quiet = []
    at_once = [each for each in channels if each.every is None]
    digests = [each for each in channels if each.every]
    delivery = deliver(lake.lake, at_once, withholding(quiet, rules)) | deliver(
        lake.lake, digests, withholding(quiet, ())
    )
    problems += [f"{name}: {why}" for name, why in delivery.failed.items()]
    for problem in problems:
        context.log.warning(problem)
    for notices in delivery.delivered.values():
        for notice in notices:
            context.log.info(notice.line)
    told = f"told {delivery.notices}" + "".join(f"; {problem}" for problem in problems)
    if not delivery.notices:
        return dg.SensorResult(skip_reason=told)
    event = dg.AssetMaterialization(
        key_of(NOTIFICATIONS), metadata={"told": delivery.notices, "failed": len(delivery.failed)}
    )
    return dg.SensorResult(asset_events=[event])


@dg.sensor(minimum_interval_seconds=30, default_status=STATUS)
def watch(
    context: dg.SensorEvaluationContext, lake: LakeResource, alert_rules: RulesResource
) -> dg.SkipReason:
    """Raises incidents when runs fail, snapshots stop coming or expectations break.

    Those of a cluster that was taken out of the settings file are over.
    """
    end_dead_runs(context.instance)
    rules, mistakes = alert_rules.rules()
    now = datetime.now(UTC)
    since = datetime.fromisoformat(context.cursor) if context.cursor else now
    context.update_cursor(since.isoformat())
    gone = unwatched(lake.lake.home, now)
    failed = _failed_runs(context.instance)
    looked = pipeline.look(lake.lake, rules, failed, now, since, gone)
    _, changed = live_on(lake.lake, [looked], rules, all_rules=not mistakes)
    changed += close_unwatched(lake.lake, gone, now)
    wrong = "".join(f"; {mistake}" for mistake in mistakes)
    return dg.SkipReason(f"{len(looked.truths)} found, {changed} incidents changed{wrong}")


def _failed_runs(instance: dg.DagsterInstance) -> Mapping[str, list[str]]:
    """Of every job the runs that failed since the last one that succeeded, the newest first."""
    return {job.name: _failed_of(instance, job.name) for job in (TICK, MAINTAIN, AUDIT)}


def _failed_of(instance: dg.DagsterInstance, job_name: str) -> list[str]:
    over = [
        dg.DagsterRunStatus.SUCCESS,
        dg.DagsterRunStatus.FAILURE,
        dg.DagsterRunStatus.CANCELED,
    ]
    runs = instance.get_runs(dg.RunsFilter(job_name=job_name, statuses=over), limit=MOST_RUNS)
    failed: list[str] = []
    for run in runs:
        if run.status == dg.DagsterRunStatus.SUCCESS:
            break
        if run.status == dg.DagsterRunStatus.FAILURE:
            failed.append(run.run_id)
    return failed
