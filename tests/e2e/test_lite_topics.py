"""Lite topics of RocketMQ 5.5 behind a Proxy, beside what their consumer counted.

A lite topic is a light queue of the topic that its group is bound to. No broker lists it; the
group's members subscribe to the topic it belongs to. Only a Proxy in cluster mode serves them.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from lab.cluster import LabCluster
from lab.grpc_clients import GrpcClients
from lab.layout import free_port_base
from live.lag import group_rows
from rocketmq.collector import collect_snapshot
from rocketmq.records import LeftOut, Snapshot
from rocketmq.snapshot.deep_options import DeepOptions
from rocketmq.snapshot.target import ClusterTarget

pytestmark = pytest.mark.cluster

SENT, SLOW_MILLISECONDS = 100, 300
ALICE, BOB = "%LMQ%$sessions$alice", "%LMQ%$sessions$bob"


@dataclass
class Seen:
    """Snapshots of a cluster whose consumer works.

    Attributes:
        snapshot: a deep one.
        finished: what the consumer had finished before and after that.
        limited: one that may measure a single light queue.
        broker: the address of the only broker.
    """

    snapshot: Snapshot
    finished: tuple[int, int]
    limited: Snapshot
    broker: str

    def rows(self) -> dict[str, dict[str, Any]]:
        """The rows of the group by topic, as `tidemark lag` has them."""
        rows = group_rows(self.snapshot)
        return {row["topic"]: row for row in rows if row["consumer_group"] == "g-lite"}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    cluster = LabCluster.up(
        tmp_path_factory.mktemp("lite"),
        "5.5.0",
        brokers=1,
        port_base=free_port_base(brokers=1, proxy="cluster"),
        config={"enableLmq": "true", "enableMultiDispatch": "true"},
        proxy="cluster",
    )
    try:
        with GrpcClients(cluster) as clients:
            clients.topic("sessions", "LITE")
            clients.group("g-lite", bound_to="sessions")
            time.sleep(2)  # until the name server knows them
            clients.lite("g-lite", "sessions", SLOW_MILLISECONDS, "alice", "bob")
            for name in ("alice", "bob", "carol"):
                clients.send("sessions", SENT, f"lite:{name}")
            deadline = time.monotonic() + 60
            while clients.counts("g-lite")[1] < 3 and time.monotonic() < deadline:
                time.sleep(0.1)
            target = ClusterTarget(
                (cluster.namesrv,), proxies=(cluster.proxy.address,), deep=DeepOptions()
            )
            before = clients.counts("g-lite")[1]
            snapshot = collect_snapshot(target)
            finished = (before, clients.counts("g-lite")[1])
            limited = collect_snapshot(replace(target, deep=None, max_light_queues=1))
            yield Seen(snapshot, finished, limited, cluster.brokers[0].address)
    finally:
        cluster.down(graceful=False)


def test_a_snapshot_with_lite_topics_is_complete(seen):
    assert (seen.snapshot.status, seen.snapshot.problems) == ("COMPLETE", [])


def test_lag_is_what_the_consumer_has_not_finished(seen):
    """An acknowledgement takes a moment after the listener's end, and so does the commit after."""
    rows = seen.rows()
    assert set(rows) == {ALICE, BOB}, "not the topic, and no lite topic that nobody consumes"
    finished = 2 * SENT - rows[ALICE]["lag"] - rows[BOB]["lag"]
    before, after = seen.finished
    assert before - 2 <= finished <= after


def test_what_is_in_flight_is_not_known_and_the_lag_is_whole(seen):
    for row in seen.rows().values():
        assert (row["consume_mode"], row["inflight"]) == ("pop", None)
        assert (row["lag_is_lower_bound"], row["complete"]) == (False, True)


def test_the_group_is_online_and_its_delay_known(seen):
    for row in seen.rows().values():
        assert (row["online"], row["message_model"]) == (True, "LITE_SELECTIVE")
        assert row["delay_ms"] > 0


def test_light_queues_beyond_the_limit_are_recorded(seen):
    assert seen.limited.status == "COMPLETE"
    assert seen.limited.left_out == [LeftOut("light_queues", seen.broker, 1)]
    assert {row.topic for row in seen.limited.consumer_offsets if row.offset_store == "broker"} == {
        ALICE
    }
