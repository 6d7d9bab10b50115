"""From ``progress.*`` to ``alerting.*``: which rules are true, and what that makes of incidents."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import dagster as dg
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from alerting.incidents import PIPELINE_KINDS, Evaluation, Incident, Truth
from alerting.rules import Rule, Variant
from alerting.store import live_on, standing
from assets.computing import asset_of, keys, replace
from assets.frames import has_rows, read_looks, read_windows
from assets.metadata import described, key_of, written
from assets.resources import LakeResource, RulesResource
from lake import history
from lake.catalog import Lake, not_before
from lake.memory import MEMORY
from lake.records import of_table
from lake.schema import Table
from lake.tables import alerting, progress
from lake.window import Window
from spark.alerts import SOURCES, evaluate, needs, verdicts
from spark.beside import ADDITIONS
from spark.growth import HISTORY, NO_OUTAGE, Outages, grows
from spark.session import SparkResource

EVALUATED = (
    *(source.table for source in SOURCES.values()),
    *(addition.table for addition in ADDITIONS),
)
"""The tables that rules look at."""

MOST_ROWS = 100_000
"""Rows that incidents are made of at a time: what is true of them has to fit into memory."""


@asset_of(alerting.ALERTS, deps=keys(*EVALUATED))
def alerts(
    context: dg.AssetExecutionContext,
    lake: LakeResource,
    spark: SparkResource,
    alert_rules: RulesResource,
) -> dg.MaterializeResult:
    """Evaluates the alert rules on every snapshot."""
    rules, mistakes = alert_rules.rules()
    for mistake in mistakes:
        context.log.error(f"left out: {mistake}")

    def compute(plan: history.Plan) -> DataFrame:
        session = spark.session_for(plan.rows)
        asked = variants(rules)
        known = history.looks(lake.lake, history.remembered(plan.window))
        cut = outages(known, asked, plan.window)
        rows = frames(session, lake.lake, asked, plan.window, known, cut)
        return evaluate(asked, rows, plan.window, cut)

    def told(window: Window) -> dict[str, int]:
        return {"rules": len(rules), "wrong_rules": len(mistakes)}

    return replace(context, lake, alerting.ALERTS, compute, told)


def variants(rules: Sequence[Rule]) -> list[Variant]:
    """All variants of the rules that are evaluated on snapshots."""
    found = [variant for rule in rules for variant in rule.variants()]
    return [variant for variant in found if variant.source in SOURCES]


def outages(known: Iterable[history.Look], asked: Sequence[Variant], window: Window) -> Outages:
    """What rules about growth compare with where nothing shortly before can be.

    Args:
        known: snapshots of what is remembered of the window, in order of time.
        asked: the rules.
        window: what they are asked of.
    """
    if not grows(each.holds for each in asked):
        return NO_OUTAGE
    return history.complete_before(known, window, HISTORY)


def frames(
    session: SparkSession,
    lake: Lake,
    asked: Sequence[Variant],
    window: Window,
    known: Sequence[history.Look],
    cut: Outages = NO_OUTAGE,
) -> Mapping[str, DataFrame]:
    """The rows that rules are asked of, by full name of their table.

    Those of what is remembered are picked by snapshot, so that Spark asks them in the same code at
    every tick; those of former days by time.

    Most windows hold no deep look and no event: tables without a row are left out, which costs a
    look at their metadata instead of a join.
    """
    optional = {addition.table for addition in ADDITIONS}
    since = history.remembered(window).start

    def rows(table: Table, windows: Sequence[Window]) -> DataFrame:
        if min(each.start for each in windows) < since:
            return read_windows(session, table, windows)
        mine = [look for look in known if any(look.observed_at in each for each in windows)]
        return read_looks(session, table, mine)

    return {
        table.name: rows(table, windows)
        for table, windows in needs(asked, window, cut)
        if table not in optional or has_rows(lake, table, window)
    }


@asset_of(alerting.INCIDENTS, deps=keys(alerting.ALERTS))
def incidents(
    context: dg.AssetExecutionContext,
    lake: LakeResource,
    spark: SparkResource,
    alert_rules: RulesResource,
) -> dg.MaterializeResult:
    """Lets incidents live on through evaluations that are new.

    Incidents are what people were told, so they follow time forward only: computing the past again
    changes ``alerting.alerts`` and none of them.
    """
    plan = lake.plan(context)
    fresh = _fresh(lake.lake, plan)
    if not fresh:
        return dg.MaterializeResult(metadata=written(0, plan.window))
    rules, mistakes = alert_rules.rules()
    session = spark.session_for(plan.rows)
    changed, still_open = live_through(lake.lake, session, rules, fresh, all_rules=not mistakes)
    return dg.MaterializeResult(metadata=written(changed, plan.window, open=still_open))


notifications = dg.AssetSpec(
    **described(alerting.NOTIFICATIONS, freshness=None), deps=[key_of(alerting.INCIDENTS)]
)
"""Not made by runs: the sensor that delivers keeps this table, where there is something to tell."""


def _fresh(lake: Lake, plan: history.Plan) -> list[history.Look]:
    """The snapshots of a window that are newer than all that was computed of their cluster."""
    computed = lake.read(
        progress.SNAPSHOTS,
        not_before("observed_at", plan.window.start - MEMORY),
        columns=("cluster", "observed_at"),
    )
    newest = {
        row["cluster"]: row["observed_at_max"]
        for row in computed.group_by("cluster").aggregate([("observed_at", "max")]).to_pylist()
    }
    return [
        look
        for look in plan.looks
        if look.cluster not in newest or look.observed_at > newest[look.cluster]
    ]


def live_through(
    lake: Lake,
    session: SparkSession,
    rules: Sequence[Rule],
    looks: Sequence[history.Look],
    *,
    all_rules: bool,
) -> tuple[int, int]:
    """Lets incidents live on through snapshots; how many changed, and how many are not over.

    Args:
        lake: the tables, with the alerts of the snapshots.
        session: see `evaluations`.
        rules: as they are now.
        looks: the snapshots, in order of time.
        all_rules: see `alerting.incidents.follow`.
    """
    changed = still_open = 0
    for part in batches(looks, lake.at_most(alerting.ALERTS, history.window_of(looks))):
        truths = _truths(lake, history.window_of(part))
        before = standing(lake, part[0].observed_at)
        said = evaluations(session, lake, variants(rules), part, truths, before.incidents)
        # Now alone with them: somebody may have taken one on meanwhile.
        after, more = live_on(lake, said, rules, all_rules=all_rules, known=before)
        changed, still_open = changed + more, sum(each.is_open for each in after)
    return changed, still_open


def batches(looks: Sequence[history.Look], rows: int) -> Iterator[Sequence[history.Look]]:
    """Snapshots that share some rows, in order, so many at a time as have `MOST_ROWS` of them."""
    size = max(1, MOST_ROWS * len(looks) // max(rows, 1))
    for start in range(0, len(looks), size):
        yield looks[start : start + size]


def _truths(lake: Lake, window: Window) -> list[Truth]:
    """The alerts of a window."""
    return of_table(lake.read(alerting.ALERTS, window), Truth)


def evaluations(
    session: SparkSession,
    lake: Lake,
    asked: Sequence[Variant],
    looks: Sequence[history.Look],
    truths: Iterable[Truth],
    before: Iterable[Incident],
) -> list[Evaluation]:
    """What rules said at some snapshots, true or not.

    That something is not true matters only where there is an incident, so only then it is asked.
    A subject without a row in a snapshot of the whole cluster is gone: nothing is true of it.

    Args:
        session: asked only where it matters.
        lake: the tables.
        asked: the rules.
        looks: the snapshots, in order of time.
        truths: where rules are true at them.
        before: the incidents so far.
    """
    true: dict[tuple[str, datetime], list[Truth]] = {}
    subjects = {
        (each.rule, each.subject): each.cluster
        for each in before
        if each.kind not in PIPELINE_KINDS
    }
    for each in truths:
        true.setdefault((each.row["cluster"], each.observed_at), []).append(each)
        subjects[each.rule, each.subject] = each.row["cluster"]
    questions = {
        look.snapshot_id: {key for key, cluster in subjects.items() if cluster == look.cluster}
        - {(each.rule, each.subject) for each in true.get((look.cluster, look.observed_at), ())}
        for look in looks
    }
    answers = _answers(session, lake, asked, looks, set().union(*questions.values()))
    return [
        Evaluation(
            look.observed_at,
            look.cluster,
            tuple(true.get((look.cluster, look.observed_at), ())),
            frozenset(
                key
                for key in questions[look.snapshot_id]
                if answers.get((look.snapshot_id, *key), False if _is_whole(look) else None)
                is False
            ),
        )
        for look in looks
    ]


def _answers(
    session: SparkSession,
    lake: Lake,
    asked: Sequence[Variant],
    looks: Sequence[history.Look],
    questions: Collection[tuple[str, str]],
) -> dict[tuple[str, str, str], bool | None]:
    """Whether rules are true of some subjects, by snapshot, rule and subject."""
    if not questions:
        return {}
    rules, names = zip(*sorted(questions), strict=True)
    subjects = pa.table({"rule": pa.array(rules), "subject": pa.array(names)})
    window = history.window_of(looks)
    mine = [each for each in asked if each.rule.name in set(rules)]
    known = history.looks(lake, history.remembered(window))
    cut = outages(known, mine, window)
    rows = frames(session, lake, mine, window, known, cut)
    said = verdicts(mine, rows, window, session.createDataFrame(subjects), cut)
    return {
        (row["snapshot_id"], row["rule"], row["subject"]): row["holds"]
        for row in said.toArrow().to_pylist()
    }


def _is_whole(look: history.Look) -> bool:
    return look.status == "COMPLETE" and look.is_of_all_brokers
