"""Events of clients' queues: new owners with redelivered messages, expired pulls, lost locks.

Each case is a group of its own, observed at the minutes 0, 1 and so on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from spark.progress.client_events import client_events
from tests.support.table_rows import frame, minute, minutes
from tidemark.lake.tables import progress, raw

pytestmark = pytest.mark.spark

RUNNING = -60
"""When members were started that have been there all along."""


@dataclass(kw_only=True)
class Seen:
    """One observation of queue 0.

    Attributes:
        owners: members that hold it.
        members: minute at which each member was started.
        state: of its row in ``progress.assignments``.
        queues: queues of the topic.
        offsets: consumer and pull offset by the broker.
        reports: more columns of ``raw.client_queues`` of the owners.
    """

    owners: Sequence[str] = ()
    members: dict[str, float] = field(default_factory=lambda: {"a": RUNNING, "b": RUNNING})
    state: str = "OK"
    queues: int = 1
    offsets: tuple[int | None, int | None] | None = None
    reports: dict[str, Any] = field(default_factory=dict)


def rebalanced(new, former, messages, likely_cause=None, unowned=0):
    return "REBALANCED", new, former, messages, likely_cause, unowned


def pulled(at):
    return {"last_pull_at": minute(at)}


CACHE = {"commit_offset": 40, "cached_messages": 3, "cached_max_offset": 59}

A, B = {"a": RUNNING}, {"b": RUNNING}

CASES = {
    "the same owner": ([Seen(owners="a"), Seen(owners="a")], []),
    "a broker reports what was handed out": (
        [Seen(owners="a", members=A, offsets=(100, 150)), Seen(owners="b", members=A | B)],
        [rebalanced("b", "a", 50, "member joined")],
    ),
    "a client reports what was handed out": (
        [Seen(owners="a", members=A, reports=CACHE), Seen(owners="b", members=A | B)],
        [rebalanced("b", "a", 20, "member joined")],
    ),
    "nothing was handed out": (
        [
            Seen(owners="a", members=A | B, reports=CACHE | {"cached_messages": 0}),
            Seen(owners="b", members=B),
        ],
        [rebalanced("b", "a", 0, "member left")],
    ),
    "nobody reports what was handed out": (
        [
            Seen(owners="a", members=A | B, reports={"commit_offset": 40}),
            Seen(owners="b", members=B),
        ],
        [rebalanced("b", "a", None, "member left")],
    ),
    "another process": (
        [Seen(owners="a", members=A), Seen(owners="b", members=B)],
        [rebalanced("b", "a", None, "client restarted")],
    ),
    "the same process started again": (
        [Seen(owners="a"), Seen(owners="b", members=A | {"b": 0.5})],
        [rebalanced("b", "a", None, "client restarted")],
    ),
    "more queues": (
        [Seen(owners="a"), Seen(owners="b", queues=2)],
        [rebalanced("b", "a", None, "queue count changed")],
    ),
    "the former owner did not pull": (
        [Seen(owners="a", reports=pulled(-5)), Seen(owners="b", reports=pulled(1))],
        [
            ("PULL_EXPIRED", "a", None, None, "no queue of the client is pulled", None),
            rebalanced("b", "a", None, "not pulled for 120 s"),
        ],
    ),
    "nobody owned it for a while": (
        [
            *(Seen(owners="a"), Seen(owners="a"), Seen(state="UNOWNED"), Seen(state="UNOWNED")),
            Seen(owners="b"),
        ],
        [rebalanced("b", "a", None, None, unowned=120_000)],
    ),
    "it came back to its owner": (
        [Seen(owners="a"), Seen(state="UNOWNED"), Seen(owners="a")],
        [],
    ),
    "unknown is not unowned": (
        [Seen(owners="a"), Seen(state="UNKNOWN"), Seen(owners="b")],
        [rebalanced("b", "a", None)],
    ),
    "contested and given up": (
        [Seen(owners="a"), Seen(owners="ab", state="CONTESTED"), Seen(owners="b")],
        [rebalanced("b", "a", None)],
    ),
    "pulled a while ago": (
        [Seen(owners="a", reports=pulled(-1)), Seen(owners="a", reports=pulled(-1))],
        [],
    ),
    "not pulled any more is one event": (
        [
            Seen(owners="a", reports=CACHE | pulled(-1)),
            Seen(owners="a", reports=CACHE | pulled(-1)),
            Seen(owners="a", reports=CACHE | pulled(-1)),
            Seen(owners="a", reports=CACHE | pulled(-1)),
        ],
        [("PULL_EXPIRED", "a", None, 20, "no queue of the client is pulled", None)],
    ),
    "one of two is not pulled": (
        [
            Seen(owners="a", queues=2, reports=pulled(0)),
            Seen(owners="a", queues=2, reports=pulled(-9)),
        ],
        [("PULL_EXPIRED", "a", None, None, "other queues of the client are pulled", None)],
    ),
    "an old report was seen at once": (
        [Seen(owners="a", reports=pulled(-9))],
        [("PULL_EXPIRED", "a", None, None, "no queue of the client is pulled", None)],
    ),
    "clients that poll may pause": ([Seen(owners="a", reports=pulled(-9))], []),
    "concurrent clients need no lock": ([Seen(owners="a", reports={"locked": False})], []),
    "ordered, lock lost": (
        [Seen(owners="a", reports={"locked": True}), Seen(owners="a", reports={"locked": False})],
        [("ORDER_LOCK_LOST", "a", None, None, None, None)],
    ),
    "ordered, lock taken by another": (
        [Seen(owners="a", reports={"locked": True}), Seen(owners="ab", reports={"locked": False})],
        [
            rebalanced("b", "a", None),
            ("ORDER_LOCK_LOST", "a", None, None, "another member holds the queue", None),
            ("ORDER_LOCK_LOST", "b", None, None, "another member holds the queue", None),
        ],
    ),
    "ordered, lock not renewed": (
        [
            Seen(owners="a", reports={"locked": True, "last_lock_at": minute(-0.5)}),
            Seen(owners="a", reports={"locked": True, "last_lock_at": minute(-0.5)}),
        ],
        [("ORDER_LOCK_LOST", "a", None, None, None, None)],
    ),
    "ordered, broadcasting": ([Seen(owners="a", reports={"locked": False})], []),
}


def consumer(name):
    return {
        "consume_orderly": name.startswith("ordered"),
        "consume_type": "CONSUME_ACTIVELY" if "poll" in name else "CONSUME_PASSIVELY",
        "message_model": "BROADCASTING" if "broadcasting" in name else "CLUSTERING",
    }


def rows_of(name, at, seen):
    """Rows of an observation: assignments, clients, client queues, queues."""
    group = {"at": at, "consumer_group": name}
    topic = group | {"topic": "orders"}
    owned = [
        topic | {"queue_id": number, "owners": list(seen.owners) or None, "state": seen.state}
        for number in range(seen.queues)
    ]
    members = [
        group | {"client_id": member, "started_at": minute(start)} | consumer(name)
        for member, start in seen.members.items()
    ]
    reported = [topic | {"queue_id": 0, "client_id": owner} | seen.reports for owner in seen.owners]
    if "one of two" in name:
        reported += [topic | {"queue_id": 1, "client_id": "a"} | pulled(at)]
    known = []
    if seen.offsets:
        committed, next_offset = seen.offsets
        known = [topic | {"queue_id": 0, "consumer_offset": committed, "pull_offset": next_offset}]
    return owned, members, reported, known


@pytest.fixture(scope="module")
def happened(spark):
    tables = (progress.ASSIGNMENTS, raw.CLIENTS, raw.CLIENT_QUEUES, progress.QUEUES)
    rows = [[] for _ in tables]
    for name, (observations, _) in CASES.items():
        for at, seen in enumerate(observations):
            for table, events in zip(rows, rows_of(name, at, seen), strict=True):
                table.extend(events)
    # Reports of a queue that its client has given up, and of a system topic, are no events.
    gone = {"at": 0, "consumer_group": "gone", "client_id": "a", **pulled(-9)}
    rows[2] += [
        gone | {"topic": "orders", "queue_id": 0, "dropped": True},
        gone | {"topic": "rmq_sys_wheel_timer", "queue_id": 0},
    ]
    assigned, clients, owned, queues = (
        frame(spark, table, row) for table, row in zip(tables, rows, strict=True)
    )
    events = client_events(assigned, owned, clients, queues, minutes(0, 60))
    assert events.columns == progress.EVENTS.column_names
    return [row.asDict() for row in events.collect()]


@pytest.mark.parametrize("name", CASES)
def test_each_change_of_a_clients_queue_is_one_event(happened, name):
    _, expected = CASES[name]
    mine = [row for row in happened if row["consumer_group"] == name and row["queue_id"] == 0]
    shown = ("kind", "client_id", "previous_client_id", "messages", "likely_cause", "unowned_ms")
    key = lambda event: (event[0], event[1])  # noqa: E731
    assert sorted((tuple(row[literal] for literal in shown) for row in mine), key=key) == sorted(
        expected, key=key
    )


def test_nothing_else_is_an_event(happened):
    assert {row["consumer_group"] for row in happened} <= CASES.keys()


def test_an_event_names_the_messages_that_may_come_twice(happened):
    (row,) = [row for row in happened if row["consumer_group"].startswith("a broker reports")]
    assert (row["from_offset"], row["to_offset"]) == (100, 150)
    assert row["previous_at"] == minute(0).replace(tzinfo=None)
    assert row["observed_at"] == minute(1).replace(tzinfo=None)
