"""Snapshots by our clock: without the measured skew of brokers' clocks."""

from datetime import timedelta

from rocketmq.records import Snapshot


def remove_skew(snapshot: Snapshot) -> None:
    """Set the store times of a snapshot back to our clock, in place.

    A clock that was not measured counts as ours. The raw instants are gone afterwards.
    """
    skews = {
        row.broker: timedelta(milliseconds=row.clock_skew_ms)
        for row in snapshot.brokers
        if row.clock_skew_ms
    }
    for queue in snapshot.queue_offsets:
        if queue.newest_stored_at and queue.broker in skews:
            queue.newest_stored_at -= skews[queue.broker]
    for row in snapshot.consumer_offsets:
        if row.first_unconsumed_at and row.broker in skews:
            row.first_unconsumed_at -= skews[row.broker]


def clock_errors(snapshot: Snapshot) -> dict[str, int]:
    """Return by broker the milliseconds that its measured skew may be off."""
    return {
        row.broker: row.clock_error_ms for row in snapshot.brokers if row.clock_error_ms is not None
    }
