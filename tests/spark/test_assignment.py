"""``progress.assignments``, ``progress.idle_clients``: rows to check by eye; allocation in SQL.

Two simplifications would look right and break: expecting queues only of members that subscribe to
the topic (clients count all members of the group), and calling a queue unowned while some member
has not told what it holds.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake.tables.raw import CLIENT_QUEUES, CLIENTS, TOPICS
from rocketmq.allocation import SELF_CONTAINED, allocate
from spark.assignment import assignments, expected_owners, idle_clients, ring
from tests.builders import frame, minutes
from tests.rocketmq.test_allocation import random_cases

pytestmark = pytest.mark.spark


def member(client_id: str, *topics: str, **other: Any) -> dict[str, Any]:
    """A member that told what it holds; of topic ``orders`` unless told otherwise."""
    subscriptions = [
        {"topic": topic, "expression_type": "TAG", "expression": "*", "tags": []}
        for topic in topics or ("orders",)
    ]
    row = {
        "at": 0,
        "consumer_group": "billing",
        "client_id": client_id,
        "message_model": "CLUSTERING",
        "consume_type": "CONSUME_PASSIVELY",
        "allocation_strategy": "AVG",
        "subscriptions": subscriptions,
        "subscriptions_source": "client",
    }
    return row | other


def held(client_id: str, queue_id: int, **other: Any) -> dict[str, Any]:
    row = {
        "at": 0,
        "consumer_group": "billing",
        "client_id": client_id,
        "topic": "orders",
        "queue_id": queue_id,
    }
    return row | other


def topic(queues: int, **other: Any) -> dict[str, Any]:
    return {"at": 0, "topic": "orders", "read_queues": queues, "perm": 6} | other


class Found:
    """What was computed, by queue of ``orders`` on broker-a, and the idle by member."""

    def __init__(
        self,
        spark: SparkSession,
        clients: Sequence[dict[str, Any]],
        queues: Sequence[dict[str, Any]],
        topics: Sequence[dict[str, Any]],
        window: tuple[float, float] = (0, 60),
    ) -> None:
        members = frame(spark, CLIENTS, clients)
        assigned = assignments(
            members,
            frame(spark, CLIENT_QUEUES, queues),
            frame(spark, TOPICS, topics),
            minutes(*window),
        ).localCheckpoint()
        self.rows = [row.asDict() for row in assigned.collect()]
        idle = idle_clients(assigned, members, minutes(*window)).collect()
        self.idle = {(row["client_id"], row["topic"]): row["reason"] for row in idle}
        assert len(self.idle) == len(idle)

    def __getitem__(self, name: str) -> list[Any]:
        """A column, in the order of the queues."""
        rows = sorted(self.rows, key=lambda row: (row["topic"], row["broker"], row["queue_id"]))
        return [row[name] for row in rows]


def test_each_queue_has_the_state_of_its_owners(spark):
    """A should have 0 and 1, b 2 and 3."""
    found = Found(
        spark,
        [member("a"), member("b")],
        [held("a", 0), held("b", 1), held("a", 2), held("b", 2), held("a", 3, dropped=True)],
        [topic(4)],
    )
    assert found["expected_client_id"] == ["a", "a", "b", "b"]
    assert found["actual_client_id"] == ["a", "b", "a", None]
    assert found["state"] == ["OK", "MOVED", "CONTESTED", "UNOWNED"]
    assert found["owners"] == [["a"], ["b"], ["a", "b"], None]
    assert set(found["strategy"]) == {"AVG"} and set(found["strategy_skew"]) == {1.0}
    assert found.idle == {}


def test_what_a_silent_member_holds_is_not_known(spark):
    silent = member("b", subscriptions_source="group", allocation_strategy=None)
    found = Found(spark, [member("a"), silent], [held("a", 0)], [topic(2)])
    assert found["expected_client_id"] == ["a", "b"]
    assert found["state"] == ["OK", "UNKNOWN"]
    assert found.idle == {}


def test_a_group_of_which_nobody_told_is_not_there(spark):
    silent = member("a", subscriptions_source="group")
    broadcast = member("a", consumer_group="radio", message_model="BROADCASTING")
    pop = member("a", consumer_group="pop", consume_type="CONSUME_POP")
    old = member("a", consumer_group="old", consume_type="CONSUME_ACTIVELY")
    found = Found(
        spark,
        [silent, broadcast, pop, old],
        [held("a", 0, consumer_group="radio")],
        [topic(2)],
    )
    assert found.rows == [] and found.idle == {}


def test_what_brokers_hand_out_is_nobodys(spark):
    """So two real clients tell it; of the retry topic each queue is one member's nevertheless."""
    handed = {"queue_id": -1, "popped": True}
    retry = {"topic": "%RETRY%billing"}
    found = Found(
        spark,
        [member(name, "orders", retry["topic"]) for name in ("a", "b")],
        [held("a", **handed), held("b", **handed), held("a", 0, **retry, popped=False)],
        [topic(8), topic(1, **retry)],
    )
    assert [(row["topic"], row["state"]) for row in found.rows] == [(retry["topic"], "OK")]
    assert found.idle == {}


