"""A topic that was given fewer queues to write while the others still held messages."""

import asyncio
import json

import pytest

from bench.bare import exchange
from tidemark.lab.cluster import LabCluster
from tidemark.lab.large import Large
from tidemark.lab.layout import free_port_base
from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.frame import encode_request

pytestmark = pytest.mark.cluster

UPDATE_AND_CREATE_TOPIC = 17
"""A request code that only a lab may send."""

LARGE = Large(topics=2, queues=8, groups=1, topics_per_group=1, messages=9)
READ, UNCONSUMED = LARGE.topic_names
(GROUP,) = LARGE.group_names


@pytest.fixture(scope="module")
def shrunk(tmp_path_factory):
    """A broker of 4.9.7 with two topics of 9 messages in each queue, 8 of them read, 4 written.

    The group has read one of them up to queue 5, and never committed queues 6 and 7.
    """
    progress = {f"{READ}@{GROUP}": {queue: queue for queue in range(6)} | {8: 3}}
    files = LARGE.files() | {
        "store/config/consumerOffset.json": json.dumps({"offsetTable": progress})
    }
    cluster = LabCluster.up(
        tmp_path_factory.mktemp("shrunk"),
        version="4.9.7",
        brokers=1,
        port_base=free_port_base(brokers=1),
        files=files,
    )
    try:
        address = cluster.node("broker-a").address
        asyncio.run(exchange(address, LARGE.sends()))
        asyncio.run(exchange(address, [shrink(topic) for topic in LARGE.topic_names]))
        yield cluster
    finally:
        cluster.down(graceful=False)


def shrink(topic):
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": "8",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    return encode_request(UPDATE_AND_CREATE_TOPIC, 1, fields)


def test_read_only_queues_are_measured(shrunk):
    async def written():
        async with RemotingClient() as client:
            address = shrunk.node("broker-a").address
            return await admin.topic_stats(client, address, READ)

    assert sorted(asyncio.run(written()) or ()) == [0, 1, 2, 3], (
        "all that the bulk response reports"
    )
    taken = collect_snapshot(ClusterTarget(name_servers=(shrunk.namesrv,)))
    assert (taken.status, taken.problems) == ("COMPLETE", [])
    ends = {
        row.queue_id: (row.min_offset, row.max_offset, row.newest_stored_at is None)
        for row in taken.queue_offsets
        if row.topic == READ
    }
    assert ends == {queue: (0, 9, queue > 3) for queue in range(8)}
    assert {row.queue_id for row in taken.queue_offsets if row.topic == UNCONSUMED} == {0, 1, 2, 3}
    committed = {
        row.queue_id: row.consumer_offset
        for row in taken.consumer_offsets
        if (row.consumer_group, row.topic) == (GROUP, READ)
    }
    assert committed == {queue: queue for queue in range(6)}
