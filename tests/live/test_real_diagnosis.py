"""Diagnoses of groups of real brokers: the line that blocks, and lookups that change nothing.

The second half reads counters and offsets before and after lookups on brokers without traffic. A
pull in between moves the same counters, so the comparison would notice one.
"""

import asyncio
import re
import struct
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.conftest import boot, chosen_version
from tidemark.lab import cluster as lab
from tidemark.live.diagnosis import Wish, diagnose
from tidemark.model.consumption import LookupOutcome, StackOutcome
from tidemark.rocketmq.admin import deep_requests
from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.wire.addresses import split_endpoint
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.frame import encode_request

pytestmark = pytest.mark.cluster

SOURCE = Path(lab.__file__).parent / "workload" / "Groups.java"
GROUP, TOPIC = "g-stuck", "lab_orders"
SAMPLED_SECONDS = 22.0
"""Brokers add to their counters every 10 s (`StatsItemSet`)."""


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """A cluster with groups in trouble, and a snapshot in which g-stuck commits and lags."""
    home = tmp_path_factory.mktemp("lab")
    for cluster in boot(home, chosen_version(), "trouble"):
        target = ClusterTarget(name_servers=(cluster.namesrv,))
        until = time.monotonic() + 300
        while not blocked(snapshot := collect_snapshot(target)):
            assert time.monotonic() < until, "g-stuck does not block"
            time.sleep(1)
        yield cluster, target, snapshot


def blocked(snapshot):
    """Whether g-stuck has committed all its queues, and stands at offset 0 of one."""
    offsets = [
        row.consumer_offset
        for row in snapshot.consumer_offsets
        if (row.consumer_group, row.topic) == (GROUP, TOPIC)
    ]
    return len(offsets) == 8 and None not in offsets and offsets.count(0) == 1 and max(offsets) > 1


def line_of(text, within):
    """The number of the line with some code within a method of the workload's source."""
    lines = SOURCE.read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if within in line)
    return next(n for n, line in enumerate(lines[start:], start + 1) if text in line)


def test_the_line_of_a_listener_that_blocks(troubled):
    _, target, snapshot = troubled
    diagnosis = diagnose(target, snapshot, Wish(consumer_group=GROUP, topic=TOPIC))
    assert diagnosis.clients is not None
    (client,) = diagnosis.clients
    assert (client.client_id, client.outcome) == ("127.0.0.1@g-stuck-0", StackOutcome.REPORTED)
    assert client.stacks and client.stacks.threads == 4
    standing = [stack for stack in client.stacks.stacks if not stack.is_idle]
    calls = f"(Groups.java:{line_of('blockForever();', 'void startStuck()')})"
    awaits = f"(Groups.java:{line_of('.await()', 'void blockForever()')})"
    paths = [" ".join(stack.code) for stack in standing if stack.state == "WAITING"]
    assert any(calls in path and awaits in path for path in paths), standing
    assert {item.outcome for item in diagnosis.messages or ()} == {LookupOutcome.OFF}
    assert {item.owners for item in diagnosis.messages or ()} == {(client.client_id,)}
    assert diagnosis.problems == ()


def test_a_member_that_would_commit_gets_no_request(troubled):
    _, target, snapshot = troubled
    for row in snapshot.consumer_offsets:
        if row.consumer_group == "g-fast":
            row.consumer_offset = None
    clients = diagnose(target, snapshot, Wish(consumer_group="g-fast")).clients
    assert clients is not None
    (client,) = clients
    assert (client.outcome, client.stacks) == (StackOutcome.WOULD_COMMIT, None)


def test_a_lookup_shows_the_message_and_changes_nothing(troubled):
    cluster, target, _ = troubled
    cluster.stop_workload()
    time.sleep(SAMPLED_SECONDS)
    snapshot = collect_snapshot(target)
    before = state(target, snapshot)
    wish = Wish(consumer_group=GROUP, topic=TOPIC, message_lookup=True)
    for _ in range(4):
        diagnose(target, snapshot, wish)
    diagnosis = diagnose(target, snapshot, wish)
    time.sleep(SAMPLED_SECONDS)
    assert state(target, snapshot) == before
    stuck = next(item for item in diagnosis.messages or () if item.queue_offset == 0)
    message = stuck.message
    assert stuck.outcome == LookupOutcome.KNOWN and message, diagnosis.messages
    assert (message.topic, message.queue_offset, message.reconsume_times) == (TOPIC, 0, 0)
    assert re.fullmatch(r"order-\d+", message.keys or "") and message.tags in ("A", "B", "C")
    assert re.fullmatch(r"[0-9A-F]{32,60}", message.msg_id or "")
    assert message.born_host.startswith("127.0.0.1:") and message.stored_at
    assert message.body_bytes > 0 and "body" not in asdict(message)
    pull_once(snapshot, stuck)
    time.sleep(SAMPLED_SECONDS)
    assert state(target, snapshot) != before, "the comparison would not notice a pull"


COUNTED = (
    *(("GROUP_GET_NUMS", f"{TOPIC}@{GROUP}"), ("GROUP_GET_SIZE", f"{TOPIC}@{GROUP}")),
    *(("TOPIC_PUT_NUMS", TOPIC), ("BROKER_GET_NUMS", "lab"), ("BROKER_PUT_NUMS", "lab")),
)

COUNTERS = re.compile(r"msg(Get|Put)Total\w*|(get|put)MessageSizeTotal|putMessageTimesTotal")
"""Counters of 28, which are not rates or clocks."""


def state(target, snapshot):
    """Counters of each master, all consumer offsets, and all ends of queues."""

    async def read():
        async with target.client(20.0) as client:
            result = {}
            for row in snapshot.brokers:
                runtime = await admin.broker_runtime_info(client, row.address)
                counted = {
                    (name, key): await deep_requests.broker_stats(client, row.address, name, key)
                    for name, key in COUNTED
                }
                result[row.broker] = (
                    {name: text for name, text in runtime.items() if COUNTERS.fullmatch(name)},
                    {key: it and it["day"].sum for key, it in counted.items()},
                    (await admin.consumer_offsets(client, row.address)).offsets,
                    {
                        queue_id: (
                            await admin.min_offset(client, row.address, TOPIC, queue_id),
                            await admin.max_offset(client, row.address, TOPIC, queue_id),
                        )
                        for queue_id in range(8)
                    },
                )
            return result

    return asyncio.run(read())


PULL_MESSAGE = 11


def pull_once(snapshot, item):
    """Pull the message in the group's name, as a consumer does; the transport refuses that."""
    (address,) = [row.address for row in snapshot.brokers if row.broker == item.broker]
    fields = {
        "consumerGroup": GROUP,
        "topic": item.topic,
        "queueId": str(item.queue_id),
        "queueOffset": str(item.queue_offset),
        "maxMsgNums": "1",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subVersion": "0",
        "subscription": "*",
    }

    async def send():
        reader, writer = await asyncio.open_connection(*split_endpoint(address))
        writer.write(encode_request(PULL_MESSAGE, 1, fields))
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        content = await reader.readexactly(size)
        writer.close()
        return content

    assert b'"code":0' in asyncio.run(send())


def test_the_transport_of_a_lookup_refuses_a_pull():
    async def pull():
        async with RemotingClient(client_reports=True, message_lookup=True) as client:
            await client.call("127.0.0.1:1", PULL_MESSAGE)  # pyright: ignore

    with pytest.raises(Exception, match="not on the read-only list"):
        asyncio.run(pull())
