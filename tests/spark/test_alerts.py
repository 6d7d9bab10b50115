"""Alerts: a dozen rows per kind of rule, and the same rows from ticks as from an hour at once.

Two simplifications would look right and break: counting streaks over rows instead of over what is
known (a broker that drops out now and then would hide a standing lag for ever), and taking an
incomplete sum below the threshold for a recovery.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lake.tables.alerting import ALERTS
from lake.tables.progress import GROUPS
from lake.tables.raw import BROKERS
from spark.alerts import HISTORY, evaluate
from tests.builders import NOON, frame, minute, minutes, snapshot_id

pytestmark = pytest.mark.spark

ANY_GROUP = {"cluster": ["*"], "consumer_group": ["*"], "topic": ["*"]}
ANY_BROKER = {"cluster": ["*"], "broker": ["*"]}


@dataclass(frozen=True)
class Rule:
    kind: str
    threshold: float = 0
    for_snapshots: int = 1
    name: str = ""
    severity: str = "warning"
    description: str = ""
    runbook: str | None = None
    match: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def globs(self) -> Mapping[str, Sequence[str]]:
        return (ANY_BROKER if self.kind == "broker_down" else ANY_GROUP) | dict(self.match)


def named(kind: str, *rest: Any, **other: Any) -> Rule:
    return Rule(kind, *rest, **({"name": kind} | other))


def group(at: float, readable_lag: int | None, **other: Any) -> dict[str, Any]:
    """An observation of one group, complete and online unless told otherwise."""
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


def groups(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> DataFrame:
    return frame(spark, GROUPS, rows).select(*GROUPS.column_names)


def brokers(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> DataFrame:
    return frame(spark, BROKERS, rows)


def assert_alerts(found: DataFrame, expected: Sequence[tuple[float, str, str, float]]) -> None:
    """Compares minute, rule, subject and value."""
    rows = [
        ((row.observed_at.astimezone(UTC) - NOON).total_seconds() / 60, *row[1:])
        for row in found.select("observed_at", "rule", "subject", "value").collect()
    ]
    assert sorted(rows) == sorted(expected)


def test_lag_has_to_stand_for_the_snapshots_of_the_rule(spark: SparkSession) -> None:
    rows = [
        *(group(at, lag) for at, lag in enumerate([101, 102, 100, 103, 104, 105, 106, 0])),
        *(group(at, 500, topic="%RETRY%billing") for at in (0, 4, 7)),
        *(group(at, 101, consumer_group="audit") for at in (0, 1)),
    ]
    found = evaluate([named("lag", 100, 3)], groups(spark, rows), None, minutes(0, 60))
    assert found.columns == ALERTS.column_names
    assert_alerts(
        found,
        [
            (5, "lag", "lab/billing/orders", 105.0),
            (6, "lag", "lab/billing/orders", 106.0),
            (7, "lag", "lab/billing/%RETRY%billing", 500.0),
        ],
    )


def test_the_unknown_is_never_true_and_is_passed_over(spark: SparkSession) -> None:
    rows = [
        group(0, 200),
        group(1, None, complete=False, online=None),
        group(2, 200),
        group(3, 50, complete=False),  # at least 50: says nothing
        group(4, 150, complete=False),  # at least 150: true
        group(5, None, complete=False),
        group(6, 200),
        group(7, 50),  # known to be under
        group(8, 200),
        group(9, 200),
        group(10, None),
    ]
    found = evaluate([named("lag", 100, 3)], groups(spark, rows), None, minutes(0, 60))
    subject = "lab/billing/orders"
    assert_alerts(found, [(4, "lag", subject, 150.0), (6, "lag", subject, 200.0)])


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
    found = evaluate([named("nobody_online")], groups(spark, rows), None, minutes(0, 60))
    assert_alerts(
        found,
        [
            (0, "nobody_online", "lab/billing/orders", 5.0),
            (0, "nobody_online", "lab/billing/%RETRY%billing", 3.0),
            (0, "nobody_online", "lab/half-seen/orders", 7.0),
        ],
    )


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
    found = evaluate([named("lost")], groups(spark, rows), None, minutes(0, 60))
    assert_alerts(
        found,
        [
            (0, "lost", "lab/billing/orders", 3.0),
            (3, "lost", "lab/billing/orders", 4.0),
            (0, "lost", "lab/news/orders", 8.0),
        ],
    )


def test_a_broker_that_did_not_answer(spark: SparkSession) -> None:
    def broker(at: float, name: str, **answer: Any) -> dict[str, Any]:
        port = {"broker-a": 10911, "broker-b": 10921}[name]
        return {"at": at, "broker": name, "broker_id": 0, "address": f"10.0.0.1:{port}"} | answer

    rows = [
        broker(0, "broker-a", version="V5_3_3", put_tps=0.0, config={"a": "b"}),
        broker(0, "broker-b"),
        broker(1, "broker-a", disk_ratio=0.5),  # an old one may not tell its version
        broker(1, "broker-b", config={}),
        broker(2, "broker-a"),
        broker(2, "broker-b", version="V5_3_3"),
    ]
    rules = [named("broker_down"), named("broker_down", 0, 2, name="twice")]
    found = evaluate(rules, groups(spark, []), brokers(spark, rows), minutes(0, 60))
    a, b = "lab/broker-a/10.0.0.1:10911", "lab/broker-b/10.0.0.1:10921"
    assert_alerts(
        found,
        [
            (0, "broker_down", b, 1.0),
            (1, "broker_down", b, 1.0),
            (1, "twice", b, 1.0),
            (2, "broker_down", a, 1.0),
        ],
    )


def test_evidence_names_the_snapshots_and_the_columns(spark: SparkSession) -> None:
    rows = [
        group(0, 90),
        group(1, 200),
        group(2, None, complete=False),
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
    rule = named("lag", 100, 2, severity="critical", description="Late.", runbook="http://wiki/lag")
    (alert,) = evaluate([rule], groups(spark, rows), None, minutes(0, 60)).collect()
    assert (alert.severity, alert.threshold) == ("critical", 100.0)
    assert json.loads(alert.evidence) == {
        "kind": "lag",
        "description": "Late.",
        "runbook": "http://wiki/lag",
        "observations": [
            {
                "snapshot_id": snapshot_id(1),
                "observed_at": "2026-11-19T12:01:00.000000Z",
                "value": 200.0,
            },
            {
                "snapshot_id": snapshot_id(3),
                "observed_at": "2026-11-19T12:03:00.000000Z",
                "value": 300.0,
            },
        ],
        "previous_at": "2026-11-19T12:01:00.000000Z",
        "row": {
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
            "delay_ms": None,
            "online": True,
            "clients": None,
            "message_model": "CLUSTERING",
        },
    }


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
    found = evaluate([named("lag", match=match)], rows, None, minutes(0, 1)).collect()
    assert {alert.subject.split("/")[2] for alert in found} == topics


def test_only_the_window_comes_out_and_only_an_hour_counts(spark: SparkSession) -> None:
    rows = [group(at, 200) for at in (-60, -59, 0, 1)]
    rules = [named("lag", 100, 3), named("lag", 100, 4, name="four")]
    found = evaluate(rules, groups(spark, rows), None, minutes(0, 1)).select("rule", "observed_at")
    # At minute 0 the observation of minute -60 is an hour old: too old.
    assert found.collect() == []
    found = evaluate(rules, groups(spark, rows), None, minutes(1, 2))
    assert found.collect() == []
    rows.append(group(-30, 200))
    found = evaluate(rules, groups(spark, rows), None, minutes(0, 2))
    subject = "lab/billing/orders"
    assert_alerts(found, [(0, "lag", subject, 200.0), (1, "lag", subject, 200.0)])


def test_without_rules_there_are_no_alerts(spark: SparkSession) -> None:
    found = evaluate([], groups(spark, [group(0, 9)]), None, minutes(0, 1))
    assert found.columns == ALERTS.column_names
    assert found.collect() == []


def test_a_kind_that_nothing_evaluates_is_named(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="no evaluation for rules of kind moon"):
        evaluate([named("moon")], groups(spark, []), None, minutes(0, 1))


def test_ticks_and_one_window_give_the_same_rows(spark: SparkSession) -> None:
    """Many series at random; snapshots lie 17 minutes apart, so the limit of an hour cuts too."""
    chance, step, snapshots = random.Random(20261119), 17, 14
    rows = [
        group(
            number * step,
            lag,
            topic=f"topic-{series}",
            lost=lag,
            complete=chance.random() < 0.7,
            online=chance.choice([True, False, False, None]),
        )
        for series in range(60)
        for number in range(snapshots)
        for lag in chance.choices([None, 0, 150, 250], weights=[1, 1, 3, 3])
    ]
    addresses: list[dict[str, Any]] = [
        {"at": number * step, "broker_id": 0, "address": f"10.0.0.1:{series}"}
        | ({"version": "V5_3_3"} if chance.random() < 0.3 else {})
        for series in range(10)
        for number in range(snapshots)
    ]
    rules = [
        named("lag", 100, 3),
        named("lag", 200, 2, name="higher"),
        named("nobody_online", 0, 2),
        named("lost"),
        named("broker_down", 0, 2),
    ]

    def computed(first: float, last: float) -> list[Any]:
        given = minutes(first - HISTORY.total_seconds() / 60, last)
        return evaluate(
            rules,
            groups(spark, [row for row in rows if minute(row["at"]) in given]),
            brokers(spark, [row for row in addresses if minute(row["at"]) in given]),
            minutes(first, last),
        ).collect()

    edges = [0, step, 2 * step, 5 * step, 9 * step, snapshots * step]
    at_once = computed(0, edges[-1])
    ticks = [row for first, last in pairwise(edges) for row in computed(first, last)]
    assert {row.rule for row in at_once} == {rule.name for rule in rules}
    assert sorted(ticks) == sorted(at_once)
