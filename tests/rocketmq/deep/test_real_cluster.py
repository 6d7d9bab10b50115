"""A deep snapshot of a real cluster, against single requests to its brokers and clients.

Everything moves meanwhile, so a value lies between those reported before and after the snapshot.
"""

import asyncio
from dataclasses import replace
from enum import IntEnum

import pytest

from tidemark.rocketmq.admin import deep_requests
from tidemark.rocketmq.collector import collect, collect_snapshot
from tidemark.rocketmq.deep.store_times import unconsumed
from tidemark.rocketmq.records import DEEP
from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions
from tidemark.rocketmq.wire.client import RemotingClient

pytestmark = pytest.mark.cluster

REPORTING = ("g-slow", "g-filter", "g-stuck", "g-inconsistent", "g-idle", "g-broadcast")


@pytest.fixture(scope="module")
def target(cluster):
    return ClusterTarget(name_servers=(cluster.namesrv,), deep=DeepOptions(groups=REPORTING))


@pytest.fixture(scope="module")
def deep(target):
    """A deep snapshot, with the reports of its clients before and after it."""

    async def reports_of(snapshot):
        at = {(row.broker, row.broker_id): row.address for row in snapshot.brokers}
        address = at["broker-a", 0]
        async with RemotingClient(client_reports=True) as client:
            return {
                (row.consumer_group, row.client_id): await deep_requests.running_info(
                    client, address, row.consumer_group, row.client_id
                )
                for row in snapshot.clients
                if row.consumer_group in REPORTING
            }

    async def settled():
        """A snapshot after clients committed and reported rates: 10 to 20 s after their start."""
        for _ in range(60):
            taken = await collect(target)
            stuck = [
                row
                for row in taken.consumer_offsets
                if (row.consumer_group, row.topic) == ("g-stuck", "lab_orders")
            ]
            rated = [row for row in taken.client_topics if row.consumer_group == "g-slow"]
            broadcast = {row.client_id for row in taken.consumer_offsets if row.client_id}
            if (
                all(row.consumer_offset is not None for row in stuck)
                and any(row.consume_ok_tps for row in rated)
                and len(broadcast) == 2
            ):
                return taken
            await asyncio.sleep(1)
        raise AssertionError("clients neither commit nor consume")

    async def dated():
        """A snapshot during which g-slow, which commits every 5 s, did not commit."""
        for _ in range(10):
            taken = await collect(target)
            if any(
                row.consumer_group == "g-slow" and row.broker == "broker-a"
                for row in taken.consumer_offsets
                if row.first_unconsumed_at
            ):
                return taken
        raise AssertionError("g-slow has no store time in ten snapshots")

    async def main():
        before = await reports_of(await settled())
        snapshot = await dated()
        return before, snapshot, await reports_of(snapshot)

    return asyncio.run(main())


def send(snapshot, broker, question):
    """Return the response of a master to ``question(client, address)``."""
    (address,) = [b.address for b in snapshot.brokers if (b.broker, b.broker_id) == (broker, 0)]

    async def main():
        async with RemotingClient() as client:
            return await question(client, address)

    return asyncio.run(main())


def test_a_deep_snapshot_is_complete(deep):
    _, snapshot, _ = deep
    assert (snapshot.status, snapshot.problems) == ("COMPLETE", [])
    assert all(getattr(snapshot, table) for table in ("client_queues", "client_topics"))
    assert snapshot.broker_stats


def test_a_snapshot_without_deep_options_fills_no_deep_table(target):
    snapshot = collect_snapshot(replace(target, deep=None))
    assert [getattr(snapshot, table) for table in DEEP] == [[]] * len(DEEP)
    assert {row.subscriptions_source for row in snapshot.clients} == {"group"}
    assert {row.first_unconsumed_at for row in snapshot.consumer_offsets} == {None}


def test_clients_equal_single_requests(deep):
    before, snapshot, _ = deep
    members = {(it.consumer_group, it.client_id): it for it in snapshot.clients}
    for key, reported in before.items():
        row = members[key]
        assert row.subscriptions_source == "client" and row.subscriptions == reported.subscriptions
        assert (row.thread_count, row.allocation_strategy) == (reported.thread_count, "AVG")
        assert row.started_at == reported.started_at
    tags = {
        tuple(it.tags)
        for (group, _), row in members.items()
        for it in row.subscriptions
        if group == "g-inconsistent" and it.topic == "lab_orders"
    }
    assert tags == {("A",), ("B",)}  # GET_CONSUMER_CONNECTION_LIST shows one of the two


