"""Evaluation of alert rules: ``alerting.alerts`` from the rows that alert rules compare.

An alert rule compares numbers of one row, so a tick reads only its own window. Two exceptions reach
further back: growth (`spark.alerts.group_features`) and group features
(`spark.alerts.group_features`). How long an alert rule has been true matters to the life cycle of
incidents only (`tidemark.alerting.incidents.life_cycle`).

Unknown is neither true nor false: an observation without the number gives no alert and resolves no
incident. A lower bound, as an incomplete sum is one (a broker was unreachable), is enough above
the threshold: the alert rule is true. Below it its outcome is unknown.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.alerts.group_features import (
    NO_OUTAGE,
    GroupFeature,
    Outages,
    features_in,
    windows_to_compare,
    with_features,
    with_growth,
)
from spark.alerts.sources import GROUPS_SOURCE, SOURCES, Source
from spark.columns import matches, with_new
from spark.tuning import inside, small
from tidemark.lake.bounds import bound_in_sql
from tidemark.lake.clocks import Window
from tidemark.lake.schema import Table
from tidemark.lake.tables.alerting import ALERTS
from tidemark.rocketmq.names import RETRY_PREFIX

Match = Mapping[str, tuple[str, ...]]
"""Column name to globs (``*``, ``?``), of which one must match."""


class EvaluatedRule(Protocol):
    """An alert rule as it applies to some subjects; at most one of a name applies to a subject.

    Attributes:
        name: unique among the alert rules.
        kind: its kind, for the evidence.
        source: the rows it is evaluated on, a key of `spark.alerts.sources.SOURCES`.
        about_group: whether only one row of a group is evaluated; see `spark.alerts.evaluation`.
        severity: ``critical`` | ``warning`` | ``info``.
        value: SQL of the number it compares.
        threshold: the number that the value is compared with.
        condition: SQL of whether it is true of a row; NULL = unknown.
        matches: conditions of which a subject has to match all.
        excludes: conditions of which a subject must match none.
        words: the statement of the evidence when the condition is true.
        description: a sentence for people.
        runbook: address of the runbook, None without one.
        labels: names and values for the message.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def source(self) -> str: ...  # noqa: D102
    @property
    def about_group(self) -> bool: ...  # noqa: D102
    @property
    def severity(self) -> str: ...  # noqa: D102
    @property
    def value(self) -> str: ...  # noqa: D102
    @property
    def threshold(self) -> float: ...  # noqa: D102
    @property
    def condition(self) -> str: ...  # noqa: D102
    @property
    def matches(self) -> tuple[Match, ...]: ...  # noqa: D102
    @property
    def excludes(self) -> tuple[Match, ...]: ...  # noqa: D102
    @property
    def words(self) -> str: ...  # noqa: D102
    @property
    def description(self) -> str: ...  # noqa: D102
    @property
    def runbook(self) -> str | None: ...  # noqa: D102
    @property
    def labels(self) -> Mapping[str, str]: ...  # noqa: D102


def applies(rule: EvaluatedRule) -> Column:
    """Return whether a rule applies to a row."""
    excluded = [~matches(match) for match in rule.excludes]
    return reduce(lambda all_of, column: all_of & column, [*map(matches, rule.matches), *excluded])


def with_speakers(
    rows: DataFrame, rules: Sequence[EvaluatedRule]
) -> tuple[DataFrame, Mapping[str, Column]]:
    """Add columns of whether a row is the speaker of its group.

    The row of the group's retry topic speaks for it where the rule applies to that row. Else, as
    for a group that pops or a rule about some topics, the last of the topics by name does.

    Args:
        rows: those of groups.
        rules: the rules, those of one name together with their overrides.

    Returns:
        The rows, and the added column of each rule about the whole group, by the rule's name.
    """
    named: dict[str, list[EvaluatedRule]] = {}
    for rule in rules:
        if rule.about_group:
            named.setdefault(rule.name, []).append(rule)
    columns: dict[str, Column] = {}
    column_of: dict[str, str] = {}
    shared: dict[str, str] = {}
    for name, own in named.items():
        subjects = repr([(rule.matches, rule.excludes) for rule in own])
        column_of[name] = shared.setdefault(subjects, f"speaks_for_group_{len(shared)}")
        columns[column_of[name]] = _speaks(own)
    speakers = {name: F.col(column) for name, column in column_of.items()}
    return (with_new(rows, **columns) if columns else rows), speakers


