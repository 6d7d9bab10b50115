"""What rules would have made of the past: the same evaluation and life cycle, nothing written."""

from collections.abc import Sequence

from alerting.incidents import Incident, Truth, follow
from alerting.rules import Rule
from assets.alerting import evaluations, frames, variants
from lake import history
from lake.catalog import Lake
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
    session = spark.session_for(len(looks))
    rows = evaluate(asked, frames(session, lake, asked, window), window).toArrow().to_pylist()
    truths = sorted((Truth(**row) for row in rows), key=lambda each: (each.observed_at, each.rule))
    said = evaluations(session, lake, asked, looks, truths, ())
    found = follow((), said, {rule.name: rule for rule in rules})
    return sorted(found, key=lambda each: (each.opened_at, each.rule, each.subject))
