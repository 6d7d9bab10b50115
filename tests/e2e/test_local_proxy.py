"""gRPC clients of a Proxy with the broker in it, on a RocksDB store, against their counts.

From 5.5 on the broker also keeps popped messages in its key-value store, where the commit follows
the acknowledgements, and names retry topics anew.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.conftest import chosen_version
from tests.support.homes import run
from tidemark.lab.clients import GrpcClients
from tidemark.lab.cluster import LabCluster
from tidemark.lab.jars import COMPANIONS
from tidemark.lab.layout import free_port_base
from tidemark.live.lag import group_rows
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.records import Snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions
from tidemark.settings.home import Home

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(chosen_version() < "5", reason="the Proxy came with 5.0"),
    pytest.mark.skipif(chosen_version() in COMPANIONS, reason="no Proxy on Maven Central"),
]

ROCKSDB = {"storeType": "defaultRocksDB"}
NEWER_POP = {
    "enableRetryTopicV2": "true",
    "popConsumerKVServiceInit": "true",
    "popConsumerKVServiceEnable": "true",
}
IS_NEWER = chosen_version() >= "5.5"


@dataclass
class Seen:
    """A snapshot of the cluster while its clients waited.

    Attributes:
        cluster: the cluster, still running.
        snapshot: deep, with 400 sent to each topic.
    """

    cluster: LabCluster
    snapshot: Snapshot

    def row(self, group: str) -> dict[str, object]:
        """The group's row on its topic, as `tidemark lag` has it."""
        (body,) = (
            row
            for row in group_rows(self.snapshot)
            if row["consumer_group"] == group and not row["topic"].startswith("%RETRY%")
        )
        return body


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    cluster = LabCluster.up(
        tmp_path_factory.mktemp("local"),
        chosen_version(),
        brokers=1,
        port_base=free_port_base(brokers=1, proxy="local"),
        config={**ROCKSDB, **(NEWER_POP if IS_NEWER else {})},
        proxy="local",
    )
    try:
        with GrpcClients(cluster) as clients:
            pairs = (("m_simple", "g-simple"), ("m_all", "g-all"))
            for topic, group in pairs:
                clients.topic(topic)
                clients.group(group)
            time.sleep(2)  # until the name server knows the last of them
            for topic, group in pairs:
                clients.send(topic, 400)
                clients.simple(group, topic)
            assert clients.receive("g-simple", 200) == 200
            clients.acknowledge("g-simple", 60)
            assert clients.receive("g-all", 400) == 400
            target = ClusterTarget(name_servers=(cluster.namesrv,), deep=DeepOptions())
            yield Seen(cluster, collect_snapshot(target))
    finally:
        cluster.down(graceful=False)


def test_a_snapshot_of_a_rocksdb_broker_is_complete(seen):
    assert (seen.snapshot.status, seen.snapshot.problems) == ("COMPLETE", [])
    assert [row.config["storeType"] for row in seen.snapshot.brokers] == ["defaultRocksDB"]


def test_messages_in_flight_are_never_invented(seen):
    """The truth: 340 unacknowledged of which 140 are popped, and 400 of which all are."""
    for group, popped, ready, unacknowledged in (
        ("g-simple", 140, 200, 340),
        ("g-all", 400, 0, 400),
    ):
        row = seen.row(group)
        assert row["inflight"] in (None, popped), row
        assert row["available"] in (None, ready), row
        assert ready <= row["lag"] <= unacknowledged, row
        assert row["lag_is_lower_bound"] is True and row["consume_mode"] == "pop"


def test_members_are_known_at_the_broker_in_the_proxy(seen):
    for group in ("g-simple", "g-all"):
        assert seen.row(group)["online"] is True
    versions = {row.version for row in seen.snapshot.clients}
    assert versions == {None}


def test_a_rocksdb_store_folder_is_refused_in_one_line(seen, tmp_path):
    store = seen.cluster.folder("broker-a") / "store"
    home = Home.of(tmp_path / "home")
    home.path.mkdir()
    arguments = ["collect", "--store", str(store), "--broker", "broker-a", "--cluster", "lab"]
    done = run(home, arguments)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "RocksDB" in done.stderr and str(store) in done.stderr
