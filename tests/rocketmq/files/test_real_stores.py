"""Stores of real brokers against the same brokers: running, stopped, killed.

Groups may still consume what is left when producers stop, and offsets reach the file 5 s later: a
row is compared with a snapshot before and one after, and has to equal them where these are equal.
"""

import asyncio
import time
from dataclasses import replace

import pytest

from tidemark.lab import child_processes
from tidemark.lab import cluster as lab_cluster
from tidemark.lake.tables import TABLES as DECLARED
from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.files.local_offsets import read_local_offsets
from tidemark.rocketmq.files.stats_log import read_stats_log
from tidemark.rocketmq.files.store_folder import BrokerStore
from tidemark.rocketmq.files.store_snapshot import read_store
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.wire.client import RemotingClient

pytestmark = pytest.mark.cluster

PERSIST_SECONDS = 30
"""A broker writes consumer offsets every 5 s; more only on a machine that is busy."""

HALF_TRANSACTIONS = "RMQ_SYS_TRANS_HALF_TOPIC"
"""A topic that a broker makes by itself when it first needs it, at any moment."""

ONLY_LIVE = {"pull_offset": None, "pull_source": None, "first_unconsumed_at": None}
"""Unknown values for columns of a consumer row that not both sides have: file and bulk request."""


def folder(cluster, broker):
    return cluster.folder(broker) / "store"


def collected(cluster):
    return collect_snapshot(ClusterTarget(name_servers=(cluster.namesrv,)))


def wait_for_persist(cluster, *brokers):
    """Until what was committed before this call is in the brokers' files."""
    for broker in brokers:
        path = folder(cluster, broker) / "config" / "consumerOffset.json"
        since = time.time()
        while not path.exists() or path.stat().st_mtime <= since:
            assert time.time() < since + PERSIST_SECONDS, f"{path} is not written"
            time.sleep(0.2)


@pytest.fixture(scope="module")
def idle(cluster):
    """The cluster without producers."""
    cluster.stop_producers()
    yield cluster
    cluster.start_producers()


def by_key(snapshot, table, broker):
    names = [
        name for name in DECLARED[f"raw.{table}"].key if name not in ("snapshot_id", "client_id")
    ]
    rows = getattr(snapshot, table)
    return {
        tuple(getattr(row, name) for name in names): row for row in rows if row.broker == broker
    }


def compare(store, before, after, broker):
    """Compare a store with the snapshots around it; return how many offsets stood still."""
    assert (store.status, store.problems) == ("COMPLETE", [])
    for table in ("topics", "consumer_groups"):
        mapping, reported = by_key(store, table, broker), by_key(after, table, broker)
        if table == "topics" and (broker, HALF_TRANSACTIONS) not in reported:
            mapping.pop((broker, HALF_TRANSACTIONS), None)
        assert mapping == reported
    still = 0
    for table, offset in (("queue_offsets", "max_offset"), ("consumer_offsets", "consumer_offset")):
        first, last = by_key(before, table, broker), by_key(after, table, broker)
        mapping = by_key(store, table, broker)
        # No file has online members, nor the queues that they never committed on.
        known, reported, later = (
            {key for key, row in rows.items() if getattr(row, offset) is not None}
            for rows in (first, mapping, last)
        )
        assert known <= reported <= later
        for key in known:
            row = mapping[key]
            if table == "consumer_offsets":
                row = replace(row, **ONLY_LIVE)
                first[key], last[key] = (replace(it[key], **ONLY_LIVE) for it in (first, last))
            if first[key] == last[key]:
                assert row == first[key]
                still += 1
            values = [getattr(it, offset) for it in (first[key], row, last[key])]
            assert values == sorted(values), key
    (mine,) = store.brokers
    (theirs,) = [row for row in after.brokers if row.broker == broker]
    assert mine.commit_log_min_offset == theirs.commit_log_min_offset
    # 4.9 reports none while its log holds less than two messages of the largest size.
    assert theirs.earliest_stored_at in (mine.earliest_stored_at, None)
    assert theirs.earliest_stored_at or theirs.version == "V4_9_7"
    assert mine.commit_log_max_offset <= theirs.commit_log_max_offset
    return still


