"""Steps from one observation of a broker to the next; events happen between them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lake.hidden_queues import HiddenQueues
from lake.history import LoadedSnapshot
from lake.window import Window
from settings.constants import MEMORY

EVERY = "*"
"""Stands for all topics; no topic can have that name."""


@dataclass(frozen=True)
class Step:
    """A step from one observation of a broker to the next.

    Attributes:
        snapshot_id: the later snapshot.
        observed_at: its start.
        cluster: its cluster.
        broker: the broker group.
        previous_snapshot_id: the newest earlier snapshot that holds the broker.
        previous_at: its start.
        lacking: topics of which rows of either are quarantined, or `EVERY`; a missing row of such a
            topic means nothing.
        down: whether the later snapshot is the first that requested the broker without a response.
    """

    snapshot_id: str
    observed_at: datetime
    cluster: str
    broker: str
    previous_snapshot_id: str
    previous_at: datetime
    lacking: tuple[str, ...] = ()
    down: bool = False


def observation_steps(known: Sequence[LoadedSnapshot], window: Window) -> Iterator[Step]:
    """Yield each broker's steps that end in a window and are at most `MEMORY` long.

    Both ends of a step have the same source.

    Args:
        known: loaded snapshots of the window and of `MEMORY` before it, in order of time.
        window: the window.
    """
    newest: dict[tuple[str, str], dict[str, LoadedSnapshot]] = {}
    down: set[tuple[str, str]] = set()
    for snapshot in known:
        cluster = snapshot.cluster
        of_origin = newest.setdefault(snapshot.origin, {})
        for broker, last in sorted(of_origin.items()):
            is_read = broker in snapshot.brokers_read
            goes_down = (
                snapshot.requested_every_broker and not is_read and (cluster, broker) not in down
            )
            is_remembered = snapshot.observed_at - last.observed_at <= MEMORY
            if not is_remembered or not (is_read or goes_down):
                continue
            if goes_down:
                down.add((cluster, broker))
            if snapshot.observed_at in window:
                yield Step(
                    snapshot.snapshot_id,
                    snapshot.observed_at,
                    cluster,
                    broker,
                    last.snapshot_id,
                    last.observed_at,
                    down=goes_down,
                )
        for broker in snapshot.brokers_read:
            of_origin[broker] = snapshot
            if snapshot.is_of_all_brokers:
                down.discard((cluster, broker))


def with_lacking(steps: Iterable[Step], hidden: HiddenQueues) -> list[Step]:
    """Return steps with the topics whose queues are hidden at either end.

    Args:
        steps: the steps.
        hidden: hidden queues of both ends.
    """
    found: list[Step] = []
    for step in steps:
        topics = {
            topic or EVERY
            for snapshot_id in (step.previous_snapshot_id, step.snapshot_id)
            for broker, topic in hidden.get(snapshot_id, ())
            if broker in (step.broker, None)
        }
        found.append(replace(step, lacking=tuple(sorted(topics))))
    return found
