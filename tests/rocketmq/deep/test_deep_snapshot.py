"""Requests of a deep snapshot: bounded, spread, and without side effects on a group."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.rocketmq.admin.client_responses import (
    MessageQueue,
    ProcessQueue,
    RunningInfo,
    decode_running_info,
)
from tidemark.rocketmq.admin.responses import QueueStats
from tidemark.rocketmq.deep.client_reports import (
    ClientPullOffset,
    GroupLags,
    client_pull_offsets,
    fill_pull_offsets,
    popping_groups,
    reporting_groups,
)
from tidemark.rocketmq.deep.offsets import advance_ends, overtaken_queues
from tidemark.rocketmq.deep.statistics import CounterSubjects
from tidemark.rocketmq.deep.store_times import filtered_ranges, stratified, unconsumed
from tidemark.rocketmq.records import Client, ConsumerOffset, QueueOffset, Snapshot, Subscription
from tidemark.rocketmq.snapshot.broker_reading import BrokerReading
from tidemark.rocketmq.wire.pacing import paced

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def snapshot_of(consumers, clients=(), queues=((0, 100), (0, 100))):
    """Topic T on broker-a, queues of (min, max); consumers of (group, queue, offset)."""
    return Snapshot(
        cluster="lab",
        source="remote",
        observed_at=datetime(2026, 11, 21, tzinfo=UTC),
        queue_offsets=[
            QueueOffset(broker="broker-a", topic="T", queue_id=it, min_offset=first, max_offset=end)
            for it, (first, end) in enumerate(queues)
        ],
        consumer_offsets=[
            ConsumerOffset(
                broker="broker-a",
                consumer_group=group,
                topic="T",
                queue_id=queue,
                client_id=None,
                consumer_offset=offset,
            )
            for group, queue, offset in consumers
        ],
        clients=list(clients),
    )


def member(group, tags, expression_type="TAG"):
    subscription = Subscription(
        topic="T",
        expression_type=expression_type,
        expression=" || ".join(tags) or "*",
        tags=list(tags),
    )
    client = Client(
        consumer_group=group,
        client_id=f"{group}-0",
        client_address=None,
        language="JAVA",
        version=None,
        consume_type=None,
        message_model="CLUSTERING",
        consume_from_where=None,
    )
    client.subscriptions = [subscription]
    return client


# Unconsumed --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "offset", "expected"),
    [
        ((0, 100), 40, range(40, 100)),
        ((60, 100), 40, range(60, 100)),  # expired before it was consumed
        ((10, 100), None, range(10, 100)),  # never committed
        ((0, 100), 100, None),
        ((0, 100), 120, None),
        ((None, None), 5, None),
    ],
)
def test_unconsumed_range(queue, offset, expected):
    offsets = [it.offsets for it in unconsumed(snapshot_of([("g", 0, offset)], queues=[queue]))]
    assert offsets == ([expected] if expected else [])


@given(
    first=st.integers(0, 10**12),
    length=st.integers(0, 10**7),
    size=st.integers(0, 300),
    run=st.integers(1, 40),
    seed=st.integers(0, 2**32),
)
def test_a_sample_covers_the_whole_range(first, length, size, run, seed):
    offsets = range(first, first + length)
    runs = stratified(offsets, size, run, Random(seed))
    taken = [offset for part in runs for offset in part]
    assert taken == sorted(set(taken)), "in order, without duplicates"
    assert len(taken) <= size and all(offset in offsets for offset in taken)
    assert all(len(part) > 0 for part in runs)
    if length <= size:
        assert taken == list(offsets)
    elif size:
        run = min(run, size)
        strata = size // run
        assert len(runs) == strata and all(len(part) == run for part in runs)
        for number, part in enumerate(runs):  # one in every stratum, so none of it is left out
            assert first + length * number // strata <= part[0]
            assert part[-1] < first + length * (number + 1) // strata


def test_a_sample_meets_tags_that_come_in_turn():
    """Equal steps would meet the same one of three tags every time."""
    runs = stratified(range(30_000), 250, 1, Random(7))
    shares = [sum(run[0] % 3 == tag for run in runs) / len(runs) for tag in range(3)]
    assert all(0.2 < share < 0.47 for share in shares)


# Tags --------------------------------------------------------------------------------------------


def test_only_groups_online_with_tags_are_sampled():
    members = [member("tags", ["A"]), member("all", []), member("sql", ["A"], "SQL92")]
    rows = [("tags", 0, 90), ("all", 0, 10), ("sql", 0, 10), ("offline", 0, 10), ("tags", 1, 100)]
    snapshot = snapshot_of(rows, members)
    assert filtered_ranges(snapshot, unconsumed(snapshot), "broker-a") == {("T", 0): range(90, 100)}
    assert filtered_ranges(snapshot, unconsumed(snapshot), "broker-b") == {}


def test_the_group_furthest_behind_sets_the_sampled_range():
    snapshot = snapshot_of([("a", 0, 90), ("b", 0, 20)], [member("a", ["A"]), member("b", ["B"])])
    assert filtered_ranges(snapshot, unconsumed(snapshot), "broker-a") == {("T", 0): range(20, 100)}


# Clients -----------------------------------------------------------------------------------------


def test_lagging_groups_report_largest_lag_first():
    snapshot = snapshot_of([("little", 0, 99), ("much", 0, 1), ("none", 0, 100)])
    assert reporting_groups(GroupLags.of(unconsumed(snapshot))) == ["much", "little"]


def test_an_uncommitted_group_reports_only_when_named():
    """The question would make it commit 0 there."""
    snapshot = snapshot_of([("hung", 0, 5), ("hung", 1, None), ("slow", 0, 50)])
    assert reporting_groups(GroupLags.of(unconsumed(snapshot))) == ["slow"]
    assert reporting_groups(GroupLags.of(unconsumed(snapshot)), ["hung"]) == ["hung", "slow"]
    assert reporting_groups(GroupLags.of(unconsumed(snapshot)), (), ["calm", "hung"]) == [
        "slow",
        "calm",
    ]


def test_popping_groups_report_without_a_lag():
    """All is popped, so the lag is 0, and only members know what they did not acknowledge."""
    snapshot = snapshot_of([("slow", 0, 50), ("pops", 0, 100), ("pulls", 0, 100), ("lite", 0, 100)])
    for row in snapshot.consumer_offsets:
        row.request_mode = "pop" if row.consumer_group in ("pops", "lite") else None
    snapshot.consumer_offsets[-1].topic = "%LMQ%$sessions$alice"
    lags = GroupLags.of(unconsumed(snapshot))
    assert reporting_groups(lags, popping=popping_groups(snapshot)) == ["slow", "pops"]


def test_an_uncommitted_empty_queue_excludes_no_group():
    snapshot = snapshot_of([("slow", 0, 50), ("slow", 1, None)], queues=((0, 100), (0, 0)))
    assert reporting_groups(GroupLags.of(unconsumed(snapshot))) == ["slow"]


def running(group, recorded):
    body = recorded("4.9.7", f"307_running_{group}_m.body")
    return member(group, []), decode_running_info(body)


def test_a_full_client_cache_gives_pull_offsets(recorded):
    """g-slow has two threads and holds messages 161 to 1181 of queue 0; 4.9 reports no more."""
    client, info = running("g-slow", recorded)
    client.subscriptions = info.subscriptions or []
    handed = {it.queue.queue_id: it.next_offset for it in client_pull_offsets(client, info)}
    assert handed == {0: 1182, 1: 1150, 2: 1183, 3: 1179, 4: 1155, 5: 1147, 6: 1151, 7: 1149}
    client.subscriptions = [replace(it, expression="A || B") for it in client.subscriptions]
    assert list(client_pull_offsets(client, info)) == []


def test_a_stuck_client_gives_no_pull_offset(recorded):
    """It holds message 0 of 5334 that it was handed, and finished the others."""
    client, info = running("g-stuck", recorded)
    client.subscriptions = info.subscriptions or []
    (stuck,) = (at for at, queue in info.queues.items() if queue.cached_messages)
    (client_pull_offset,) = (it for it in client_pull_offsets(client, info) if it.queue == stuck)
    assert (client_pull_offset.next_offset, client_pull_offset.is_exact) == (1, False)


def cached(count, end, commit=40, in_order=(0, 0)):
    return ProcessQueue(
        commit_offset=commit,
        cached_min_offset=0,
        cached_max_offset=end,
        cached_messages=count,
        cached_mib=0,
        locked=True,
        dropped=False,
        last_pull_at=None,
        last_consume_at=None,
        in_order_messages=in_order[0],
        in_order_max_offset=in_order[1],
    )


@pytest.mark.parametrize(
    ("queue", "orderly", "maximum", "pull"),
    [
        pytest.param(
            cached(0, 0), False, 100, 40, id="an empty cache: all that was pulled is done"
        ),
        pytest.param(cached(0, 0, commit=0), False, 100, None, id="never committed reports 0"),
        pytest.param(cached(0, 0, commit=None), False, 100, None, id="no commit"),
        pytest.param(cached(3, 99), False, 100, 100, id="the cache reaches the end of the queue"),
        pytest.param(cached(3, 60), False, 100, None, id="later ones may be done or not pulled"),
        pytest.param(cached(3, 60), True, 100, 61, id="in order, the last is done last"),
        pytest.param(cached(0, 0, in_order=(2, 50)), True, 100, 51, id="taken out to consume"),
        pytest.param(cached(9, 70, in_order=(2, 50)), True, 100, 71, id="and more cached"),
        pytest.param(cached(9, 70), False, 100, 71, id="more than it can work on"),
        pytest.param(cached(None, None), False, 100, None, id="no report of the cache"),
    ],
)
def test_few_slow_messages_give_pull_offsets_where_certain(queue, orderly, maximum, pull):
    """Brokers of 4.9 report no pull offset; a client of 8 threads reports its cache."""
    at = MessageQueue("T", "broker-a", 0)
    info = RunningInfo(
        thread_count=8,
        allocation_strategy="AVG",
        started_at=None,
        subscriptions=None,
        queues={at: queue},
        topics={},
        messages_at_once=8,
        consume_orderly=orderly,
    )
    snapshot = snapshot_of([("g", 0, 40)], queues=[(0, maximum)])
    fill_pull_offsets(snapshot, client_pull_offsets(member("g", []), info))
    assert snapshot.consumer_offsets[0].pull_offset == pull


@pytest.mark.parametrize(
    ("offset", "handed", "pull"),
    [
        (40, [60], 60),
        (40, [60, 70], 70),  # a queue that moves from one client to another
        (40, [120], 100),  # reported after the end of the queue was read
        (40, [30], None),  # set back meanwhile
        (None, [60], 60),
        (40, [], None),
    ],
)
def test_pull_offsets_of_caches(offset, handed, pull):
    snapshot = snapshot_of([("g", 0, offset), ("g", 1, 5), ("h", 0, 5)])
    at = MessageQueue("T", "broker-a", 0)
    fill_pull_offsets(
        snapshot, [ClientPullOffset(consumer_group="g", queue=at, next_offset=it) for it in handed]
    )
    rows = [(row.pull_offset, row.pull_source) for row in snapshot.consumer_offsets]
    assert rows == [(pull, pull and "client_cache"), (None, None), (None, None)]


def test_pull_offsets_of_brokers_win_over_caches():
    snapshot = snapshot_of([("g", 0, 40)])
    row = snapshot.consumer_offsets[0]
    row.pull_offset, row.pull_source = 50, "consume_stats"
    fill_pull_offsets(
        snapshot,
        [
            ClientPullOffset(
                consumer_group="g", queue=MessageQueue("T", "broker-a", 0), next_offset=60
            )
        ],
    )
    assert (row.pull_offset, row.pull_source) == (50, "consume_stats")


def test_only_overtaken_queue_ends_are_read_again():
    """It reported its offset after their ends were read."""
    snapshot = Snapshot(cluster="c", source="remote", observed_at=NOW, finished_at=NOW)
    snapshot.queue_offsets = [
        QueueOffset(
            broker="a",
            topic="T",
            queue_id=number,
            min_offset=0,
            max_offset=10,
            newest_stored_at=NOW,
        )
        for number in range(3)
    ]
    snapshot.queue_offsets.append(
        QueueOffset(
            broker="b", topic="T", queue_id=0, min_offset=0, max_offset=10, newest_stored_at=NOW
        )
    )
    reported = {0: 12, 1: 10, 2: None}
    snapshot.consumer_offsets = [
        ConsumerOffset(
            broker="a",
            consumer_group="news",
            topic="T",
            queue_id=number,
            client_id="client",
            consumer_offset=offset,
        )
        for number, offset in reported.items()
    ]
    snapshot.consumer_offsets.append(
        ConsumerOffset(
            broker="a",
            consumer_group="news",
            topic="T",
            queue_id=1,
            client_id=None,
            consumer_offset=99,
        )
    )
    queue_offsets = overtaken_queues(snapshot, "a")
    assert [(queue.topic, queue.queue_id) for queue in queue_offsets["T"]] == [("T", 0)]
    assert overtaken_queues(snapshot, "b") == {}
    later = NOW + timedelta(seconds=1)
    advance_ends(queue_offsets["T"], {0: QueueStats(0, 13, later), 1: QueueStats(0, 50, later)})
    ends = [(queue.max_offset, queue.newest_stored_at) for queue in snapshot.queue_offsets]
    assert ends == [(13, later), (10, NOW), (10, NOW), (10, NOW)]
    advance_ends(queue_offsets["T"], {0: QueueStats(0, 5, later)})
    assert snapshot.queue_offsets[0].max_offset == 13


# Counters ----------------------------------------------------------------------------------------


def counted(**answers):
    stats = {"T": {0: QueueStats(0, 9, None), 1: QueueStats(0, 9, None)}, "rmq_sys_x": {}}
    master = BrokerReading(
        broker="broker-a", broker_id=0, address="a:1", is_master=True, topic_stats=stats, **answers
    )
    rows = [("g", 0, 5), ("CID_RMQ_SYS_TRANS", 0, 5)]
    return CounterSubjects.of(snapshot_of(rows, [member("online", [])]), master)


def test_counters_of_topics_and_groups():
    keys = [(it.name, it.key) for it in counted().counters("V4_9_7")]
    assert keys == [
        ("TOPIC_PUT_NUMS", "T"),
        ("TOPIC_PUT_SIZE", "T"),
        ("GROUP_GET_NUMS", "T@g"),
        ("GROUP_GET_SIZE", "T@g"),
        ("SNDBCK_PUT_NUMS", "T@g"),
        ("GROUP_GET_NUMS", "T@online"),
        ("GROUP_GET_SIZE", "T@online"),
        ("SNDBCK_PUT_NUMS", "T@online"),
    ]


def test_pop_is_counted_from_5_0_on():
    names = {it.name for it in counted().counters("V5_0_0")}
    assert {"GROUP_ACK_NUMS", "GROUP_CK_NUMS"} <= names


def test_only_served_pairs_have_latencies():
    served = {"T@g"}
    by_queue = [it.key for it in counted().latencies(served, by_queue=True)]
    assert by_queue == ["0@T@g", "1@T@g"]
    assert [it.key for it in counted().latencies(served, by_queue=False)] == ["T@g"]


# Pacing ------------------------------------------------------------------------------------------


def test_so_many_at_once_and_no_more():
    under_way, most, done = 0, 0, []

    async def send(item):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        done.append(item)

    asyncio.run(paced(range(50), send, 4))
    assert (most, sorted(done)) == (4, list(range(50)))
