"""Snapshots at which the windows of brokers' counters begin, to compare both measurements."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter

from tidemark.lake.clocks import Window
from tidemark.model.snapshots import SnapshotSource
from tidemark.planning.history import LoadedSnapshot

STATS_WINDOWS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
"""The windows of a broker's own counters (`StatsItem`)."""


@dataclass(frozen=True)
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
            yield CounterWindow(last.snapshot_id, broker, name)
            continue
        between = after.observed_at - before.observed_at
        share = (begin - before.observed_at) / between if between else 0.0
        yield CounterWindow(
            last.snapshot_id, broker, name, before.snapshot_id, after.snapshot_id, share
        )
