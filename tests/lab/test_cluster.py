"""A real cluster of two brokers with the whole workload: seen, broken, mended, at rest, gone.

One cluster for all of it, in the order of the functions: booting one costs more than the checks.
What was sent is known from the workload itself, what arrived from the brokers.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import psutil
import pytest

from tidemark.lab import cluster as lab_cluster
from tidemark.lab import layout
from tidemark.lab.cluster import WORKLOAD, LabCluster, registered_brokers, unreachable_addresses
from tidemark.lab.layout import LabError
from tidemark.lab.workloads import GROUPS, TOPICS
from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.admin.responses import ConsumerOffsetTable
from tidemark.rocketmq.names import OffsetKey
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import RemotingError

pytestmark = pytest.mark.cluster

T = TypeVar("T")


def request(question: Callable[[RemotingClient], Awaitable[T]]) -> T:
    async def call() -> T:
        async with RemotingClient() as client:
            return await question(client)

    return asyncio.run(call())


def eventually(condition: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def committed(booted: LabCluster, broker: str) -> ConsumerOffsetTable:
    address = booted.node(broker).address
    return request(lambda client: admin.consumer_offsets(client, address))


def written(booted: LabCluster, topic: str) -> int:
    """Messages of a topic on every broker that has it."""
    stats = [
        request(lambda client, address=broker.address: admin.topic_stats(client, address, topic))
        for broker in booted.brokers
    ]
    return sum(queue.max_offset for queues in stats for queue in (queues or {}).values())


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    home = tmp_path_factory.mktemp("lab") / "home"
    booted = LabCluster.up(home, port_base=layout.free_port_base(brokers=2))
    try:
        booted.start_workload("all")
        yield booted
    finally:
        booted.down(graceful=False)


def test_every_broker_is_registered_and_found_again(booted: LabCluster):
    assert registered_brokers(booted.namesrv) == {("broker-a", 0), ("broker-b", 0)}
    again = LabCluster.load(booted.home)
    assert again.brokers == booted.brokers
    assert all(broker.pid for broker in again.brokers)


def test_a_second_lab_in_the_same_home_is_refused(booted: LabCluster):
    with pytest.raises(LabError, match="a lab runs already in"):
        LabCluster.up(booted.home, port_base=layout.free_port_base())


def test_a_taken_port_is_refused_before_anything_starts(booted: LabCluster, tmp_path):
    port = booted.node(layout.NAMESRV).port
    with pytest.raises(LabError, match=rf"port {port} \(needed by namesrv\) is in use"):
        LabCluster.up(tmp_path / "other", port_base=port)
    assert not (tmp_path / "other" / "nodes").exists()


def test_every_group_is_visible(booted: LabCluster):
    address = booted.node("broker-a").address
    online = {
        group: request(lambda client, group=group: admin.consumer_ids(client, address, group))
        for group in GROUPS
        if group != "g-gone"
    }
    expected = {"g-broadcast": 2, "g-inconsistent": 2, "g-idle": 10}
    assert {group: len(ids) for group, ids in online.items()} == {
        group: expected.get(group, 1) for group in online
    }
    assert "127.0.0.1@g-idle-9" in online["g-idle"]


def test_g_gone_has_offsets_and_no_client_online(booted: LabCluster):
    address = booted.node("broker-a").address
    with pytest.raises(RemotingError):
        request(lambda client: admin.consumer_ids(client, address, "g-gone"))
    # How much is committed of its 40 messages hangs on what its threads had under way.
    assert eventually(lambda: sum(offsets_of(booted, "lab_orders", "g-gone").values()) > 0)


def offsets_of(booted: LabCluster, topic: str, group: str) -> dict[int, int]:
    return committed(booted, "broker-a").offsets.get(OffsetKey(topic, group), {})


def test_a_killed_broker_comes_back_with_its_store(booted: LabCluster):
    before = booted.pid("broker-b")
    # A broker writes offsets down every 5 s; what it had not written, it loses.
    written_down = booted.folder("broker-b") / "store" / "config" / "consumerOffset.json"
    assert eventually(
        lambda: written_down.exists() and '"lab_two@g-two"' in written_down.read_text()
    )
    lab_cluster.kill(booted, "broker-b")
    assert booted.pid("broker-b") is None
    assert eventually(lambda: registered_brokers(booted.namesrv) == {("broker-a", 0)})
    with pytest.raises(LabError, match="broker-b does not run"):
        lab_cluster.kill(booted, "broker-b")
    lab_cluster.restart(booted, "broker-b")
    assert booted.pid("broker-b") not in (None, before)
    assert ("broker-b", 0) in (registered_brokers(booted.namesrv) or set())
    assert committed(booted, "broker-b").offsets.keys() >= {OffsetKey("lab_two", "g-two")}


def test_a_stopped_broker_is_unreachable_until_it_goes_on(booted: LabCluster):
    address = booted.node("broker-b").address
    lab_cluster.stop(booted, "broker-b")
    assert unreachable_addresses([address]) == [address]
    lab_cluster.resume(booted, "broker-b")
    assert eventually(lambda: unreachable_addresses([address]) == [])


def test_at_rest_counts_are_exact_and_lag_zero(booted: LabCluster):
    sent = booted.stop_producers()
    assert sent.keys() == set(TOPICS)
    # lab_two lay on the broker that was killed and stopped: a send may have been stored and lost
    # its confirmation, or been confirmed and not been flushed.
    for topic in set(TOPICS) - {"lab_two"}:
        assert written(booted, topic) == sent[topic], topic

    def caught_up() -> bool:
        return sum(offsets_of(booted, "lab_orders", "g-fast").values()) == sent["lab_orders"]

    assert eventually(caught_up)
    assert offsets_of(booted, "lab_hung", "g-hung") == {}
    stuck = offsets_of(booted, "lab_orders", "g-stuck")
    assert list(stuck.values()).count(0) == 1
    slow = sum(offsets_of(booted, "lab_orders", "g-slow").values())
    assert slow <= sent["lab_orders"]
    booted.start_producers()
    assert eventually(lambda: written(booted, "lab_orders") > sent["lab_orders"])


def test_down_leaves_no_process(booted: LabCluster):
    pids = [booted.pid(name) for name in [*(node.name for node in booted.nodes), WORKLOAD]]
    assert None not in pids
    booted.down()
    assert not any(psutil.pid_exists(pid) for pid in pids if pid)
    layout.require_free_ports(booted.nodes)
    booted.down()
    with pytest.raises(LabError, match="no lab runs in"):
        LabCluster.load(booted.home)
