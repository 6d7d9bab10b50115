"""What rules would have made of the past: the same evaluation and life cycle, nothing written."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from alerting.incidents import REOPEN, Incident, Truth, follow
from alerting.rules import Rule
from assets.alerting import evaluations, frames, variants
from lake import history
from lake.catalog import Lake
from lake.records import of_table
from lake.tables import progress
from lake.window import Window
from spark.alerts import evaluate
from spark.session import SparkResource

MOST_ROWS = 100_000
"""Rows of groups that rules are asked of at a time: what is true of them has to fit into memory."""


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
    for mine in _batches(looks, rows_of_groups):
        part = Window(mine[0].observed_at, mine[-1].observed_at + timedelta(microseconds=1))
        rows = evaluate(asked, frames(session, lake, asked, part), part).toArrow()
        truths = sorted(of_table(rows, Truth), key=lambda each: each.observed_at)
        said = evaluations(session, lake, asked, mine, truths, standing)
        after = follow(standing, said, by_name)
        standing = [each for each in after if _may_come_back(each, part.end)]
        finished += [each for each in after if not _may_come_back(each, part.end)]
    found = [*finished, *standing]
    return sorted(found, key=lambda each: (each.opened_at, each.rule, each.subject))


def _batches(
    looks: Sequence[history.Look], rows_of_groups: int
) -> Iterator[Sequence[history.Look]]:
    """The snapshots in order of time, so many at a time as have `MOST_ROWS` rows of groups."""
    size = max(1, MOST_ROWS * len(looks) // max(rows_of_groups, 1))
    for start in range(0, len(looks), size):
        yield looks[start : start + size]


def _may_come_back(incident: Incident, now: datetime) -> bool:
    return incident.resolved_at is None or incident.resolved_at >= now - REOPEN
