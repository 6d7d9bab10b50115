"""Rules on features of a group from other tables: a few rows of each, and unknown features.

One simplification would look right and break: taking a snapshot without reports for one at which
nothing was wrong.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.alerts.evaluation import evaluate, evaluate_subjects, tables_to_read
from spark.alerts.group_features import GROUP_FEATURES
from tests.support.rules_by_name import named
from tests.support.table_rows import frame, minute, minutes, snapshot_id
from tidemark.lake.tables import progress

pytestmark = pytest.mark.spark

GROUP = {"consumer_group": "billing", "topic": "orders"}
SUBJECT = "lab/billing/orders"
DAY = 24 * 60

Rows = Mapping[str, Sequence[dict[str, Any]]]


def evaluated(
    spark: SparkSession,
    kind: str,
    rows: Rows,
    at: Sequence[float] = (0,),
    rule: Mapping[str, Any] = {},
    **group: Any,
) -> dict[float, Any]:
    """The outcome of a rule of a kind for billing's rows at some minutes: value, False or None."""
    added = [
        table
        for group_feature in GROUP_FEATURES
        for table in (group_feature.table, *group_feature.also_reads)
    ]
    tables = {table.name: table for table in (progress.GROUPS, *added)}
    own = {"complete": True, "online": True, "message_model": "CLUSTERING", **GROUP, **group}
    given = {"progress.groups": [own | {"at": minute} for minute in at], **rows}
    frames = {name: frame(spark, table, given.get(name, ())) for name, table in tables.items()}
    rules, window = named(kind, **rule), minutes(0, 60)
    wanted = {table.name for table, _ in tables_to_read(rules, window)}
    frames = {name: rows for name, rows in frames.items() if name in wanted}
    subject = f"lab/billing/{own['topic']}"
    subjects = spark.createDataFrame([(kind, subject)], "rule string, subject string")
    holds = {
        row.snapshot_id: row.holds
        for row in evaluate_subjects(rules, frames, window, subjects).collect()
    }
    values = {row.observed_at: row for row in evaluate(rules, frames, window).collect()}
    true = {row.observed_at.minute: row.value for row in values.values()}
    assert {row.subject for row in values.values()} <= {subject}
    return {
        minute: true[minute] if holds[snapshot_id(minute)] else holds[snapshot_id(minute)]
        for minute in at
    }


def event(at: float, kind: str, messages: int | None, queue_id: int = 0) -> dict[str, Any]:
    return {"at": at, "kind": kind, "messages": messages, "queue_id": queue_id, **GROUP}


def test_a_rewind_is_the_sum_over_its_queues(spark: SparkSession) -> None:
    events = [
        event(1, "REWOUND", 300),
        event(1, "REWOUND", 40, queue_id=1),
        event(1, "SKIPPED", 7, queue_id=2),
        event(2, "FIRST_COMMIT", None),
        {**event(1, "REWOUND", 9), "consumer_group": "other"},
    ]
    mapping = evaluated(spark, "rewound", {"progress.events": events}, at=(0, 1, 2))
    assert mapping == {0: False, 1: 340.0, 2: False}


def test_without_all_brokers_nobody_knows_of_no_rewind(spark: SparkSession) -> None:
    mapping = evaluated(spark, "rewound", {}, complete=False)
    assert mapping == {0: None}


def queue(at: float, queue_id: int, state: str) -> dict[str, Any]:
    return {"at": at, "queue_id": queue_id, "state": state, **GROUP}


ASSIGNED = [
    queue(0, 0, "OK"),
    queue(0, 1, "CONTESTED"),
    queue(0, 2, "CONTESTED"),
    queue(0, 3, "UNOWNED"),
    queue(2, 0, "OK"),
]
"""At minute 1 no member got a request."""


@pytest.mark.parametrize(("kind", "worst"), [("contested_queues", 2.0), ("unowned_queues", 1.0)])
def test_queues_of_many_or_none_are_counted(spark: SparkSession, kind: str, worst: float) -> None:
    mapping = evaluated(spark, kind, {"progress.assignments": ASSIGNED}, at=(0, 1, 2))
    assert mapping == {0: worst, 1: None, 2: False}


