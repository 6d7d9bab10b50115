"""Choice of the snapshot whose queues are compared with offsets of clients' files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from lake.history import LoadedSnapshot
from lake.window import Window
from tidemark.model.snapshots import WITHOUT_QUEUES, SnapshotSource

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
            (abs(each.observed_at - snapshot.observed_at), each.observed_at, each)
            for each in holding
            if each.cluster == snapshot.cluster
            and abs(each.observed_at - snapshot.observed_at) <= FURTHEST
        ]
        for broker in sorted(snapshot.brokers_read):
            of_broker = [each for each in near if broker in each[2].brokers_read]
            if of_broker:
                nearest = min(of_broker, key=lambda each: each[:2])[2]
                yield NearestQueues(snapshot.snapshot_id, broker, nearest.snapshot_id)
