"""The snapshots before a window that hold the previous observation of every queue."""

from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta
from itertools import islice

from lake.history import LoadedSnapshot
from settings.history import HistorySettings
from tidemark.model.snapshots import SnapshotStatus

OLDER_SNAPSHOTS = 3
"""Snapshots from before the longest gap that are read for queues that may have reappeared."""


def previous_snapshots(
    before: Sequence[LoadedSnapshot],
    inside: Sequence[LoadedSnapshot],
    hiding: Collection[str],
    settings: HistorySettings,
) -> set[str]:
    """Return ids of the snapshots that hold the last observation of every queue before a window.

    They are the newest snapshot of each broker, recent ones with queues that it lacks, and a few
    older ones where the window has queues that none of these has; each source is taken by itself.
    Where the newest are too close to the window for a rate, the ones before them are read too.

    Args:
        before: loaded snapshots before the window, in order of time.
        inside: loaded snapshots of the window.
        hiding: ids of snapshots that lack queues because rows are quarantined.
        settings: over which times rates are computed.
    """
    newest: dict[tuple[str, str, str], LoadedSnapshot] = {}
    of_origins: dict[tuple[str, str], list[LoadedSnapshot]] = {}
    for snapshot in before:
        origin = snapshot.origin
        of_origins.setdefault(origin, []).append(snapshot)
        for broker in snapshot.brokers_read:
            newest[*origin, broker] = snapshot
    chosen = {snapshot.snapshot_id for snapshot in newest.values()}
    for last in set(newest.values()):
        earlier = [
            snapshot
            for snapshot in reversed(of_origins[last.origin])
            if snapshot.observed_at <= last.observed_at
        ]
        gap_starts = last.observed_at - settings.longest_gap
        recent = [snapshot for snapshot in earlier if snapshot.observed_at >= gap_starts]
        older = [snapshot for snapshot in earlier if snapshot.observed_at < gap_starts]
        with_new_keys, covered = _of_each_key_set(recent, hiding)
        chosen |= with_new_keys
        chosen |= _bases(recent, inside, hiding, settings.shortest_step)
        wanted = {snapshot.keys_read for snapshot in inside if snapshot.origin == last.origin}
        if not wanted - {None} <= covered:
            returned = _with_other_keys(older, hiding, covered)
            chosen.update(islice(returned, OLDER_SNAPSHOTS))
    return chosen


def _bases(
    recent: Sequence[LoadedSnapshot],
    inside: Sequence[LoadedSnapshot],
    hiding: Collection[str],
    shortest_step: timedelta,
) -> set[str]:
    """Choose the snapshots that rates of a window are based on, besides the last ones before it.

    Args:
        recent: snapshots of a cluster within the longest gap, the newest first.
        inside: snapshots of the window.
        hiding: ids of snapshots that lack queues because rows are quarantined.
        shortest_step: the shortest time between two observations that a rate is computed over.
    """
    own = (each.observed_at for each in inside if each.origin == recent[0].origin)
    newest_base = min(own, default=recent[0].observed_at + shortest_step) - shortest_step
    too_close = {each.snapshot_id for each in recent if each.observed_at > newest_base}
    if not too_close:
        return set()
    old_enough = [each for each in recent if each.observed_at <= newest_base]
    return too_close | _of_each_key_set(old_enough, hiding)[0]


def _of_each_key_set(
    recent: Sequence[LoadedSnapshot], hiding: Collection[str]
) -> tuple[set[str], set[str | None]]:
    """Choose the newest snapshot of each set of keys, and return the sets that they cover.

    They contain queues that the newest snapshot lacks: of a topic deleted meanwhile, of deep
    snapshots, of a broker that was unreachable once. A snapshot that hides queues does not cover
    its keys.

    Args:
        recent: snapshots of a cluster within the longest gap, the newest first.
        hiding: ids of snapshots that lack queues because rows are quarantined.
    """
    chosen: set[str] = set()
    covered: set[str | None] = set()
    for snapshot in recent:
        if snapshot.keys_read not in covered:
            chosen.add(snapshot.snapshot_id)
            is_known = snapshot.keys_read is not None or snapshot.status == SnapshotStatus.COMPLETE
            if is_known and snapshot.snapshot_id not in hiding:
                covered.add(snapshot.keys_read)
    return chosen, covered


def _with_other_keys(
    older: Sequence[LoadedSnapshot], hiding: Collection[str], covered: Collection[str | None]
) -> Iterator[str]:
    """Yield the newest older snapshot of each set of keys that is not covered."""
    seen = set(covered) | {None}
    for snapshot in older:
        if snapshot.keys_read not in seen and snapshot.snapshot_id not in hiding:
            seen.add(snapshot.keys_read)
            yield snapshot.snapshot_id