def test_client_queues_equal_single_requests(deep):
    before, snapshot, after = deep
    rows = {}
    for row in snapshot.client_queues:
        key = row.consumer_group, row.client_id, row.topic, row.broker, row.queue_id
        assert key not in rows
        rows[key] = row
    for member, reported in before.items():
        expected = {(it.topic, it.broker, it.queue_id) for it in reported.queues}
        assert {key[2:] for key in rows if key[:2] == member} == expected
        for queue, first in reported.queues.items():
            last = after[member].queues[queue]
            row = rows[(*member, queue.topic, queue.broker, queue.queue_id)]
            reported_first, reported_then, reported_last = (
                -1 if it.commit_offset is None else it.commit_offset for it in (first, row, last)
            )
            assert reported_first <= reported_then <= reported_last, row
            assert first.last_pull_at <= row.last_pull_at <= last.last_pull_at, row
            assert (row.dropped, row.locked) == (False, first.locked)
    pending = {row.client_id for row in snapshot.client_queues if row.topic == "lab_orders"}
    idle = {client for group, client in before if group == "g-idle"} - pending
    assert len(idle) == 2, "10 clients on 8 queues"
    (stuck,) = [
        row
        for row in snapshot.client_queues
        if row.consumer_group == "g-stuck" and row.topic == "lab_orders" and row.commit_offset == 0
    ]
    limits = {
        (row.most_messages, row.most_mib, row.widest_span)
        for row in snapshot.client_queues
        if row.consumer_group in ("g-slow", "g-stuck")
    }
    assert limits == {(10, 100, 2000), (1000, 100, 2000)}
    # Message 0 never ends; one that has just arrived may be cached too for a moment.
    assert stuck.cached_messages >= 1 and stuck.cached_min_offset == 0


def test_client_topics(deep):
    before, snapshot, after = deep
    rows = {(r.consumer_group, r.client_id, r.topic): r for r in snapshot.client_topics}
    assert len(rows) == len(snapshot.client_topics)
    for member, reported in before.items():
        assert {key[2] for key in rows if key[:2] == member} >= set(reported.topics)
        assert {key[2] for key in rows if key[:2] == member} <= set(after[member].topics)
    slow = rows["g-slow", "127.0.0.1@g-slow-0", "lab_orders"]
    assert slow.consume_rt_ms >= 190 and 0 < slow.consume_ok_tps < 12  # 200 ms, 2 threads
    assert slow.consume_failed_last_hour == 0


def test_pull_offsets_of_a_slow_group(deep, cluster):
    """4.9 reports none; its clients do while they cache more than they can work on."""
    before, snapshot, after = deep
    queues = {(it.broker, it.topic, it.queue_id): it.max_offset for it in snapshot.queue_offsets}
    by_clients = [row for row in snapshot.consumer_offsets if row.pull_source == "client_cache"]
    if not cluster.version.startswith("4"):
        assert by_clients == []
        return
    (slow,) = (member for member in before if member[0] == "g-slow")
    slowly = [row for row in by_clients if row.consumer_group == "g-slow"]
    assert slowly
    for row in slowly:
        end = queues[row.broker, row.topic, row.queue_id]
        assert row.consumer_offset <= row.pull_offset <= end, row
        first, last = (
            next(
                pending.cached_max_offset + 1
                for at, pending in reported[slow].queues.items()
                if (at.topic, at.queue_id) == (row.topic, row.queue_id)
            )
            for reported in (before, after)
        )
        assert min(first, end) <= row.pull_offset <= last, row


def test_a_group_that_never_committed_was_not_made_to(deep, target):
    _, snapshot, _ = deep
    hung = [row for row in snapshot.consumer_offsets if row.topic == "lab_hung"]
    if all(row.consumer_offset is None for row in hung):  # no earlier test made it
        assert not [row for row in snapshot.client_queues if row.consumer_group == "g-hung"]
        again = collect_snapshot(target).consumer_offsets
        assert {row.consumer_offset for row in again if row.topic == "lab_hung"} == {None}