def judged(
    spark: SparkSession, hours: Mapping[tuple[int, str], str], at: Sequence[float]
) -> dict[float, Any]:
    """The outcome of a rule on burn rates; 10 % of the minutes may be bad.

    Args:
        spark: the session.
        hours: hours after noon and objectives to the signs of their minutes.
        at: minutes after noon of the snapshots.
    """
    objectives = [
        {"hour": minute(60 * hour), "observed_at": minute(60 * hour + len(signs) - 1)}
        | {"objective": name, "target": 0.9, "minutes": signs, **GROUP}
        for (hour, name), signs in hours.items()
    ]
    rows = {
        "progress.objectives": objectives,
        "raw.snapshots": [{"at": minute} for minute in at],
    }
    fields = {"threshold": 4.5, "long": "20m", "short": "5m"}
    outcomes = evaluated(spark, "burn_rate", rows, at=at, rule=fields)
    return {at: value and round(value, 6) for at, value in outcomes.items()}


def test_a_budget_burns_where_it_does_in_both_windows(spark: SparkSession) -> None:
    """Ten bad minutes: 5 of 10 known ones are half, which is 5 times the tenth that may be."""
    hours = {(0, "on-time"): "+" * 10 + "-" * 10 + "+" * 40}
    mapping = judged(spark, hours, at=(10, 16, 20, 23, 26))
    # At 20 half of the long window is bad and all of the short one; at 23 the short one has 2 of 5.
    assert mapping == {10: False, 16: False, 20: 5.0, 23: False, 26: False}


def test_a_snapshot_is_judged_by_the_minutes_before_it(spark: SparkSession) -> None:
    """Later minutes of its hour, and its own minute, change nothing."""
    signs = "+" * 10 + "-" * 10
    mappings = [
        judged(spark, {(0, "on-time"): signs + later}, at=(20,))
        for later in ("", "-", "+" * 40, "-" * 40, "?" * 3)
    ]
    assert mappings == [{20: 5.0}] * 5


def test_windows_reach_into_the_hours_before(spark: SparkSession) -> None:
    hours = {(-1, "on-time"): "+" * 48 + "-" * 12, (0, "on-time"): "-" * 3 + "+" * 57}
    assert judged(spark, hours, at=(2,)) == {2: 7.0}
    # An hour without a row is unknown, and one that is not whole is unknown from there on.
    assert judged(spark, {(-2, "on-time"): "-" * 60} | {(0, "on-time"): "--"}, at=(2,)) == {2: None}
    assert judged(spark, hours | {(-1, "on-time"): "-" * 46}, at=(2,)) == {2: None}


def test_unknown_minutes_are_neither_good_nor_bad(spark: SparkSession) -> None:
    half = {(0, "on-time"): "?" * 10 + "+" * 4 + "-" * 6}
    assert judged(spark, half, at=(20,)) == {20: 6.0}
    less = {(0, "on-time"): "?" * 11 + "+" * 3 + "-" * 6}
    assert judged(spark, less, at=(20,)) == {20: None}, "fewer than half are known"
    over = {(0, "on-time"): "-" * 10 + "?" * 5 + "+" * 5}
    assert judged(spark, over, at=(20,)) == {20: False}, "the short window alone shows it"


def test_an_unknown_objective_neither_hides_nor_ends_another(spark: SparkSession) -> None:
    bad, good, unknown = "+" * 10 + "-" * 10, "+" * 20, "?" * 20
    both = {(0, "late"): bad, (0, "long"): unknown}
    assert judged(spark, both, at=(20,)) == {20: 5.0}
    assert judged(spark, both | {(0, "late"): good}, at=(20,)) == {20: None}
    assert judged(spark, both | {(0, "long"): good}, at=(20,)) == {20: 5.0}


def test_a_group_without_an_objective_burns_no_budget(spark: SparkSession) -> None:
    assert evaluated(spark, "burn_rate", {}, at=(0,)) == {0: None}


def test_the_evidence_names_the_missed_objectives(spark: SparkSession) -> None:
    window = minutes(0, 60)
    rules = named("burn_rate", 4.0, long="20m", short="5m")
    given = {
        "progress.groups": [{"at": 20, "complete": True, "online": True, **GROUP}],
        "raw.snapshots": [{"at": 20}],
        "progress.objectives": [
            {"hour": minute(0), "observed_at": minute(19), "objective": name, "target": 0.9}
            | {"minutes": signs, **GROUP}
            for name, signs in (("late", "-" * 20), ("long", "+" * 20), ("short", "-" + "+" * 19))
        ],
    }
    tables = {table.name: table for table, _ in tables_to_read(rules, window)}
    frames = {name: frame(spark, table, given[name]) for name, table in tables.items()}
    (alert,) = evaluate(rules, frames, window).collect()
    row = json.loads(alert.evidence)["row"]
    assert row["missed_objectives"] == ["late", "short"]
    assert "objective_minutes" not in row


