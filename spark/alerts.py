"""Which rules are true: ``alerting.alerts`` from the rows that rules look at.

A rule is a comparison of one row, so a tick reads its own window and nothing else (but for growth,
which needs an observation before, `spark.growth`, and what `spark.beside` adds). For how long a
rule has been true, and what that makes of it, is the life cycle's business (`alerting.incidents`).

Unknown is never true and never false: an observation at which the number is not known gives no
alert and ends none. An incomplete sum (a broker was silent) is a lower bound: above the threshold
it is true, below it is unknown, and so is every other condition of a rule. A broadcasting group is
judged only while a member is online: what a client that left had read stands still for ever and
says nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake.schema import Table
from lake.tables.alerting import ALERTS
from lake.tables.progress import GROUPS
from lake.tables.raw import BROKERS, SNAPSHOTS
from lake.window import Window
from spark.beside import Addition, additions, join
from spark.columns import fits, inside
from spark.growth import NO_OUTAGE, Outages, windows, with_growth
from spark.unread import is_silent, with_unread

INSTANT_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


class Rule(Protocol):
    """What evaluating needs to know of a rule.

    Attributes:
        name: unique among the rules.
        kind: its kind, for the evidence.
        value: SQL of the number it looks at.
        words: what is so when it is true.
        description: a sentence for people.
        runbook: address of what to do, None without one.
        labels: more for the message.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def value(self) -> str: ...  # noqa: D102
    @property
    def words(self) -> str: ...  # noqa: D102
    @property
    def description(self) -> str: ...  # noqa: D102
    @property
    def runbook(self) -> str | None: ...  # noqa: D102
    @property
    def labels(self) -> Mapping[str, str]: ...  # noqa: D102


class Variant(Protocol):
    """A rule as it holds for some subjects; no subject is meant by two variants of one rule.

    Attributes:
        rule: the rule.
        source: the rows it is asked of, a key of `SOURCES`.
        severity: ``critical`` | ``warning`` | ``info``.
        threshold: what the value is compared with.
        holds: SQL of whether it is true of a row; NULL = not known.
        matches: column name to globs (``*``, ``?``), of which one must fit; all must fit.
        unless: the same, and none may fit.
    """

    @property
    def rule(self) -> Rule: ...  # noqa: D102
    @property
    def source(self) -> str: ...  # noqa: D102
    @property
    def severity(self) -> str: ...  # noqa: D102
    @property
    def threshold(self) -> float: ...  # noqa: D102
    @property
    def holds(self) -> str: ...  # noqa: D102
    @property
    def matches(self) -> Sequence[Mapping[str, Sequence[str]]]: ...  # noqa: D102
    @property
    def unless(self) -> Sequence[Mapping[str, Sequence[str]]]: ...  # noqa: D102


# The sources: rows that rules are asked of, with what SQL of a rule may name.


@dataclass(frozen=True)
class Source:
    """Rows that rules are asked of.

    Attributes:
        table: where they come from.
        key: columns that name a subject, joined by ``/``.
        evidence: columns that show why a rule is true.
        prepare: adds ``complete`` (whether the row is all there is), ``judgeable`` (whether its
            numbers mean anything) and columns that only rules need.
        asks: other tables that this takes, after its own.
    """

    table: Table
    key: tuple[str, ...]
    evidence: tuple[str, ...]
    prepare: Callable[..., DataFrame]
    asks: tuple[Table, ...] = ()


_GROUP_KEY = ("cluster", "consumer_group", "topic")


def _of_groups(groups: DataFrame) -> DataFrame:
    standing_still = F.coalesce(F.col("message_model") == "BROADCASTING", F.lit(False)) & ~(
        F.coalesce("online", F.lit(False))
    )
    return groups.withColumn("judgeable", ~standing_still)


def _of_brokers(brokers: DataFrame) -> DataFrame:
    """Brokers with ``silent`` 1 or 0; whether one answered is always known."""
    silent = is_silent().cast("bigint")
    return brokers.withColumns(
        {"silent": silent, "complete": F.lit(True), "judgeable": F.lit(True)}
    )


def _of_snapshots(snapshots: DataFrame, brokers: DataFrame) -> DataFrame:
    """Looks at whole clusters; one at files of a broker is not expected to hold the others."""
    of_all = F.coalesce(F.col("source") == "remote", F.lit(True))
    return with_unread(snapshots, brokers).withColumns(
        {"complete": F.lit(True), "judgeable": of_all}
    )


GROUPS_SOURCE = "groups"

SOURCES = {
    GROUPS_SOURCE: Source(
        GROUPS,
        _GROUP_KEY,
        (
            *_GROUP_KEY,
            *("readable_lag", "lag", "lag_upper", "lost", "queues", "queues_unknown"),
            *("max_queue_lag", "worst_broker", "worst_queue_id", "delay_ms", "online", "clients"),
            *("message_model", "loss_in_seconds", "dlq_messages", "health", "health_reason"),
        ),
        _of_groups,
    ),
    "brokers": Source(
        BROKERS,
        ("cluster", "broker", "address"),
        ("cluster", "broker", "address", "broker_id", "disk_ratio"),
        _of_brokers,
    ),
    "snapshots": Source(
        SNAPSHOTS,
        ("cluster",),
        ("cluster", "status", "brokers_expected", "brokers_answered", "unread"),
        _of_snapshots,
        asks=(BROKERS,),
    ),
}
"""Source by the name that rules know it by."""


