"""Reports that real clients made of themselves, decoded."""

from datetime import UTC, datetime, timedelta

import pytest

from tidemark.rocketmq.admin import client_responses
from tidemark.rocketmq.admin.client_responses import MessageQueue, PullLimits
from tidemark.rocketmq.records import Subscription

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(milliseconds):
    return EPOCH + timedelta(milliseconds=milliseconds)


STARTED = {"4.9.7": 1795253372066, "5.3.3": 1795252809368}
STUCK = {"4.9.7": (7, 1795253491592), "5.3.3": (5, 1795252923863)}


def test_a_client_that_is_stuck(version, recorded):
    info = client_responses.decode_running_info(recorded(version, "307_running_g-stuck_m.body"))
    assert (info.thread_count, info.allocation_strategy) == (4, "AVG")
    assert info.started_at == at(STARTED[version])
    assert info.subscriptions == [
        Subscription(topic="%RETRY%g-stuck", expression_type="TAG", expression="*", tags=[]),
        Subscription(topic="lab_orders", expression_type="TAG", expression="*", tags=[]),
    ]
    queue_id, pulled = STUCK[version]
    stuck = info.queues[MessageQueue("lab_orders", "broker-a", queue_id)]
    assert (stuck.commit_offset, stuck.cached_messages, stuck.cached_max_offset) == (0, 1, 0)
    assert stuck.last_pull_at == at(pulled) and (stuck.locked, stuck.dropped) == (True, False)
    assert sum(queue.topic == "lab_orders" for queue in info.queues) == 8
    assert sorted(info.topics) == ["%RETRY%g-stuck", "lab_orders"]


def test_decodes_the_queues_a_client_consumes(recorded):
    info = client_responses.decode_running_info(recorded("5.3.3", "307_running_g-orderly_m.body"))
    assert info.topics["lab_ordered"] == client_responses.ConsumeStatus(
        pull_rt_ms=44.426342188370796,
        pull_tps=89.78333333333333,
        consume_rt_ms=3.7126415444588826e-4,
        consume_ok_tps=89.78333333333333,
        consume_failed_tps=0.0,
        consume_failed_last_hour=0,
    )


@pytest.mark.parametrize(
    ("version", "group", "orderly"),
    [("4.9.7", "g-stuck", False), ("5.3.3", "g-stuck", False), ("5.3.3", "g-orderly", True)],
)
def test_order_comes_from_the_report_not_from_locks(recorded, version, group, orderly):
    info = client_responses.decode_running_info(recorded(version, f"307_running_{group}_m.body"))
    assert info.consume_orderly is orderly
    assert info.consume_batch_size == 1
    assert any(queue.last_lock_at and queue.unlock_tries == 0 for queue in info.queues.values())
    assert any(queue.locked for queue in info.queues.values())


def test_a_client_that_polls_has_no_threads(version, recorded):
    info = client_responses.decode_running_info(recorded(version, "307_running_g-pull_m.body"))
    assert (info.thread_count, info.allocation_strategy, info.topics) == (None, "AVG", {})
    assert len(info.queues) == (0 if version == "4.9.7" else 8)


def test_absent_client_fields_are_unknown():
    info = client_responses.decode_running_info(b"{}")
    assert info == client_responses.RunningInfo(
        thread_count=None,
        allocation_strategy=None,
        started_at=None,
        subscriptions=None,
        queues={},
        topics={},
    )


def test_queues_of_a_pop_client():
    body = (
        b'{"mqPopTable":{{"brokerName":"b","queueId":-1,"topic":"T"}:'
        b'{"droped":false,"lastPopTimestamp":1795252923863,"waitAckCount":3}}}'
    )
    (queue,) = client_responses.decode_running_info(body).queues.values()
    assert (queue.cached_messages, queue.commit_offset) == (3, None)
    assert queue.last_pull_at == at(1795252923863)


JAVA = "org.apache.rocketmq.client.consumer.rebalance."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{JAVA}AllocateMessageQueueAveragely@6a787b9f", "AVG"),
        (f"{JAVA}AllocateMessageQueueAveragelyByCircle@1", "AVG_BY_CIRCLE"),
        (f"{JAVA}AllocateMessageQueueConsistentHash@1", "CONSISTENT_HASH"),
        (f"{JAVA}AllocateMessageQueueByConfig@1", "CONFIG"),
        (f"{JAVA}AllocateMessageQueueByMachineRoom@1", "MACHINE_ROOM"),
        (f"{JAVA}AllocateMachineRoomNearby@1", "MACHINE_ROOM_NEARBY"),
        ("com.example.StickyRooms@4c", "StickyRooms"),
        ("com.example.Consumers$StickyRooms@4c", "StickyRooms"),
        ("com.example.Consumers$1@4c", "Consumers$1"),
        ("Workload$$Lambda$154/0x00007febe9199520@da5d64e", "Workload$$Lambda$154"),
        ("", None),
        (None, None),
    ],
)
def test_allocation_strategy(text, expected):
    assert client_responses.allocation_strategy(text) == expected


@pytest.mark.parametrize(
    ("version", "group", "expected"),
    [
        ("4.9.7", "g-stuck", PullLimits(messages=1000, mib=100, span=2000)),
        ("4.9.7", "g-pull", PullLimits(messages=1000, mib=100, span=2000)),
        ("5.3.3", "g-stuck", PullLimits(messages=1000, mib=100, span=2000, popped=96)),
        ("5.3.3", "g-orderly", PullLimits(messages=1000, mib=100, span=None, popped=96)),
    ],
)
def test_limits_of_the_caches_of_a_client(recorded, version, group, expected):
    """An ordered consumer has no limit of the span (`DefaultMQPushConsumerImpl.pullMessage`)."""
    info = client_responses.decode_running_info(recorded(version, f"307_running_{group}_m.body"))
    assert info.pull_limits == expected


def test_offsets_in_a_clients_memory(version, recorded):
    body = recorded(version, "223_consumer_status_g-stuck_m.body")
    ((client_id, offsets),) = client_responses.decode_consumer_status(body).items()
    assert client_id == "127.0.0.1@g-stuck-0" and len(offsets) == 8
    assert offsets[MessageQueue("lab_orders", "broker-a", STUCK[version][0])] == 0


@pytest.mark.parametrize(
    "decode", [client_responses.decode_running_info, client_responses.decode_consumer_status]
)
def test_another_body_is_refused(decode):
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        decode(b"[1]")
