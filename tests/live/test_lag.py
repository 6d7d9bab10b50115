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
    snapshot = Snapshot(cluster="lab", source="remote", observed_at=NOON, status="COMPLETE")
    for queue_id, number in enumerate(committed):
        snapshot.queue_offsets.append(
            QueueOffset(
                broker="broker-a",
                topic="orders",
                queue_id=queue_id,
                min_offset=0,
                max_offset=ends,
                newest_stored_at=None,
            )
        )
        snapshot.consumer_offsets.append(
            ConsumerOffset(
                broker="broker-a",
                consumer_group="billing",
                topic="orders",
                queue_id=queue_id,
                client_id=None,
                consumer_offset=number,
            )
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
        Problem(
            endpoint=ADDRESS,
            operation="GET_CONSUMER_CONNECTION_LIST billing",
            code=None,
            message="timed out",
        )
    )
    assert group_rows(snapshot)[0]["online"] is None


def test_members_without_progress_have_a_row():
    snapshot = Snapshot(cluster="lab", source="remote", observed_at=NOON, status="COMPLETE")
    subscriptions = [Subscription(topic="orders", expression_type="TAG", expression="*", tags=[])]
    snapshot.clients.append(
        Client(
            consumer_group="new",
            client_id="a",
            client_address=None,
            language=None,
            version=None,
            consume_type=None,
            message_model=None,
            consume_from_where=None,
            subscriptions=subscriptions,
        )
    )
    (row,) = group_rows(snapshot)
    assert (row["consumer_group"], row["topic"], row["lag"]) == ("new", "orders", None)
    assert (row["online"], row["clients"]) == (True, 1)


def test_a_group_of_lite_topics_has_no_row_on_the_topic_it_is_bound_to():
    snapshot = taken(60)
    for row in (*snapshot.queue_offsets, *snapshot.consumer_offsets):
        row.topic = "%LMQ%$sessions$alice"
    snapshot.consumer_offsets[0].request_mode = "pop"
    member = Client(
        consumer_group="billing",
        client_id="a",
        client_address=None,
        language=None,
        version=None,
        consume_type=None,
        message_model="LITE_SELECTIVE",
        consume_from_where=None,
    )
    topics = ("sessions", "%LMQ%$sessions$alice")
    member.subscriptions = [
        Subscription(topic=topic, expression_type="TAG", expression="*", tags=[])
        for topic in topics
    ]
    snapshot.clients.append(member)
    (row,) = group_rows(snapshot)
    assert (row["topic"], row["lag"], row["inflight"]) == ("%LMQ%$sessions$alice", 40, None)
    assert (row["online"], row["clients"], row["lag_is_lower_bound"]) == (True, 1, False)


def test_an_unreachable_broker_leaves_the_number_of_queues_unknown():
    snapshot = taken(60)
    snapshot.brokers.append(Broker(broker="broker-b", broker_id=0, address="10.0.0.2:10911"))
    snapshot.problems.append(
        Problem(
            endpoint="10.0.0.2:10911",
            operation="GET_ALL_CONSUMER_OFFSET",
            code=None,
            message="refused",
        )
    )
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
    topic = Topic(
        broker="broker-a",
        topic=row["topic"],
        read_queues=1,
        write_queues=1,
        perm=6,
        message_type=None,
        kind="system",
    )
    snapshot.topics.append(topic)
    assert group_rows(snapshot) == []


def broker(name: str, number: int = 0, address: str = ADDRESS) -> Broker:
    return Broker(broker=name, broker_id=number, address=address)


def test_a_slave_that_fails_hides_nothing_of_a_broker_without_progress():
    snapshot = taken(60)
    snapshot.queue_offsets.append(
        QueueOffset(
            broker="broker-b",
            topic="other",
            queue_id=0,
            min_offset=0,
            max_offset=9,
            newest_stored_at=None,
        )
    )
    snapshot.brokers = [broker("broker-a"), broker("broker-b"), broker("broker-b", 1, "b:1")]
    snapshot.problems.append(
        Problem(endpoint="b:1", operation="GET_BROKER_RUNTIME_INFO", code=None, message="refused")
    )
    (row,) = group_rows(snapshot)
    assert (row["complete"], row["queues"], row["online"]) == (True, 1, False)
    snapshot.brokers[1].address = "b:0"
    snapshot.problems.append(
        Problem(endpoint="b:0", operation="GET_ALL_CONSUMER_OFFSET", code=None, message="timed out")
    )
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
    snapshot.topics.append(
        Topic(
            broker="broker-a",
            topic="orders",
            read_queues=2,
            write_queues=4,
            perm=6,
            message_type=None,
            kind="normal",
        )
    )
    (row,) = group_rows(snapshot)
    assert (row["lag"], row["queues"], row["queues_unknown"]) == (80, 2, 0)
