"""Which rules are true: ``alerting.alerts`` from ``progress.groups`` and ``raw.brokers``.

A rule is true for a subject (a group on a topic, or a broker address) at an observation when the
last ``for_snapshots`` *known* observations, this one included, are all so. Unknown is never true:
an observation at which the number is not known gives no alert, and in a streak it is passed over;
it neither counts nor starts the count again, so a broker that drops out now and then can hide no
standing lag. Nothing older than `HISTORY` counts, which makes an evaluation depend on that much
time only, and lets ticks and backfills give the same rows.

An incomplete sum (a broker was silent) is a lower bound: above the threshold it is true, below it
is unknown. A broadcasting group is judged only while a member is online: what a client that left
had read stands still for ever and says nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake.tables.alerting import ALERTS
from lake.tables.raw import BROKERS
from lake.window import Window

HISTORY = timedelta(hours=1)
"""How far back an evaluation looks: rows of this long before a window have to be given with it."""

INSTANT_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


class Rule(Protocol):
    """What evaluating needs to know of a rule.

    Attributes:
        name: unique among the rules.
        kind: one of `GROUP_KINDS` or `BROKER_KINDS`.
        severity: ``critical`` | ``warning`` | ``info``.
        threshold: the value above which it is true.
        for_snapshots: how many known observations in a row must be so.
        description: a sentence for people.
        runbook: address of what to do, None without one.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def severity(self) -> str: ...  # noqa: D102
    @property
    def threshold(self) -> float: ...  # noqa: D102
    @property
    def for_snapshots(self) -> int: ...  # noqa: D102
    @property
    def description(self) -> str: ...  # noqa: D102
    @property
    def runbook(self) -> str | None: ...  # noqa: D102

    def globs(self) -> Mapping[str, Sequence[str]]:
        """Column name to globs (``*``, ``?``), of which one must fit."""
        ...


def evaluate(
    rules: Sequence[Rule], groups: DataFrame, brokers: DataFrame | None, window: Window
) -> DataFrame:
    """The alerts of a window.

    Args:
        rules: of any kind.
        groups: rows of ``progress.groups`` of the window and of `HISTORY` before it.
        brokers: rows of ``raw.brokers`` of the same time, or None; a row with nothing but its names
            is a broker that did not answer. With only the window's rows, rules for more than one
            snapshot see shorter streaks than there were.
        window: evaluations that come out.

    Returns:
        A row of ``alerting.alerts`` for each rule, subject and evaluation of the window that is
        true. ``value`` is what the rule's kind looks at (messages; 1 for a silent broker);
        ``evidence`` is JSON with ``kind, description, runbook``; ``observations``, those that made
        it true, oldest first (``snapshot_id, observed_at, value``); ``previous_at``, the
        observation before this one at which it was known, null without one within `HISTORY`; and
        ``row``, the columns of the newest.

    Raises:
        ValueError: a rule of a kind that nothing here evaluates.
    """
    unknown = {rule.kind for rule in rules} - {*GROUP_KINDS, *BROKER_KINDS}
    if unknown:
        raise ValueError(f"no evaluation for rules of kind {', '.join(sorted(unknown))}")

    of_groups = [rule for rule in rules if rule.kind in GROUP_KINDS]
    of_brokers = [rule for rule in rules if rule.kind in BROKER_KINDS]
    alerts = _alerts(_judgeable(groups), of_groups, GROUP_KEY, GROUP_KINDS, GROUP_EVIDENCE, window)
    if brokers is None:
        return alerts
    facts = _answering(brokers)
    return alerts.unionByName(
        _alerts(facts, of_brokers, BROKER_KEY, BROKER_KINDS, BROKER_EVIDENCE, window)
    )


# The kinds: what a rule looks at, and the columns that show it.

GROUP_KEY = ("cluster", "consumer_group", "topic")
GROUP_EVIDENCE = (
    *GROUP_KEY,
    "readable_lag",
    "lag",
    "lost",
    "queues",
    "queues_unknown",
    "max_queue_lag",
    "worst_broker",
    "worst_queue_id",
    "delay_ms",
    "online",
    "clients",
    "message_model",
)
GROUP_KINDS = {"lag": "readable_lag", "nobody_online": "readable_lag", "lost": "lost"}
"""Kind to the column whose value it judges."""

BROKER_KEY = ("cluster", "broker", "address")
BROKER_EVIDENCE = (*BROKER_KEY, "broker_id")
BROKER_KINDS = {"broker_down": "silent"}
"""Kind to the column whose value it judges."""

_ANSWERS = [
    name
    for name in BROKERS.column_names
    if name not in ("snapshot_id", "observed_at", "config", *BROKER_EVIDENCE)
]


def _judgeable(groups: DataFrame) -> DataFrame:
    """Groups, with the numbers of a broadcasting group that has nobody online as unknown."""
    standing_still = F.coalesce(F.col("message_model") == "BROADCASTING", F.lit(False)) & ~(
        F.coalesce("online", F.lit(False))
    )
    return groups.withColumns(
        {name: F.when(~standing_still, F.col(name)) for name in ("readable_lag", "lost")}
    )


def _answering(brokers: DataFrame) -> DataFrame:
    """Brokers with ``silent`` 1 or 0; whether one answered is always known."""
    silent = F.coalesce(*[F.col(name).cast("string") for name in _ANSWERS]).isNull()
    return brokers.withColumns({"silent": silent.cast("bigint"), "complete": F.lit(True)})


