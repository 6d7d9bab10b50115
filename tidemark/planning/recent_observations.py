"""The recent observations that the health of groups is computed from.

Two snapshots in the same seconds are no two observations of what a group does: nothing happens
between them. So the observations that count for a snapshot are chosen from it backwards, each the
latest one that is at least the shortest step older than the one after it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter

from tidemark.lake.clocks import Window
from tidemark.planning.history import LoadedSnapshot
from tidemark.settings.sections import DEFAULT_HISTORY, MEMORY, OBSERVATIONS

PAUSE = MEMORY / (OBSERVATIONS - 1)
"""The longest time between two consecutive observations that health counts together; so the
observations of a window never reach further back than `MEMORY`."""

APART = 1 << 40
"""Distance between the numbers of two tracks, so that they never count together."""


@dataclass(frozen=True)
class Observation:
    """An observation of the groups of a cluster by one source, on one track.

    A snapshot is on several tracks where later ones lie close together: each of these is on a track
    of its own, with those before it.

    Attributes:
        snapshot_id: its snapshot.
        number: its place. Numbers count one by one on a track, and jump by `OBSERVATIONS` over a
            pause; only their differences mean something.
        counts_for: ids of the window's snapshots whose health is computed on this track and that it
            counts for, and how many observations each of them is later. Its own id is among them
            where its own health is.
    """

    snapshot_id: str
    number: int
    counts_for: Mapping[str, int]


def recent_observations(
    known: Sequence[LoadedSnapshot],
    window: Window,
    shortest: timedelta = DEFAULT_HISTORY.shortest_step,
) -> Iterator[Observation]:
    """Yield the observations that count for the health of a window's snapshots.

    Args:
        known: loaded snapshots of the window and of `MEMORY` before it, in order of time.
        window: the window.
        shortest: the shortest time between two observations that count together.
    """
    seen: dict[tuple[str, str], list[LoadedSnapshot]] = defaultdict(list)
    for snapshot in known:
        if snapshot.is_of_groups:
            seen[snapshot.origin].append(snapshot)
    tracks = (
        track for loaded_snapshots in seen.values() for track in _tracks(loaded_snapshots, shortest)
    )
    for base, (earlier, own) in enumerate(tracks):
        numbered = _numbered([*earlier, *own], base * APART)
        inside = {
            number: snapshot.snapshot_id
            for number, snapshot in numbered
            if snapshot.observed_at in window
        }
        judged = {snapshot.snapshot_id for snapshot in own}
        for number, snapshot in numbered:
            later = {inside.get(number + after): after for after in range(OBSERVATIONS)}
            counts_for = {key: after for key, after in later.items() if key}
            if counts_for:
                of_own = {key: after for key, after in counts_for.items() if key in judged}
                yield Observation(snapshot.snapshot_id, number, of_own)


def _tracks(
    seen: Sequence[LoadedSnapshot], shortest: timedelta
) -> Iterator[tuple[list[LoadedSnapshot], list[LoadedSnapshot]]]:
    """Yield tracks: the snapshots before its first own one, and its own snapshots.

    Those before are as many as count for it and for those that count for it. Each snapshot is among
    the own ones of one track. Where two follow the same one, the later continues its track.
    """
    at = attrgetter("observed_at")
    before = [
        bisect_right(seen, at(loaded_snapshot) - shortest, key=at) - 1 for loaded_snapshot in seen
    ]
    following = {place: number for number, place in enumerate(before) if place >= 0}
    for number, place in enumerate(before):
        if place >= 0 and following[place] == number:
            continue
        earlier: list[LoadedSnapshot] = []
        while place >= 0 and len(earlier) < 2 * (OBSERVATIONS - 1):
            earlier.insert(0, seen[place])
            place = before[place]
        own, last = [seen[number]], number
        while (last := following.get(last, -1)) >= 0:
            own.append(seen[last])
        yield earlier, own


def _numbered(track: Sequence[LoadedSnapshot], first: int) -> list[tuple[int, LoadedSnapshot]]:
    """Return the snapshots of a track with their numbers."""
    numbered = [(first, track[0])]
    for snapshot in track[1:]:
        number, before = numbered[-1]
        is_next = snapshot.observed_at - before.observed_at <= PAUSE
        numbered.append((number + (1 if is_next else OBSERVATIONS), snapshot))
    return numbered
