"""Correction of a snapshot's store times by the measured skew of brokers' clocks."""

from datetime import datetime, timedelta
from typing import NewType

from rocketmq.records import Snapshot

ByOurClock = NewType("ByOurClock", Snapshot)
"""A snapshot whose store times are by our clock: delays of any other are wrong by the skew."""


def remove_skew(snapshot: Snapshot) -> ByOurClock:
    """Set the store times of a snapshot back to our clock, in place, and return it.

    A clock that was not measured counts as ours. The snapshot does not keep the raw instants.
    """
    skews = {
        row.broker: timedelta(milliseconds=row.clock_skew_ms)
        for row in snapshot.brokers
        if row.clock_skew_ms
    }
    for queue in snapshot.queue_offsets:
        if queue.newest_stored_at and queue.broker in skews:
            queue.newest_stored_at = _by_our_clock(queue.newest_stored_at, skews[queue.broker])
    for row in snapshot.consumer_offsets:
        if row.first_unconsumed_at and row.broker in skews:
            row.first_unconsumed_at = _by_our_clock(row.first_unconsumed_at, skews[row.broker])
    return ByOurClock(snapshot)


def _by_our_clock(instant: datetime, skew: timedelta) -> datetime | None:
    """Return an instant without a skew; None where no calendar has it."""
    try:
        return instant - skew
    except OverflowError:
        return None


def clock_errors(snapshot: Snapshot) -> dict[str, int]:
    """Return by broker the milliseconds that its measured skew may be off."""
    return {
        row.broker: row.clock_error_ms for row in snapshot.brokers if row.clock_error_ms is not None
    }
