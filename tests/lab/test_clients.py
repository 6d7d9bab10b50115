"""Members of every kind in one process: each consumes sent messages, unless commanded not to."""

import time

import pytest

from tests.conftest import chosen_version
from tidemark.lab.clients import RemotingClients
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import free_port_base
from tidemark.live.lag import group_rows
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget

pytestmark = pytest.mark.cluster

KINDS = ("push", "ordered", "lite-pull", "assigned", "pull", *(["pop"] * (chosen_version() > "5")))
SENT, SECONDS = 20, 300


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    booted = LabCluster.up(
        tmp_path_factory.mktemp("programs"),
        chosen_version(),
        brokers=1,
        port_base=free_port_base(brokers=1),
    )
    try:
        yield booted
    finally:
        booted.down(graceful=False)


@pytest.fixture(scope="module")
def clients(cluster):
    with RemotingClients(cluster, "app") as started:
        for kind in KINDS:
            started.topic(kind)
            started.consume(kind, kind, kind)
        yield started


def lags(cluster):
    rows = group_rows(collect_snapshot(ClusterTarget(name_servers=(cluster.namesrv,))))
    return {row["consumer_group"]: row["lag"] for row in rows if row["topic"] in KINDS}


def wait_for(cluster, lag_of_each):
    deadline = time.monotonic() + SECONDS
    while (mapping := lags(cluster)) != dict.fromkeys(KINDS, lag_of_each):
        assert time.monotonic() < deadline, mapping
        time.sleep(1)


def test_members_of_every_kind_keep_up_until_they_leave(cluster, clients):
    for kind in KINDS:
        clients.send(kind, SENT)
    wait_for(cluster, 0)
    clients.leave()
    clients.start()
    for kind in KINDS:
        clients.send(kind, SENT)
    wait_for(cluster, SENT)
