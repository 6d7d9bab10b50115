"""The recent observations that the health of groups is computed from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lake.history import LoadedSnapshot
from lake.window import Window
from settings.constants import MEMORY, OBSERVATIONS

PAUSE = MEMORY / (OBSERVATIONS - 1)
"""The longest time between two consecutive observations that health counts together; so the
observations of a window never reach further back than `MEMORY`."""

APART = 1 << 40
"""Distance between the numbers of two sources, so that they never count together."""


@dataclass(frozen=True)
class Observation:
    """An observation of the groups of a cluster by one source.

    Attributes:
        snapshot_id: its snapshot.
        number: its place. Numbers count one by one in a cluster and source, and jump by
            `OBSERVATIONS` over a pause; only their differences mean something.
        counts_for: ids of the window's snapshots whose health it counts for, and how many
            observations each of them is later.
    """

    snapshot_id: str
    number: int
    counts_for: Mapping[str, int]


def recent_observations(known: Sequence[LoadedSnapshot], window: Window) -> Iterator[Observation]:
    """Yield the observations that count for the health of a window's snapshots.

    Args:
        known: loaded snapshots of the window and of `MEMORY` before it, in order of time.
        window: the window.
    """
    last: dict[tuple[str, str], tuple[LoadedSnapshot, int]] = {}
    numbers: dict[tuple[str, str], dict[str, int]] = {}
    inside: dict[tuple[str, str], dict[int, str]] = {}
    for snapshot in known:
        if not snapshot.is_of_groups:
            continue
        origin = snapshot.origin
        number = len(last) * APART
        if origin in last:
            before, number = last[origin]
            number += 1 if snapshot.observed_at - before.observed_at <= PAUSE else OBSERVATIONS
        last[origin] = snapshot, number
        numbers.setdefault(origin, {})[snapshot.snapshot_id] = number
        if snapshot.observed_at in window:
            inside.setdefault(origin, {})[number] = snapshot.snapshot_id
    for origin, by_number in inside.items():
        for snapshot_id, number in numbers[origin].items():
            later = {by_number.get(number + after): after for after in range(OBSERVATIONS)}
            counts_for = {each: after for each, after in later.items() if each}
            if counts_for:
                yield Observation(snapshot_id, number, counts_for)