def test_every_broadcasting_client_has_its_own_progress(deep):
    before, snapshot, after = deep
    rows = [row for row in snapshot.consumer_offsets if row.client_id]
    assert {row.consumer_group for row in rows} == {"g-broadcast"}
    assert len(rows) == 16 and {row.offset_store for row in rows} == {"client_file"}
    for row in rows:
        member = row.consumer_group, row.client_id
        offsets = [
            next(
                queue.commit_offset
                for at, queue in reported[member].queues.items()
                if (at.topic, at.broker, at.queue_id) == (row.topic, row.broker, row.queue_id)
            )
            for reported in (before, after)
        ]
        assert offsets[0] <= row.consumer_offset <= offsets[1], row


def since_5(snapshot):
    return all(row.version >= "V5" for row in snapshot.brokers)


def test_counters_of_every_address_and_window(deep, cluster):
    _, snapshot, _ = deep
    keys = [
        (r.broker, r.broker_id, r.stats_name, r.stats_key, r.stats_window)
        for r in snapshot.broker_stats
    ]
    assert len(keys) == len(set(keys))
    addresses = {(broker.broker, broker.broker_id) for broker in cluster.brokers}
    assert {key[:2] for key in keys} == addresses
    assert {key[4] for key in keys} == {"minute", "hour", "day"}
    of_pop = {"GROUP_ACK_NUMS", "GROUP_CK_NUMS"} if since_5(snapshot) else set()
    assert {key[2] for key in keys} == of_pop | {
        "TOPIC_PUT_NUMS",
        "TOPIC_PUT_SIZE",
        "GROUP_GET_NUMS",
        "GROUP_GET_SIZE",
        "SNDBCK_PUT_NUMS",
        "GROUP_GET_LATENCY",
    }
    minute = {
        (row.stats_name, row.stats_key): row
        for row in snapshot.broker_stats
        if (row.broker, row.stats_window) == ("broker-a", "minute")
    }
    for name in of_pop | {"SNDBCK_PUT_NUMS"}:
        assert minute[name, "lab_orders@g-fast"].sum == 0  # "not exist": nothing happened
    fast = minute["GROUP_GET_NUMS", "lab_orders@g-fast"]
    assert (fast.topic, fast.consumer_group) == ("lab_orders", "g-fast")


def test_counters_equal_single_requests(target):
    """A broker renews a window every 10 s; until then a counter does not change."""
    requested = [
        ("TOPIC_PUT_NUMS", "lab_orders"),
        ("TOPIC_PUT_SIZE", "lab_orders"),
        ("GROUP_GET_NUMS", "lab_orders@g-fast"),
        ("GROUP_GET_LATENCY", "0@lab_orders@g-fast"),
        ("SNDBCK_PUT_NUMS", "lab_orders@g-retry"),
    ]

    async def question(client, address):
        read = deep_requests.broker_stats
        return {pair: await read(client, address, *pair) for pair in requested}

    snapshot = collect_snapshot(replace(target, deep=None))
    for _ in range(5):
        before = send(snapshot, "broker-a", question)
        snapshot = collect_snapshot(replace(target, deep=DeepOptions(client_reports=False)))
        if before == send(snapshot, "broker-a", question):
            break
    rows = {
        (row.stats_name, row.stats_key, row.stats_window): (row.sum, row.tps, row.avgpt)
        for row in snapshot.broker_stats
        if row.broker == "broker-a"
    }
    for pair, reported in before.items():
        assert reported, pair
        for window, stats in reported.items():
            assert rows[(*pair, window)] == (stats.sum, stats.tps, stats.avgpt), (pair, window)
    assert not snapshot.client_queues


