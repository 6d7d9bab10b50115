"""The collector on a real cluster, against single requests to the same brokers.

Clients commit and producers write meanwhile, so a value is compared with what a direct question
gave before and after it: offsets only grow.
"""

import asyncio
from collections import defaultdict
from dataclasses import replace

import pytest

from tests.conftest import pull_source_of
from tidemark.lab import cluster as lab_cluster
from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.collector import collect, collect_snapshot
from tidemark.rocketmq.names import is_system_group
from tidemark.rocketmq.snapshot.assembly import CONSUME_STATS
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.wire.client import RemotingClient

pytestmark = pytest.mark.cluster


@pytest.fixture
def target(cluster):
    return ClusterTarget(name_servers=(cluster.namesrv,))


def addresses(snapshot):
    """Address of each master."""
    return {row.broker: row.address for row in snapshot.brokers if row.broker_id == 0}


async def between_single_requests(target, question):
    """The result of ``question`` before a snapshot, the snapshot, and the result after it."""
    async with RemotingClient() as client:
        first = await collect(target)
        before = await question(client, first)
        snapshot = await collect(target)
        return before, snapshot, await question(client, snapshot)


async def gathered(questions):
    answers = await asyncio.gather(*questions.values())
    return dict(zip(questions, answers, strict=True))


def between(before, value, after):
    return before is None or value is None or after is None or before <= value <= after


def test_every_broker_responds(cluster, target):
    snapshot = collect_snapshot(target)
    assert (snapshot.status, snapshot.problems) == ("COMPLETE", [])
    assert snapshot.brokers_expected == snapshot.brokers_answered == len(cluster.brokers)
    assert {(b.broker, b.broker_id, b.address) for b in snapshot.brokers} == {
        (b.broker, b.broker_id, b.address) for b in cluster.brokers
    }
    assert {row.version for row in snapshot.brokers} == {"V" + cluster.version.replace(".", "_")}
    assert snapshot.requests > 20 and snapshot.bytes > 10_000
    assert snapshot.queue_offsets and snapshot.consumer_offsets and snapshot.clients


def test_every_response_carries_the_version(cluster, target):
    """So a snapshot without counters sends no further request for the version."""
    version = "V" + cluster.version.replace(".", "_")

    async def reported():
        async with RemotingClient() as client:
            address = cluster.brokers[0].address
            before = client.version_of(address)
            await admin.topic_configs(client, address)
            return before, client.version_of(address)

    assert asyncio.run(reported()) == (None, version)
    whole, short = a_pair_that_requests_the_same_groups(target)
    assert short.requests == whole.requests - len(cluster.brokers)


def a_pair_that_requests_the_same_groups(target):
    """A snapshot with counters and one without: groups that are behind take own requests."""

    def behind(snapshot):
        return {
            (row.broker, row.consumer_group, row.topic)
            for row in snapshot.consumer_offsets
            if row.pull_source == CONSUME_STATS
        }

    for _ in range(20):
        whole, short = (collect_snapshot(replace(target, counters=it)) for it in (True, False))
        if behind(whole) == behind(short):
            return whole, short
    raise AssertionError("the same groups are behind in no two snapshots in a row")


def test_keys_are_unique_and_consumer_rows_have_queues(target):
    snapshot = collect_snapshot(target)
    queues = [(q.broker, q.topic, q.queue_id) for q in snapshot.queue_offsets]
    assert len(queues) == len(set(queues))
    consumers = [
        (c.broker, c.consumer_group, c.topic, c.queue_id, c.offset_store)
        for c in snapshot.consumer_offsets
    ]
    assert len(consumers) == len(set(consumers))
    assert {(broker, topic, queue) for broker, _, topic, queue, _ in consumers} <= set(queues)


def test_offsets_are_in_order_though_everything_moves(target):
    for _ in range(5):
        snapshot = collect_snapshot(target)
        queues = {(q.broker, q.topic, q.queue_id): q for q in snapshot.queue_offsets}
        for row in snapshot.consumer_offsets:
            queue = queues[row.broker, row.topic, row.queue_id]
            known = [row.consumer_offset, row.pull_offset, queue.max_offset]
            known = [offset for offset in known if offset is not None]
            assert known == sorted(known), row


def test_queue_offsets_equal_single_requests(target):
    async def question(client, snapshot):
        at = addresses(snapshot)
        return await gathered(
            {
                (q.broker, q.topic, q.queue_id): admin.max_offset(
                    client, at[q.broker], q.topic, q.queue_id
                )
                for q in snapshot.queue_offsets
            }
        )

    before, snapshot, after = asyncio.run(between_single_requests(target, question))
    for q in snapshot.queue_offsets:
        key = q.broker, q.topic, q.queue_id
        assert between(before.get(key), q.max_offset, after[key]), q
        assert (q.newest_stored_at is None) == (q.max_offset == 0)


def test_consumer_offsets_equal_single_requests(cluster, target):
    async def question(client, snapshot):
        at = addresses(snapshot)
        return await gathered(
            {
                (c.broker, c.consumer_group, c.topic, c.queue_id): admin.consumer_offset(
                    client, at[c.broker], c.consumer_group, c.topic, c.queue_id
                )
                for c in snapshot.consumer_offsets
                if c.offset_store == "broker"
            }
        )

    before, snapshot, after = asyncio.run(between_single_requests(target, question))
    committed = 0
    for c in snapshot.consumer_offsets:
        key = c.broker, c.consumer_group, c.topic, c.queue_id
        if c.offset_store != "broker" or c.consumer_offset is None:
            continue
        committed += 1
        assert after[key] is not None and between(before.get(key), c.consumer_offset, after[key]), c
    assert committed > 20
    if not cluster.version.startswith("4"):  # 4.9 answers 0 where nothing was committed
        never = [c for c in snapshot.consumer_offsets if c.consumer_offset is None]
        requested = [before.get((c.broker, c.consumer_group, c.topic, c.queue_id)) for c in never]
        assert never and set(requested) == {None}


