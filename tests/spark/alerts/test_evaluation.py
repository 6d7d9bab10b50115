"""Alerts: a dozen rows per kind of rule, and the same rows from ticks as from an hour at once.

One simplification would look right and break: taking an incomplete sum below the threshold for a
number that is known not to be above it.
"""

import json
import random
from collections.abc import Mapping, Sequence
from datetime import UTC
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from assets.rule_evaluation import evaluated_rules
from spark.alerts.evaluation import evaluate, evaluate_subjects, tables_to_read
from spark.alerts.group_features import HISTORY
from spark.alerts.sources import SOURCES
from tests.support.rules_by_name import named
from tests.support.table_rows import NOON, frame, minute, minutes, snapshot_id
from tidemark.alerting.rules.base import AppliedRule
from tidemark.alerting.rules.files import DEFAULT_RULES, load_rules
from tidemark.alerting.rules.kinds import KINDS
from tidemark.alerting.rules.model import NUMBERS
from tidemark.lake.bounds import INCOMPLETE, MARKED_BY, MARKS, MINIMA, SUMS
from tidemark.lake.clocks import Window
from tidemark.lake.tables.alerting import ALERTS
from tidemark.lake.tables.progress import GROUPS
from tidemark.lake.tables.progress import TOPICS as TOPICS_TABLE
from tidemark.lake.tables.raw import BROKERS, SNAPSHOTS

BOUNDS = {
    name: (named(kind, threshold, name=name, **other), above, below, bound)
    for name, kind, threshold, other, above, below, bound in [
        ("lag", "lag", 10, {}, {"readable_lag": 20}, {"readable_lag": 0}, "lower"),
        ("alone", "nobody_online", None, {}, {"readable_lag": 20}, {"readable_lag": 0}, "lower"),
        ("late", "delay", 60, {}, {"delay_ms": 90_000}, {"delay_ms": 30_000}, "lower"),
        (
            "waits",
            "ready_delay",
            60,
            {},
            {"ready_delay_ms": 90_000},
            {"ready_delay_ms": 9},
            "lower",
        ),
        (
            *("small", "lag", 10, {"min_messages": 30}),
            *({"readable_lag": 40}, {"readable_lag": 20}, "lower"),
        ),
        ("soon", "soon_lost", 60, {}, {"loss_in_seconds": 30}, {"loss_in_seconds": 90}, "upper"),
        (
            *("column", "column", None, {"column": "lag", "above": 10}),
            *({"lag": 20}, {"lag": 3}, "lower"),
        ),
    ]
}
"""Rules, each with numbers of which it is true, numbers of which it is untrue where they are no
bounds, and what the value of the first is where they are."""

pytestmark = pytest.mark.spark

Frames = dict[str, DataFrame]


READY_MADE = evaluated_rules(load_rules(DEFAULT_RULES))
"""The rules that come with Tidemark."""


def group(at: float, readable_lag: int | None, **other: Any) -> dict[str, Any]:
    """An observation of one group, complete and online unless given otherwise."""
    row = {
        "at": at,
        "consumer_group": "billing",
        "topic": "orders",
        "lag": readable_lag,
        "readable_lag": readable_lag,
        "lost": None if readable_lag is None else 0,
        "complete": True,
        "online": True,
        "message_model": "CLUSTERING",
    }
    return row | other


def groups(spark: SparkSession, rows: Sequence[dict[str, Any]], **columns: Any) -> Frames:
    """The rows, with some columns the same in each."""
    return {GROUPS.name: frame(spark, GROUPS, [row | columns for row in rows])}