def test_progress_samples_lie_between_bulk_reads(target):
    snapshot = collect_snapshot(
        replace(target, deep=DeepOptions(client_reports=False, max_stats=0, max_consume_stats=5))
    )
    after = collect_snapshot(replace(target, deep=None))
    requested = {(row.broker, row.consumer_group, row.topic) for row in snapshot.consume_stats}
    assert {broker for broker, _, _ in requested} == {"broker-a", "broker-b"}
    assert len(requested) <= 2 * 5

    def offsets(taken, row):
        (maximum,) = (
            it.max_offset
            for it in taken.queue_offsets
            if (it.broker, it.topic, it.queue_id) == (row.broker, row.topic, row.queue_id)
        )
        committed = (
            it.consumer_offset
            for it in taken.consumer_offsets
            if (it.broker, it.consumer_group, it.topic, it.queue_id)
            == (row.broker, row.consumer_group, row.topic, row.queue_id)
        )
        return next(committed, None) or 0, maximum

    for row in snapshot.consume_stats:
        (first, start), (last, end) = offsets(snapshot, row), offsets(after, row)
        assert first <= row.consumer_offset <= last, row
        assert start <= row.max_offset <= end, row


def test_tag_samples_equal_single_requests(target):
    for _ in range(40):  # a group that keeps up has unconsumed messages between two commits
        options = DeepOptions(
            client_reports=False, max_stats=0, max_store_times=0, tag_sample_size=3
        )
        snapshot = collect_snapshot(replace(target, deep=options))
        if snapshot.queue_tags:
            break
    assert snapshot.queue_tags and not snapshot.broker_stats and not snapshot.client_queues
    rows = {(row.broker, row.topic, row.queue_id, row.position): row for row in snapshot.queue_tags}
    assert len(rows) == len(snapshot.queue_tags) and {key[1] for key in rows} == {"lab_orders"}
    filtered = {"g-filter", "g-inconsistent", "g-retry", "g-dlq"}
    behind: dict[tuple, range] = {}
    for it in unconsumed(snapshot):
        key = it.row.broker, it.row.topic, it.row.queue_id
        if it.row.consumer_group in filtered and len(it.offsets) > len(behind.get(key, ())):
            behind[key] = it.offsets
    for key, offsets in behind.items():
        sampled = [row for at, row in rows.items() if at[:3] == key]
        if key[1] == "lab_orders":
            assert len(sampled) == min(3, len(offsets)), key

    async def question(client, address):
        return {
            key: await deep_requests.queue_entries(client, address, *key[1:], count=1)
            for key in rows
        }

    for key, (entry,) in send(snapshot, "broker-a", question).items():
        row = rows[key]
        assert row.position in behind[key[:3]]
        assert (row.tags_code, row.physical_offset, row.size) == (
            entry.tags_code,
            entry.physical_offset,
            entry.size,
        )
    assert {row.tags_code for row in rows.values()} <= {ord(tag) for tag in "ABC"}


def test_store_times_of_first_unconsumed_messages(deep):
    """The broker finds the message stored then; groups without lag have no store time."""
    _, snapshot, _ = deep
    behind = {
        (it.row.broker, it.row.consumer_group, it.row.topic, it.row.queue_id)
        for it in unconsumed(snapshot)
    }
    reported = [
        row
        for row in snapshot.consumer_offsets
        if row.first_unconsumed_at and row.broker == "broker-a"
    ]
    assert {"g-slow", "g-gone", "g-stuck"} <= {row.consumer_group for row in reported}
    queues = {(q.broker, q.topic, q.queue_id): q for q in snapshot.queue_offsets}

    class Search(IntEnum):
        """A request that Tidemark does not send, so its transport refuses it elsewhere."""

        SEARCH_OFFSET_BY_TIMESTAMP = 29

    async def question(client, address):
        question = []
        client._allowed = frozenset(Search)
        for row in reported:
            at = row.first_unconsumed_at.timestamp() * 1000
            fields = {"topic": row.topic, "queueId": str(row.queue_id)}
            around = []
            for time in (at - 1000, at + 1000):  # half of an answer's time is not known
                fields["timestamp"] = str(round(time))
                code = Search.SEARCH_OFFSET_BY_TIMESTAMP
                respond = await client.call(address, code, fields)
                around.append(int(respond.fields["offset"]))
            question.append((row, *around))
        return question

    for row, earlier, later in send(snapshot, "broker-a", question):
        key = row.broker, row.consumer_group, row.topic, row.queue_id
        assert key in behind and row.consumer_offset is not None, row
        assert earlier <= row.consumer_offset <= later, row
        if row.consumer_group == "g-gone":  # far behind, so what is newest is newer
            newest = queues[row.broker, row.topic, row.queue_id].newest_stored_at
            assert row.first_unconsumed_at < newest
