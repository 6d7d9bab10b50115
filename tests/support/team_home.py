"""A home with groups of two teams and of none, whose names stand in every table of the board."""

import json
from datetime import datetime, timedelta
from typing import Any

from tests.support import board_home
from tests.support.board_home import CLUSTER, add_snapshot, group, incident, queue, rows_of
from tidemark.lake.catalog import Lake
from tidemark.lake.schema import Table
from tidemark.lake.tables import alerting, progress, quality, raw
from tidemark.rocketmq.records import Client, ConsumerOffset, Problem, QueueOffset, Snapshot, Topic
from tidemark.settings.owners import OwnedGroups, Owner, Owners

OWN, OTHER, NOBODY = "alpha-mail", "zulu-billing", "zulu-nobody"
"""A group of the team alpha, one of the team bravo, and one without a team."""

FOREIGN = "zulu"
"""A part of every name that users of the team alpha must not see."""

OWNERS = Owners(
    [
        OwnedGroups(
            match={"consumer_group": ("alpha-*",)},
            owner=Owner(team="alpha", contact="#alpha", links={"wiki": "https://wiki.example/a"}),
        ),
        OwnedGroups(
            match={"consumer_group": ("zulu-billing*",)},
            owner=Owner(team="bravo", contact="#zulu-on-call"),
        ),
    ]
)

POP_RETRY = f"%RETRY%{OTHER}_alpha-topic"
"""A POP retry topic of the first naming, which does not show where its group ends."""


def topics_of(name: str) -> tuple[str, ...]:
    return f"%RETRY%{name}", f"%DLQ%{name}", f"%RETRY%{name}+orders"


def fill(lake: Lake) -> datetime:
    """Add one snapshot, with rows of each group in every table that the board reads."""
    at = board_home.now()
    names = (OWN, OTHER, NOBODY)
    own_topics = [topic for name in names for topic in topics_of(name)] + [POP_RETRY]

    def add(table: Table, rows: list[dict[str, Any]]) -> None:
        known = [{n: row[n] for n in row if n in table.column_names} for row in rows]
        lake.append(table, rows_of(table, at, known))

    of_groups = [{"consumer_group": name, "client_id": f"{name}@1"} for name in names]
    queues = [{**row, "queue_id": 0} for row in of_groups]
    add(raw.CLIENTS, of_groups)
    add(raw.CONSUMER_GROUPS, of_groups)
    add(raw.CLIENT_TOPICS, of_groups)
    reasons = {"reason": "MORE_CLIENTS_THAN_QUEUES"}
    add(progress.IDLE_CLIENTS, [row | reasons for row in of_groups])
    differ = {"consistent": False, "difference": "TOPICS"}
    add(progress.SUBSCRIPTIONS, [row | differ for row in of_groups])
    add(progress.CAPACITY, [row | {"reason": "FEW_MESSAGES"} for row in of_groups])
    add(progress.ASSIGNMENTS, [row | {"actual_client_id": row["client_id"]} for row in queues])
    names_of_topics = [{"topic": topic} for topic in ("orders", *own_topics)]
    add(raw.TOPICS, names_of_topics)
    sizes = {"queue_id": 0, "min_offset": 0, "max_offset": 9}
    add(raw.QUEUE_OFFSETS, [row | sizes for row in names_of_topics])
    dead = {"messages": 3, "added_last_hour": 1, "complete": True}
    add(progress.TOPICS, [row | dead for row in names_of_topics])
    counted = {"broker_id": 0, "stats_name": "GROUP_GET_NUMS", "stats_window": "minute", "sum": 3}
    keys = [{"consumer_group": name, "stats_key": f"orders@{name}"} for name in names]
    unparsed = [{"topic": None, "stats_key": f"0@orders@{OTHER}"}]
    add(raw.BROKER_STATS, [counted | row for row in (*keys, *unparsed)])
    add(progress.THROUGHPUT, [counted | row for row in (*keys, *unparsed)])
    event = {"queue_id": 0, "kind": "REWOUND", "messages": 3}
    add(progress.EVENTS, [event | {"consumer_group": name, "client_id": None} for name in names])
    add(progress.EVENTS, [event | {"consumer_group": None, "topic": it} for it in own_topics])
    hour = at.replace(minute=0, second=0)
    objective = {
        **{"hour": hour, "objective": "late", "target": 0.9, "window_hours": 24, "good": 1},
        **{"bad": 0, "unknown": 0, "bad_before": 0, "unknown_before": 0, "budget_left": 1.0},
    }
    add(progress.OBJECTIVES, [objective | {"consumer_group": name} for name in names])
    add_incidents(lake, at, names)
    add_quality(lake, at, names)
    rows = [group(name, lag=n + 1, health="STALLED") for n, name in enumerate(names)]
    rows += [group(name, topic=topics_of(name)[0]) for name in names]
    rows += [group(OWN, topic=f"%DLQ%{OTHER}", lag=4)]
    problems = [
        {"endpoint": "10.0.0.1:10911", "operation": f"GET_CONSUME_STATS {OTHER}", "code": 1,
         "message": f"the group {OTHER} has no offset"}
    ]  # fmt: skip
    add_snapshot(lake, at, rows, queues=[queue(name, 0) for name in names], problems=problems)
    return at


