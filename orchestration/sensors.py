"""The sensors: `notify` delivers, `watch` checks Tidemark's own work, `tidy` removes old runs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

import dagster as dg

from assets.dagster_names import job_tags, own_keys
from assets.metadata import key_of
from assets.resources import (
    CollectorResource,
    LakeResource,
    ObjectivesResource,
    QualityResource,
    RulesResource,
)
from orchestration.instance.runs import RunHistory, end_dead_runs, forget_runs, rotate_logs, shrink
from orchestration.jobs import AUDIT, MAINTAIN, TICK, is_at_work, last_tick_took
from tidemark.alerting.delivery.http_channels import heartbeat
from tidemark.alerting.delivery.notification_log import OpenNotifications
from tidemark.alerting.delivery.outbox import Delivery, deliver
from tidemark.alerting.delivery.receivers import open_channels
from tidemark.alerting.delivery.silences import SilenceError, mutes, silences
from tidemark.alerting.incidents import self_monitoring as pipeline
from tidemark.alerting.incidents.repository import (
    EXPECTATION_REMOVED,
    OBJECTIVE_REMOVED,
    advance_incidents,
    close_removed,
    close_undeclared,
    removed_clusters,
    without_objective,
    without_result,
)
from tidemark.alerting.rules.files import RuleSet
from tidemark.lake.catalog import Lake
from tidemark.lake.tables.alerting import NOTIFICATIONS
from tidemark.settings.owners import Owners
from tidemark.settings.sections import NotificationSettings
from tidemark.settings.times import utc_instant

MOST_RUNS = 10
"""Runs that are searched at most for the last success."""


MOST_FORGOTTEN = 60
"""Runs removed at a time; a backlog of a month is removed within a day."""


def sensors(*, running: bool, prefix: str = "") -> list[dg.SensorDefinition]:
    """Return the sensors `notify`, `watch` and `tidy`.

    Args:
        prefix: of their names.
        running: whether they run from the start, without being switched on in the UI.
    """
    status = dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED
    open_notifications = OpenNotifications()

    @dg.sensor(name=f"{prefix}notify", minimum_interval_seconds=15, default_status=status)
    @own_keys
    def notify(
        context: dg.SensorEvaluationContext,
        lake: LakeResource,
        alert_rules: RulesResource,
        notification_settings: dg.ResourceParam[NotificationSettings],
    ) -> dg.SensorResult:
        """Deliver the notifications that are due on every channel.

        A channel that fails is retried later, and nothing that it accepted is repeated. Quiet hours
        do not apply to digests.
        """
        declared = alert_rules.rule_set()
        beat_of_ticks(context, notification_settings.heartbeat_url, context.log.warning)
        return _notify(
            context,
            lake.lake,
            declared,
            notification_settings,
            open_notifications,
            alert_rules.owners(),
        )

    return [
        notify,
        *(
            dg.sensor(
                name=prefix + body.__name__,
                minimum_interval_seconds=seconds,
                default_status=status,
            )(own_keys(body))
            for body, seconds in ((watch, 30), (tidy, 60))
        ),
    ]


def tidy(
    context: dg.SensorEvaluationContext,
    lake: LakeResource,
    run_history: dg.ResourceParam[RunHistory],
) -> dg.SkipReason:
    """Remove Dagster's old runs, shrink emptied databases, and rotate logs."""
    home, before = lake.lake.home, datetime.now(UTC) - run_history.age
    forgotten = forget_runs(context.instance, before, MOST_FORGOTTEN)
    done = [*shrink(home), *rotate_logs(home)]
    named = "".join(f"; {path.name} is made smaller" for path in done)
    return dg.SkipReason(f"{forgotten} runs forgotten{named}")


def _notify(
    context: dg.SensorEvaluationContext,
    lake: Lake,
    declared: RuleSet,
    notification_settings: NotificationSettings,
    open_notifications: OpenNotifications,
    owners: tuple[Owners, list[str]],
) -> dg.SensorResult:
    """Deliver due notifications.

    Args:
        context: of the evaluation, for its log.
        lake: the tables.
        declared: the present rules, for their quiet hours, and routes.
        notification_settings: the addresses of channels.
        open_notifications: kept between evaluations, so that an idle one does not read a whole
            table.
        owners: the teams of groups, and the mistakes of their file.
    """
    with sign_of_life(notification_settings.heartbeat_url) as problems:
        problems += owners[1]
        delivery = _delivered(
            lake, declared, notification_settings, open_notifications, owners[0], problems
        )
    for problem in problems:
        context.log.warning(problem)
    for notifications in delivery.delivered.values():
        for notification in notifications:
            context.log.info(notification.line)
    if not delivery.notifications:
        return dg.SensorResult(skip_reason="; ".join(["delivered 0", *problems]))
    event = dg.AssetMaterialization(
        key_of(NOTIFICATIONS),
        metadata={"delivered": delivery.notifications, "failed": len(delivery.failed)},
    )
    return dg.SensorResult(asset_events=[event])


