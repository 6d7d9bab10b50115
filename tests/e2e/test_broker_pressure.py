"""Sends that wait, messages that a store refuses, and slaves that do not follow: real brokers."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import chosen_version
from tidemark.collection.memory import Memory
from tidemark.host.state import FileState
from tidemark.lab import cluster as lab_cluster
from tidemark.lab.clients import RemotingClients
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import LabError, free_port_base
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.records import Broker, Snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions
from tidemark.settings.home import Home

pytestmark = [pytest.mark.cluster, pytest.mark.faults]

SECONDS = 180
LARGEST = 4_000
"""Bytes of a message that the brokers store at most."""

TOPIC = "orders"


@contextmanager
def master_and_slave(folder: Path, **config: str) -> Iterator[LabCluster]:
    """Run one master with one slave."""
    cluster = LabCluster.up(
        folder,
        chosen_version(),
        brokers=1,
        slaves=True,
        port_base=free_port_base(1, True),
        config=config,
    )
    try:
        yield cluster
    finally:
        cluster.down()


@pytest.fixture(scope="module")
def pressed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """A master that stores small messages only, and a slave that connects to a closed port."""
    refusing = {"maxMessageSize": str(LARGEST), "haMasterAddress": "127.0.0.1:1"}
    with master_and_slave(tmp_path_factory.mktemp("pressed"), **refusing) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def producing(pressed: LabCluster) -> Iterator[RemotingClients]:
    with RemotingClients(pressed, "shop") as clients:
        clients.topic(TOPIC)
        clients.send(TOPIC, 10)
        yield clients


def taken(cluster: LabCluster) -> Snapshot:
    return collect_snapshot(ClusterTarget(name_servers=(cluster.namesrv,)))


def master_of(snapshot: Snapshot) -> Broker:
    (row,) = (row for row in snapshot.brokers if row.broker_id == 0)
    return row


def test_messages_that_the_store_refuses_are_counted(
    pressed: LabCluster, producing: RemotingClients
) -> None:
    before = master_of(taken(pressed)).failed_writes
    for _ in range(3):
        with pytest.raises(LabError):
            producing.send(TOPIC, 1, 2 * LARGEST)
    after = master_of(taken(pressed)).failed_writes
    assert before is not None
    assert after == before + 3


def test_a_deep_snapshot_lists_producers(pressed: LabCluster, producing: RemotingClients) -> None:
    """A client sends its first heartbeat when it starts, to brokers that it knows by then."""
    deep = DeepOptions(client_reports=False)
    end = time.monotonic() + SECONDS
    listed = []
    while not listed and time.monotonic() < end:
        target = ClusterTarget(name_servers=(pressed.namesrv,), deep=deep)
        listed = master_of(collect_snapshot(target)).producers or []
    (producer,) = listed
    assert (producer.producer_group, producer.language) == ("p-shop", "JAVA")
    assert producer.version == f"V{chosen_version().replace('.', '_')}"


def test_a_slave_that_does_not_follow_is_behind_in_bytes_and_time(
    pressed: LabCluster, producing: RemotingClients, tmp_path
) -> None:
    memory = Memory.of(FileState(Home.of(tmp_path)), pressed.namesrv)

    def slave() -> Broker:
        snapshot = taken(pressed)
        memory.learn(snapshot)
        (row,) = (row for row in snapshot.brokers if row.broker_id)
        return row

    first = slave()
    assert first.replica_behind_ms is None
    producing.send(TOPIC, 100, 1_000)
    begun = time.monotonic()
    time.sleep(3)
    last = slave()
    assert first.replica_behind_bytes and last.replica_behind_bytes
    assert last.replica_behind_bytes >= first.replica_behind_bytes + 100_000
    assert last.replica_behind_is_lower_bound
    assert (last.replica_behind_ms or 0) >= (time.monotonic() - begun - 1) * 1000


def test_a_slave_that_follows_is_behind_by_little(tmp_path) -> None:
    """A slave that knows its master catches up within seconds."""
    with master_and_slave(tmp_path / "lab") as cluster:
        memory = Memory.of(FileState(Home.of(tmp_path)), cluster.namesrv)
        with RemotingClients(cluster, "shop") as clients:
            clients.topic(TOPIC)
            clients.send(TOPIC, 10)
            lab_cluster.stop(cluster, "broker-a-slave")
            clients.send(TOPIC, 100, 1_000)
            lab_cluster.resume(cluster, "broker-a-slave")
        end = time.monotonic() + SECONDS
        behind = None
        while behind != 0 and time.monotonic() < end:
            snapshot = taken(cluster)
            memory.learn(snapshot)
            behind = next(row.replica_behind_ms for row in snapshot.brokers if row.broker_id)
        assert behind == 0


@pytest.mark.skipif(chosen_version() < "5", reason="sends of 4.9 hold no thread while they wait")
def test_sends_wait_behind_one_that_waits_for_a_slave(tmp_path) -> None:
    """The one thread of a master waits three seconds for a slave that stands still."""
    one_thread = {
        "sendMessageThreadPoolNums": "1",
        "asyncSendEnable": "false",
        "inSyncReplicas": "2",
    }
    with master_and_slave(tmp_path / "lab", **one_thread) as cluster:
        try:
            with RemotingClients(cluster, "shop") as clients:
                clients.topic(TOPIC)
                clients.send(TOPIC, 10)
                clients.configure_brokers("brokerRole", "SYNC_MASTER")
                lab_cluster.stop(cluster, "broker-a-slave")
                clients.flood(TOPIC, 200)
                end = time.monotonic() + SECONDS
                longest = 0
                while longest < 100 and time.monotonic() < end:
                    row = master_of(taken(cluster))
                    if row.sends_waiting:
                        longest = max(longest, row.send_wait_ms or 0)
            assert longest >= 100, "no snapshot saw a send that waited for 100 ms"
        finally:
            lab_cluster.resume(cluster, "broker-a-slave")
