"""``progress.assignments`` and ``progress.idle_clients`` on rows that can be checked by eye.

Tempting simplifications these tests break: expecting queues only for members that subscribe to the
topic (clients count all members of the group), and calling a queue unowned while a member has not
reported its queues.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.progress.assignments import assignments, idle_clients
from tests.support.table_rows import frame, minutes
from tidemark.lake.tables.raw import CLIENT_QUEUES, CLIENTS, TOPICS

pytestmark = pytest.mark.spark


def member(client_id: str, *topics: str, **other: Any) -> dict[str, Any]:
    """A member that reports its queues; subscribed to ``orders`` unless topics are given."""
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


def owned_queue(client_id: str, queue_id: int, **other: Any) -> dict[str, Any]:
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
    """Computed assignments in the order of queues, and idle clients by client and topic."""

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


def test_state_follows_from_actual_and_expected_owners(spark):
    """Expected owners: a of 0 and 1, b of 2 and 3."""
    result = Found(
        spark,
        [member("a"), member("b")],
        [
            owned_queue("a", 0),
            owned_queue("b", 1),
            owned_queue("a", 2),
            owned_queue("b", 2),
            owned_queue("a", 3, dropped=True),
        ],
        [topic(4)],
    )
    assert result["expected_client_id"] == ["a", "a", "b", "b"]
    assert result["actual_client_id"] == ["a", "b", "a", None]
    assert result["state"] == ["OK", "MOVED", "CONTESTED", "UNOWNED"]
    assert result["owners"] == [["a"], ["b"], ["a", "b"], None]
    assert set(result["strategy"]) == {"AVG"} and set(result["strategy_skew"]) == {1.0}
    assert result.idle == {}


def test_queues_are_unknown_while_a_member_does_not_report(spark):
    unreported = member("b", subscriptions_source="group", allocation_strategy=None)
    result = Found(spark, [member("a"), unreported], [owned_queue("a", 0)], [topic(2)])
    assert result["expected_client_id"] == ["a", "b"]
    assert result["state"] == ["OK", "UNKNOWN"]
    assert result.idle == {}


def test_groups_without_reports_or_shared_queues_have_no_rows(spark):
    unreported = member("a", subscriptions_source="group")
    broadcast = member("a", consumer_group="radio", message_model="BROADCASTING")
    pop = member("a", consumer_group="pop", consume_type="CONSUME_POP")
    old = member("a", consumer_group="old", consume_type="CONSUME_ACTIVELY")
    result = Found(
        spark,
        [unreported, broadcast, pop, old],
        [owned_queue("a", 0, consumer_group="radio")],
        [topic(2)],
    )
    assert result.rows == [] and result.idle == {}


def test_pop_topics_have_no_owners(spark):
    """As two real clients report it; queues of the retry topic still have one owner each."""
    handed = {"queue_id": -1, "popped": True}
    retry = {"topic": "%RETRY%billing"}
    result = Found(
        spark,
        [member(name, "orders", retry["topic"]) for name in ("a", "b")],
        [
            owned_queue("a", **handed),
            owned_queue("b", **handed),
            owned_queue("a", 0, **retry, popped=False),
        ],
        [topic(8), topic(1, **retry)],
    )
    assert [(row["topic"], row["state"]) for row in result.rows] == [(retry["topic"], "OK")]
    assert result.idle == {}


def test_members_of_other_topics_count_as_clients_count_them(spark):
    result = Found(spark, [member("a"), member("b", "bills")], [owned_queue("a", 0)], [topic(2)])
    assert result["expected_client_id"] == ["a", "b"]
    assert result["state"] == ["OK", "UNOWNED"]
    assert result.idle == {("b", "bills"): "NO_READABLE_QUEUE"}


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
def test_expected_owners_need_one_known_strategy(spark, strategies, strategy, expected):
    members = [
        member(name, allocation_strategy=mine) for name, mine in zip("ab", strategies, strict=True)
    ]
    result = Found(
        spark, members, [owned_queue("a", 0), owned_queue("b", 1), owned_queue("b", 2)], [topic(3)]
    )
    assert result["strategy"] == [strategy] * 3
    assert result["expected_client_id"] == expected
    states = ["OK", "OK", "MOVED"] if strategy == "AVG_BY_CIRCLE" else ["OK", "MOVED", "OK"]
    assert result["state"] == (states if expected[0] else ["UNKNOWN"] * 3)


def test_another_route_makes_expected_owners_unknown(spark):
    """broker-b is unreachable, and a still holds its queue. ``bills`` has no hidden queue."""
    result = Found(
        spark,
        [member("a", "orders", "bills")],
        [
            owned_queue("a", 0),
            owned_queue("a", 0, broker="broker-b"),
            owned_queue("a", 0, topic="bills"),
        ],
        [topic(1), topic(1, topic="bills")],
    )
    assert result["topic"] == ["bills", "orders", "orders"]
    assert result["state"] == ["OK", "UNKNOWN", "UNKNOWN"]
    assert result["actual_client_id"] == ["a", "a", "a"]


def test_only_readable_queues_are_assigned_in_order_of_brokers(spark):
    result = Found(
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
    assert list(zip(result["broker"], result["expected_client_id"], strict=True)) == [
        ("broker-a", "a"),
        ("broker-b", "b"),
    ]


def test_idle_clients_have_a_reason(spark):
    """c3 gets none of 8 hashed queues (a recorded case); of one queue two members get none."""
    crowd = [member(name, "one", "%RETRY%crowd", consumer_group="crowd") for name in "xyz"]
    hashed = [
        member(f"c{number}", "TopicA", allocation_strategy="CONSISTENT_HASH")
        for number in (1, 2, 3)
    ]
    roomy = member("r", consumer_group="room", allocation_strategy="MACHINE_ROOM")
    late = [member(name, consumer_group="late") for name in "pq"]
    rings = {"c1": [("a", 0), ("b", 0), ("b", 2), ("b", 3)]}
    rings["c2"] = [("a", 1), ("a", 2), ("a", 3), ("b", 1)]
    result = Found(
        spark,
        [*crowd, *hashed, roomy, *late],
        [
            owned_queue("x", 0, topic="one", consumer_group="crowd"),
            # A member that holds only the retry topic's queue is idle too.
            owned_queue("y", 0, topic="%RETRY%crowd", consumer_group="crowd"),
            owned_queue("p", 0, consumer_group="late"),
            owned_queue("p", 1, consumer_group="late"),
            *(
                owned_queue(client, queue_id, topic="TopicA", broker=f"broker-{broker}")
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
    assert result.idle == {
        ("y", "one"): "MORE_CLIENTS_THAN_QUEUES",
        ("z", "one"): "MORE_CLIENTS_THAN_QUEUES",
        ("c3", "TopicA"): "HASH_LUCK",
        ("r", "orders"): "NO_QUEUE_IN_ROOM",
        ("q", "orders"): "NOT_REBALANCED",
    }
    ring_rows = [row for row in result.rows if row["topic"] == "TopicA"]
    assert {row["state"] for row in ring_rows} == {"OK"} and len(ring_rows) == 8
    assert {row["strategy_skew"] for row in ring_rows} == {1.5}


def test_rebalance_compares_with_the_last_report(spark):
    """Reports at minutes 0, 10, 20 and 85; at 85 the one before is too old."""
    result = Found(
        spark,
        [member("a", at=at) for at in (0, 10, 20, 85)]
        + [member("b", at=at) for at in (10, 20, 85)],
        [
            *(owned_queue("a", 0, at=at) for at in (0, 10, 20, 85)),
            *(owned_queue(name, 1, at=at) for at, name in [(0, "a"), (20, "b"), (85, "b")]),
        ],
        [topic(2, at=at) for at in (0, 10, 20, 85)],
        window=(10, 90),
    )
    rows = sorted(result.rows, key=lambda row: (row["observed_at"], row["queue_id"]))
    owners = [
        (row["actual_client_id"], row["previous_client_id"], row["rebalanced"]) for row in rows
    ]
    assert owners == [
        ("a", "a", False),
        (None, "a", True),
        ("a", "a", False),
        ("b", "a", True),
        ("a", None, None),
        ("b", None, None),
    ]
