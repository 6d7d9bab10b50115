"""Replay of alert rules on history: the same evaluation and life cycle, nothing written."""

from collections.abc import Sequence

from alerting.incidents.incident import Alert, Incident
from alerting.incidents.inhibition import HIDDEN
from alerting.incidents.life_cycle import advance, is_current
from alerting.rules.inhibitions import Inhibition
from alerting.rules.model import Rule
from assets.rule_evaluation import batches, evaluated_rules, evaluations, outages_before, read_rows
from lake import history
from lake.catalog import Lake
from lake.tables import progress
from lake.typed_rows import typed_rows
from lake.window import Window
from spark.alerts.evaluation import evaluate
from spark.session.configuration import SparkResource


def replay(
    lake: Lake,
    spark: SparkResource,
    rules: Sequence[Rule],
    window: Window,
    inhibitions: Sequence[Inhibition] = HIDDEN,
) -> list[Incident]:
    """Return the incidents that rules would have made in a window, by opening.

    Rules about the pipeline are not evaluated: they depend on the clock.

    Args:
        lake: the tables; only computed snapshots count.
        spark: runs the evaluation.
        rules: to try.
        window: the past.
        inhibitions: which incidents inhibit others.
    """
    computed = set(
        lake.read(progress.SNAPSHOTS, window, columns=("snapshot_id",))["snapshot_id"].to_pylist()
    )
    known = history.whole_clusters(history.loaded_snapshots(lake, history.remembered(window)))
    inside = [each for each in known if each.observed_at in window]
    snapshots = [each for each in inside if each.snapshot_id in computed]
    evaluated = evaluated_rules(rules)
    if not snapshots or not evaluated:
        return []
    rows_of_groups = lake.count(progress.GROUPS, window)
    session = spark.session_for(rows_of_groups)
    by_name = {rule.name: rule for rule in rules}
    standing: list[Incident] = []
    finished: list[Incident] = []
    for mine in batches(snapshots, rows_of_groups):
        part = history.window_of(mine)
        outages = outages_before(known, evaluated, part)
        compared = read_rows(session, lake, evaluated, part, known, outages)
        rows = evaluate(evaluated, compared, part, outages).toArrow()
        alerts = sorted(typed_rows(rows, Alert), key=lambda each: each.observed_at)
        evaluated_now = evaluations(session, lake, evaluated, mine, known, alerts, standing)
        after = advance(standing, evaluated_now, by_name, inhibitions=inhibitions)
        standing = [each for each in after if is_current(each, part.end)]
        kept = {each.incident_id for each in standing}
        finished += [each for each in after if each.incident_id not in kept]
    found = [*finished, *standing]
    return sorted(found, key=lambda each: (each.opened_at, each.rule, each.subject))
