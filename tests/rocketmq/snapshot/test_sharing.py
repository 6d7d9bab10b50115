"""A snapshot in parts, on a real cluster: together they equal that of one process."""

import asyncio
from dataclasses import replace

import pytest

from rocketmq.admin.responses import Connection, ConsumerConnection
from rocketmq.collector import collect
from rocketmq.records import TABLES
from rocketmq.snapshot.broker_reading import BrokerReading
from rocketmq.snapshot.deep_options import DeepOptions
from rocketmq.snapshot.online import homes, merged_online
from rocketmq.snapshot.sharing import Share
from rocketmq.snapshot.target import ClusterTarget


class Meeting:
    """An exchange of so many parts in one process."""

    def __init__(self, parts):
        self.parts, self.reported, self.everybody = parts, {}, asyncio.Condition()
        self.rounds = [0] * parts

    def of(self, index):
        async def exchange(found):
            number, self.rounds[index] = self.rounds[index], self.rounds[index] + 1
            async with self.everybody:
                reported = self.reported.setdefault(number, {})
                reported[index] = found
                self.everybody.notify_all()
                await self.everybody.wait_for(lambda: len(reported) == self.parts)
            return [reported[part] for part in range(self.parts)]

        return exchange


async def shared(target, parts):
    meeting = Meeting(parts)
    return await asyncio.gather(
        *(collect(target, Share(part, parts, meeting.of(part))) for part in range(parts))
    )


KEYS = {
    "brokers": ("broker", "broker_id"),
    "queue_offsets": ("broker", "topic", "queue_id"),
    "consumer_offsets": ("broker", "consumer_group", "topic", "queue_id", "client_id"),
    "topics": ("broker", "topic", "read_queues", "kind"),
    "consumer_groups": ("broker", "consumer_group", "consume_enable"),
    "clients": ("consumer_group", "client_id", "message_model", "allocation_strategy"),
    "client_queues": ("consumer_group", "client_id", "topic", "broker", "queue_id"),
    "client_topics": ("consumer_group", "client_id", "topic"),
    "broker_stats": ("broker", "broker_id", "stats_name", "stats_key", "stats_window"),
    "queue_tags": ("broker", "topic", "queue_id"),
    "consume_stats": ("broker",),
    "broker_metrics": ("broker", "consumer_group", "topic"),
}
"""The key of each table and columns that are the same in every snapshot."""

REPORTING = ("g-slow", "g-idle")
"""Groups whose members report in every snapshot; others report only while they lag."""

OF_MEMBERS = {"clients", "client_queues", "client_topics"}

MOVES = {"queue_tags", "consume_stats", "broker_stats"}
"""Samples differ each time, and latencies cover the pairs that were just served."""


def keys(snapshots, table):
    return sorted(
        (str(tuple(getattr(row, name) for name in KEYS[table])))
        for snapshot in snapshots
        for row in getattr(snapshot, table)
        if table not in OF_MEMBERS or row.consumer_group in REPORTING
    )


@pytest.mark.cluster
@pytest.mark.parametrize("parts", [2, 3])
def test_parts_together_equal_a_whole_snapshot(cluster, parts):
    """Also with a part that has no broker."""
    target = ClusterTarget((cluster.namesrv,), deep=DeepOptions(groups=REPORTING))

    async def snapshots():
        return await collect(target), await shared(target, parts), await collect(target)

    before, found, after = asyncio.run(snapshots())
    assert {snapshot.status for snapshot in found} == {"COMPLETE"}
    for table in set(TABLES) - MOVES:
        if keys([before], table) == keys([after], table):
            assert keys(found, table) == keys([before], table), table
    # The brokers of the session have no endpoint for metrics.
    assert {table for table in TABLES if not keys(found, table)} == {"broker_metrics"}
    assert {(it.snapshot_id, it.brokers_expected, it.brokers_answered) for it in found} == {
        (found[0].snapshot_id, 2, 2)
    }
    # Each broker gets each request once: one more part costs no more requests.
    assert found[0].requests <= max(before.requests, after.requests) * 1.2
    offsets = [
        {
            (row.broker, row.consumer_group, row.topic, row.queue_id, row.client_id): (
                row.consumer_offset
            )
            for snapshot in snapshots
            for row in snapshot.consumer_offsets
        }
        for snapshots in ([before], found, [after])
    ]
    for key in offsets[0].keys() & offsets[1].keys() & offsets[2].keys():
        first, middle, last = (it[key] for it in offsets)
        assert (first or 0) <= (middle or 0) <= (last or 0), key
    by_part = [{row.broker for row in snapshot.queue_offsets} for snapshot in found]
    assert sum(map(len, by_part)) == 2, "each broker is read by one part"


@pytest.mark.cluster
@pytest.mark.faults
def test_a_hanging_broker_is_unreachable_in_all_parts(cluster):
    """Every part has the problem."""
    target = ClusterTarget(
        (cluster.namesrv,), remembered=(("broker-z", 0, "127.0.0.1:1"),), request_timeout=1.0
    )
    found = asyncio.run(shared(replace(target, total_timeout=3.0), 3))
    assert {snapshot.status for snapshot in found} == {"PARTIAL"}
    assert {(it.brokers_expected, it.brokers_answered) for it in found} == {(3, 2)}
    assert [it.problems[0].endpoint for it in found] == ["127.0.0.1:1"] * 3


def test_no_name_server_fails_all_parts():
    found = asyncio.run(shared(ClusterTarget(("127.0.0.1:1",), total_timeout=1.0), 2))
    assert [snapshot.status for snapshot in found] == ["FAILED", "FAILED"]
    assert [len(snapshot.problems) for snapshot in found] == [1, 1]


def test_slaves_are_read_with_their_master():
    readings = [
        BrokerReading(f"broker-{it}", number, "", not number) for it in "abc" for number in (0, 1)
    ]
    parts = [Share(part, 2).of(readings) for part in range(2)]
    assert [[(it.broker, it.broker_id) for it in part] for part in parts] == [
        [("broker-a", 0), ("broker-a", 1), ("broker-c", 0), ("broker-c", 1)],
        [("broker-b", 0), ("broker-b", 1)],
    ]


def connection(*client_ids):
    members = [Connection(it, "127.0.0.1:5", "JAVA", "V5_3_3") for it in client_ids]
    return ConsumerConnection(members, "CONSUME_PASSIVELY", "CLUSTERING", "", {})


def test_a_client_gets_requests_through_one_broker():
    online = merged_online(
        [{"g": {"broker-b": connection("one", "two")}}, {"g": {"broker-a": connection("one")}}]
    )
    assert homes(online) == {("g", "one"): "broker-a", ("g", "two"): "broker-b"}