def brokers(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> Frames:
    return {BROKERS.name: frame(spark, BROKERS, rows)}


def assert_alerts(value: DataFrame, expected: Sequence[tuple[float, str, str, float]]) -> None:
    """Compares minute, rule, subject and value."""
    rows = [
        ((row.observed_at.astimezone(UTC) - NOON).total_seconds() / 60, *row[1:])
        for row in value.select("observed_at", "rule", "subject", "value").collect()
    ]
    assert sorted(rows) == sorted(expected)


def test_lag_above_its_threshold_at_every_evaluation(spark: SparkSession) -> None:
    rows = [
        *(group(at, lag) for at, lag in enumerate([101, 100, 103, 0])),
        group(1, 500, topic="%RETRY%billing"),
        group(9, 500),
    ]
    result = evaluate(named("lag", 100.0), groups(spark, rows), minutes(0, 5))
    assert result.columns == ALERTS.column_names
    assert_alerts(
        result,
        [
            (0, "lag", "lab/billing/orders", 101.0),
            (1, "lag", "lab/billing/%RETRY%billing", 500.0),
            (2, "lag", "lab/billing/orders", 103.0),
        ],
    )


UNKNOWN = [
    group(0, 200),
    group(1, None, complete=False, online=None),
    group(2, 50, complete=False),  # at least 50: undecided
    group(3, 150, complete=False),  # at least 150: true
    group(4, 50),
]


def test_the_unknown_is_neither_true_nor_untrue(spark: SparkSession) -> None:
    subject = "lab/billing/orders"
    rules, frames = named("lag", 100.0), groups(spark, UNKNOWN)
    assert_alerts(
        evaluate(rules, frames, minutes(0, 60)),
        [(0, "lag", subject, 200.0), (3, "lag", subject, 150.0)],
    )
    subjects = spark.createDataFrame([("lag", subject), ("lag", "lab/gone/orders")], _SUBJECTS)
    rows = evaluate_subjects(rules, frames, minutes(0, 60), subjects).collect()
    assert {row.snapshot_id: row.holds for row in rows} == {
        snapshot_id(0): True,
        snapshot_id(1): None,
        snapshot_id(2): None,
        snapshot_id(3): True,
        snapshot_id(4): False,
    }
    assert {row.subject for row in rows} == {subject}


_SUBJECTS = "rule string, subject string"

NONE_OF = {"online": True, "lag_upper": 40, "queues": 4}

OF_PART: dict[str, tuple[list[AppliedRule], dict[str, Any], dict[str, Any], bool | None]] = {
    name: (named(kind, threshold, name, **other), true, untrue, of_part)
    for name, kind, threshold, other, true, untrue, of_part in [
        ("lag", "lag", 100.0, {}, {"readable_lag": 200}, {"readable_lag": 50}, True),
        ("filtered", "filtered_lag", 9.0, {}, {"filtered_lag": 20}, {"filtered_lag": 5}, True),
        ("delay", "delay", "10m", {}, {"delay_ms": 900_000}, {"delay_ms": 60_000}, True),
        (
            *("waits", "ready_delay", "5m", {}),
            *({"ready_delay_ms": 400_000}, {"ready_delay_ms": 60_000}, True),
        ),
        (
            *("expired", "ready_delay", "5m", {}),
            *({"ready_delay_ms": 400_000}, {"ready_delay_ms": 400_000, "readable_lag": 0}, True),
        ),
        (
            *("few", "delay", "10m", {"min_messages": 10}),
            *({"delay_ms": 900_000}, {"delay_ms": 900_000, "readable_lag": 9}, True),
        ),
        (
            *("young", "lag", 10.0, {"min_age": "5m"}),
            *({"delay_ms": 600_000}, {"delay_ms": 1000}, True),
        ),
        ("alone", "nobody_online", None, {}, {}, {"readable_lag": 0}, True),
        (
            *("never", "never_committed", None, {}),
            *({**NONE_OF, "queues_never_committed": 4}, {**NONE_OF, "queues_never_committed": 2}),
            None,
        ),
        ("lost", "lost", None, {}, {"lost": 3}, {"lost": 0}, True),
        ("soon", "soon_lost", "2h", {}, {"loss_in_seconds": 9}, {"loss_in_seconds": 9e9}, True),
        (
            *("none_left", "soon_lost", "2h", {}),
            *({"loss_in_seconds": 9}, {"loss_in_seconds": 9, "readable_lag": 0}, True),
        ),
        (
            *("behind", "falling_behind", None, {}),
            *({"health": "FALLING_BEHIND"}, {"health": "OK"}, True),
        ),
        ("hung", "stalled", None, {}, {"health": "STALLED"}, {"health": "LOSING"}, True),
        ("losing", "losing", None, {}, {"health": "LOSING", "lost": 3}, {"health": "OK"}, True),
        ("skewed", "column", None, {"column": "skew", "above": 5}, {"skew": 6}, {"skew": 4}, None),
        (
            *("slow", "column", None, {"column": "consume_tps", "below": 1}),
            *({"consume_tps": 0.5}, {"consume_tps": 2.0}, None),
        ),
        (
            *("fast", "column", None, {"column": "consume_tps", "above": 1}),
            *({"consume_tps": 2.0}, {"consume_tps": 0.5}, True),
        ),
        (
            *("expiring", "column", None, {"column": "loss_in_seconds", "below": 60}),
            *({"loss_in_seconds": 10}, {"loss_in_seconds": 100}, True),
        ),
        (
            *("lasting", "column", None, {"column": "loss_in_seconds", "above": 60}),
            *({"loss_in_seconds": 100}, {"loss_in_seconds": 10}, None),
        ),
    ]
}
"""Rules, each with a row of which it is true and one of which it is not, and its outcome
for the first when a broker was unreachable."""


def test_unknown_queues_decide_no_rule_wrongly(
    spark: SparkSession,
) -> None:
    """Every kind at a row it is true of and one it is not; then the same with queues unknown."""
    rows, rules, expected = [], [], {}
    for name, (applied, true, untrue, of_part) in OF_PART.items():
        fixed = {"topic": name, "online": name != "alone", "lag_upper": 20, "health": "OK"}
        rows += [
            group(at, 20) | fixed | columns | {"complete": at < 2}
            for at, columns in enumerate((true, untrue, true, untrue))
        ]
        rules += applied
        found_of_subjects = (True, False, of_part, None)
        expected |= {(snapshot_id(at), name): holds for at, holds in enumerate(found_of_subjects)}
    pairs = [(name, f"lab/billing/{name}") for name in OF_PART]
    subjects = spark.createDataFrame(pairs, _SUBJECTS)
    collected = evaluate_subjects(rules, groups(spark, rows), minutes(0, 60), subjects).collect()
    assert {(row.snapshot_id, row.rule): row.holds for row in collected} == expected


def test_a_bound_makes_no_rule_untrue(spark: SparkSession) -> None:
    """The truth lies beyond a bound: true stays true, and untrue is unknown."""
    rows, rules, expected = [], [], {}
    for name, (applied, above, below, _) in BOUNDS.items():
        fixed = {"topic": name, "online": name != "alone", "delay_ms": 0, "loss_in_seconds": 900}
        rows += [
            group(at, 20) | fixed | columns | dict.fromkeys(MARKS, at >= 2)
            for at, columns in enumerate((above, below, above, below))
        ]
        rules += applied
        outcomes = (True, False, True, None)
        expected |= {(snapshot_id(at), name): holds for at, holds in enumerate(outcomes)}
    pairs = [(name, f"lab/billing/{name}") for name in BOUNDS]
    subjects = spark.createDataFrame(pairs, _SUBJECTS)
    frames = groups(spark, rows)
    collected = evaluate_subjects(rules, frames, minutes(0, 60), subjects).collect()
    assert {(row.snapshot_id, row.rule): row.holds for row in collected} == expected
    alerts = evaluate(rules, frames, minutes(0, 60)).collect()
    own = [row for row in alerts if row.subject == f"lab/billing/{row.rule}"]
    assert {(row.observed_at.minute, row.rule): row.value_bound for row in own} == {
        (at, name): bound
        for name, (*_, of_value) in BOUNDS.items()
        for at, bound in ((0, None), (2, of_value))
    }


def test_a_group_that_acknowledges_ends_what_its_lag_began(spark: SparkSession) -> None:
    """Popped messages without acknowledgement are redelivered, so they hide no lag for long."""
    rules = named("lag", 10, name="lag")
    bound = {"lag_is_lower_bound": True, "topic": "popped"}
    states = ((20, None), (0, None), (0, False), (0, True))
    rows = [
        group(at, lag) | bound | {"acknowledged": acknowledged}
        for at, (lag, acknowledged) in enumerate(states)
    ]
    subjects = spark.createDataFrame([("lag", "lab/billing/popped")], _SUBJECTS)
    outcomes = evaluate_subjects(rules, groups(spark, rows), minutes(0, 60), subjects).collect()
    assert [row.holds for row in sorted(outcomes, key=lambda row: row.snapshot_id)] == [
        True,
        None,
        None,
        False,
    ]


def test_evidence_holds_the_marks_of_its_numbers() -> None:
    evidence = set(SOURCES["groups"].evidence)
    assert {mark for name in evidence for mark in MARKED_BY.get(name, ())} <= evidence
    assert INCOMPLETE in evidence


def test_every_column_declares_its_meaning_of_unknown() -> None:
    assert set(NUMBERS) == SUMS | MINIMA | {
        *("skew", "drain_seconds", "match_ratio", "redelivered_share")
    }
    assert not SUMS & MINIMA


def test_a_group_without_a_configuration_raises_no_alert_but_its_own(spark: SparkSession) -> None:
    """Its offsets stay when it is deleted, and their lag grows for ever."""
    alone = {"online": False, "clients": 0, "health": "STOPPED", "lag_upper": 2_000_000}
    alone |= {"queues": 8, "loss_in_seconds": 1.0, "lost": 5, "delay_ms": 10**8}
    rows = [
        group(0, 2_000_000, consumer_group="deleted", registered=False, **alone),
        group(0, 5, consumer_group="deleted", topic="a", registered=False, **alone),
        group(0, 2_000_000, consumer_group="not-told", registered=None, **alone),
        group(0, 2_000_000, consumer_group="real", registered=True, **alone),
    ]
    about_groups = [rule for rule in READY_MADE if rule.source == "groups"]
    collected = evaluate(about_groups, groups(spark, rows), minutes(0, 5)).collect()
    rules: dict[str, set[str]] = {}
    for row in collected:
        rules.setdefault(row.subject, set()).add(row.rule)
    assert rules["lab/deleted/orders"] == {"offsets-unregistered"}
    assert "lab/deleted/a" not in rules
    assert rules["lab/real/orders"] >= {"nobody-online", "lag-very-high", "messages-soon-lost"}
    assert rules["lab/not-told/orders"] == rules["lab/real/orders"]


def test_facts_about_a_whole_group_raise_one_alert(spark: SparkSession) -> None:
    facts = {"duplicate_client_ids": 2, "mixed_members": True, "redelivered_tps": 0.5}
    unknown = {name: None for name in facts}
    none = {"duplicate_client_ids": 0, "mixed_members": False, "redelivered_tps": 0.01}
    rows = [
        *(group(0, 0, topic=topic, **facts) for topic in ("orders", "%RETRY%billing")),
        group(0, 0, consumer_group="not-told", **unknown),
        group(0, 0, consumer_group="well", **none),
        group(0, 0, consumer_group="busy", redelivered_tps=9.0, redelivered_share=0.09),
        group(0, 0, consumer_group="fails", redelivered_tps=9.0, redelivered_share=0.11),
    ]
    rules = [
        *named("duplicate_client_ids"),
        *named("mixed_members"),
        *named("redelivery", 1),
    ]
    subject = "lab/billing/%RETRY%billing"
    assert_alerts(
        evaluate(rules, groups(spark, rows), minutes(0, 5)),
        [
            (0, "duplicate_client_ids", subject, 2.0),
            (0, "mixed_members", subject, 1.0),
            (0, "redelivery", subject, 30.0),
            (0, "redelivery", "lab/fails/orders", 540.0),
        ],
    )


def test_lag_and_nobody_online(spark: SparkSession) -> None:
    gone = {"online": False, "message_model": None}
    rows = [
        group(0, 5, **gone),
        group(0, 0, topic="quiet", **gone),
        group(0, None, topic="unknown", **gone),
        group(0, 3, topic="%RETRY%billing", **gone),
        group(0, 900, consumer_group="online"),
        group(0, 900, consumer_group="not-asked", online=None, message_model=None),
        group(0, 900, consumer_group="news", online=False, message_model="BROADCASTING"),
        group(0, 7, consumer_group="half-seen", complete=False, **gone),
        group(0, 0, consumer_group="all-lost", lag=40, lost=40, **gone),
    ]
    result = evaluate(named("nobody_online"), groups(spark, rows), minutes(0, 60))
    assert_alerts(
        result,
        [
            (0, "nobody_online", "lab/billing/orders", 5.0),
            (0, "nobody_online", "lab/billing/%RETRY%billing", 3.0),
            (0, "nobody_online", "lab/half-seen/orders", 7.0),
        ],
    )


def test_no_rule_is_true_of_a_broadcasting_group_without_members(spark: SparkSession) -> None:
    """Its offsets never move again, and an incident about them would never resolve."""
    rows = [
        group(at, 900, message_model="BROADCASTING", online=online)
        for at, online in enumerate((True, False, None))
    ]
    subjects = spark.createDataFrame([("lag", "lab/billing/orders")], _SUBJECTS)
    collected = evaluate_subjects(
        named("lag", 100.0), groups(spark, rows), minutes(0, 60), subjects
    ).collect()
    assert {row.snapshot_id: row.holds for row in collected} == {
        snapshot_id(at): holds for at, holds in enumerate((True, False, None))
    }


def test_lost_messages(spark: SparkSession) -> None:
    rows = [
        group(0, 10, lost=3),
        group(1, 10, lost=0),
        group(2, 10, lost=None, complete=False),
        group(3, 10, lost=4, complete=False),
        group(0, 0, topic="quiet"),
        group(0, 10, lost=8, consumer_group="news", message_model="BROADCASTING"),
        group(1, 10, lost=8, consumer_group="news", message_model="BROADCASTING", online=False),
        group(2, 10, lost=8, consumer_group="news", message_model="BROADCASTING", online=None),
    ]
    result = evaluate(named("lost"), groups(spark, rows), minutes(0, 60))
    assert_alerts(
        result,
        [
            (0, "lost", "lab/billing/orders", 3.0),
            (3, "lost", "lab/billing/orders", 4.0),
            (0, "lost", "lab/news/orders", 8.0),
        ],
    )


def test_one_message_on_an_idle_topic_raises_no_alarm(spark: SparkSession) -> None:
    """A day old is the commit, not the message that came just now."""
    rows = [group(0, 0, delay_ms=0), group(1, 1, delay_ms=40), group(2, 0, delay_ms=0)]
    rules = [applied_rule for applied_rule in READY_MADE if applied_rule.source == "groups"]
    assert len(rules) > 10
    assert evaluate(rules, groups(spark, rows, health="OK"), minutes(0, 60)).collect() == []


def test_a_stopped_group_is_alerted_once(spark: SparkSession) -> None:
    rows = [
        group(0, 5, lag_upper=5, online=False, health="STOPPED"),
        group(1, 5, lag_upper=5, online=False, health="OK"),
    ]
    rules = [
        applied_rule
        for applied_rule in READY_MADE
        if applied_rule.kind in ("nobody_online", "stopped")
    ]
    subject = "lab/billing/orders"
    assert_alerts(
        evaluate([*rules, *named("stopped")], groups(spark, rows), minutes(0, 60)),
        [
            (0, "nobody-online", subject, 5.0),
            (0, "stopped", subject, 5.0),
            (1, "nobody-online", subject, 5.0),
        ],
    )
    collected = evaluate(rules, groups(spark, rows), minutes(0, 60)).collect()
    assert {row.rule for row in collected} == {"nobody-online"}


def test_filtered_and_plain_lag_rules_never_alert_together(spark: SparkSession) -> None:
    """Columns: how, how many of 20,000 are its own; which of the two rules are true."""
    cases: dict[str, tuple[str | None, int | None, list[str]]] = {
        "reads_all": ("none", 20_000, ["lag-high"]),
        "not_known": (None, None, ["lag-high"]),
        "by_tag": ("tag_sample", 200, []),
        "by_sql": ("delivered_over_advanced", 200, []),
        "far_behind": ("tag_sample", 15_000, ["filtered-lag-high"]),
    }
    rows = [
        group(0, 20_000, topic=name, match_method=method, filtered_lag=own)
        for name, (method, own, _) in cases.items()
    ]
    rules = [
        applied_rule for applied_rule in READY_MADE if applied_rule.kind in ("lag", "filtered_lag")
    ]
    collected = evaluate(rules, groups(spark, rows), minutes(0, 60)).collect()
    assert sorted((row.subject.split("/")[2], row.rule) for row in collected) == sorted(
        (name, rule)
        for name, (_, _, found_of_subjects) in cases.items()
        for rule in found_of_subjects
    )


def test_times_are_compared_in_seconds_from_above_and_below(spark: SparkSession) -> None:
    rows = [
        group(0, 9, delay_ms=600_000, loss_in_seconds=7200.0),
        group(1, 9, delay_ms=600_500, loss_in_seconds=7199.0),
        group(2, 9, delay_ms=900_000, loss_in_seconds=None),
        group(3, 0, loss_in_seconds=100.0),
        group(4, 2, delay_ms=900_000),
    ]
    rules = [*named("delay", "10m", min_messages=5), *named("soon_lost", "2h")]
    assert_alerts(
        evaluate(rules, groups(spark, rows), minutes(0, 60)),
        [
            (1, "delay", "lab/billing/orders", 600.5),
            (1, "soon_lost", "lab/billing/orders", 7199.0),
            (2, "delay", "lab/billing/orders", 900.0),
        ],
    )


@pytest.mark.parametrize(("kind", "column"), [("delay", "delay_ms"), ("filtered_lag",) * 2])
def test_a_group_for_which_nothing_waits_is_not_late(
    spark: SparkSession, kind: str, column: str
) -> None:
    """Ahead of a recreated topic it has no age, and without a member no known filter, for days."""
    rows = [
        group(0, 99_000, **{column: 90_000}),
        group(1, 0, lag=-40),
        group(2, 5),
        group(3, 0, complete=False),
    ]
    subjects = spark.createDataFrame([(kind, "lab/billing/orders")], _SUBJECTS)
    collected = evaluate_subjects(
        named(kind, 60.0), groups(spark, rows), minutes(0, 60), subjects
    ).collect()
    assert {row.snapshot_id: row.holds for row in collected} == {
        snapshot_id(at): holds for at, holds in enumerate((True, False, None, None))
    }


def test_what_was_handed_out_long_ago_does_not_wait(spark: SparkSession) -> None:
    """Few slow messages are in work for an hour; then one waits; then it is unknown."""
    rows = [
        group(0, 2, delay_ms=3_600_000, ready_delay_ms=0),
        group(1, 3, delay_ms=3_660_000, ready_delay_ms=301_000),
        group(2, 3, delay_ms=3_720_000, ready_delay_ms=None),
    ]
    rules = [
        applied_rule for applied_rule in READY_MADE if applied_rule.kind in ("delay", "ready_delay")
    ]
    assert_alerts(
        evaluate(rules, groups(spark, rows), minutes(0, 60)),
        [(1, "ready-delay-high", "lab/billing/orders", 301.0)],
    )
    subjects = spark.createDataFrame([("ready-delay-high", "lab/billing/orders")], _SUBJECTS)
    collected = evaluate_subjects(rules, groups(spark, rows), minutes(0, 60), subjects).collect()
    assert {row.snapshot_id: row.holds for row in collected} == {
        snapshot_id(0): False,
        snapshot_id(1): True,
        snapshot_id(2): None,
    }


def test_health_rules_are_unknown_where_health_is_unknown(
    spark: SparkSession,
) -> None:
    rules, subject = named("stalled"), "lab/billing/orders"
    subjects = spark.createDataFrame([("stalled", subject)], _SUBJECTS)
    expected = {"STALLED": True, "OK": False, "UNKNOWN": None, None: None}
    for health, holds in expected.items():
        frames = groups(spark, [group(0, 5, lag_upper=5)], health=health)
        (row,) = evaluate_subjects(rules, frames, minutes(0, 1), subjects).collect()
        assert row.holds is holds, health
    (row,) = evaluate_subjects(
        rules, groups(spark, [group(0, 5)]), minutes(0, 1), subjects
    ).collect()
    assert row.holds is None, "rows from before there was a health"


def test_growth_counts_from_the_last_known_value(spark: SparkSession) -> None:
    retry = "%RETRY%billing"
    numbers = {-1: 3, 0: None, 1: 5, 2: 5, 3: 4, 4: 6, 20: 90}
    rows = [
        group(at, n, topic=topic, dlq_messages=n, retry_lag=n, complete=n is not None)
        for at, n in numbers.items()
        for topic in (retry, "orders")
    ]
    rules = [*named("dlq_growth"), *named("retry_growth", 1.0)]
    ((_, (given,)),) = tables_to_read(rules, minutes(0, 60))
    assert given == Window(minute(0) - HISTORY, minute(60))
    result = evaluate(rules, groups(spark, rows), minutes(0, 60))
    subject = f"lab/billing/{retry}"
    assert_alerts(
        result,
        [
            (1, "dlq_growth", subject, 2.0),
            (1, "retry_growth", subject, 2.0),
            (4, "dlq_growth", subject, 2.0),
            (4, "retry_growth", subject, 2.0),
        ],
    )


def test_growth_of_a_group_that_pops_and_has_no_retry_topic_row(spark: SparkSession) -> None:
    rows = [
        group(at, 1, topic=topic, dlq_messages=number, retry_lag=number, complete=True)
        for at, number in ((0, 0), (1, 5))
        for topic in ("%RETRY%billing_orders", "%RETRY%billing_stock", "orders")
    ]
    rules = [*named("dlq_growth"), *named("retry_growth", 1.0)]
    result = evaluate(rules, groups(spark, rows), minutes(0, 60))
    subject = "lab/billing/orders"
    assert_alerts(result, [(1, "dlq_growth", subject, 5.0), (1, "retry_growth", subject, 5.0)])


def test_growth_of_a_group_is_one_alert_of_a_rule_about_some_topics(spark: SparkSession) -> None:
    topics = ("%RETRY%billing", "orders-eu", "orders-us", "stock")
    rows = [
        group(at, 1, topic=topic, dlq_messages=number)
        for at, number in ((0, 0), (1, 5))
        for topic in topics
    ]
    orders, others = {"topic": "orders-*"}, {"topic": ["stock", "%*"]}
    rules = [
        *named("dlq_growth", name="orders", match=orders),
        *named("dlq_growth", name="overridden", overrides=[{"match": orders, "threshold": 1}]),
        *named("dlq_growth", name="off", match=orders, overrides=[_off("orders-us")]),
        *named("dlq_growth", name="others", match=others),
        *named("dlq_growth", name="none", match={"topic": "absent"}),
    ]
    result = evaluate(rules, groups(spark, rows), minutes(0, 60))
    of = {"orders": topics[2], "overridden": topics[0], "off": topics[1], "others": topics[0]}
    assert_alerts(result, [(1, rule, f"lab/billing/{topic}", 5.0) for rule, topic in of.items()])


def _off(topic: str) -> dict[str, Any]:
    return {"match": {"topic": topic}, "enabled": False}


def test_queues_hidden_for_a_while_are_no_growth(spark: SparkSession) -> None:
    """60 of 100 are on the broker that is unreachable at 1 and 2, when 5 come to the other."""
    retry, unreachable = "%RETRY%billing", (1, 2, 5, 6)
    numbers = {0: 100, 1: 40, 2: 45, 3: 105, 4: 105, 5: 45, 6: 200}
    rows = [
        group(at, n, topic=retry, dlq_messages=n, retry_lag=n, complete=at not in unreachable)
        for at, n in numbers.items()
    ]
    rules, subject = (
        [*named("dlq_growth"), *named("retry_growth")],
        f"lab/billing/{retry}",
    )
    result = evaluate(rules, groups(spark, rows), minutes(0, 60))
    assert_alerts(
        result,
        [
            (at, kind, subject, growth)
            for kind in ("dlq_growth", "retry_growth")
            # At the last, so many came at least, whatever the unreachable broker holds.
            for at, growth in ((3, 5.0), (6, 95.0))
        ],
    )
    subjects = spark.createDataFrame([("dlq_growth", subject)], _SUBJECTS)
    found_of_subjects = evaluate_subjects(
        rules, groups(spark, rows), minutes(0, 60), subjects
    ).collect()
    unknown = {row.snapshot_id for row in found_of_subjects if row.holds is None}
    assert unknown == {snapshot_id(at) for at in (0, 1, 2, 5)}


def test_any_column_can_be_compared(spark: SparkSession) -> None:
    rows = [group(0, 9, skew=4.5, consume_tps=0.5), group(1, 9, skew=6.0, consume_tps=2.0)]
    rules = [
        *named("column", name="skewed", column="skew", above=5.0),
        *named("column", name="slow", column="consume_tps", below=1.0),
    ]
    assert_alerts(
        evaluate(rules, groups(spark, rows), minutes(0, 60)),
        [(0, "slow", "lab/billing/orders", 0.5), (1, "skewed", "lab/billing/orders", 6.0)],
    )


def test_never_committed_is_about_those_online(spark: SparkSession) -> None:
    none = {"lag_upper": 40, "queues": 4, "queues_never_committed": 4}
    rows = [
        group(0, None, topic="hung", **none),
        group(0, None, topic="gone", online=False, **none),
        group(0, 10, topic="partly", **none | {"queues_never_committed": 3}),
    ]
    result = evaluate(named("never_committed"), groups(spark, rows), minutes(0, 60))
    assert_alerts(result, [(0, "never_committed", "lab/billing/hung", 40.0)])


def topic(at: float, unreadable: int | None, **other: Any) -> dict[str, Any]:
    row = {"at": at, "topic": "orders", "kind": "normal", "complete": True}
    return row | {"unreadable_messages": unreadable} | other


def test_messages_that_no_consumer_can_read(spark: SparkSession) -> None:
    rows = [
        topic(0, 40, unreadable_reason="BEYOND_READ_QUEUES"),
        topic(1, 0),
        topic(2, None),
        topic(3, None, complete=False),
        topic(4, 0, complete=False),  # the unreachable broker may hold some
        topic(5, 7, complete=False),  # at least 7
        topic(6, 30, kind=None),
        topic(7, 10),  # not above the other rule's threshold
        topic(0, 50, topic="%DLQ%billing", kind="dlq"),
        topic(0, 60, topic="%RETRY%billing", kind="retry"),
        topic(0, 70, topic="payments"),
    ]
    rules = [
        *named("unreadable_messages", match={"topic": "orders"}),
        *named("unreadable_messages", 10.0, "many", match={"topic": ["orders", "%*"]}),
    ]
    frames, orders = {TOPICS_TABLE.name: frame(spark, TOPICS_TABLE, rows)}, "lab/orders"
    result = evaluate(rules, frames, minutes(0, 60))
    assert_alerts(
        result,
        [
            *((at, "unreadable_messages", orders, n) for at, n in ((0, 40.0), (5, 7.0))),
            *((at, "unreadable_messages", orders, n) for at, n in ((6, 30.0), (7, 10.0))),
            *((at, "many", orders, n) for at, n in ((0, 40.0), (6, 30.0))),
        ],
    )
    bounds = {tuple(row) for row in result.select("value", "value_bound").collect()}
    assert bounds == {(40.0, None), (7.0, "lower"), (30.0, None), (10.0, None)}
    (evidence,) = result.where("rule = 'many' AND value = 40").select("evidence").collect()
    assert json.loads(evidence[0])["row"]["unreadable_reason"] == "BEYOND_READ_QUEUES"
    subjects = spark.createDataFrame([("unreadable_messages", orders)], _SUBJECTS)
    outcomes = evaluate_subjects(rules, frames, minutes(0, 60), subjects).collect()
    expected = [True, False, None, None, None, True, True, True]
    assert {row.snapshot_id: row.holds for row in outcomes} == {
        snapshot_id(at): holds for at, holds in enumerate(expected)
    }


def dead(at: float, age: float | None, messages: int | None = 5, **other: Any) -> dict[str, Any]:
    """The dead-letter topic of a group, whose oldest message is so many minutes old."""
    row = topic(at, 0, topic="%DLQ%billing", kind="dlq", messages=messages)
    oldest = None if age is None else minute(at - age)
    return row | {"oldest_at": oldest, "oldest_at_is_upper_bound": age and False} | other


def test_old_dead_letters(spark: SparkSession) -> None:
    rows = [
        dead(0, 61),
        dead(1, 59),
        dead(2, None, 0),
        dead(3, None),  # nothing dates it
        dead(4, None, None),
        dead(5, 59, oldest_at_is_upper_bound=True),  # it may be older than that
        dead(6, 61, oldest_at_is_upper_bound=True),
        dead(7, 59, complete=False),  # the unreachable broker may hold an older one
        dead(8, 61, complete=False),
        dead(9, None, 0, complete=False),
        topic(0, 0, messages=5, oldest_at=minute(-90)),
        topic(0, 0, topic="%RETRY%billing", messages=5, oldest_at=minute(-90)),
    ]
    rules = named("dead_letter_age", "1h")
    frames, subject = {TOPICS_TABLE.name: frame(spark, TOPICS_TABLE, rows)}, "lab/%DLQ%billing"
    result = evaluate(rules, frames, minutes(0, 60))
    true = [(at, "dead_letter_age", subject, 3660.0) for at in (0, 6, 8)]
    assert_alerts(result, true)
    bounds = [row[0] for row in result.orderBy("observed_at").select("value_bound").collect()]
    assert bounds == [None, "lower", "lower"]
    (evidence, *_) = result.select("evidence").collect()
    assert json.loads(evidence[0])["row"]["consumer_group"] == "billing"
    subjects = spark.createDataFrame([("dead_letter_age", subject)], _SUBJECTS)
    outcomes = evaluate_subjects(rules, frames, minutes(0, 60), subjects).collect()
    expected = [True, False, False, None, None, None, True, None, True, None]
    assert {row.snapshot_id: row.holds for row in outcomes} == {
        snapshot_id(at): holds for at, holds in enumerate(expected)
    }


def broker(at: float, name: str, **reported: Any) -> dict[str, Any]:
    port = {"broker-a": 10911, "broker-b": 10921}[name]
    return {"at": at, "broker": name, "broker_id": 0, "address": f"10.0.0.1:{port}"} | reported


def test_unreachable_and_full_brokers_raise_alerts(spark: SparkSession) -> None:
    rows = [
        broker(0, "broker-a", version="V5_3_3", put_tps=0.0, config={"a": "b"}),
        broker(0, "broker-b"),
        broker(1, "broker-a", disk_ratio=0.5),  # an old one may not report its version
        broker(1, "broker-b", config={}),
        broker(2, "broker-a"),
        broker(2, "broker-b", version="V5_3_3", disk_ratio=0.9),
    ]
    rules = [*named("broker_down"), *named("disk", 0.85)]
    result = evaluate(rules, brokers(spark, rows), minutes(0, 60))
    a, b = "lab/broker-a/10.0.0.1:10911", "lab/broker-b/10.0.0.1:10921"
    assert_alerts(
        result,
        [
            (0, "broker_down", b, 1.0),
            (1, "broker_down", b, 1.0),
            (2, "broker_down", a, 1.0),
            (2, "disk", b, 0.9),
        ],
    )


def test_a_copy_of_offsets_counts_what_it_lacks_and_where_it_stands(spark: SparkSession) -> None:
    slave = {"broker": "broker-a", "broker_id": 1, "address": "10.0.0.1:10912"}
    columns = ("offsets_missing", "offsets_late", "offsets_stand")
    copies = [(0, 7, True), (2, 7, False), (2, 7, None), (1, 7, True), (0, 7, False)]
    copies.append((None, None, None))
    rows = [
        {"at": at, **slave, **dict(zip(columns, copy, strict=True))}
        for at, copy in enumerate(copies)
    ]
    result = evaluate(named("slave_offsets_behind"), brokers(spark, rows), minutes(0, 60))
    subject = "lab/broker-a/10.0.0.1:10912"
    values = enumerate((7.0, 2.0, 2.0, 8.0))
    assert_alerts(result, [(at, "slave_offsets_behind", subject, value) for at, value in values])


def test_a_slave_that_is_behind_and_sends_that_wait(spark: SparkSession) -> None:
    """A bound above the threshold is enough; below it neither is known."""
    at = {"broker": "broker-a", "broker_id": 1, "address": "10.0.0.1:10912", "version": "V5_3_3"}
    columns = ("replica_behind_ms", "replica_behind_is_lower_bound", "send_wait_ms")
    rows = [(90_000, False, 0), (30_000, False, 150), (90_000, True, None), (None, None, 100)]
    frames = brokers(
        spark,
        [{"at": n, **at, **dict(zip(columns, row, strict=True))} for n, row in enumerate(rows)],
    )
    rules = [*named("replica_behind", 60.0), *named("send_wait", 0.1)]
    subject = "lab/broker-a/10.0.0.1:10912"
    result = evaluate(rules, frames, minutes(0, 60))
    assert_alerts(
        result,
        [
            (0, "replica_behind", subject, 90.0),
            (1, "send_wait", subject, 0.15),
            (2, "replica_behind", subject, 90.0),
        ],
    )


def test_writes_that_failed_since_the_snapshot_before(spark: SparkSession) -> None:
    """A broker that was started again counts from 0; one that did not respond was not asked."""
    at = {"broker": "broker-a", "broker_id": 0, "address": "10.0.0.1:10911", "version": "V5_3_3"}
    counts = (5, 5, 7, None, 10, 2, 2)
    frames = brokers(
        spark, [{"at": n, **at, "failed_writes": count} for n, count in enumerate(counts)]
    )
    subject = "lab/broker-a/10.0.0.1:10911"
    values = {2: 2.0, 4: 3.0, 5: 2.0}
    result = evaluate(named("failed_writes"), frames, minutes(0, 60))
    assert_alerts(result, [(n, "failed_writes", subject, it) for n, it in values.items()])


def test_proxies_that_did_not_respond(spark: SparkSession) -> None:
    """A cluster without `proxies` is not judged."""

    def proxies(*responded: bool) -> list[dict]:
        return [{"endpoint": f"p{n}:8080", "responded": it} for n, it in enumerate(responded)]

    rows = [
        {"at": 0, "proxies": proxies(True, False)},
        {"at": 1, "proxies": proxies(False, False)},
        {"at": 2, "proxies": proxies(True, True)},
        {"at": 3, "proxies": None},
    ]
    known = {"source": "remote", "status": "PARTIAL", "brokers_expected": 1, "brokers_answered": 1}
    snapshots = {
        SNAPSHOTS.name: frame(spark, SNAPSHOTS, [known | row for row in rows]),
        **brokers(spark, []),
    }
    result = evaluate(named("proxy_down"), snapshots, minutes(0, 60))
    assert_alerts(result, [(0, "proxy_down", "lab", 1.0), (1, "proxy_down", "lab", 2.0)])


def test_sends_that_were_not_stored_and_light_queues_near_their_limit(spark: SparkSession) -> None:
    """Deep snapshots alone know them: the others neither fire nor resolve."""
    at = {"broker": "broker-a", "broker_id": 0, "address": "10.0.0.1:10911", "version": "V5_5_0"}
    names = ("sends_refused", "sends_failed", "light_queues", "light_queue_limit")
    rows = [(5, 0, 900, 1000), (None, None, None, None), (9, 200, 700, 1000), (9, 1, 1000, 1000)]
    frames = brokers(
        spark,
        [{"at": n, **at, **dict(zip(names, row, strict=True))} for n, row in enumerate(rows)],
    )
    rules = [*named("sends_refused"), *named("sends_failed"), *named("light_queues", 0.8)]
    subject = "lab/broker-a/10.0.0.1:10911"
    assert_alerts(
        evaluate(rules, frames, minutes(0, 60)),
        [
            (0, "light_queues", subject, 0.9),
            (2, "sends_refused", subject, 4.0),
            (2, "sends_failed", subject, 200.0),
            (3, "sends_failed", subject, 1.0),
            (3, "light_queues", subject, 1.0),
        ],
    )


def test_a_snapshot_that_does_not_hold_everything(spark: SparkSession) -> None:
    rows = [
        {"at": 0, "status": "COMPLETE", "brokers_expected": 2, "brokers_answered": 2},
        {"at": 1, "status": "PARTIAL", "brokers_expected": 2, "brokers_answered": 1},
        {"at": 2, "status": "FAILED", "brokers_expected": None, "brokers_answered": None},
        {"at": 3, "status": "PARTIAL", "brokers_expected": 2, "brokers_answered": 1}
        | {"source": "store"},
    ]
    snapshots = {
        SNAPSHOTS.name: frame(spark, SNAPSHOTS, [{"source": "remote"} | row for row in rows]),
        **brokers(spark, []),
    }
    result = evaluate(named("collection_incomplete"), snapshots, minutes(0, 60))
    assert_alerts(
        result, [(1, "collection_incomplete", "lab", 1.0), (2, "collection_incomplete", "lab", 1.0)]
    )


def test_evidence_names_the_snapshot_and_the_columns(spark: SparkSession) -> None:
    rows = [
        group(
            3,
            300,
            queues=8,
            queues_unknown=2,
            complete=False,
            max_queue_lag=290,
            worst_broker="broker-b",
            worst_queue_id=3,
        ),
    ]
    rules = named(
        "lag",
        100.0,
        severity="critical",
        description="Late.",
        runbook="http://wiki/lag",
        labels={"team": "a"},
    )
    (alert,) = evaluate(rules, groups(spark, rows), minutes(0, 60)).collect()
    assert (alert.severity, alert.threshold) == ("critical", 100.0)
    evidence = json.loads(alert.evidence)
    row = evidence.pop("row")
    assert evidence == {
        "kind": "lag",
        "words": "{value} wait",
        "description": "Late.",
        "runbook": "http://wiki/lag",
        "labels": {"team": "a"},
        "observations": [
            {
                "snapshot_id": snapshot_id(3),
                "observed_at": "2026-11-19T12:03:00.000000Z",
                "value": 300.0,
            },
        ],
    }
    assert set(row) == set(SOURCES["groups"].evidence)
    known = {name: value for name, value in row.items() if value is not None}
    assert known == {
        "cluster": "lab",
        "consumer_group": "billing",
        "topic": "orders",
        "readable_lag": 300,
        "lag": 300,
        "lost": 0,
        "queues": 8,
        "queues_unknown": 2,
        "max_queue_lag": 290,
        "worst_broker": "broker-b",
        "worst_queue_id": 3,
        "online": True,
        "message_model": "CLUSTERING",
        "complete": False,
    }
    assert alert.value_bound == "lower", "two queues are unknown"


TOPICS = ("orders", "orders_eu", "ordersXeu", "%RETRY%billing", "Orders")


@pytest.mark.parametrize(
    ("match", "topics"),
    [
        ({}, set(TOPICS)),
        ({"topic": ["orders"]}, {"orders"}),
        ({"topic": ["orders_*"]}, {"orders_eu"}),
        ({"topic": ["orders?eu"]}, {"orders_eu", "ordersXeu"}),
        ({"topic": ["%RETRY%*", "Ord*"]}, {"%RETRY%billing", "Orders"}),
        ({"topic": ["absent", "*"]}, set(TOPICS)),
        ({"topic": ["orders"], "consumer_group": ["other"]}, set()),
        ({"cluster": ["l*b"], "consumer_group": ["b*g"], "topic": ["*_eu"]}, {"orders_eu"}),
    ],
)
def test_globs_choose_what_a_rule_is_about(
    spark: SparkSession, match: dict[str, list[str]], topics: set[str]
) -> None:
    rows = groups(spark, [group(0, 9, topic=name) for name in TOPICS])
    rules = named("lag", 0.0, match=match)
    collected = evaluate(rules, rows, minutes(0, 1)).collect()
    assert {alert.subject.split("/")[2] for alert in collected} == topics
    # The life cycle matches the same names alike, in Python.
    meant = {name for name in TOPICS if rules[0].applies_to({**COLUMNS, "topic": name})}
    assert meant == topics


COLUMNS: Mapping[str, str] = {"cluster": "lab", "consumer_group": "billing"}


def test_of_overrides_the_first_that_fits_counts(spark: SparkSession) -> None:
    overrides = [
        {"match": {"topic": "orders_*"}, "threshold": 5.0, "severity": "critical"},
        {"match": {"topic": "ord*"}, "enabled": False},
        {"match": {"topic": "*"}, "threshold": 50.0},
    ]
    rows = groups(spark, [group(0, 9, topic=name) for name in (*TOPICS, "orders_us")])
    rules = named("lag", 0.0, match={"topic": ["o*", "%*"]}, overrides=overrides)
    collected = evaluate(rules, rows, minutes(0, 1)).collect()
    assert {(row.subject.split("/")[2], row.severity, row.threshold) for row in collected} == {
        ("orders_eu", "critical", 5.0),
        ("orders_us", "critical", 5.0),
    }
    for topic in TOPICS:
        assert (
            sum(applied_rule.applies_to({**COLUMNS, "topic": topic}) for applied_rule in rules) <= 1
        )


def test_without_rules_there_are_no_alerts(spark: SparkSession) -> None:
    result = evaluate([], groups(spark, [group(0, 9)]), minutes(0, 1))
    assert result.columns == ALERTS.column_names
    assert result.collect() == []


def test_every_kind_reads_rows_of_a_known_table() -> None:
    assert {kind.source for kind in KINDS.values()} == {*SOURCES, "pipeline"}


def test_ticks_and_one_window_give_the_same_rows(spark: SparkSession) -> None:
    """Many series at random; snapshots lie four minutes apart, so the reach of growth cuts too."""
    chance, step, snapshots = random.Random(20261119), 4, 14
    rows = [
        group(
            number * step,
            lag,
            topic=f"topic-{series}" if series % 2 else f"%RETRY%g-{series}",
            consumer_group=f"g-{series}",
            lost=lag,
            retry_lag=lag,
            complete=chance.random() < 0.7,
            online=chance.choice([True, False, False, None]),
        )
        for series in range(30)
        for number in range(snapshots)
        for lag in chance.choices([None, 0, 150, 250], weights=[1, 1, 3, 3])
    ]
    rules = [
        *named("lag", 100.0),
        *named("lag", 200.0, "higher"),
        *named("nobody_online"),
        *named("lost"),
        *named("retry_growth"),
    ]

    def computed(first: float, last: float) -> list[Any]:
        window = minutes(first, last)
        ((_, (given,)),) = tables_to_read(rules, window)
        kept = [row for row in rows if minute(row["at"]) in given]
        return evaluate(rules, groups(spark, kept), window).collect()

    edges = [0, step, 2 * step, 5 * step, 9 * step, snapshots * step]
    at_once = computed(0, edges[-1])
    ticks = [row for first, last in pairwise(edges) for row in computed(first, last)]
    assert {row.rule for row in at_once} == {rule.name for rule in rules}
    assert sorted(ticks) == sorted(at_once)