def test_running_brokers(idle):
    before = collected(idle)
    wait_for_persist(idle, "broker-a", "broker-b")
    stores = {name: read_store(folder(idle, name)) for name in ("broker-a", "broker-b")}
    after = collected(idle)
    for broker, store in stores.items():
        assert store.cluster == before.cluster
        assert compare(store, before, after, broker) > (100 if broker == "broker-a" else 10)


def test_a_stopped_and_a_killed_broker(idle):
    """broker-b: what its groups consume they have consumed soon."""
    for graceful_seconds in (60, 0):
        before = collected(idle)
        wait_for_persist(idle, "broker-b")
        after = collected(idle)
        process = idle.process("broker-b")
        child_processes.stop([process], graceful_seconds=graceful_seconds)
        try:
            snapshot = read_store(folder(idle, "broker-b"))
            assert compare(snapshot, before, after, "broker-b") > 10
            (left,) = snapshot.brokers
            assert left.shut_down_cleanly is bool(graceful_seconds)
            # Every message of the lab has a key: the last one begins where the index ends.
            assert left.index_behind_bytes is not None and left.index_behind_bytes < 4096
            assert left.checkpoint_log_at
            # A checkpoint has no time of an index until its first file is full.
            assert left.checkpoint_index_at is None
            assert left.index_whole is (True if graceful_seconds else None)
        finally:
            lab_cluster.restart(idle, "broker-b")


def test_store_times_against_the_broker(idle):
    """GET_CONSUME_STATS reports when the last consumed message was stored."""
    snapshot = collected(idle)
    pairs = {
        (row.broker, row.consumer_group, row.topic)
        for row in snapshot.consumer_offsets
        if row.offset_store == "broker"
    }
    addresses = {row.broker: row.address for row in snapshot.brokers}

    async def send():
        async with RemotingClient() as client:
            mapping = {}
            for broker, group, topic in sorted(pairs):
                reported = await admin.consume_stats(client, addresses[broker], group, [topic])
                mapping[broker, group, topic] = reported.get(topic, {})
            return mapping

    compared = 0
    for (broker, _, topic), queues in asyncio.run(send()).items():
        with BrokerStore(folder(idle, broker)) as store:
            for queue_id, stats in queues.items():
                if stats.consumer_offset > 0:
                    stored = store.stored_at(topic, queue_id, stats.consumer_offset - 1)
                    assert stored == stats.last_consumed_at, (topic, queue_id, stats)
                    compared += 1
    assert compared > 50


def test_tags_of_every_message(idle):
    """lab_orders has tags A, B, C in turn."""
    (row, *_) = [row for row in collected(idle).queue_offsets if row.topic == "lab_orders"]
    with BrokerStore(folder(idle, row.broker)) as store:
        queue_tags = list(store.queue_tags(row.broker, row.topic, row.queue_id, 0, row.max_offset))
    assert [tag.position for tag in queue_tags] == list(range(row.min_offset, row.max_offset))
    assert {tag.tags_code for tag in queue_tags} == {ord("A"), ord("B"), ord("C")}


def test_broadcast_clients(idle):
    clients = read_local_offsets(idle.home / "workload" / "broadcast-offsets", cluster="lab")
    assert clients.status == "COMPLETE"
    assert {(row.consumer_group, row.topic) for row in clients.consumer_offsets} >= {
        ("g-broadcast", "lab_broadcast")
    }
    assert len({row.client_id for row in clients.consumer_offsets}) == 2


def test_the_statistics_a_broker_logs(idle):
    log = idle.folder("broker-a") / "logs" / "stats.log"
    if "Stats In One Minute" not in log.read_text():
        pytest.skip("the broker did not run over a full minute yet")
    rows = [
        row
        for taken in read_stats_log([log], cluster="lab", broker="broker-a")
        for row in taken.broker_stats
    ]
    assert {row.topic for row in rows if row.stats_name == "TOPIC_PUT_NUMS"} >= {"lab_orders"}