def add_incidents(lake: Lake, at: datetime, names: tuple[str, ...]) -> None:
    rows = [incident(at, kind="stalled", group_name=name) for name in names]
    dead = {"cluster": CLUSTER, "topic": f"%DLQ%{OTHER}"}
    about = [
        ("dead_letter_age", dead, f"{CLUSTER}/%DLQ%{OTHER}"),
        ("collection_incomplete", {"cluster": CLUSTER, "problems": f"{OTHER} failed"}, CLUSTER),
        ("quality", {"table": "raw.clients", "sample": OTHER}, "raw.clients"),
    ]
    rows += [
        incident(at, rule=kind, group_name=kind, kind=kind, subject=subject)
        | {"evidence": json.dumps({"row": row})}
        for kind, row, subject in about
    ]
    lake.append(alerting.INCIDENTS, rows)
    sent = [
        {"incident_id": row["incident_id"], "transition": "FIRING", "channel": "mail",
         "attempts": 1, "transition_at": at, "status": "DELIVERED", "repeats": 0}
        for row in rows
    ]  # fmt: skip
    columns = alerting.NOTIFICATIONS.column_names
    lake.append(alerting.NOTIFICATIONS, [dict.fromkeys(columns) | row for row in sent])


def add_quality(lake: Lake, at: datetime, names: tuple[str, ...]) -> None:
    result = {
        **{"observed_at": at, "run_id": "r", "table": "raw.clients", "expectation": "known"},
        **{"success": False, "elements": 1, "unexpected": 1, "severity": "warn"},
        **{"sample": json.dumps([{"consumer_group": OTHER}]), "problem": f"{OTHER} is wrong"},
        "expected": f"consumer_group is not {OTHER}",
    }
    columns = quality.RESULTS.column_names
    lake.append(quality.RESULTS, [dict.fromkeys(columns) | result])
    bad = [
        {"observed_at": at, "table": "raw.consumer_offsets", "reason": "offset_not_negative",
         "snapshot_id": board_home.snapshot_id(at),
         "row": json.dumps({"cluster": CLUSTER, "consumer_group": name, "topic": "orders"})}
        for name in names
    ]  # fmt: skip
    lake.append(quality.QUARANTINE, bad)
    decided = {"decided_at": at + timedelta(seconds=1), "decision": "dropped", "author": "root"}
    lake.append(quality.DECISIONS, [bad[1] | decided | {"comment": f"{OTHER} is gone"}])


def live() -> Snapshot:
    """A snapshot taken now that has all groups."""
    taken = Snapshot(
        cluster=CLUSTER, source="remote", observed_at=board_home.now(), status="PARTIAL"
    )
    taken.problems = [
        Problem(
            endpoint="10.0.0.1:10911",
            operation=f"GET_CONSUME_STATS {OTHER}",
            code=1,
            message=f"no {OTHER}",
        )
    ]
    names = ["orders", *topics_of(OTHER)]
    of_topic = {"read_queues": 1, "write_queues": 1, "perm": 6, "message_type": "NORMAL"}
    taken.topics = [Topic(broker="broker-a", topic=it, kind="normal", **of_topic) for it in names]
    taken.queue_offsets = [
        QueueOffset(broker="broker-a", topic=it, queue_id=0, min_offset=0, max_offset=9)
        for it in names
    ]
    taken.consumer_offsets = [
        ConsumerOffset(broker="broker-a", consumer_group=name, topic="orders", queue_id=0,
                       client_id=None, consumer_offset=5)
        for name in (OWN, OTHER, NOBODY)
    ]  # fmt: skip
    taken.clients = [
        Client(consumer_group=name, client_id=f"{name}@1", client_address=None, language="JAVA",
               version="V5_3_3", consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING",
               consume_from_where=None, subscriptions=[])
        for name in (OWN, OTHER, NOBODY)
    ]  # fmt: skip
    return taken
