"""What rules would have made of the past: the same evaluation and life cycle, nothing written."""

from collections.abc import Sequence
from datetime import datetime

from alerting.incidents import REOPEN, Incident, Truth, follow
from alerting.rules import Rule
from assets.alerting import batches, evaluations, frames, outages, variants
from lake import history
from lake.catalog import Lake
from lake.records import of_table
from lake.tables import progress
from lake.window import Window
from spark.alerts import evaluate
from spark.session import SparkResource


def replay(
    lake: Lake, spark: SparkResource, rules: Sequence[Rule], window: Window
) -> list[Incident]:
    """The incidents that rules would have made in a window, by opening.

    Rules about the pipeline are not asked: they look at the clock.

    Args:
        lake: the tables; only computed snapshots count.
        spark: runs the evaluation.
        rules: to try.
        window: the past.
    """
    computed = set(
        lake.read(progress.SNAPSHOTS, window, columns=("snapshot_id",))["snapshot_id"].to_pylist()
    )
    looks = [each for each in history.looks(lake, window) if each.snapshot_id in computed]
    asked = variants(rules)
    if not looks or not asked:
        return []
    rows_of_groups = lake.count(progress.GROUPS, window)
    session = spark.session_for(rows_of_groups)
    by_name = {rule.name: rule for rule in rules}
    standing: list[Incident] = []
    finished: list[Incident] = []
    for mine in batches(looks, rows_of_groups):
        part = history.window_of(mine)
        known = history.looks(lake, history.remembered(part))
        cut = outages(known, asked, part)
        rows = evaluate(asked, frames(session, lake, asked, part, known, cut), part, cut).toArrow()
        truths = sorted(of_table(rows, Truth), key=lambda each: each.observed_at)
        said = evaluations(session, lake, asked, mine, truths, standing)
        after = follow(standing, said, by_name)
        standing = [each for each in after if _may_come_back(each, part.end)]
        finished += [each for each in after if not _may_come_back(each, part.end)]
    found = [*finished, *standing]
    return sorted(found, key=lambda each: (each.opened_at, each.rule, each.subject))


def _may_come_back(incident: Incident, now: datetime) -> bool:
    return incident.resolved_at is None or incident.resolved_at >= now - REOPEN
