"""From ``progress.*`` to ``alerting.*``: the alerts of a window, and the incidents they advance."""

from collections.abc import Sequence

import dagster as dg
from pyspark.sql import SparkSession

from assets.metadata import described, written
from assets.resources import CollectorResource, RulesResource
from assets.rule_evaluation import (
    batches,
    evaluated_rules,
    evaluations,
    outages_before,
    read_rows,
)
from assets.run import CurrentRun, window_asset
from spark.alerts.evaluation import evaluate
from spark.alerts.group_features import GROUP_FEATURES
from spark.alerts.sources import SOURCES
from tidemark.alerting.incidents.incident import Alert
from tidemark.alerting.incidents.inhibition import HIDDEN
from tidemark.alerting.incidents.repository import advance_incidents, current_incidents
from tidemark.alerting.rules.model import Inhibition, Rule
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import alerting, progress, quality
from tidemark.lake.typed_rows import typed_rows
from tidemark.planning.history import LoadedSnapshot, whole_clusters, window_of

EVALUATED = (
    *(source.table for source in SOURCES.values()),
    *(feature.table for feature in GROUP_FEATURES),
)
"""The tables on which alert rules are evaluated."""

ADVANCED_BY = (
    *(quality.QUARANTINE, progress.TIMELINE, progress.QUEUES),
    *(table for table in dict.fromkeys(EVALUATED) if table.namespace != "raw"),
    alerting.ALERTS,
)
"""Tables whose rows advance incidents; without them no rule is true."""


@window_asset(alerting.ALERTS, *EVALUATED)
def alerts(
    context: dg.AssetExecutionContext, run: CurrentRun, alert_rules: RulesResource
) -> dg.MaterializeResult:
    """Evaluate the alert rules on every snapshot."""
    plan = run.plan
    rules, mistakes = alert_rules.rules()
    for mistake in mistakes:
        context.log.error(f"left out: {mistake}")
    evaluated = evaluated_rules(rules)
    known = whole_clusters(plan.known)
    outages = outages_before(known, evaluated, plan.window)
    rows = read_rows(run.session, run.lake, evaluated, plan.window, known, outages)
    return run.replace(
        alerting.ALERTS,
        evaluate(evaluated, rows, plan.window, outages),
        lambda: {"rules": len(rules), "wrong_rules": len(mistakes)},
    )


@window_asset(alerting.INCIDENTS, alerting.ALERTS)
def incidents(
    context: dg.AssetExecutionContext,
    run: CurrentRun,
    alert_rules: RulesResource,
    collector: CollectorResource,
) -> dg.MaterializeResult:
    """Advance incidents by the snapshots that are newer than everything computed.

    People have been notified of incidents, so incidents follow time forward only. A recomputation
    of the past changes ``alerting.alerts`` but no incident. A run that has not computed the alerts
    of new snapshots changes no incident either, because it would resolve incidents that still fire.
    Incidents of blocked and stalled groups then keep what members of these groups do now.
    """
    plan = run.plan
    known = whole_clusters(plan.known)
    counted = {loaded_snapshot.snapshot_id for loaded_snapshot in known}
    new = [
        loaded_snapshot for loaded_snapshot in plan.new if loaded_snapshot.snapshot_id in counted
    ]
    lacking = run.lacks(ADVANCED_BY) if new else []
    if lacking:
        context.log.warning(
            f"no incident is advanced by {len(new)} new snapshots, and the next tick does that: "
            f"this run computed only some tables, without {', '.join(lacking)}"
        )
    if lacking or not new:
        return dg.MaterializeResult(metadata=written(0, plan.window))
    declared = alert_rules.rule_set()
    changed, still_open = advance_by(
        run.lake,
        run.session,
        declared.rules,
        new,
        known,
        all_rules=not declared.rule_mistakes,
        inhibitions=declared.inhibitions,
    )
    diagnosed = collector.diagnose(run.lake, context.log.warning) if changed else 0
    return dg.MaterializeResult(
        metadata=written(changed, plan.window, open=still_open, diagnosed=diagnosed)
    )


notifications = dg.AssetSpec(
    **described(alerting.NOTIFICATIONS, alerting.INCIDENTS, freshness=None)
)
"""No run makes them: the sensor that delivers writes this table, whenever it has to notify."""


def advance_by(
    lake: Lake,
    session: SparkSession,
    rules: Sequence[Rule],
    snapshots: Sequence[LoadedSnapshot],
    known: Sequence[LoadedSnapshot],
    *,
    all_rules: bool,
    inhibitions: Sequence[Inhibition] = HIDDEN,
) -> tuple[int, int]:
    """Advance incidents by snapshots; return how many changed, and how many are open.

    Args:
        lake: the tables, with the alerts of the snapshots.
        session: see `evaluations`.
        rules: the alert rules now.
        snapshots: the snapshots, in order of time.
        known: loaded snapshots, also of the time before that evaluation needs, in order of time.
        all_rules: see `tidemark.alerting.incidents.life_cycle.advance`.
        inhibitions: the inhibitions of the rule files.
    """
    changed = still_open = 0
    evaluated = evaluated_rules(rules)
    for batch in batches(snapshots, lake.max_rows(alerting.ALERTS, window_of(snapshots))):
        rows = typed_rows(lake.read(alerting.ALERTS, window_of(batch)), Alert)
        before = current_incidents(lake, batch[0].observed_at)
        outcomes = evaluations(session, lake, evaluated, batch, known, rows, before.incidents)
        # The repository locks the incidents, because a person may acknowledge one meanwhile.
        after, more = advance_incidents(
            lake, outcomes, rules, all_rules=all_rules, known=before, inhibitions=inhibitions
        )
        changed, still_open = changed + more, sum(incident.is_open for incident in after)
    return changed, still_open