def usual(spark: SparkSession, baseline: dict[str, Any], **group: Any) -> Any:
    """The outcome of the rule on unusual numbers for a group that is 140 s late at 12:05."""
    rows = {
        "progress.baselines": [{"hour": minute(0), "hour_of_week": 84, **GROUP, **baseline}],
        "raw.snapshots": [{"at": 5}],
    }
    own = {"delay_ms": 140_000, "lag": 500, "readable_lag": 500} | group
    return evaluated(spark, "unusual", rows, at=(5,), **own)[5]


RANGE = {"delay_ms_low": 2_000.0, "delay_ms_high": 5_000.0, "lag_low": 4.0, "lag_high": 25.0}


@pytest.mark.parametrize(
    ("group", "outcome"),
    [
        ({}, 20.0),
        ({"delay_ms": 14_000}, False),
        ({"lag": 70, "readable_lag": 70}, False),
        ({"delay_ms": None}, None),
        ({"delay_ms": 59_999}, False),
        ({"readable_lag": 99}, False),
    ],
    ids=["both", "only the lag", "few messages", "unknown", "under a minute", "under 100"],
)
def test_unusual_is_what_delay_and_lag_both_are(
    spark: SparkSession, group: dict[str, Any], outcome: Any
) -> None:
    """Lag 500 is 20 times its usual 25, delay 140 s is 28 times its usual 5 s."""
    assert usual(spark, RANGE, **group) == outcome


def test_without_a_usual_range_nothing_is_unusual(spark: SparkSession) -> None:
    assert usual(spark, RANGE | {"delay_ms_high": None, "delay_ms_low": None}) is None
    assert usual(spark, RANGE | {"hour": minute(60)}) is None, "of another hour"
    assert usual(spark, RANGE | {"delay_ms_high": 0.0, "lag_high": 0.0}) == 140.0


def test_idle_members_are_counted_where_members_reported(spark: SparkSession) -> None:
    idle = [
        {"at": 0, "client_id": client, "reason": "MORE_CLIENTS_THAN_QUEUES", **GROUP}
        for client in ("a", "b")
    ]
    rows = {"progress.assignments": ASSIGNED, "progress.idle_clients": idle}
    assert evaluated(spark, "idle_clients", rows, at=(0, 1, 2)) == {0: 2.0, 1: None, 2: False}


MEMBER_KINDS = ["contested_queues", "unowned_queues", "idle_clients"]


@pytest.mark.parametrize("kind", [*MEMBER_KINDS, "inconsistent_subscription"])
def test_a_group_without_members_has_none_in_a_wrong_state(spark: SparkSession, kind: str) -> None:
    """Nobody reports any more, so its incident would never resolve."""
    assert evaluated(spark, kind, {}, online=False) == {0: False}
    assert evaluated(spark, kind, {}, online=None) == {0: None}
    assert evaluated(spark, kind, {}, online=False, complete=False) == {0: None}


@pytest.mark.parametrize("kind", MEMBER_KINDS)
def test_members_hold_no_queue_of_a_topic_they_left(spark: SparkSession, kind: str) -> None:
    """The group's offsets on the topic stay, and so does its row."""
    rows = {"progress.assignments": ASSIGNED}
    assert evaluated(spark, kind, rows, (0, 1), topic="left") == {0: False, 1: None}
    assert evaluated(spark, kind, rows, topic="left", complete=False) == {0: None}


def also_reads(**topics: str) -> dict[str, Any]:
    """Return the subscriptions that a member reported, from topics and their tags."""
    given = [
        {"topic": topic, "expression_type": "TAG", "expression": tags}
        for topic, tags in topics.items()
    ]
    return {"client_id": "c", "subscriptions": given}


def test_differing_subscriptions_are_one_alert_per_group(spark: SparkSession) -> None:
    """The alert is about the first topic in which members differ."""
    unreachable = {"client_id": "d", "subscriptions": None}
    both = [also_reads(audit="*", orders="A"), also_reads(audit="*", orders="B"), unreachable]
    one = [also_reads(audit="*"), also_reads(audit="*", orders="*")]
    same = [also_reads(audit="*", orders="*"), also_reads(audit="*", orders="*")]
    reports = [
        {"at": 0, "consistent": False, "differences": ["EXPRESSION", "TOPICS"], "evidence": both},
        {"at": 1, "consistent": True, "differences": [], "evidence": same},
        {"at": 2, "consistent": None, "differences": None, "evidence": [*same, unreachable]},
        {"at": 4, "consistent": False, "differences": ["TOPICS"], "evidence": one},
        {"at": 5, "consistent": False, "differences": ["MESSAGE_MODEL"], "evidence": same},
    ]
    rows = {"progress.subscriptions": [{"consumer_group": "billing"} | row for row in reports]}
    kind, at = "inconsistent_subscription", (0, 1, 2, 3, 4, 5)
    of_orders = {0: 2.0, 1: False, 2: None, 3: None, 4: 1.0, 5: False}
    assert evaluated(spark, kind, rows, at) == of_orders
    of_audit = {0: False, 1: False, 2: None, 3: None, 4: False, 5: 1.0}
    assert evaluated(spark, kind, rows, at, topic="audit") == of_audit


