"""The made-up cluster of the pictures: two groups in trouble, and something on every page."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bench.made_up import CLUSTER, MadeUp, incident, notification, now, row
from tidemark.alerting.delivery.silences import silence
from tidemark.lake.catalog import Lake
from tidemark.lake.schema import Table
from tidemark.lake.tables import alerting, progress, quality, raw

LONG_GROUP = "payments-settlement-archiver-eu-west-1"
LONG_TOPIC = "payments.settlement-confirmed_v2"
SYSTEM_TOPICS = (
    "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC", "SCHEDULE_TOPIC_XXXX", "TBW102",
    "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC",
)  # fmt: skip
BLOCKED_MINUTES = 26
"""How long the group with the long name has been blocked."""

WARNINGS = (
    ("lag-high", "lag", 120_400, 4), ("delay-high", "delay", 960, 5),
    ("dead-letters", "dlq_growth", 1, 6), ("retries-growing", "retry_growth", 40, 7),
    ("queues-unowned", "unowned_queues", 2, 8), ("clients-idle", "idle_clients", 3, 9),
)  # fmt: skip


@dataclass(frozen=True)
class Scene:
    """Contents of a written home.

    Attributes:
        made_up: the cluster.
        stalled: id of the incident of its worst group.
        differing: id of the incident of a group whose members subscribe differently.
    """

    made_up: MadeUp
    stalled: str
    differing: str


def write(lake: Lake) -> Scene:
    """Write a home of a cluster of 13 groups with two days of history."""
    made_up = MadeUp(
        groups=12, topics_per_group=2, topics=10, queues=8, days=2, queue_days=0.3, end=now()
    )
    made_up.write(lake)
    _add_groups(lake, made_up)
    _add_topics(lake, made_up)
    _add_members(lake, made_up)
    _add_results(lake, made_up)
    stalled, differing = _add_incidents(lake, made_up)
    globs = {"cluster": (CLUSTER,), "topic": ("stock*",)}
    start = made_up.end + timedelta(hours=9)
    until = start + timedelta(hours=2)
    silence(lake.shared, globs, until, "kim", "move of the warehouse database", starts_at=start)
    return Scene(made_up, stalled, differing)


def _at_end(made_up: MadeUp, table: Table, minutes: int = 0, /, **given: Any) -> dict[str, object]:
    """Return a row of the snapshot so many minutes before the end."""
    at = made_up.ago(minutes)
    own = {"observed_at": at, "cluster": CLUSTER}
    return row(table, own | {"snapshot_id": f"{at:%Y%m%dT%H%M%S}000Z-{CLUSTER}"} | given)


def _add_groups(lake: Lake, made_up: MadeUp) -> None:
    """Add the blocked group, and retry topics of four groups."""
    numbers = [_blocked(made_up, minutes) for minutes in range(180)]
    of_retry = {"queues": 2, "queues_unknown": 0, "complete": True, "inflight": 0, "available": 0}
    of_retry |= {"lost": 0, "delay_ms": 0, "produce_tps": 0.0, "consume_tps": 0.0, "clients": 2}
    for number, lag in ((0, 12), (1, 0), (3, 4), (5, 0)):
        name = made_up.name(number)
        given = of_retry | {"lag": lag, "readable_lag": lag, "delay_ms": lag * 4000}
        given |= {"health": "STALLED" if number == 0 else "OK", "online": True}
        numbers.append(_at_end(made_up, progress.GROUPS, consumer_group=name,
                             topic=f"%RETRY%{name}", **given))  # fmt: skip
    lake.append(progress.GROUPS, numbers)
    queues = [
        _at_end(made_up, progress.QUEUES, consumer_group=LONG_GROUP, topic=LONG_TOPIC,
                broker="broker-a" if place < 2 else "broker-b", queue_id=place % 2,
                min_offset=0, max_offset=52_000, consumer_offset=40_000 if place < 2 else None,
                lag=(0, 12_000, None, None)[place], readable_lag=(0, 12_000, None, None)[place],
                delay_ms=(0, 60_000 * BLOCKED_MINUTES, None, None)[place],
                delay_source=("exact", "at_least", None, None)[place],
                condition=("OK", "OK", "NEVER_COMMITTED", "NEVER_COMMITTED")[place])
        for place in range(4)
    ]  # fmt: skip
    lake.append(progress.QUEUES, queues)


def _blocked(made_up: MadeUp, minutes: int) -> dict[str, object]:
    blocked = minutes < BLOCKED_MINUTES
    lag = (BLOCKED_MINUTES - minutes) * 470 if blocked else 30 + minutes % 7
    delay = 60_000 * (BLOCKED_MINUTES - minutes) if blocked else 400
    given: Mapping[str, Any] = {
        "lag": lag, "readable_lag": lag, "lag_upper": lag, "delay_ms": delay, "inflight": 32,
        "available": lag - 32, "lost": 0, "queues": 4, "queues_unknown": 2 if blocked else 0,
        "complete": not blocked, "produce_tps": 7.8, "consume_tps": 0.0 if blocked else 7.8,
        "clients": 2, "online": True, "message_model": "CLUSTERING", "client_version": "V5_1_4",
        "delay_is_lower_bound": blocked, "health": "BLOCKED" if blocked else "OK",
        "health_reason": "broker-a/1 of 10.20.8.44@7#1: pull offset advanced from 40000 to 40032, "
        "commit stays at 40000" if blocked else "readable lag 30",
    }  # fmt: skip
    return _at_end(made_up, progress.GROUPS, minutes, consumer_group=LONG_GROUP, topic=LONG_TOPIC,
                   **given)  # fmt: skip


def _add_topics(lake: Lake, made_up: MadeUp) -> None:
    """Add topics that RocketMQ itself has, retry topics and a dead-letter topic."""
    own = {"read_queues": 1, "write_queues": 1, "perm": 6}
    written = {"brokers": 2, "queues": 16, "messages": 510_876_160, "complete": True}
    written |= {"unreadable_messages": 0, "kind": "normal", "topic": made_up.topic(0)}
    lake.append(
        progress.TOPICS,
        [
            _at_end(made_up, progress.TOPICS, minutes, produce_tps=340 - minutes / 3 + minutes % 9,
                    added_last_hour=1_180_000, newest_at=made_up.ago(minutes), **written)
            for minutes in range(360)
        ],
    )  # fmt: skip
    for number, count, new, hours in ((2, 1_204, 12, 61), (1, 37, 0, 30), (9, 4, 0, 3)):
        topic = {"topic": f"%DLQ%{made_up.name(number)}", "kind": "dlq", "complete": True}
        topic |= {"brokers": 1, "queues": 1, "unreadable_messages": 0}
        topic |= {"oldest_at": made_up.ago(60 * hours), "oldest_at_is_upper_bound": number == 2}
        lake.append(
            progress.TOPICS,
            [
                _at_end(made_up, progress.TOPICS, minutes, added_last_hour=new,
                        messages=count - (new * minutes) // 60,
                        newest_at=made_up.ago(minutes if new else 140), **topic)
                for minutes in range(0, 180, 5)
            ],
        )  # fmt: skip
    kinds = {name: "system" for name in SYSTEM_TOPICS}
    kinds |= {f"%RETRY%{made_up.name(number)}": "retry" for number in (0, 1, 3, 5)}
    kinds |= {f"%DLQ%{made_up.name(2)}": "dlq", LONG_TOPIC: "normal"}
    ends = [
        _at_end(made_up, raw.TOPICS, broker="broker-a", topic=topic, kind=kind, **own)
        for topic, kind in kinds.items()
    ]
    lake.append(raw.TOPICS, ends)


def _add_members(lake: Lake, made_up: MadeUp) -> None:
    """Add members of the blocked group, which subscribe differently; one of them is idle."""
    members = ("10.20.8.44@7#1", "settlement-archiver-6f7d9c5b8d-x2xqp@1#4c9a7e2f")
    about = {"consumer_group": LONG_GROUP}
    clients = [
        _at_end(made_up, raw.CLIENTS, client_id=name, client_address=f"10.20.8.44:5{place}120",
                language="JAVA", version="V5_1_4", **about)
        for place, name in enumerate(members)
    ]  # fmt: skip
    lake.append(raw.CLIENTS, clients)
    held = [
        _at_end(made_up, progress.ASSIGNMENTS, topic=LONG_TOPIC, strategy="AVG", queue_id=place % 2,
                broker="broker-a" if place < 2 else "broker-b", expected_client_id=members[0],
                actual_client_id=members[0] if place < 3 else None,
                state="OK" if place < 3 else "UNOWNED", **about)
        for place in range(4)
    ]  # fmt: skip
    lake.append(progress.ASSIGNMENTS, held)
    idle = {"topic": LONG_TOPIC, "clients": 2, "queues": 4, "reason": "NOT_REBALANCED"}
    lake.append(
        progress.IDLE_CLIENTS,
        [_at_end(made_up, progress.IDLE_CLIENTS, client_id=members[1], **idle, **about)],
    )
    evidence = [
        {"client_id": name, "client_address": "10.20.8.44:50120", "message_model": "CLUSTERING",
         "allocation_strategy": "AVG", "subscriptions": [
             {"topic": LONG_TOPIC, "expression_type": "TAG", "expression": tags}]}
        for name, tags in zip(members, ("*", "eu || uk"), strict=True)
    ]  # fmt: skip
    differing = {"consistent": False, "difference": "EXPRESSION", "differences": ["EXPRESSION"]}
    lake.append(
        progress.SUBSCRIPTIONS,
        [_at_end(made_up, progress.SUBSCRIPTIONS, evidence=evidence, **differing, **about)],
    )


def _add_results(lake: Lake, made_up: MadeUp) -> None:
    """Add expectations that applied to no row, and a quarantined row."""
    given = {"severity": "block", "unexpected": 0, "elements": 0, "run_id": "made-up"}
    given |= {"observed_at": made_up.end, "window_start": made_up.ago(1)}
    given |= {"window_end": made_up.end, "table": "raw.client_queues"}
    names = ("commit_at_most_max", "cached_min_at_most_max", "known_client")
    lake.append(
        quality.RESULTS,
        [row(quality.RESULTS, given | {"expectation": name, "success": None}) for name in names],
    )
    failed = {"unexpected": 2, "elements": 16, "success": False, "table": "progress.queues"}
    failed |= {"expectation": "delay_error_at_most_delay"}
    failed |= {
        "expected": "0 rows where delay_error_ms > delay_ms and delay_source = 'interpolated'"
    }
    failed |= {
        "sample": '[{"broker": "broker-a", "topic": "orders-created", "queue_id": 3, '
        '"consumer_group": "billing-writer", "delay_ms": 412, "delay_error_ms": 900}]'
    }
    broken = {"table": "quality.results", "expectation": "suites_are_usable", "success": False}
    broken |= {"elements": None, "unexpected": 2, "severity": "warn"}
    broken |= {"expected": "every file and expectation in the folder of suites can be used"}
    broken |= {"problem": "expectations/progress.groups.json:7 expectations[1]: no column 'lagg' "
               "in progress.groups; did you mean 'lag'?\nexpectations/raw.topic.json: no table "
               "'raw.topic'; did you mean 'raw.topics'?"}  # fmt: skip
    lake.append(quality.RESULTS, [row(quality.RESULTS, given | item) for item in (failed, broken)])
    kept = {"table": "raw.queue_offsets", "reason": "min_at_most_max"}
    lake.append(
        quality.QUARANTINE,
        [
            _at_end(made_up, quality.QUARANTINE, 12 + place, **kept,
                    row=f'{{"snapshot_id": "s", "broker": "broker-b", "topic": "orders-created", '
                    f'"queue_id": {place}, "min_offset": 9, "max_offset": 4}}')
            for place in range(3)
        ],
    )  # fmt: skip


def _add_incidents(lake: Lake, made_up: MadeUp) -> tuple[str, str]:
    """Add incidents and who was notified of them."""
    lag = made_up.lag(0)
    reason = f"broker-a/0: commit stays at 3000000, {lag // 16} unconsumed messages; and 15 more"
    worst = {"lag": lag, "readable_lag": lag, "delay_ms": 2_460_000, "health_reason": reason}
    worst |= {"worst_broker": "broker-b", "worst_queue_id": 7, "max_queue_lag": lag // 11}
    ids = [f"{made_up.ago(number):%Y%m%dT%H%M%S}000Z-{CLUSTER}" for number in range(18)]
    stalled = incident(
        made_up, 0, "stalled", 38, last_value=lag, peak_value=lag, threshold=0, row=worst,
        runbook="docs/runbooks/stalled.md", snapshot_ids=ids,
    )  # fmt: skip
    behind = incident(
        made_up, 1, "falling-behind", 150, kind="falling_behind", last_value=made_up.lag(1),
        severity="warning", state="ACKNOWLEDGED", acknowledged_at=made_up.ago(120),
        acknowledged_by="lin", acknowledge_reason="two more members are on their way",
    )  # fmt: skip
    again = [("FIRING", 251), ("RESOLVED", 221)]
    rewound = incident(
        made_up, 3, "rewound", 253, kind="rewound", last_value=330_233, severity="warning",
        state="RESOLVED", resolved_at=made_up.ago(221),
        transitions=[{"transition": name, "at": made_up.ago(ago)} for name, ago in again],
    )  # fmt: skip
    unknown = incident(made_up, 2, "collection-incomplete", 90, severity="info",
                       kind="collection_incomplete", last_value=1)  # fmt: skip
    clients = ["10.20.8.44@7#1", "settlement-archiver-6f7d9c5b8d-x2xqp@1#4c9a7e2f"]
    about = {"consumer_group": LONG_GROUP, "topic": LONG_TOPIC}
    differing = incident(
        made_up, 12, "subscription-inconsistent", 20, kind="inconsistent_subscription",
        last_value=1, threshold=0, subject=f"{CLUSTER}/{LONG_GROUP}/{LONG_TOPIC}",
        row=about | {"differing_in": ["EXPRESSION"], "subscription_differences": 1,
                     "differing_topic": LONG_TOPIC, "clients": clients},
        runbook="https://docs.example.com/runbooks/subscription-inconsistent.html",
    )  # fmt: skip
    pending = incident(made_up, 4, "offsets-unregistered", 3, kind="unregistered",
                       severity="info", state="PENDING", fired_at=None, last_value=1,
                       transitions=[])  # fmt: skip
    others = [
        incident(made_up, number, rule, 30 + 7 * number, kind=kind, severity="warning",
                 last_value=value, threshold=value / 2)
        for rule, kind, value, number in WARNINGS
    ]  # fmt: skip
    rows = [stalled, behind, rewound, unknown, differing, pending, *others]
    lake.append(alerting.INCIDENTS, rows)  # pyright: ignore[reportArgumentType]
    second = timedelta(seconds=4)
    lake.append(
        alerting.NOTIFICATIONS,
        [
            notification(stalled, "chat (team billing)", made_up.ago(36) + second),
            notification(stalled, "pager (first line)", made_up.ago(36) + 2 * second, attempts=2),
            notification(stalled, "pager (second line)", made_up.ago(21) + second),
            notification(behind, "chat (team checkout)", made_up.ago(148) + second),
            notification(differing, "log", made_up.ago(18) + second),
        ],
    )
    return str(stalled["incident_id"]), str(differing["incident_id"])
