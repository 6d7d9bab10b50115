"""Brokers that a snapshot lacks, and the snapshot that last had them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lake.history import LoadedSnapshot
from lake.window import Window
from settings.constants import MEMORY


@dataclass(frozen=True)
class UnreachableBroker:
    """A broker that a snapshot should hold and does not.

    Attributes:
        snapshot_id: the snapshot that lacks it.
        broker: the broker group.
        last_snapshot_id: the newest earlier snapshot that holds it.
    """

    snapshot_id: str
    broker: str
    last_snapshot_id: str


def unreachable_brokers(
    known: Sequence[LoadedSnapshot], window: Window
) -> Iterator[UnreachableBroker]:
    """Yield the brokers that snapshots of a window lack, if known within `MEMORY` before.

    Args:
        known: loaded snapshots of the window and of `MEMORY` before it, in order of time.
        window: the window.
    """
    newest: dict[str, dict[str, LoadedSnapshot]] = {}
    for snapshot in known:
        brokers = newest.setdefault(snapshot.cluster, {})
        if snapshot.observed_at in window and snapshot.is_of_all_brokers:
            for broker, last in sorted(brokers.items()):
                is_remembered = snapshot.observed_at - last.observed_at <= MEMORY
                if broker not in snapshot.brokers_read and is_remembered:
                    yield UnreachableBroker(snapshot.snapshot_id, broker, last.snapshot_id)
        if snapshot.is_of_all_brokers:
            brokers |= dict.fromkeys(snapshot.brokers_read, snapshot)
