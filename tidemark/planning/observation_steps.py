"""Steps from one observation of a broker to the next, and windows of counters between them."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from operator import attrgetter

from tidemark.lake.clocks import Window
from tidemark.model.snapshots import SnapshotSource, SnapshotStatus
from tidemark.planning.history import LoadedSnapshot
from tidemark.planning.lacking_parts import HiddenQueues
from tidemark.settings.sections import MEMORY, HistorySettings

STATS_WINDOWS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
"""The windows of a broker's own counters (`StatsItem`)."""


@dataclass(frozen=True, kw_only=True)
class CounterWindow:
    """The beginning, in our own history of a broker, of a counter window that ends in a snapshot.

    Attributes:
        snapshot_id: the snapshot in which the window ends.
        broker: the broker whose queues it covers.
        stats_window: one of `STATS_WINDOWS`.
        before_id: the last snapshot of the broker at or before the beginning. None, with the
            others, where history is shorter, or where that snapshot lies further before the
            beginning than the longest gap.
        after_id: the first snapshot at or after the beginning.
        share: place of the beginning between both, 0 at the first to 1 at the second.
    """

    snapshot_id: str
    broker: str
    stats_window: str
    before_id: str | None = None
    after_id: str | None = None
    share: float | None = None

    @property
    def snapshot_ids(self) -> tuple[str, ...]:
        """Ids of the snapshots around its beginning, where they are known."""
        return tuple(value for value in (self.before_id, self.after_id) if value)


def counter_windows(
    known: Sequence[LoadedSnapshot], window: Window, longest_gap: timedelta
) -> Iterator[CounterWindow]:
    """Yield where the windows of counters begin that end in a window's snapshots, per broker.

    Args:
        known: loaded snapshots of the window and of a day and the longest gap before it, in order
            of time.
        window: the window.
        longest_gap: the longest gap between two observations that a rate is computed over.
    """
    seen: dict[tuple[str, str, str], list[LoadedSnapshot]] = {}
    for snapshot in known:
        for broker in sorted(snapshot.brokers_read):
            of_broker = seen.setdefault(
                (snapshot.cluster, snapshot.source or SnapshotSource.REMOTE, broker), []
            )
            of_broker.append(snapshot)
            if snapshot.observed_at in window:
                yield from _windows_that_end(of_broker, broker, longest_gap)


def _windows_that_end(
    seen: Sequence[LoadedSnapshot], broker: str, longest_gap: timedelta
) -> Iterator[CounterWindow]:
    """Yield the windows that end in the last of a broker's snapshots."""
    last = seen[-1]
    for name, length in STATS_WINDOWS.items():
        begin = last.observed_at - length
        number = bisect_left(seen, begin, key=attrgetter("observed_at"))
        after = seen[number]
        before = after if after.observed_at == begin else seen[number - 1] if number else None
        if before is None or begin - before.observed_at > longest_gap:
            yield CounterWindow(snapshot_id=last.snapshot_id, broker=broker, stats_window=name)
            continue
        between = after.observed_at - before.observed_at
        share = (begin - before.observed_at) / between if between else 0.0
        yield CounterWindow(
            snapshot_id=last.snapshot_id,
            broker=broker,
            stats_window=name,
            before_id=before.snapshot_id,
            after_id=after.snapshot_id,
            share=share,
        )


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
    own = (
        loaded_snapshot.observed_at
        for loaded_snapshot in inside
        if loaded_snapshot.origin == recent[0].origin
    )
    newest_base = min(own, default=recent[0].observed_at + shortest_step) - shortest_step
    too_close = {
        loaded_snapshot.snapshot_id
        for loaded_snapshot in recent
        if loaded_snapshot.observed_at > newest_base
    }
    if not too_close:
        return set()
    old_enough = [
        loaded_snapshot for loaded_snapshot in recent if loaded_snapshot.observed_at <= newest_base
    ]
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


EVERY = "*"
"""Stands for all topics; no topic can have that name."""


@dataclass(frozen=True, kw_only=True)
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
                    snapshot_id=snapshot.snapshot_id,
                    observed_at=snapshot.observed_at,
                    cluster=cluster,
                    broker=broker,
                    previous_snapshot_id=last.snapshot_id,
                    previous_at=last.observed_at,
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
    result: list[Step] = []
    for step in steps:
        topics = {
            topic or EVERY
            for snapshot_id in (step.previous_snapshot_id, step.snapshot_id)
            for broker, topic in hidden.get(snapshot_id, ())
            if broker in (step.broker, None)
        }
        result.append(replace(step, lacking=tuple(sorted(topics))))
    return result