def test_pull_offsets_against_consume_stats(cluster, target):
    async def question(client, snapshot):
        at = addresses(snapshot)
        rows = [c for c in snapshot.consumer_offsets if c.pull_offset is not None]
        keys = {(c.broker, c.consumer_group, c.topic) for c in rows}
        mapping = await gathered(
            {
                (broker, group, topic): admin.consume_stats(client, at[broker], group, [topic])
                for broker, group, topic in keys
            }
        )
        return {key: stats.get(key[2], {}) for key, stats in mapping.items()}

    before, snapshot, after = asyncio.run(between_single_requests(target, question))
    pulled = [c for c in snapshot.consumer_offsets if c.pull_offset is not None]
    ends = {(q.broker, q.topic, q.queue_id): q.max_offset for q in snapshot.queue_offsets}
    at_end = [c for c in pulled if c.pull_source == "queue_end"]
    assert all(c.pull_offset == ends[c.broker, c.topic, c.queue_id] for c in at_end)
    if cluster.version.startswith("4"):
        assert pulled == at_end
        return
    source = pull_source_of(cluster.version)
    assert len(pulled) > 20 and {c.pull_source for c in pulled} <= {source, "queue_end"}
    assert source in {c.pull_source for c in pulled}
    for c in pulled:
        key = c.broker, c.consumer_group, c.topic
        first = before[key][c.queue_id].pull_offset if key in before else None
        assert between(first, c.pull_offset, after[key][c.queue_id].pull_offset), c


def test_a_group_that_never_committed_is_not_missing(target):
    """GET_CONSUME_STATS by group hides it; there must be a row for every readable queue."""
    snapshot = collect_snapshot(target)
    readable = {(t.broker, t.topic): t.read_queues for t in snapshot.topics if (t.perm or 0) & 4}
    entries = defaultdict(set)
    for c in snapshot.consumer_offsets:
        entries[c.consumer_group, c.broker, c.topic].add(c.queue_id)
    for member in snapshot.clients:
        if member.message_model != "CLUSTERING":
            continue
        for subscription in member.subscriptions:
            for (broker, topic), queues in readable.items():
                if topic == subscription.topic:
                    assert entries[member.consumer_group, broker, topic] == set(range(queues or 0))
    hung = [c for c in snapshot.consumer_offsets if c.consumer_group == "g-hung"]
    assert any(c.topic == "lab_hung" and c.consumer_offset is None for c in hung)


def test_clients_against_the_list_rebalancing_works_with(target):
    async def main():
        snapshot = await collect(target)
        groups = {g.consumer_group for g in snapshot.consumer_groups}
        async with RemotingClient() as client:
            ids = await gathered(
                {
                    (group, address): admin.consumer_ids(client, address, group)
                    for group in groups
                    if not is_system_group(group)
                    and any(c.consumer_group == group for c in snapshot.clients)
                    for address in addresses(snapshot).values()
                    if await admin.consumer_connection(client, address, group)
                }
            )
        return snapshot, ids

    snapshot, ids = asyncio.run(main())
    expected = {(group, member) for (group, _), members in ids.items() for member in members}
    assert {(c.consumer_group, c.client_id) for c in snapshot.clients} == expected
    assert len([c for c in snapshot.clients if c.consumer_group == "g-idle"]) == 10


def test_broadcast_progress_is_the_brokers_shadow_or_nothing(cluster, target):
    rows = [c for c in collect_snapshot(target).consumer_offsets if "broadcast" in c.consumer_group]
    assert all(c.offset_store == "broker_broadcast" and c.client_id is None for c in rows)
    assert all(c.pull_offset is None for c in rows)
    if cluster.version.startswith("4"):
        assert rows == []


@pytest.mark.faults
def test_a_stopped_broker_affects_its_rows_only(cluster, target):
    stopped = cluster.brokers[-1]
    lab_cluster.stop(cluster, stopped.name)
    try:
        snapshot = collect_snapshot(target)
    finally:
        lab_cluster.resume(cluster, stopped.name)
    assert snapshot.status == ("FAILED" if len(cluster.brokers) == 1 else "PARTIAL")
    assert snapshot.brokers_answered == snapshot.brokers_expected - 1
    (problem,) = snapshot.problems
    assert problem.endpoint == stopped.address and "no response within" in problem.message
    (row,) = [b for b in snapshot.brokers if b.address == stopped.address]
    assert row.version is row.config is row.put_tps is None


def test_a_dead_remembered_broker_is_unreachable(target):
    ghost = ("broker-z", 0, "127.0.0.1:1")
    snapshot = collect_snapshot(
        ClusterTarget(name_servers=target.name_servers, remembered=(ghost,))
    )
    assert snapshot.status == "PARTIAL"
    assert snapshot.brokers_expected == snapshot.brokers_answered + 1
    (problem,) = snapshot.problems
    assert problem.endpoint == "127.0.0.1:1" and "refused" in problem.message
    assert [b.version for b in snapshot.brokers if b.broker == "broker-z"] == [None]


def test_another_broker_at_a_remembered_address_is_refused(cluster, target):
    ghost = ("broker-z", 0, cluster.brokers[0].address)
    snapshot = collect_snapshot(
        ClusterTarget(name_servers=target.name_servers, remembered=(ghost,))
    )
    assert snapshot.status == "PARTIAL"
    assert not [q for q in snapshot.queue_offsets if q.broker == "broker-z"]
    (problem,) = snapshot.problems
    assert problem.message == "broker-z 0 is gone, broker-a has its address now"