def test_members_that_do_not_read_the_topic_are_counted_as_clients_count_them(spark):
    found = Found(spark, [member("a"), member("b", "bills")], [held("a", 0)], [topic(2)])
    assert found["expected_client_id"] == ["a", "b"]
    assert found["state"] == ["OK", "UNOWNED"]
    assert found.idle == {("b", "bills"): "NO_READABLE_QUEUE"}


@pytest.mark.parametrize(
    ("strategies", "strategy", "expected"),
    [
        (("AVG_BY_CIRCLE", "AVG_BY_CIRCLE"), "AVG_BY_CIRCLE", ["a", "b", "a"]),
        (("AVG", None), "AVG", ["a", "a", "b"]),
        (("AVG", "AVG_BY_CIRCLE"), None, [None] * 3),
        ((None, None), None, [None] * 3),
        (("CONFIG", "CONFIG"), "CONFIG", [None] * 3),
        (("MyOwn", "MyOwn"), "MyOwn", [None] * 3),
    ],
)
def test_what_is_expected_follows_from_a_strategy_that_is_known(
    spark, strategies, strategy, expected
):
    members = [
        member(name, allocation_strategy=mine) for name, mine in zip("ab", strategies, strict=True)
    ]
    found = Found(spark, members, [held("a", 0), held("b", 1), held("b", 2)], [topic(3)])
    assert found["strategy"] == [strategy] * 3
    assert found["expected_client_id"] == expected
    states = ["OK", "OK", "MOVED"] if strategy == "AVG_BY_CIRCLE" else ["OK", "MOVED", "OK"]
    assert found["state"] == (states if expected[0] else ["UNKNOWN"] * 3)


def test_a_route_that_is_not_ours_makes_expectations_unknown(spark):
    """broker-b is silent to us; a still holds its queue. On ``bills`` nobody holds a hidden one."""
    found = Found(
        spark,
        [member("a", "orders", "bills")],
        [held("a", 0), held("a", 0, broker="broker-b"), held("a", 0, topic="bills")],
        [topic(1), topic(1, topic="bills")],
    )
    assert found["topic"] == ["bills", "orders", "orders"]
    assert found["state"] == ["OK", "UNKNOWN", "UNKNOWN"]
    assert found["actual_client_id"] == ["a", "a", "a"]


def test_only_readable_queues_are_shared_and_brokers_come_in_order(spark):
    found = Found(
        spark,
        [member("a"), member("b")],
        [],
        [
            topic(1, broker="broker-b"),
            topic(1),
            topic(4, broker="broker-c", perm=2),
            topic(0, broker="broker-d"),
        ],
    )
    assert list(zip(found["broker"], found["expected_client_id"], strict=True)) == [
        ("broker-a", "a"),
        ("broker-b", "b"),
    ]


