"""Brokers that were observed an hour before a snapshot too, so that hourly growth is known."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from lake.history import LoadedSnapshot
from lake.window import HOUR, Window


def observed_an_hour_before(
    known: Sequence[LoadedSnapshot], window: Window, longest_gap: timedelta
) -> Iterator[tuple[str, str]]:
    """Yield the snapshots of a window and their brokers that were observed an hour before.

    Args:
        known: loaded snapshots of the window and of `MEMORY` before it, in order of time.
        window: the window.
        longest_gap: how much longer than an hour before the observation may be.
    """
    for snapshot in known:
        if snapshot.observed_at in window:
            end = snapshot.observed_at - HOUR
            reach = Window(end - longest_gap, end + timedelta(microseconds=1))
            before = _brokers(
                each
                for each in known
                if each.observed_at in reach and each.origin == snapshot.origin
            )
            yield from ((snapshot.snapshot_id, broker) for broker in sorted(before))


def _brokers(snapshots: Iterable[LoadedSnapshot]) -> frozenset[str]:
    return frozenset().union(*(each.brokers_read for each in snapshots))