def _holds(rule: Rule, name: str) -> Column:
    """Whether a rule's condition holds at an observation by itself; NULL = not known."""
    above = F.when(F.col(name) > F.lit(float(rule.threshold)), True).when(
        F.col("complete") & F.col(name).isNotNull(), False
    )
    # Three-valued: lag with nobody known to be offline is unknown, no lag is false either way.
    return above & ~F.col("online") if rule.kind == "nobody_online" else above


def _matches(rule: Rule) -> Column:
    """Whether the rule is about a row."""
    condition = F.lit(True)
    for name, globs in rule.globs().items():
        if "*" not in globs:
            fits = F.lit(False)
            for glob in globs:
                fits = fits | F.col(name).like(_like(glob))
            condition = condition & fits
    return condition


def _like(glob: str) -> str:
    r"""A glob as a pattern of SQL's LIKE, escaped by ``\``."""
    literal = glob.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return literal.replace("*", "%").replace("?", "_")


# Streaks: every rule is a few columns over the same frame, so rows are sorted once, whatever the
# number of rules, and only what is true is multiplied.


def _alerts(
    facts: DataFrame,
    rules: Sequence[Rule],
    key: Sequence[str],
    kinds: Mapping[str, str],
    evidence: Sequence[str],
    window: Window,
) -> DataFrame:
    """The alerts of rules that look at the same rows, as `evaluate` describes them."""
    if not rules:
        return _shaped(facts.where(F.lit(False)))
    in_window = (F.col("observed_at") >= F.lit(window.start)) & (
        F.col("observed_at") < F.lit(window.end)
    )
    judged = facts.select(
        "snapshot_id",
        "observed_at",
        *key,
        F.struct(*evidence).alias("row"),
        *[F.col(name).cast("double").alias(f"value_{name}") for name in set(kinds.values())],
        *[
            (_matches(rule) & _holds(rule, kinds[rule.kind])).alias(f"holds_{index}")
            for index, rule in enumerate(rules)
        ],
    )
    streaks = judged.select(
        "*",
        *[
            column
            for index, rule in enumerate(rules)
            for column in _streak(index, rule, f"value_{kinds[rule.kind]}", key)
        ],
    )
    fired = F.array(
        *[_fired(index, rule, f"value_{kinds[rule.kind]}") for index, rule in enumerate(rules)]
    )
    return _shaped(
        streaks.where(in_window)
        .select(
            "observed_at",
            F.concat_ws("/", *key).alias("subject"),
            "row",
            F.explode(F.filter(fired, lambda each: each.isNotNull())).alias("fired"),
        )
        .select("observed_at", "subject", "fired.*", _evidence().alias("evidence"))
    )


def _streak(index: int, rule: Rule, value: str, key: Sequence[str]) -> list[Column]:
    """The last observations at which a rule held, the last at which it did not, and the last known.

    ``IGNORE NULLS`` is what passes over the unknown; only SQL can say it of ``lag``.
    """
    over = f"OVER (PARTITION BY {', '.join(key)} ORDER BY observed_at)"
    holds = f"holds_{index}"
    observation = (
        f"named_struct('snapshot_id', snapshot_id, 'observed_at', observed_at, 'value', {value})"
    )
    held = [
        f"lag(IF({holds}, {observation}, NULL), {back}) IGNORE NULLS {over}"
        for back in range(rule.for_snapshots - 1, 0, -1)
    ]
    return [
        F.expr(f"array({', '.join([*held, observation])})").alias(f"held_{index}"),
        F.expr(f"max(IF({holds}, NULL, IF({holds} IS NULL, NULL, observed_at))) {over}").alias(
            f"failed_at_{index}"
        ),
        F.expr(f"lag(IF({holds} IS NULL, NULL, observed_at)) IGNORE NULLS {over}").alias(
            f"previous_at_{index}"
        ),
    ]


def _fired(index: int, rule: Rule, value: str) -> Column:
    """The alert of a rule at a row, NULL where it is not true."""
    held, failed_at = F.col(f"held_{index}"), F.col(f"failed_at_{index}")
    since, previous_at = F.get(held, F.lit(0))["observed_at"], F.col(f"previous_at_{index}")
    earliest = F.col("observed_at") - F.lit(HISTORY)
    return F.when(
        F.col(f"holds_{index}") & (since > earliest) & (failed_at.isNull() | (failed_at < since)),
        F.struct(
            F.lit(rule.name).alias("rule"),
            F.lit(rule.kind).alias("kind"),
            F.lit(rule.severity).alias("severity"),
            F.lit(rule.description).alias("description"),
            F.lit(rule.runbook).cast("string").alias("runbook"),
            F.lit(float(rule.threshold)).alias("threshold"),
            F.col(value).alias("value"),
            held.alias("observations"),
            F.when(previous_at > earliest, previous_at).alias("previous_at"),
        ),
    )


def _evidence() -> Column:
    """What made an alert true, as JSON."""
    names = ("kind", "description", "runbook", "observations", "previous_at")
    return F.to_json(
        F.struct(*[f"fired.{name}" for name in names], "row"),
        {"ignoreNullFields": "false", "timestampFormat": INSTANT_FORMAT},
    )


def _shaped(rows: DataFrame) -> DataFrame:
    """Rows with the columns of ``alerting.alerts``, those missing as NULL."""
    types = {"observed_at": "timestamp", "value": "double", "threshold": "double"}
    return rows.select(
        *[
            (F.col(name) if name in rows.columns else F.lit(None))
            .cast(types.get(name, "string"))
            .alias(name)
            for name in ALERTS.column_names
        ]
    )
