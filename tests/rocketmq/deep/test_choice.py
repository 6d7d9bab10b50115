"""Requests of limited parts of a deep snapshot: by need, others in turn, and a count left out."""

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.rocketmq.admin import deep_requests
from tidemark.rocketmq.admin.client_responses import RunningInfo
from tidemark.rocketmq.admin.responses import QueueStats
from tidemark.rocketmq.deep import offsets
from tidemark.rocketmq.deep.client_reports import ClientReader
from tidemark.rocketmq.deep.statistics import CounterSubjects, StatsReader
from tidemark.rocketmq.deep.store_times import TagReader, chosen, unconsumed
from tidemark.rocketmq.records import Client, ConsumerOffset, QueueOffset, Snapshot, Subscription
from tidemark.rocketmq.snapshot.broker_reading import BrokerReading
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.wire.client import RemotingClient

NOW = datetime(2026, 11, 21, tzinfo=UTC)


@given(number=st.integers(0, 300), limit=st.integers(1, 100), first=st.integers(0, 10**6))
def test_everything_has_its_turn(number, limit, first):
    ranked = list(range(number))
    in_turn = -(-limit // 4)
    turns = -(-max(0, number - limit + in_turn) // in_turn) or 1
    seen = set()
    for turn in range(first, first + turns + 1):
        picked = chosen(ranked, limit, turn, key=int)
        assert len(picked) == len(set(picked)) == min(limit, number)
        assert picked[: limit - in_turn] == ranked[: limit - in_turn]
        seen.update(picked)
    assert seen == set(ranked)


def test_a_limit_of_nothing_leaves_a_part_out():
    assert chosen([1, 2], 0, 5, key=int) == []
    assert chosen([1, 2], -1, 5, key=int) == []


def test_nothing_more_is_requested_about_lite_topics():
    """It could make a broker keep a queue for one that it has deleted meanwhile."""
    taken = Snapshot(cluster="lab", source="remote", observed_at=NOW)
    for topic in ("T", "%LMQ%$sessions$alice"):
        taken.queue_offsets.append(
            QueueOffset(broker="broker-a", topic=topic, queue_id=0, min_offset=0, max_offset=100)
        )
        taken.consumer_offsets.append(
            ConsumerOffset(
                broker="broker-a",
                consumer_group="g",
                topic=topic,
                queue_id=0,
                client_id=None,
                consumer_offset=40,
                offset_store="broker",
            )
        )
    assert [item.row.topic for item in unconsumed(taken)] == ["T"]
    assert offsets.pairs(taken, "broker-a") == [("g", "T")]
    queues = {0: QueueStats(0, 100, None)}
    stats = {row.topic: queues for row in taken.queue_offsets}
    reading = BrokerReading(
        broker="broker-a", broker_id=0, address="a:1", is_master=True, topic_stats=stats
    )
    assert CounterSubjects.of(taken, reading) == CounterSubjects({"T": [0]}, [("T", "g")])


def broadcaster(number):
    client = Client(
        consumer_group="b",
        client_id=f"b-{number}",
        client_address=None,
        language="JAVA",
        version=None,
        consume_type=None,
        message_model="BROADCASTING",
        consume_from_where=None,
    )
    client.subscriptions = [Subscription(topic="T", expression_type="TAG", expression="*", tags=[])]
    return client


def test_broadcasting_clients_have_their_turn_among_lagging_ones(monkeypatch):
    """Before, 100 of 120 lagging clients were requested each time, and no broadcasting client."""
    lagging = [
        Client(
            consumer_group="g",
            client_id=f"g-{it:03}",
            client_address=None,
            language="JAVA",
            version=None,
            consume_type=None,
            message_model="CLUSTERING",
            consume_from_where=None,
        )
        for it in range(120)
    ]
    clients = [*lagging, *map(broadcaster, range(4))]
    addresses = {(it.consumer_group, it.client_id): "a:1" for it in clients}
    requested: set[str] = set()

    async def running_info(client, address, group, client_id):
        requested.add(client_id)
        return RunningInfo(
            thread_count=1,
            allocation_strategy=None,
            started_at=None,
            subscriptions=None,
            queues={},
            topics={},
            messages_at_once=None,
            consume_orderly=None,
        )

    async def consumer_status(client, address, group, topic, client_id):
        requested.add(client_id)
        return {}

    monkeypatch.setattr(deep_requests, "running_info", running_info)
    monkeypatch.setattr(deep_requests, "consumer_status", consumer_status)
    for turn in range(3):
        taken = Snapshot(cluster="lab", source="remote", observed_at=NOW, clients=list(clients))
        assert asyncio.run(client_reports_left_out(taken, addresses, turn)) == 24
    assert requested == {it.client_id for it in clients}


async def client_reports_left_out(taken, addresses, turn):
    async with RemotingClient() as client:
        reader = ClientReader(
            client=client,
            problems=Problems(),
            snapshot=taken,
            limit=100,
            addresses=addresses,
            turn=turn,
        )
        await reader.read(["g"])
        return reader.left_out


def test_counters_of_lagging_groups_come_first(monkeypatch):
    pairs = [("T", f"g-{it:03}") for it in range(100)]
    stats = {"T": {0: QueueStats(0, 9, None)}}
    reading = BrokerReading(
        broker="broker-a", broker_id=0, address="a:1", is_master=True, topic_stats=stats
    )
    seen: set[str] = set()

    async def broker_stats(client, address, name, key):
        seen.add(key)

    monkeypatch.setattr(deep_requests, "broker_stats", broker_stats)
    for turn in range(100):
        requested: set[str] = seen
        seen = set()
        left_out = asyncio.run(counters_left_out(reading, CounterSubjects(stats, pairs), turn))
        assert {"T", "T@g-099"} <= seen and left_out > 0
        seen |= requested
    assert seen == {"T", *(f"T@{group}" for _, group in pairs)}


async def counters_left_out(reading, subjects, turn):
    async with RemotingClient() as client:
        lags = {("T", "g-099"): 10}
        reader = StatsReader(
            client=client, problems=Problems(), reading=reading, limit=42, lags=lags, turn=turn
        )
        await reader.read(subjects)
        return reader.left_out


@pytest.mark.parametrize(("limit", "left_out"), [(1000, 0), (32, 3), (0, 5)])
def test_queues_without_a_sample_are_counted(monkeypatch, limit, left_out):
    async def queue_entries(client, address, topic, queue_id, start, count):
        return []

    monkeypatch.setattr(deep_requests, "queue_entries", queue_entries)

    async def samples_left_out():
        async with RemotingClient() as client:
            reader = TagReader(
                client=client, problems=Problems(), broker="broker-a", address="a:1", limit=limit
            )
            await reader.read({("T", it): range(1000 * it + 1000) for it in range(5)}, 256)
            return reader.left_out

    assert asyncio.run(samples_left_out()) == left_out
