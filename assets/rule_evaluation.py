"""Evaluation of alert rules on stored windows, for the runs and for replays of the past."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from assets.reader import read_hours, read_windows
from spark.alerts.evaluation import EvaluatedRule, evaluate, evaluate_subjects, tables_to_read
from spark.alerts.group_features import GROUP_FEATURES, HISTORY, NO_OUTAGE, Outages, compares_growth
from spark.alerts.sources import SOURCES
from spark.session.configuration import SparkResource
from spark.tuning import as_read
from tidemark.alerting.incidents.incident import Alert, Evaluation, Incident
from tidemark.alerting.incidents.inhibition import HIDDEN
from tidemark.alerting.incidents.life_cycle import PIPELINE_KINDS, advance, is_current
from tidemark.alerting.rules.base import AppliedRule
from tidemark.alerting.rules.model import Inhibition, Rule
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.schema import Table, any_of, window_filter
from tidemark.lake.tables import progress, raw
from tidemark.lake.typed_rows import typed_rows
from tidemark.planning import history
from tidemark.planning.history import LoadedSnapshot
from tidemark.planning.lacking_parts import listing_all_groups

MOST_ROWS = 100_000
"""Rows that are evaluated at a time for incidents; their outcomes must fit into memory."""


def evaluated_rules(rules: Sequence[Rule]) -> list[AppliedRule]:
    """Return the rules, and their overrides, that are evaluated on snapshots."""
    applied_rules = [applied for rule in rules for applied in rule.applied_rules()]
    return [applied for applied in applied_rules if applied.source in SOURCES]


def outages_before(
    known: Iterable[LoadedSnapshot], rules: Sequence[EvaluatedRule], window: Window
) -> Outages:
    """Return the outages after which growth is compared with the last complete snapshot before.

    Args:
        known: loaded snapshots of the window and of the time before it, in order of time.
        rules: the evaluated rules.
        window: the window of the observations.
    """
    if not compares_growth(rule.condition for rule in rules):
        return NO_OUTAGE
    return history.complete_before(known, window, HISTORY)


def read_rows(
    session: SparkSession,
    lake: Lake,
    rules: Sequence[EvaluatedRule],
    window: Window,
    known: Sequence[LoadedSnapshot],
    outages: Outages = NO_OUTAGE,
) -> Mapping[str, DataFrame]:
    """Read the rows that rules are evaluated on, by full name of their table.

    Recent rows are picked by snapshot, so that Spark runs the same code at every tick. Rows of
    former days are picked by time, without those of files of one broker. Rows of hours are picked
    by hour: a snapshot is judged by what its hour held before it.

    Most windows hold no deep snapshot and no event. Tables of group features without a row are
    left out: reading their metadata costs less than a join.
    """
    optional = {feature.table for feature in GROUP_FEATURES}
    since = history.remembered(window).start

    def rows(table: Table, windows: Sequence[Window]) -> DataFrame:
        if table.is_of_hours:
            return read_windows(session, table, *windows)
        if min(window.start for window in windows) < since:
            left_out = _files_left_out(lake, windows, known)
            stored = read_windows(session, table, *windows)
            return stored.where(~F.col("snapshot_id").isin(left_out)) if left_out else stored
        wanted = [
            snapshot
            for snapshot in known
            if any(snapshot.observed_at in window for window in windows)
        ]
        return _rows_of(session, table, wanted)

    return {
        table.name: rows(table, windows)
        for table, windows in tables_to_read(rules, window, outages)
        if table not in optional
        or lake.has_rows(table, window.whole_hours() if table.is_of_hours else window)
    }


def _rows_of(session: SparkSession, table: Table, snapshots: Sequence[LoadedSnapshot]) -> DataFrame:
    """Read the rows of a table that belong to given snapshots, which are in order of time."""
    if not snapshots:
        return as_read(session.table(table.name).where(F.lit(False)))
    is_theirs = F.col("snapshot_id").isin([snapshot.snapshot_id for snapshot in snapshots])
    return read_hours(session, table, history.window_of(snapshots), is_theirs)


def _files_left_out(
    lake: Lake, windows: Sequence[Window], known: Sequence[LoadedSnapshot]
) -> list[str]:
    """Return the snapshots of files that do not count where their cluster is observed as a whole.

    Raw rows are removed before those of former days; a snapshot without raw rows counts.
    """
    where = any_of(*(window_filter(raw.SNAPSHOTS, window) for window in windows))
    former = history.snapshots_of(lake.read(raw.SNAPSHOTS, where, columns=history.COLUMNS))
    return sorted(history.files_left_out([*known, *former]))


def batches(snapshots: Sequence[LoadedSnapshot], rows: int) -> Iterator[Sequence[LoadedSnapshot]]:
    """Split snapshots that hold `rows` rows, in order, into batches of about `MOST_ROWS` rows."""
    size = max(1, MOST_ROWS * len(snapshots) // max(rows, 1))
    for start in range(0, len(snapshots), size):
        yield snapshots[start : start + size]


def evaluations(
    session: SparkSession,
    lake: Lake,
    rules: Sequence[EvaluatedRule],
    snapshots: Sequence[LoadedSnapshot],
    known: Sequence[LoadedSnapshot],
    alerts: Iterable[Alert],
    incidents: Iterable[Incident],
) -> list[Evaluation]:
    """Return the outcomes of rules at snapshots, true or not.

    An untrue rule matters only to an incident, so Spark evaluates only subjects with an incident.
    A subject without a row in a snapshot that lists all groups no longer exists, so no rule is true
    of it.

    Args:
        session: runs the evaluation where one is needed.
        lake: the tables.
        rules: the evaluated rules.
        snapshots: the snapshots to evaluate, in order of time.
        known: loaded snapshots, also of the time before them, in order of time.
        alerts: the alerts of the rules at these snapshots.
        incidents: the incidents so far.
    """
    true: dict[tuple[str | None, datetime], list[Alert]] = {}
    subjects = {
        (incident.rule, incident.subject): incident.cluster
        for incident in incidents
        if incident.kind not in PIPELINE_KINDS
    }
    for alert in alerts:
        key = alert.rule, alert.subject
        if not subjects.get(key):
            subjects[key] = alert.row["cluster"]
        true.setdefault((subjects[key], alert.observed_at), []).append(alert)
    found_true = [
        tuple(true.get((snapshot.cluster, snapshot.observed_at), ())) for snapshot in snapshots
    ]
    undecided = [
        {subject for subject, cluster in subjects.items() if cluster == snapshot.cluster}
        - {(alert.rule, alert.subject) for alert in alerts}
        for snapshot, alerts in zip(snapshots, found_true, strict=True)
    ]
    outcomes = _outcomes(session, lake, rules, snapshots, known, set().union(*undecided))
    outcomes |= dict.fromkeys(_gone(lake, snapshots, undecided, outcomes), False)
    untrue = [
        frozenset(pair for pair in subjects_of if outcomes.get((of.snapshot_id, *pair)) is False)
        for of, subjects_of in zip(snapshots, undecided, strict=True)
    ]
    return [
        Evaluation(
            observed_at=snapshot.observed_at,
            cluster=snapshot.cluster,
            alerts=alerts,
            untrue=not_true,
        )
        for snapshot, alerts, not_true in zip(snapshots, found_true, untrue, strict=True)
    ]


def _outcomes(
    session: SparkSession,
    lake: Lake,
    rules: Sequence[EvaluatedRule],
    snapshots: Sequence[LoadedSnapshot],
    known: Sequence[LoadedSnapshot],
    subjects: Collection[tuple[str, str]],
) -> dict[tuple[str, str, str], bool | None]:
    """Return whether rules are true, by snapshot, rule and subject; None = unknown."""
    if not subjects:
        return {}
    names, keys = zip(*sorted(subjects), strict=True)
    wanted = pa.table({"rule": pa.array(names), "subject": pa.array(keys)})
    window = history.window_of(snapshots)
    evaluated = [rule for rule in rules if rule.name in set(names)]
    outages = outages_before(known, evaluated, window)
    rows = read_rows(session, lake, evaluated, window, known, outages)
    frame = evaluate_subjects(
        evaluated, rows, window, as_read(session.createDataFrame(wanted)), outages
    )
    return {
        (row["snapshot_id"], row["rule"], row["subject"]): row["holds"]
        for row in frame.toArrow().to_pylist()
    }


def _gone(
    lake: Lake,
    snapshots: Sequence[LoadedSnapshot],
    undecided: Sequence[Collection[tuple[str, str]]],
    outcomes: Mapping[tuple[str, str, str], bool | None],
) -> set[tuple[str, str, str]]:
    """Return the snapshots and rules with the subjects that no longer exist by the snapshot."""
    missing = {
        outcome: snapshot
        for snapshot, subjects in zip(snapshots, undecided, strict=True)
        for subject in subjects
        if (outcome := (snapshot.snapshot_id, *subject)) not in outcomes
    }
    of_all = listing_all_groups(lake, list(dict.fromkeys(missing.values())))
    return {outcome for outcome, snapshot in missing.items() if snapshot.snapshot_id in of_all}


def replay(
    lake: Lake,
    spark: SparkResource,
    rules: Sequence[Rule],
    window: Window,
    inhibitions: Sequence[Inhibition] = HIDDEN,
) -> list[Incident]:
    """Return the incidents that rules would have made in a window, by opening; write nothing.

    The evaluation and the life cycle are those of runs. Rules about the pipeline are not evaluated:
    they depend on the clock.

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
    snapshots = [
        snapshot
        for snapshot in known
        if snapshot.observed_at in window and snapshot.snapshot_id in computed
    ]
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
        alerts = sorted(typed_rows(rows, Alert), key=lambda alert: alert.observed_at)
        evaluated_now = evaluations(session, lake, evaluated, mine, known, alerts, standing)
        after = advance(standing, evaluated_now, by_name, inhibitions=inhibitions)
        standing = [incident for incident in after if is_current(incident, part.end)]
        kept = {incident.incident_id for incident in standing}
        finished += [incident for incident in after if incident.incident_id not in kept]
    return sorted(
        [*finished, *standing],
        key=lambda incident: (incident.opened_at, incident.rule, incident.subject),
    )
