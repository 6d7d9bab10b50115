"""Choice of the snapshot whose queues or groups are compared with those of clients' files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.tables import raw
from tidemark.model.snapshots import WITHOUT_QUEUES, SnapshotSource, SnapshotStatus
from tidemark.planning import history
from tidemark.planning.history import LoadedSnapshot
from tidemark.rocketmq.names import CONNECTIONS


def listing_all_groups(lake: Lake, snapshots: Sequence[LoadedSnapshot]) -> set[str]:
    """Return the ids of those snapshots that no problem keeps from listing a group.

    A ``COMPLETE`` one lists them all. A ``PARTIAL`` one does where it holds the offsets of every
    master and only such requests failed as name no groups: those for online members, which follow
    the lists, and those to slaves, proxies and name servers.

    Args:
        lake: the tables.
        snapshots: loaded snapshots, in order of time; files hold one broker and list no cluster.
    """
    whole = [loaded_snapshot for loaded_snapshot in snapshots if loaded_snapshot.is_of_all_brokers]
    partial = {
        loaded_snapshot.snapshot_id: loaded_snapshot
        for loaded_snapshot in whole
        if loaded_snapshot.status == SnapshotStatus.PARTIAL
    }
    snapshot_ids = {
        loaded_snapshot.snapshot_id
        for loaded_snapshot in whole
        if loaded_snapshot.status == SnapshotStatus.COMPLETE
    }
    if not partial:
        return snapshot_ids
    window = history.window_of(list(partial.values()))
    problems = lake.read(raw.SNAPSHOTS, window, columns=("snapshot_id", "problems"))
    failed = {
        row["snapshot_id"]: {
            problem["endpoint"] for problem in row["problems"] or [] if _hides(problem)
        }
        for row in problems.to_pylist()
    }
    columns = ("snapshot_id", "broker", "broker_id", "address")
    masters: dict[str, dict[str, str | None]] = {}
    for row in lake.read(raw.BROKERS, window, columns=columns).to_pylist():
        if row["broker_id"] == 0:
            masters.setdefault(row["snapshot_id"], {})[row["broker"]] = row["address"]
    return snapshot_ids | {
        snapshot_id
        for snapshot_id, snapshot in partial.items()
        if (of_snapshot := masters.get(snapshot_id))
        and snapshot.brokers_read.issuperset(of_snapshot)
        and failed.get(snapshot_id, set()).isdisjoint(of_snapshot.values())
    }


def _hides(problem: Mapping[str, Any]) -> bool:
    # Also without a group: a broker may have been named as a proxy.
    return not (problem["operation"] or "").startswith(CONNECTIONS.strip())


FURTHEST = timedelta(minutes=10)
"""Longest time between a snapshot of clients' files and that of the queues."""


@dataclass(frozen=True)
class NearestQueues:
    """The snapshot with a broker's queues that is nearest in time to a snapshot of clients' files.

    Attributes:
        snapshot_id: the snapshot of clients' files.
        broker: the broker group.
        nearest_id: the snapshot of the same cluster that holds the broker's queues.
    """

    snapshot_id: str
    broker: str
    nearest_id: str


def nearest_queues(known: Sequence[LoadedSnapshot], window: Window) -> Iterator[NearestQueues]:
    """Yield the nearest queues for each snapshot of clients' files in a window.

    A broker without a snapshot within `FURTHEST` has none: the lag of its clients is unknown. The
    earlier of two equally near snapshots counts.

    Args:
        known: loaded snapshots of the window and of the time before it, in order of time.
        window: the window.
    """
    holding = [snapshot for snapshot in known if snapshot.source not in WITHOUT_QUEUES]
    for snapshot in known:
        if snapshot.source != SnapshotSource.LOCAL_OFFSETS or snapshot.observed_at not in window:
            continue
        near = [
            (
                abs(loaded_snapshot.observed_at - snapshot.observed_at),
                loaded_snapshot.observed_at,
                loaded_snapshot,
            )
            for loaded_snapshot in holding
            if loaded_snapshot.cluster == snapshot.cluster
            and abs(loaded_snapshot.observed_at - snapshot.observed_at) <= FURTHEST
        ]
        for broker in sorted(snapshot.brokers_read):
            of_broker = [entry for entry in near if broker in entry[2].brokers_read]
            if of_broker:
                nearest = min(of_broker, key=lambda entry: entry[:2])[2]
                yield NearestQueues(snapshot.snapshot_id, broker, nearest.snapshot_id)