def _speaks(rules: Sequence[EvaluatedRule]) -> Column:
    topic = F.col("topic")
    is_retry = topic == F.concat(F.lit(RETRY_PREFIX), F.col("consumer_group"))
    candidate = F.when(reduce(or_, map(applies, rules)), F.struct(is_retry.alias("retry"), topic))
    of_group = SparkWindow.partitionBy("snapshot_id", "consumer_group")
    return topic == F.max(candidate).over(of_group)["topic"]


INSTANT_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"

_EVALUATED = (
    "snapshot_id string, observed_at timestamp, subject string, rule string, severity string, "
    "holds boolean, value double, value_bound string, threshold double, evidence string"
)


def tables_to_read(
    rules: Sequence[EvaluatedRule], window: Window, outages: Outages = NO_OUTAGE
) -> list[tuple[Table, list[Window]]]:
    """Return the tables that the evaluation of a window reads, and the windows of each."""
    names = sorted({rule.source for rule in rules} or {GROUPS_SOURCE})
    sources = [SOURCES[name] for name in names]
    features = _features(rules)
    own = [table for source in sources for table in (source.table, *source.also_reads)]
    compared = windows_to_compare([rule.condition for rule in rules], window, outages)
    windows = {table: compared for table in own}
    windows |= {feature.table: feature.windows(window) for feature in features}
    windows |= {
        table: [window]
        for feature in features
        for table in feature.also_reads
        if table not in windows
    }
    return list(windows.items())


def evaluate(
    rules: Sequence[EvaluatedRule],
    rows: Mapping[str, DataFrame],
    window: Window,
    outages: Outages = NO_OUTAGE,
) -> DataFrame:
    """Return the alerts of a window.

    Args:
        rules: the alert rules to evaluate.
        rows: rows of `tables_to_read` by full name of the table; tables of group features may be
            left out when they are empty. A row of ``raw.brokers`` without any measurement is an
            unreachable broker.
        window: the observations to evaluate.
        outages: those that snapshots of the window end, or lie in.

    Returns:
        A row of ``alerting.alerts`` for each rule, subject and observation of the window at which
        the rule is true. ``evidence`` is JSON with ``kind, words, description, runbook, labels``;
        ``observations``, the one that is true (``snapshot_id, observed_at, value``); and ``row``,
        its columns.
    """
    frame = _evaluated(rules, rows, window, outages, lambda outcome: outcome["holds"])
    return frame.select(*ALERTS.column_names)


def evaluate_subjects(
    rules: Sequence[EvaluatedRule],
    rows: Mapping[str, DataFrame],
    window: Window,
    subjects: DataFrame,
    outages: Outages = NO_OUTAGE,
) -> DataFrame:
    """Return the outcomes of alert rules for given subjects, true or not.

    Args:
        rules: see `evaluate`.
        rows: see `evaluate`.
        window: the observations to evaluate.
        subjects: ``rule, subject`` of the wanted outcomes.
        outages: see `evaluate`.

    Returns:
        ``snapshot_id, rule, subject, holds`` for each observation with a row of the subject;
        ``holds`` is NULL where the outcome is unknown.
    """
    frame = _evaluated(rules, rows, window, outages, lambda outcome: outcome.isNotNull())
    return frame.join(small(subjects), ["rule", "subject"], "left_semi").select(
        "snapshot_id", "rule", "subject", "holds"
    )


