"""From one observation of a broker to the next: between them happened what an event tells."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lake.catalog import Lake
from lake.history import Look, Place, hidden_places, looks, remembered
from lake.memory import MEMORY
from lake.window import Window

EVERY = "*"
"""Stands for all topics; no topic can have that name."""


@dataclass(frozen=True)
class Step:
    """From one observation of a broker to the next.

    Attributes:
        snapshot_id: the later snapshot.
        observed_at: its start.
        cluster: its cluster.
        broker: the broker group.
        previous_snapshot_id: the newest earlier snapshot that holds it.
        previous_at: its start.
        lacking: topics of which rows of either are quarantined, or `EVERY`: that a row of them is
            not there says nothing.
        down: whether the later one is the first that asked it and got no answer.
    """

    snapshot_id: str
    observed_at: datetime
    cluster: str
    broker: str
    previous_snapshot_id: str
    previous_at: datetime
    lacking: tuple[str, ...] = ()
    down: bool = False


def steps(lake: Lake, window: Window) -> list[Step]:
    """Each broker's steps that end in a window, from observations at most `MEMORY` before it."""
    reach = remembered(window)
    return list(_steps(looks(lake, reach), window, hidden_places(lake, reach)))


def _steps(
    known: Sequence[Look], window: Window, lacking: Mapping[str, set[Place]]
) -> Iterable[Step]:
    newest: dict[tuple[str, str], Look] = {}
    down: set[tuple[str, str]] = set()
    for look in known:
        for (cluster, broker), last in sorted(newest.items()):
            answered = broker in look.brokers_read
            falls = look.is_witness and not answered and (cluster, broker) not in down
            young = look.observed_at - last.observed_at <= MEMORY
            if cluster != look.cluster or not young or not (answered or falls):
                continue
            if falls:
                down.add((cluster, broker))
            if look.observed_at in window:
                places = [
                    place
                    for snapshot_id in (last.snapshot_id, look.snapshot_id)
                    for place in lacking.get(snapshot_id, ())
                    if place[0] in (broker, None)
                ]
                yield Step(
                    look.snapshot_id,
                    look.observed_at,
                    cluster,
                    broker,
                    last.snapshot_id,
                    last.observed_at,
                    lacking=tuple(sorted({topic or EVERY for _, topic in places})),
                    down=falls,
                )
        for broker in look.brokers_read:
            newest[look.cluster, broker] = look
            down.discard((look.cluster, broker))
