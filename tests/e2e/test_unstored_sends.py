"""Sends that a real broker refuses or fails, as its metrics endpoint counts them."""

import time
from collections.abc import Iterator

import pytest

from tests.conftest import chosen_version
from tests.support.servers import free_port
from tidemark.lab.clients import RemotingClients
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import LabError, free_port_base
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.records import Broker
from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(chosen_version() < "5", reason="the metrics endpoint came with 5.1"),
]

SECONDS = 180
LARGEST = 4_000
TOPIC = "orders"
FLOOD = 500

CONFIG = {
    "metricsExporterType": "PROM",
    "metricsPromExporterHost": "127.0.0.1",
    "maxMessageSize": str(LARGEST),
    "sendMessageThreadPoolNums": "1",
    "sendThreadPoolQueueCapacity": "1",
}
"""The broker takes one of two sends at once, and it stores small messages only."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    made = LabCluster.up(
        tmp_path_factory.mktemp("unstored"),
        chosen_version(),
        brokers=1,
        port_base=free_port_base(1),
        config=CONFIG | {"metricsPromExporterPort": str(free_port())},
    )
    try:
        yield made
    finally:
        made.down(graceful=False)


@pytest.fixture(scope="module")
def clients(cluster: LabCluster) -> Iterator[RemotingClients]:
    with RemotingClients(cluster, "shop") as made:
        made.topic(TOPIC)
        made.send(TOPIC, 10)
        yield made


def taken(cluster: LabCluster, *, metrics: bool = True) -> tuple[Broker, int]:
    """Return the row of the broker, and the messages that its topic holds."""
    deep = DeepOptions(client_reports=False, broker_metrics=metrics)
    snapshot = collect_snapshot(ClusterTarget(name_servers=(cluster.namesrv,), deep=deep))
    (row,) = snapshot.brokers
    queues = (queue for queue in snapshot.queue_offsets if queue.topic == TOPIC)
    return row, sum(queue.max_offset or 0 for queue in queues)


def settled(cluster: LabCluster) -> tuple[int, int, int]:
    """Return refused sends, failed sends and stored messages when nothing changes any more."""
    last = None
    while True:
        row, stored = taken(cluster)
        assert row.sends_refused is not None and row.sends_failed is not None
        counts = row.sends_refused, row.sends_failed, stored
        if counts == last and not row.sends_waiting:
            return counts
        last = counts
        time.sleep(2)


def test_a_send_that_fails_is_counted_once(cluster: LabCluster, clients: RemotingClients) -> None:
    refused, failed, stored = settled(cluster)
    for _ in range(3):
        with pytest.raises(LabError):
            clients.send(TOPIC, 1, 2 * LARGEST)
    assert settled(cluster) == (refused, failed + 3, stored)
    # Without the endpoint nothing is known.
    assert taken(cluster, metrics=False)[0].sends_failed is None


def test_each_send_of_a_flood_is_stored_or_refused(
    cluster: LabCluster, clients: RemotingClients
) -> None:
    before = after = settled(cluster)
    end = time.monotonic() + SECONDS
    sent = 0
    while after[0] == before[0] and time.monotonic() < end:
        clients.flood(TOPIC, FLOOD)
        sent += FLOOD
        after = settled(cluster)
    refused, failed, stored = (now - then for now, then in zip(after, before, strict=True))
    assert (refused > 0, failed, refused + stored) == (True, 0, sent)


def test_sends_that_a_broker_takes_out_of_its_queue_are_counted_nowhere(
    cluster: LabCluster, clients: RemotingClients
) -> None:
    """So the number is a lower bound: `BrokerFastFailure` responds past all counters."""
    clients.configure_brokers("waitTimeMillsInSendQueue", "0")
    before = settled(cluster)
    end = time.monotonic() + SECONDS
    sent = lost = 0
    while not lost and time.monotonic() < end:
        clients.flood(TOPIC, FLOOD)
        sent += FLOOD
        refused, failed, stored = (
            now - then for now, then in zip(settled(cluster), before, strict=True)
        )
        assert failed == 0
        lost = sent - refused - stored
    assert lost > 0