def _features(rules: Sequence[EvaluatedRule]) -> list[GroupFeature]:
    """Return the group features that conditions of rules about groups name."""
    return features_in(rule.condition for rule in rules if rule.source == GROUPS_SOURCE)


def _evaluated(
    rules: Sequence[EvaluatedRule],
    rows: Mapping[str, DataFrame],
    window: Window,
    outages: Outages,
    is_wanted: Callable[[Column], Column],
) -> DataFrame:
    """Return one row per rule, subject and observation with a wanted outcome, over all sources."""
    sources = [
        _evaluated_on(source, own, rows, window, outages, is_wanted)
        for name, source in SOURCES.items()
        for own in [[rule for rule in rules if rule.source == name]]
        if own
    ]
    if not sources:
        return next(iter(rows.values())).sparkSession.createDataFrame([], _EVALUATED)
    return reduce(DataFrame.unionByName, sources)


def _evaluated_on(
    source: Source,
    rules: Sequence[EvaluatedRule],
    rows: Mapping[str, DataFrame],
    window: Window,
    outages: Outages,
    is_wanted: Callable[[Column], Column],
) -> DataFrame:
    """Evaluate every rule on every row it applies to.

    One pass over the rows; only wanted outcomes become rows of their own.
    """
    features = _features(rules)
    own = source.prepare(*(rows[table.name] for table in (source.table, *source.also_reads)))
    prepared = with_features(own, features, rows)
    prepared = with_growth(prepared, source.key, [rule.condition for rule in rules], outages)
    shown = [name for one in features for name in one.columns if name not in one.not_shown]
    evidence = [*source.evidence, *shown]
    prepared, speakers = with_speakers(prepared, rules)
    outcomes = F.array(*[_outcome(rule, speakers.get(rule.name)) for rule in rules])
    return (
        prepared.where(inside(window))
        .select(
            "snapshot_id",
            "observed_at",
            F.concat_ws("/", *source.key).alias("subject"),
            F.struct(*evidence).alias("row"),
            F.explode(F.filter(outcomes, is_wanted)).alias("outcome"),
        )
        .select("snapshot_id", "observed_at", "subject", "outcome.*", "row")
        .select(
            *("snapshot_id", "observed_at", "subject", "rule", "severity", "holds"),
            *("value", "value_bound", "threshold"),
            _evidence().alias("evidence"),
        )
    )


def _outcome(rule: EvaluatedRule, speaks: Column | None) -> Column:
    """Return a rule's outcome for a row, NULL where the rule does not apply.

    Args:
        rule: the rule.
        speaks: whether the row speaks for its group; None for a rule about every row.
    """
    labels = sorted(rule.labels.items())
    holds = F.expr(rule.condition)
    return F.when(
        applies(rule),
        F.struct(
            F.lit(rule.name).alias("rule"),
            F.lit(rule.kind).alias("kind"),
            F.lit(rule.severity).alias("severity"),
            F.lit(rule.words).alias("words"),
            F.lit(rule.description).alias("description"),
            F.lit(rule.runbook).cast("string").alias("runbook"),
            F.create_map(*[F.lit(text) for pair in labels for text in pair])
            .cast("map<string,string>")
            .alias("labels"),
            F.lit(float(rule.threshold)).alias("threshold"),
            F.expr(rule.value).cast("double").alias("value"),
            F.expr(bound_in_sql(rule.value)).alias("value_bound"),
            F.when(F.col("judgeable"), holds if speaks is None else holds & speaks)
            .when(~F.col("judgeable"), F.lit(False))
            .alias("holds"),
        ),
    )


def _evidence() -> Column:
    """Return why a rule is true, as JSON."""
    observation = F.struct("snapshot_id", "observed_at", F.col("value"))
    return F.to_json(
        F.struct(
            *("kind", "words", "description", "runbook", "labels"),
            F.array(observation).alias("observations"),
            "row",
        ),
        {"ignoreNullFields": "false", "timestampFormat": INSTANT_FORMAT},
    )
