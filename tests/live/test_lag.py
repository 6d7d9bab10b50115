"""Groups from one snapshot: sums of known queues, and online members."""

from datetime import UTC, datetime

from tidemark.live.lag import group_rows
from tidemark.rocketmq.records import (
    Broker,
    Client,
    ConsumerOffset,
    Problem,
    QueueOffset,
    Snapshot,
    Subscription,
    Topic,
)

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)
ADDRESS = "10.0.0.1:10911"


def taken(*committed: int | None, ends: int = 100) -> Snapshot:
    """A snapshot of `billing` on `orders`, a queue for each offset."""
    snapshot = Snapshot("lab", "remote", NOON, status="COMPLETE")
    for queue_id, number in enumerate(committed):
        snapshot.queue_offsets.append(QueueOffset("broker-a", "orders", queue_id, 0, ends, None))
        snapshot.consumer_offsets.append(
            ConsumerOffset("broker-a", "billing", "orders", queue_id, None, number)
        )
    return snapshot


def test_a_group_sums_its_known_queues():
    (row,) = group_rows(taken(60, None, 90))
    assert (row["lag"], row["queues"], row["queues_never_committed"]) == (50, 3, 1)
    assert (row["max_queue_lag"], row["worst_queue_id"]) == (40, 0)
    assert row["skew"] == 40 / 25


def test_a_queue_missing_at_its_broker_is_unknown():
    snapshot = taken(60, 70)
    del snapshot.queue_offsets[1]
    (row,) = group_rows(snapshot)
    assert (row["lag"], row["queues"], row["queues_unknown"]) == (40, 2, 1)
    assert row["complete"] is False


def test_without_members_a_group_is_offline_unless_unknown():
    snapshot = taken(60)
    assert group_rows(snapshot)[0]["online"] is False
    snapshot.problems.append(
        Problem(ADDRESS, "GET_CONSUMER_CONNECTION_LIST billing", None, "timed out")
    )
    assert group_rows(snapshot)[0]["online"] is None


def test_members_without_progress_have_a_row():
    snapshot = Snapshot("lab", "remote", NOON, status="COMPLETE")
    subscriptions = [Subscription("orders", "*", "TAG", [])]
    snapshot.clients.append(
        Client("new", "a", None, None, None, None, None, None, subscriptions=subscriptions)
    )
    (row,) = group_rows(snapshot)
    assert (row["consumer_group"], row["topic"], row["lag"]) == ("new", "orders", None)
    assert (row["online"], row["clients"]) == (True, 1)


def test_a_group_of_lite_topics_has_no_row_on_the_topic_it_is_bound_to():
    snapshot = taken(60)
    for row in (*snapshot.queue_offsets, *snapshot.consumer_offsets):
        row.topic = "%LMQ%$sessions$alice"
    snapshot.consumer_offsets[0].request_mode = "pop"
    member = Client("billing", "a", None, None, None, None, "LITE_SELECTIVE", None)
    topics = ("sessions", "%LMQ%$sessions$alice")
    member.subscriptions = [Subscription(topic, "TAG", "*", []) for topic in topics]
    snapshot.clients.append(member)
    (row,) = group_rows(snapshot)
    assert (row["topic"], row["lag"], row["inflight"]) == ("%LMQ%$sessions$alice", 40, None)
    assert (row["online"], row["clients"], row["lag_is_lower_bound"]) == (True, 1, False)


def test_an_unreachable_broker_leaves_the_number_of_queues_unknown():
    snapshot = taken(60)
    snapshot.brokers.append(Broker("broker-b", 0, "10.0.0.2:10911"))
    snapshot.problems.append(Problem("10.0.0.2:10911", "GET_ALL_CONSUMER_OFFSET", None, "refused"))
    (row,) = group_rows(snapshot)
    assert (row["queues"], row["queues_unknown"], row["complete"]) == (None, None, False)


def test_system_groups_and_topics_have_no_row():
    snapshot = taken(60)
    snapshot.consumer_offsets[0].consumer_group = "CID_ONSAPI_OWNER"
    assert group_rows(snapshot) == []


def test_a_topic_named_after_a_broker_has_no_row():
    """Nothing but the kind that the collector found shows it."""
    snapshot = taken(60)
    (row,) = group_rows(snapshot)
    topic = Topic("broker-a", row["topic"], 1, 1, 6, None, "system")
    snapshot.topics.append(topic)
    assert group_rows(snapshot) == []


def broker(name: str, number: int = 0, address: str = ADDRESS) -> Broker:
    return Broker(broker=name, broker_id=number, address=address)


def test_a_slave_that_fails_hides_nothing_of_a_broker_without_progress():
    snapshot = taken(60)
    snapshot.queue_offsets.append(QueueOffset("broker-b", "other", 0, 0, 9, None))
    snapshot.brokers = [broker("broker-a"), broker("broker-b"), broker("broker-b", 1, "b:1")]
    snapshot.problems.append(Problem("b:1", "GET_BROKER_RUNTIME_INFO", None, "refused"))
    (row,) = group_rows(snapshot)
    assert (row["complete"], row["queues"], row["online"]) == (True, 1, False)
    snapshot.brokers[1].address = "b:0"
    snapshot.problems.append(Problem("b:0", "GET_ALL_CONSUMER_OFFSET", None, "timed out"))
    (row,) = group_rows(snapshot)
    assert (row["complete"], row["queues"], row["online"]) == (False, None, None)


def test_a_broadcasting_group_is_known_by_its_shadow_offsets():
    snapshot = taken(60)
    snapshot.consumer_offsets[0].offset_store = "broker_broadcast"
    assert group_rows(snapshot)[0]["message_model"] == "BROADCASTING"


def test_a_sum_beyond_64_bits_is_unknown():
    (row,) = group_rows(taken(0, 0, 0, ends=2**63 - 1))
    assert (row["lag"], row["max_queue_lag"]) == (None, 2**63 - 1)


def test_queues_beyond_the_read_queues_are_no_lag():
    """Routes hide them from consumers; without a configuration every queue counts."""
    snapshot = taken(50, 50, 50, 50, ends=90)
    assert group_rows(snapshot)[0]["lag"] == 160
    snapshot.topics.append(Topic("broker-a", "orders", 2, 4, 6, None, "normal"))
    (row,) = group_rows(snapshot)
    assert (row["lag"], row["queues"], row["queues_unknown"]) == (80, 2, 0)