def _delivered(
    lake: Lake,
    declared: RuleSet,
    notification_settings: NotificationSettings,
    open_notifications: OpenNotifications,
    owners: Owners,
    problems: list[str],
) -> Delivery:
    """Deliver on every channel; a line is added to the problems for each thing that is wrong."""
    routing = declared.routing
    channels, mistakes = open_channels(notification_settings, routing.used_receivers)
    problems += mistakes
    if routing.broadcasts:
        # A file that cannot be read may be the one with the routes.
        problems += declared.mistakes
    try:
        in_force = silences(lake.shared.state)
    except SilenceError as error:
        problems.append(str(error))
        in_force = []
    at_once = [channel for channel in channels if channel.every is None]
    digests = [channel for channel in channels if channel.every]
    delivery = Delivery()
    for some, muting_rules in ((at_once, declared.rules), (digests, ())):
        delivery |= deliver(
            lake,
            some,
            mutes(in_force, muting_rules),
            open_notifications=open_notifications,
            routing=routing,
            owners=owners,
        )
    problems += [f"{name}: {why}" for name, why in delivery.failed.items()]
    return delivery


def watch(
    context: dg.SensorEvaluationContext,
    lake: LakeResource,
    alert_rules: RulesResource,
    collector: CollectorResource,
    quality_settings: QualityResource,
    objectives: ObjectivesResource,
) -> dg.SkipReason:
    """Advance incidents about failed runs, late snapshots and failed expectations.

    Also closes the incidents of clusters that were removed from the settings file, of expectations
    that are no longer declared, and of groups without an objective. A file of objectives with a
    mistake closes none.
    """
    end_dead_runs(context.instance)
    declared = alert_rules.rule_set()
    rules, mistakes = declared.rules, declared.mistakes
    now = datetime.now(UTC)
    since = _first_evaluation(context.cursor, now)
    context.update_cursor(since.isoformat())
    gone = removed_clusters(lake.lake, now, collector.clusters)
    failed, without_success = _failed_runs(context.instance)
    at_work = is_at_work(context.instance, now)
    evaluation = pipeline.check_pipeline(
        lake.lake,
        rules,
        failed,
        now,
        since,
        gone,
        at_work=at_work,
        tick_took=last_tick_took(context.instance),
        without_success=without_success,
    )
    incidents, changed = advance_incidents(
        lake.lake,
        [evaluation],
        rules,
        all_rules=not declared.rule_mistakes,
        inhibitions=declared.inhibitions,
    )
    changed += close_removed(lake.lake, gone, now)
    unvalidated = without_result(incidents, evaluation)
    undeclared = unvalidated.keys() - quality_settings.declared(unvalidated)
    changed += close_undeclared(
        lake.lake,
        [one for key in undeclared for one in unvalidated[key]],
        now,
        EXPECTATION_REMOVED,
    )
    promised, wrong_objectives = objectives.declared()
    if not wrong_objectives:
        changed += close_undeclared(
            lake.lake, without_objective(incidents, promised), now, OBJECTIVE_REMOVED
        )
    wrong = "".join(f"; {mistake}" for mistake in mistakes)
    return dg.SkipReason(f"{len(evaluation.alerts)} found, {changed} incidents changed{wrong}")


def _first_evaluation(cursor: str | None, now: datetime) -> datetime:
    """Return the instant that the cursor holds; now without one, or where a person broke it."""
    try:
        return min(utc_instant(cursor or ""), now)
    except (ValueError, OverflowError):
        return now


def _failed_runs(instance: dg.DagsterInstance) -> tuple[Mapping[str, list[str]], set[str]]:
    """Return the runs of every job that failed since its last success, the newest first.

    Also return the jobs without a success among their last runs, as Dagster's history may be
    incomplete.
    """
    values = {job.name: _failed_of(instance, job.name) for job in (TICK, MAINTAIN, AUDIT)}
    without_success = {name for name, (_, has_success) in values.items() if not has_success}
    return {name: failed for name, (failed, _) in values.items()}, without_success


def _failed_of(instance: dg.DagsterInstance, job_name: str) -> tuple[list[str], bool]:
    """Return the runs of a job that failed since its last success, and whether there is one."""
    over = [
        dg.DagsterRunStatus.SUCCESS,
        dg.DagsterRunStatus.FAILURE,
        dg.DagsterRunStatus.CANCELED,
    ]
    ours = dg.RunsFilter(statuses=over, tags=job_tags(job_name))
    runs = instance.get_runs(ours, limit=MOST_RUNS)
    failed: list[str] = []
    for run in runs:
        if run.status == dg.DagsterRunStatus.SUCCESS:
            return failed, True
        if run.status == dg.DagsterRunStatus.FAILURE:
            failed.append(run.run_id)
    return failed, False


@contextmanager
def sign_of_life(url: str) -> Iterator[list[str]]:
    """Send a heartbeat after a delivery; it failed where it raises or leaves a problem.

    Args:
        url: see `heartbeat`.

    Yields:
        A list for the problems of the delivery, to which that of the heartbeat is added.
    """
    problems: list[str] = []
    try:
        yield problems
    except BaseException:
        heartbeat(url, succeeded=False)
        raise
    if wrong := heartbeat(url, succeeded=not problems):
        problems.append(wrong)


def beat_of_ticks(
    context: dg.SensorEvaluationContext, url: str, warn: Callable[[str], None]
) -> None:
    """Send a heartbeat when a tick has ended since the last evaluation; the cursor holds which.

    A tick that failed sends the sign of failure.
    """
    if not url:
        return
    over = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE]
    ticks = dg.RunsFilter(statuses=over, tags=job_tags(TICK.name))
    newest = context.instance.get_runs(ticks, limit=1)
    if not newest or newest[0].run_id == context.cursor:
        return
    context.update_cursor(newest[0].run_id)
    succeeded = newest[0].status == dg.DagsterRunStatus.SUCCESS
    if wrong := heartbeat(url, succeeded=succeeded):
        warn(wrong)
