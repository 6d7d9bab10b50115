"""Snapshots and events when a controller makes a slave the master.

A slave has the commits of its master only every minute or so, so its own may truly be older, until
the clients commit again. A busy one may also lack the last messages. The events name that cause.
Nothing else may go back.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from spark.progress.events import BEYOND_END, OTHER_MASTER
from tests.conftest import chosen_version
from tidemark.lab import cluster as lab_cluster
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import free_port_base
from tidemark.lake.landing import land
from tidemark.lake.query import select
from tidemark.lake.tables import TABLES
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.records import Snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget, Remembered

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.spark,
    pytest.mark.skipif(chosen_version() < "5", reason="controllers came with 5.0"),
]

NAME = "controlled"
ORDERS = "lab_orders"
SECONDS = 180


@dataclass
class Failover:
    """A master was killed, and its slave became master.

    Attributes:
        before: the last snapshot of the old master.
        during: those while no master, or the new one, responded, up to two of the new one.
        events: rows of `progress.events`.
    """

    before: Snapshot
    during: list[Snapshot]
    events: list[dict[str, Any]]

    @property
    def steps(self) -> list[tuple[Snapshot, Snapshot]]:
        """Two consecutive snapshots to which a master responded."""
        responded = [taken for taken in (self.before, *self.during) if taken.queue_offsets]
        return list(pairwise(responded))


def master(taken: Snapshot) -> str | None:
    """The address of the master, if it responded."""
    addresses = [row.address for row in taken.brokers if row.broker_id == 0 and row.version]
    return addresses[0] if addresses else None


@pytest.fixture(scope="module")
def failover(tmp_path_factory: pytest.TempPathFactory, warm_home) -> Iterator[Failover]:
    cluster = LabCluster.up(
        tmp_path_factory.mktemp("controlled"),
        chosen_version(),
        brokers=1,
        slaves=True,
        port_base=free_port_base(1, True, controller=True),
        controller=True,
    )
    taken: list[Snapshot] = []

    def snapshot() -> Snapshot:
        known: tuple[Remembered, ...] = ()
        if taken:
            known = tuple((row.broker, row.broker_id, row.address) for row in taken[-1].brokers)
        snapshot = collect_snapshot(
            ClusterTarget(name_servers=(cluster.namesrv,), name=NAME, remembered=known)
        )
        land(warm_home.home, snapshot)
        taken.append(snapshot)
        return snapshot

    try:
        cluster.start_workload("steady")
        _until(snapshot, lambda _: _has_synchronized_slave(cluster))
        before = _until(snapshot, lambda value: len(commits(value)) > 8)
        old = master(before)
        taken[:] = [before]
        lab_cluster.kill(cluster, "broker-a")
        _until(snapshot, lambda value: master(value) not in (None, old))
        snapshot()
        _until(snapshot, lambda value: len(commits(value)) > 8)
    finally:
        cluster.down(graceful=False)
    warm_home.tick()
    where = f"cluster = '{NAME}'"
    rows = select(warm_home.lake, TABLES["progress.events"], where, limit=10_000).to_pylist()
    yield Failover(taken[0], taken[1:], rows)


def _has_synchronized_slave(cluster: LabCluster) -> bool:
    """Whether the controller may elect the slave: the master reported it in sync, by its log.

    It checks every 5 s. Killed before, a master leaves a group that elects nobody.
    """
    log = cluster.home / "nodes" / "broker-a" / "logs" / "node.log"
    return bool(re.search(r"SyncStateSet changed from .* to \[\d+, \d+\]", log.read_text()))


def _until(snapshot, condition) -> Snapshot:
    deadline = time.monotonic() + SECONDS
    while not condition(result := snapshot()):
        assert time.monotonic() < deadline, result.problems
        time.sleep(1)
    return result


def commits(taken: Snapshot) -> dict[tuple[str, str, int], int]:
    """By group, topic and queue the commits that the master reports."""
    return {
        (row.consumer_group, row.topic, row.queue_id): row.consumer_offset
        for row in taken.consumer_offsets
        if row.consumer_offset is not None
    }


def ends(taken: Snapshot) -> dict[tuple[str, int], int]:
    return {(row.topic, row.queue_id): row.max_offset or 0 for row in taken.queue_offsets}


def fallen(older: dict, newer: dict) -> set:
    return {key for key in older.keys() & newer.keys() if newer[key] < older[key]}


def test_the_slave_is_seen_as_master(failover):
    assert master(failover.before) != master(failover.during[-1])
    (now,) = [row for row in failover.during[-1].brokers if row.broker_id == 0]
    assert "MASTER" in now.role


def test_a_rewind_is_one_that_the_new_master_reports(failover):
    """Each event has its cause, which is no reset."""
    steps = failover.steps
    truly = {key for older, newer in steps for key in fallen(commits(older), commits(newer))}
    rewound = [row for row in failover.events if row["kind"] == "REWOUND"]
    keys = {(row["consumer_group"], row["topic"], row["queue_id"]) for row in rewound}
    assert keys <= truly
    assert {row["likely_cause"] for row in rewound} <= {OTHER_MASTER, BEYOND_END}


def test_an_end_falls_only_where_the_new_master_lacks_messages(failover):
    """Without a cause the event would mean that the topic was created again."""
    steps = failover.steps
    truly = {key for older, newer in steps for key in fallen(ends(older), ends(newer))}
    fell = [row for row in failover.events if row["kind"] == "RECREATED"]
    assert {(row["topic"], row["queue_id"]) for row in fell} <= truly
    assert {row["likely_cause"] for row in fell} <= {OTHER_MASTER}


def test_nothing_expired(failover):
    assert not [row for row in failover.events if row["kind"] == "LOST"]


def test_commits_that_the_new_master_lacks_are_marked(failover):
    gone = [row for row in failover.events if row["kind"] == "DISAPPEARED"]
    assert {row["likely_cause"] for row in gone} <= {OTHER_MASTER}
