"""Groups that brokers hand messages to by POP (5.x): their deep snapshots."""

import time
from collections import defaultdict
from contextlib import contextmanager

import pytest

from tests.conftest import chosen_version, pull_source_of
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import free_port_base
from tidemark.live.lag import group_rows
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(chosen_version() < "5", reason="POP came with 5.0"),
]

ORDERS = "lab_orders"
GROUPS = ("g-pop", "g-pop-stuck")
HANDED_OUT_AGAIN = "%RETRY%g-pop-stuck_lab_orders"
"""The topic of messages that were not acknowledged in time, here after 10 s."""

SECONDS = 240


@contextmanager
def popping(folder, **config):
    """A broker whose groups pop, and deep snapshots of it until a condition holds."""
    cluster = LabCluster.up(
        folder, chosen_version(), brokers=1, port_base=free_port_base(brokers=1), config=config
    )
    target = ClusterTarget(name_servers=(cluster.namesrv,), deep=DeepOptions(groups=GROUPS))

    def collect_until(condition):
        deadline = time.monotonic() + SECONDS
        while not condition(taken := collect_snapshot(target)):
            assert time.monotonic() < deadline, taken.consumer_offsets
            time.sleep(2)
        return taken

    try:
        cluster.start_workload("pop")
        yield cluster, collect_until
    finally:
        cluster.down(graceful=False)


@pytest.fixture(scope="module")
def snapshots_taken(tmp_path_factory):
    """Two deep snapshots: when messages came back to g-pop-stuck, and when g-pop has read all.

    At both g-fast, which does not pop, has been at work.
    """
    with popping(tmp_path_factory.mktemp("pop")) as (cluster, collect_until):
        handed_out = collect_until(
            lambda taken: (
                HANDED_OUT_AGAIN in read_topics(taken) and ("g-fast", ORDERS) in pull_sources(taken)
            )
        )
        cluster.stop_producers()
        yield handed_out, collect_until(lambda taken: set(lags(taken, "g-pop")) == {0})


def read_topics(taken):
    """The groups with progress on each topic."""
    topics = defaultdict(set)
    for row in taken.consumer_offsets:
        topics[row.topic].add(row.consumer_group)
    return topics


def pull_sources(taken):
    """By group and topic, where how far it was handed out is known from, if it is."""
    return {
        (row.consumer_group, row.topic): row.pull_source
        for row in taken.consumer_offsets
        if row.pull_offset is not None
    }


def lags(taken, group):
    """How far the group is behind on each queue of lab_orders; None where it never committed."""
    ends = {row.queue_id: row.max_offset for row in taken.queue_offsets if row.topic == ORDERS}
    return [
        None if row.consumer_offset is None else ends[row.queue_id] - row.consumer_offset
        for row in taken.consumer_offsets
        if (row.consumer_group, row.topic) == (group, ORDERS)
    ]


def test_acknowledged_messages_are_consumed_others_are_lag(snapshots_taken):
    _, after = snapshots_taken
    assert after.status == "COMPLETE"
    assert lags(after, "g-pop") == [0] * 8
    assert sum(lags(after, "g-pop-stuck")) > 0


def test_pop_messages_in_flight_are_unknown(snapshots_taken):
    """Such a broker reports the commit as pull offset, as if nothing were in flight."""
    for taken in snapshots_taken:
        pulls = pull_sources(taken)
        assert {topic for group, topic in pulls if group in GROUPS} <= {
            f"%RETRY%{group}" for group in GROUPS
        }
        assert pulls["g-fast", ORDERS] in (pull_source_of(chosen_version()), "queue_end")


def test_lag_of_remoting_pop_groups_is_a_bound(snapshots_taken):
    """Commits move with pops: unacknowledged messages are not lag there, but not 0 either."""
    for taken in snapshots_taken:
        rows = {row["consumer_group"]: row for row in group_rows(taken) if row["topic"] == ORDERS}
        for group in GROUPS:
            row = rows[group]
            assert (row["consume_mode"], row["lag_is_lower_bound"]) == ("pop", True)
            assert (row["inflight"], row["online"]) == (None, True)
        fast = rows["g-fast"]
        assert (fast["consume_mode"], fast["lag_is_lower_bound"]) == ("pull", False)
        assert fast["inflight"] is not None


def test_pop_retry_messages_belong_to_the_group(snapshots_taken):
    before, _ = snapshots_taken
    kinds = {row.topic: row.kind for row in before.topics}
    assert kinds[HANDED_OUT_AGAIN] == "pop_retry"
    assert read_topics(before)[HANDED_OUT_AGAIN] == {"g-pop-stuck"}


def test_newer_pop_naming_gives_the_same_progress(tmp_path):
    """The second naming (5.2) and the key-value store for what is handed out (5.3.2)."""
    newer = {
        "enableRetryTopicV2": "true",
        "popConsumerKVServiceInit": "true",
        "popConsumerKVServiceEnable": "true",
    }
    topic = "%RETRY%g-pop-stuck+lab_orders"
    with popping(tmp_path, **newer) as (_, collect_until):
        taken = collect_until(lambda taken: topic in read_topics(taken))
    kinds = {row.topic: row.kind for row in taken.topics}
    assert kinds[topic] == "pop_retry" and HANDED_OUT_AGAIN not in kinds
    assert read_topics(taken)[topic] == {"g-pop-stuck"}
    assert taken.brokers[0].config["enableRetryTopicV2"] == "true"
    assert {(row.consumer_group, row.topic) for row in taken.client_queues if row.popped} >= {
        (group, ORDERS) for group in GROUPS
    }


def test_members_report_popped_queues(snapshots_taken):
    """Although they report, as members of any group do, that they share them."""
    before, _ = snapshots_taken
    members = [row for row in before.clients if row.consumer_group == "g-pop"]
    assert [(row.consume_type, row.allocation_strategy) for row in members] == [
        ("CONSUME_PASSIVELY", "AVG")
    ] * 2
    popped = [row for row in before.client_queues if row.popped]
    assert {(row.consumer_group, row.topic, row.queue_id) for row in popped} >= {
        (group, ORDERS, -1) for group in GROUPS
    }
    shared = {row.topic for row in before.client_queues if not row.popped}
    assert shared >= {f"%RETRY%{group}" for group in GROUPS}, "the plain retry topic is pulled"
    waiting = {row.consumer_group: row.cached_messages for row in popped if row.topic == ORDERS}
    assert waiting["g-pop-stuck"] > 0


def test_brokers_count_popped_and_acknowledged_messages(snapshots_taken):
    before, _ = snapshots_taken
    counted = {
        (row.stats_name, row.consumer_group): row.sum
        for row in before.broker_stats
        if (row.topic, row.stats_window) == (ORDERS, "minute")
    }
    assert counted["GROUP_ACK_NUMS", "g-pop"] > 0 == counted["GROUP_ACK_NUMS", "g-pop-stuck"]
    assert counted["GROUP_CK_NUMS", "g-pop"] > 0 < counted["GROUP_CK_NUMS", "g-pop-stuck"]
