"""Slaves that serve reads, fall behind or hang: counted where they count, never taken for lag."""

import time

import pytest

from tests.support.offset_requests import offsets_one_by_one
from tidemark.lab import cluster as lab_cluster
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import free_port_base
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions

pytestmark = pytest.mark.cluster

STATS = {"stats_name": "GROUP_GET_NUMS", "stats_key": "lab_orders@g-fast", "stats_window": "minute"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """One master whose slave serves every read."""
    cluster = LabCluster.up(
        tmp_path_factory.mktemp("slaves"),
        brokers=1,
        slaves=True,
        port_base=free_port_base(brokers=1, slaves=True),
        config={"slaveReadEnable": "true", "accessMessageInMemoryMaxRatio": "0"},
    )
    try:
        cluster.start_workload("steady")
        yield cluster
    finally:
        cluster.down(graceful=False)


def counted(cluster):
    """Messages a second handed to g-fast in the last minute, by broker id, and what was written."""
    deep = DeepOptions(client_reports=False, max_tag_requests=0, max_store_times=0)
    taken = collect_snapshot(ClusterTarget(name_servers=(cluster.namesrv,), deep=deep))
    served = {
        row.broker_id: row.tps
        for row in taken.broker_stats
        if row.broker == "broker-a" and all(getattr(row, key) == STATS[key] for key in STATS)
    }
    (written,) = [
        row.tps
        for row in taken.broker_stats
        if (row.broker, row.broker_id, row.stats_name) == ("broker-a", 0, "TOPIC_PUT_NUMS")
        and (row.topic, row.stats_window) == ("lab_orders", "minute")
    ] or [None]
    return served, written


def test_slaves_count_what_they_hand_out(served):
    """A window counts what moved within it; after a minute all of it was read from the slave."""
    deadline = time.monotonic() + 300
    while True:
        numbers, written = counted(served)
        master, slave = numbers.get(0) or 0.0, numbers.get(1) or 0.0
        if written and master <= 0.05 * written and abs(master + slave - written) < 0.2 * written:
            break
        assert time.monotonic() < deadline, (numbers, written)
        time.sleep(5)


def test_a_hanging_slave_changes_no_offset(served):
    """The slave's own table of progress is as old as its last copy, and is not used."""
    served.stop_producers()
    time.sleep(8)  # clients commit every 5 s
    before = offsets(collect_snapshot(ClusterTarget(name_servers=(served.namesrv,))))
    lab_cluster.stop(served, "broker-a-slave")
    try:
        taken = collect_snapshot(ClusterTarget(name_servers=(served.namesrv,)))
    finally:
        lab_cluster.resume(served, "broker-a-slave")
    assert offsets(taken) == before == offsets_one_by_one(served, before)
    assert len(before) > 8
    addresses = {node.name: node.address for node in served.nodes if node.broker == "broker-a"}
    assert {problem.endpoint for problem in taken.problems} <= {addresses["broker-a-slave"]}


def offsets(snapshot):
    """Progress of g-fast and g-two, which have read everything, and the ends of their queues."""
    ends = {(row.broker, row.topic, row.queue_id): row.max_offset for row in snapshot.queue_offsets}
    return {
        (row.broker, row.consumer_group, row.topic, row.queue_id): (
            row.consumer_offset,
            ends[row.broker, row.topic, row.queue_id],
        )
        for row in snapshot.consumer_offsets
        if row.consumer_group in ("g-fast", "g-two") and row.topic.startswith("lab_")
    }