def hourly(at: float, tps: float) -> dict[str, Any]:
    names = {"stats_name": "GROUP_GET_NUMS", "stats_window": "hour"}
    return {"at": at, "stats_key": "orders@billing", "tps": tps, **names, **GROUP}


def test_throughput_is_compared_with_the_same_hour_before(spark: SparkSession) -> None:
    former = [
        hourly(-1 * DAY + 10, 100),
        hourly(-2 * DAY - 5, 5000),  # a day unlike the others does not move the median
        hourly(-3 * DAY + 3, 80),
        hourly(-1 * DAY + 300, 1),  # another time of day
        hourly(-8 * DAY, 1),  # too long ago
    ]
    now = [hourly(0, 40), hourly(1, 60)]
    rows = {"progress.throughput": [*former, *now]}
    mapping = evaluated(spark, "throughput_drop", rows, at=(0, 1, 2))
    assert mapping == {0: 0.4, 1: False, 2: None}


@pytest.mark.parametrize(
    ("week_ago", "expected"),
    [(1, False), (100, 0.02), (5000, 0.02), (0, None)],
    ids=["rest", "work", "replay", "none"],
)
def test_a_group_may_rest_on_a_day_of_the_week(
    spark: SparkSession, week_ago: float, expected: float | bool | None
) -> None:
    """Six days of work before a Saturday: the Saturday before shows whether it rests then."""
    former = [hourly(-number * DAY, 100) for number in range(1, 7)]
    rows = {"progress.throughput": [*former, hourly(-7 * DAY + 5, week_ago), hourly(0, 2)]}
    assert evaluated(spark, "throughput_drop", rows) == {0: expected}


def broker(at: float, address: str, booted: float | None) -> dict[str, Any]:
    booted_at = None if booted is None else minute(booted)
    return {"at": at, "broker_id": 0, "address": address, "booted_at": booted_at}


def test_a_freshly_started_broker_has_no_full_hour(
    spark: SparkSession,
) -> None:
    """Broker b was started half an hour before minute 0; its counters start with it (C3)."""
    former = [hourly(day * DAY + at, 100) for day in (-1, -2, -3) for at in (0, 30)]
    snapshots_at = (1, 29, 31, 32)
    rows = {
        "progress.throughput": [*former, *(hourly(at, 2) for at in snapshots_at)],
        "raw.brokers": [
            *(broker(at, "a:1", -900) for at in snapshots_at),
            *(broker(at, "b:1", -30) for at in snapshots_at[:-1]),
            broker(32, "b:1", None),
        ],
    }
    mapping = evaluated(spark, "throughput_drop", rows, at=snapshots_at)
    assert mapping == {1: None, 29: None, 31: 0.02, 32: 0.02}


@pytest.mark.parametrize(
    ("days", "complete"), [((-1 * DAY, -2 * DAY), True), ((-1 * DAY, -2 * DAY, -3 * DAY), False)]
)
def test_too_few_days_or_brokers_make_no_drop(
    spark: SparkSession, days: Sequence[float], complete: bool
) -> None:
    rows = {"progress.throughput": [hourly(0, 1), *(hourly(day, 100) for day in days)]}
    assert evaluated(spark, "throughput_drop", rows, complete=complete) == {0: None}


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        ("rewound", False),
        ("contested_queues", None),
        ("idle_clients", None),
        ("throughput_drop", None),
    ],
)
def test_a_table_without_rows_need_not_be_read(
    spark: SparkSession, kind: str, holds: bool | None
) -> None:
    row = {"at": 0, "complete": True, "online": True, **GROUP}
    groups = {"progress.groups": frame(spark, progress.GROUPS, [row])}
    subjects = spark.createDataFrame([(kind, SUBJECT)], "rule string, subject string")
    (item,) = evaluate_subjects(named(kind), groups, minutes(0, 1), subjects).collect()
    assert item.holds is holds


def test_only_what_a_rule_compares_is_read() -> None:
    window = minutes(0, 1)
    assert [table.name for table, _ in tables_to_read(named("lag", 1.0), window)] == [
        "progress.groups"
    ]
    (_, windows) = tables_to_read(named("throughput_drop"), window)[1]
    assert len(windows) == 8
    assert windows[0] == window