def needs(
    variants: Sequence[Variant], window: Window, outages: Outages = NO_OUTAGE
) -> list[tuple[Table, list[Window]]]:
    """The tables that evaluating a window reads, and the windows of each."""
    names = sorted({variant.source for variant in variants} or {GROUPS_SOURCE})
    sources = [SOURCES[name] for name in names]
    added = _added(variants)
    own = [table for each in sources for table in (each.table, *each.asks)]
    of_own = windows([variant.holds for variant in variants], window, outages)
    found = {table: of_own for table in own}
    found |= {each.table: each.windows(window) for each in added}
    found |= {table: [window] for each in added for table in each.asks if table not in found}
    return list(found.items())


def _added(variants: Sequence[Variant]) -> list[Addition]:
    """What rules about groups ask beside the group's row."""
    return additions(each.holds for each in variants if each.source == GROUPS_SOURCE)


def evaluate(
    variants: Sequence[Variant],
    rows: Mapping[str, DataFrame],
    window: Window,
    outages: Outages = NO_OUTAGE,
) -> DataFrame:
    """The alerts of a window.

    Args:
        variants: of any rules.
        rows: what `needs` tells, by full name of the table; of the additions to groups, those
            that have any. A row of ``raw.brokers`` with nothing but its names is a broker that did
            not answer.
        window: evaluations that come out.
        outages: those that snapshots of the window end, or lie in.

    Returns:
        A row of ``alerting.alerts`` for each rule, subject and evaluation of the window that is
        true. ``evidence`` is JSON with ``kind, words, description, runbook, labels``;
        ``observations``, the one that is true (``snapshot_id, observed_at, value``); and ``row``,
        its columns.
    """
    found = _asked(variants, rows, window, outages, lambda each: each["holds"])
    return found.select(*ALERTS.column_names)


def verdicts(
    variants: Sequence[Variant],
    rows: Mapping[str, DataFrame],
    window: Window,
    subjects: DataFrame,
    outages: Outages = NO_OUTAGE,
) -> DataFrame:
    """What rules say of some subjects, true or not.

    Args:
        variants: see `evaluate`.
        rows: see `evaluate`.
        window: evaluations that come out.
        subjects: ``rule, subject`` of those that are asked about.
        outages: see `evaluate`.

    Returns:
        ``snapshot_id, rule, subject, holds`` for each evaluation with a row of the subject;
        ``holds`` is NULL where it is not known.
    """
    found = _asked(variants, rows, window, outages, lambda each: each.isNotNull())
    return found.join(F.broadcast(subjects), ["rule", "subject"], "left_semi").select(
        "snapshot_id", "rule", "subject", "holds"
    )


def _asked(
    variants: Sequence[Variant],
    rows: Mapping[str, DataFrame],
    window: Window,
    outages: Outages,
    wanted: Callable[[Column], Column],
) -> DataFrame:
    """One row per rule, subject and evaluation whose verdict is wanted, over all sources."""
    found = [
        _of_source(source, mine, rows, window, outages, wanted)
        for name, source in SOURCES.items()
        for mine in [[each for each in variants if each.source == name]]
        if mine
    ]
    if not found:
        return next(iter(rows.values())).sparkSession.createDataFrame([], _ASKED)
    return reduce(DataFrame.unionByName, found)


_ASKED = (
    "snapshot_id string, observed_at timestamp, subject string, rule string, severity string, "
    "holds boolean, value double, threshold double, evidence string"
)


def _of_source(
    source: Source,
    variants: Sequence[Variant],
    rows: Mapping[str, DataFrame],
    window: Window,
    outages: Outages,
    wanted: Callable[[Column], Column],
) -> DataFrame:
    """Every rule of every row that it is about: one pass, and only what is wanted multiplies."""
    added = _added(variants)
    own = source.prepare(*(rows[table.name] for table in (source.table, *source.asks)))
    prepared = join(own, added, rows)
    prepared = with_growth(prepared, source.key, [variant.holds for variant in variants], outages)
    evidence = [*source.evidence, *(name for each in added for name in each.columns)]
    asked = F.array(*[_verdict(variant) for variant in variants])
    return (
        prepared.where(inside(window))
        .select(
            "snapshot_id",
            "observed_at",
            F.concat_ws("/", *source.key).alias("subject"),
            F.struct(*evidence).alias("row"),
            F.explode(F.filter(asked, wanted)).alias("asked"),
        )
        .select("snapshot_id", "observed_at", "subject", "asked.*", "row")
        .select(
            *("snapshot_id", "observed_at", "subject", "rule", "severity", "holds"),
            *("value", "threshold"),
            _evidence().alias("evidence"),
        )
    )


def _verdict(variant: Variant) -> Column:
    """What a rule says of a row, NULL where it is not about it."""
    rule = variant.rule
    holds = F.when(F.col("judgeable"), F.expr(variant.holds))
    about = reduce(
        lambda all_of, each: all_of & each,
        [*map(fits, variant.matches), *(~fits(each) for each in variant.unless)],
    )
    labels = F.create_map(*[F.lit(text) for pair in sorted(rule.labels.items()) for text in pair])
    return F.when(
        about,
        F.struct(
            F.lit(rule.name).alias("rule"),
            F.lit(rule.kind).alias("kind"),
            F.lit(variant.severity).alias("severity"),
            F.lit(rule.words).alias("words"),
            F.lit(rule.description).alias("description"),
            F.lit(rule.runbook).cast("string").alias("runbook"),
            labels.cast("map<string,string>").alias("labels"),
            F.lit(float(variant.threshold)).alias("threshold"),
            F.expr(rule.value).cast("double").alias("value"),
            holds.alias("holds"),
        ),
    )


def _evidence() -> Column:
    """What made a rule true, as JSON."""
    observation = F.struct("snapshot_id", "observed_at", F.col("value"))
    return F.to_json(
        F.struct(
            *("kind", "words", "description", "runbook", "labels"),
            F.array(observation).alias("observations"),
            "row",
        ),
        {"ignoreNullFields": "false", "timestampFormat": INSTANT_FORMAT},
    )
