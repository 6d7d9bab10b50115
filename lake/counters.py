"""Where the windows of brokers' counters begin in our own history, to hold both side by side."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter

from lake.catalog import Lake
from lake.history import HOLE, Look, looks
from lake.window import Window

STATS_WINDOWS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
"""The windows of a broker's own counters (`StatsItem`)."""


@dataclass(frozen=True)
class Start:
    """Where a window of counters that ends in a snapshot begins, in our own history of a broker.

    Attributes:
        snapshot_id: the snapshot the window ends in.
        broker: the broker whose queues it is about.
        stats_window: one of `STATS_WINDOWS`.
        before_id: the last snapshot of the broker at or before the beginning. None, with the
            others, where history is shorter, or where that snapshot lies more than `HOLE` before
            the beginning: what happened since could be of any time.
        after_id: the first at or after it.
        share: how far from the one to the other the beginning lies, 0 to 1.
    """

    snapshot_id: str
    broker: str
    stats_window: str
    before_id: str | None = None
    after_id: str | None = None
    share: float | None = None


def starts(lake: Lake, window: Window) -> list[Start]:
    """Where the windows of counters begin that end in a window's snapshots, of each broker."""
    longest = max(STATS_WINDOWS.values()) + HOLE
    seen: dict[tuple[str, str, str], list[Look]] = {}
    found: list[Start] = []
    for look in looks(lake, Window(window.start - longest, window.end)):
        for broker in sorted(look.brokers_read):
            of_broker = seen.setdefault((look.cluster, look.source or "remote", broker), [])
            of_broker.append(look)
            if look.observed_at in window:
                found += _starts(of_broker, broker)
    return found


def _starts(seen: Sequence[Look], broker: str) -> Iterator[Start]:
    """Of the windows that end in the last of the looks at a broker."""
    last = seen[-1]
    for name, length in STATS_WINDOWS.items():
        begin = last.observed_at - length
        number = bisect_left(seen, begin, key=attrgetter("observed_at"))
        after = seen[number]
        before = after if after.observed_at == begin else seen[number - 1] if number else None
        if before is None or begin - before.observed_at > HOLE:
            yield Start(last.snapshot_id, broker, name)
            continue
        between = after.observed_at - before.observed_at
        share = (begin - before.observed_at) / between if between else 0.0
        yield Start(last.snapshot_id, broker, name, before.snapshot_id, after.snapshot_id, share)