def test_idle_members_and_why(spark):
    """Of 8 queues on a ring, c gets none (the golden case); of one queue, two members get none."""
    crowd = [member(name, "one", "%RETRY%crowd", consumer_group="crowd") for name in "xyz"]
    hashed = [
        member(f"c{number}", "TopicA", allocation_strategy="CONSISTENT_HASH")
        for number in (1, 2, 3)
    ]
    roomy = member("r", consumer_group="room", allocation_strategy="MACHINE_ROOM")
    late = [member(name, consumer_group="late") for name in "pq"]
    rings = {"c1": [("a", 0), ("b", 0), ("b", 2), ("b", 3)]}
    rings["c2"] = [("a", 1), ("a", 2), ("a", 3), ("b", 1)]
    found = Found(
        spark,
        [*crowd, *hashed, roomy, *late],
        [
            held("x", 0, topic="one", consumer_group="crowd"),
            # A member that holds nothing but the retry topic's queue is as idle as the others.
            held("y", 0, topic="%RETRY%crowd", consumer_group="crowd"),
            held("p", 0, consumer_group="late"),
            held("p", 1, consumer_group="late"),
            *(
                held(client, queue_id, topic="TopicA", broker=f"broker-{broker}")
                for client, mine in rings.items()
                for broker, queue_id in mine
            ),
        ],
        [
            topic(1, topic="one"),
            topic(1, topic="%RETRY%crowd"),
            topic(2),
            topic(4, topic="TopicA"),
            topic(4, topic="TopicA", broker="broker-b"),
        ],
    )
    assert found.idle == {
        ("y", "one"): "MORE_CLIENTS_THAN_QUEUES",
        ("z", "one"): "MORE_CLIENTS_THAN_QUEUES",
        ("c3", "TopicA"): "HASH_LUCK",
        ("r", "orders"): "NO_QUEUE_IN_ROOM",
        ("q", "orders"): "NOT_REBALANCED",
    }
    ring_rows = [row for row in found.rows if row["topic"] == "TopicA"]
    assert {row["state"] for row in ring_rows} == {"OK"} and len(ring_rows) == 8
    assert {row["strategy_skew"] for row in ring_rows} == {1.5}


def test_a_rebalance_is_seen_against_what_was_last_told(spark):
    """Told at minutes 0, 10 and 20, and at 85, where what was told before is too long ago."""
    found = Found(
        spark,
        [member("a", at=at) for at in (0, 10, 20, 85)]
        + [member("b", at=at) for at in (10, 20, 85)],
        [
            *(held("a", 0, at=at) for at in (0, 10, 20, 85)),
            *(held(name, 1, at=at) for at, name in [(0, "a"), (20, "b"), (85, "b")]),
        ],
        [topic(2, at=at) for at in (0, 10, 20, 85)],
        window=(10, 90),
    )
    rows = sorted(found.rows, key=lambda row: (row["observed_at"], row["queue_id"]))
    told = [(row["actual_client_id"], row["previous_client_id"], row["rebalanced"]) for row in rows]
    assert told == [
        ("a", "a", False),
        (None, "a", True),
        ("a", "a", False),
        ("b", "a", True),
        ("a", None, None),
        ("b", None, None),
    ]


def test_allocation_in_sql_is_that_of_the_client(spark):
    """Random cases, with names beyond ASCII; those beyond 16 bits are ordered otherwise in Java."""
    cases = []
    for strategy, name, _, _, queues, clients in random_cases(seed=7, count=6000):
        text = "".join([name, *clients, *(broker for broker, _ in queues)])
        if strategy in SELF_CONTAINED and max(text) < "\U00010000":
            cases.append((strategy, name, sorted(queues), clients))
    assert {strategy for strategy, *_ in cases} == set(SELF_CONTAINED) and len(cases) > 100
    rows = spark.createDataFrame(
        [(number, *case) for number, case in enumerate(cases)],
        "number int, strategy string, topic string, "
        "queues array<struct<broker:string,queue_id:int>>, members array<string>",
    )
    found = (
        rows.withColumn("ring", ring())
        .select("number", F.col("queues"), expected_owners().alias("expected"))
        .collect()
    )
    for number, queues, expected in found:
        strategy, name, _, clients = cases[number]
        owned = allocate(strategy, name, queues, clients)
        owners = {queue: client for client, mine in owned.items() for queue in mine}
        assert [owners[tuple(queue)] for queue in queues] == expected, cases[number]
