"""Lag and delay of one queue of a group, from the offsets of one snapshot."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemark.live.broker_times import MILLISECOND, StoreTime, StoreTimes, group_queue
from tidemark.live.consume_modes import Consumed
from tidemark.model.queues import DelaySource
from tidemark.rocketmq.records import ConsumerOffset, QueueOffset

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_measurement(row: ConsumerOffset, queue: QueueOffset) -> bool:
    """Return whether these can be measurements: the quarantine's rules on one queue."""
    if queue.min_offset is None or queue.max_offset is None:
        return False
    offsets = (queue.min_offset, row.consumer_offset or 0, row.pull_offset or 0)
    return min(offsets) >= 0 and queue.min_offset <= queue.max_offset


def advanced(row: ConsumerOffset, times: StoreTimes) -> ConsumerOffset:
    """Return the row at the offset that its store time belongs to."""
    offset = times.advanced.get(group_queue(row))
    if offset is None:
        return row
    pulled = None if row.pull_offset is None else max(offset, row.pull_offset)
    return replace(row, consumer_offset=offset, pull_offset=pulled, first_unconsumed_at=None)


def queue_row(
    row: ConsumerOffset,
    queue: QueueOffset,
    now: datetime,
    times: StoreTimes,
    clock_error_ms: int,
    consumed: Consumed,
) -> dict[str, Any]:
    """Compute the columns of ``progress.queues`` from the offsets of one queue."""
    maximum, minimum = queue.max_offset or 0, queue.min_offset or 0
    committed, pulled = row.consumer_offset, consumed.ready_offset
    is_bound = consumed.lag_is_lower_bound or False
    lag = lost = readable = None
    upper = maximum - minimum
    if committed is not None:
        lag, lost = maximum - committed, max(0, minimum - committed)
        upper = readable = max(0, lag - lost)
    newest = queue.newest_stored_at
    if newest:
        newest = min(newest - times.clock_ahead.get(row.broker, timedelta(0)), now)
    first = ready = None
    if readable:
        first = _first_unconsumed(row, queue, now, newest, times, clock_error_ms)
        ready = first if lost == 0 and pulled == committed else None
    if pulled is not None and pulled < maximum and ready is None:
        of_pulled = _bound(pulled, queue, now, newest)
        # Next to a known first message the bound of the next one would seem as well known.
        is_undated = first is None or first.source == DelaySource.AT_LEAST
        if of_pulled and (of_pulled.source == DelaySource.EXACT or is_undated):
            ready = of_pulled
    pull_at = ready.at if ready else None
    available = None if pulled is None else maximum - pulled
    nothing_left = readable == 0 and lag is not None and lag >= 0
    delay_ms = 0 if nothing_left else _age(first, now)
    source, error_ms = (
        (DelaySource.EXACT, 0) if nothing_left or not first else (first.source, first.error_ms)
    )
    if is_bound:  # the first message that was not popped is known, and an older one may be popped
        source, error_ms = DelaySource.AT_LEAST, None
    handed_out = newest if available == 0 else pull_at
    first_at = first.at if first else None
    return {
        "broker": row.broker,
        "offset_store": row.offset_store,
        "queue_id": row.queue_id,
        "lag": lag,
        "inflight": consumed.inflight,
        "available": available,
        "lost": lost,
        "readable_lag": readable,
        "lag_upper": upper,
        "delay_ms": delay_ms,
        "delay_source": None if delay_ms is None else source,
        "delay_error_ms": None if delay_ms is None else error_ms,
        # A message that came while the snapshot was read has no age yet, and is no older one.
        "delay_is_bound": is_bound
        or (bool(readable) and (first is None or first.source == DelaySource.AT_LEAST)),
        "ready_delay_ms": 0 if available == 0 else _milliseconds(pull_at, now),
        "ready_delay_is_bound": bool(lag if available is None else available > 0)
        and (ready is None or ready.source == DelaySource.AT_LEAST),
        "lag_span_ms": _span(lag, first_at, newest),
        "inflight_span_ms": _span(consumed.inflight, first_at, handed_out),
        "available_span_ms": _span(available, pull_at, newest),
        "never_committed": committed is None,
        "priority_rank": consumed.priority_rank,
        "consume_mode": consumed.mode,
        "consume_kind": consumed.kind.value,
        "lag_is_lower_bound": consumed.lag_is_lower_bound,
    }


def _first_unconsumed(
    row: ConsumerOffset,
    queue: QueueOffset,
    now: datetime,
    newest: datetime | None,
    times: StoreTimes,
    clock_error_ms: int,
) -> StoreTime | None:
    """Return when the first readable unconsumed message was stored."""
    first = max(row.consumer_offset or 0, queue.min_offset or 0)
    if row.first_unconsumed_at and first == row.consumer_offset:
        return StoreTime(min(row.first_unconsumed_at, now), DelaySource.EXACT, clock_error_ms)
    bound = _bound(first, queue, now, newest, clock_error_ms)
    store_time = times.known.get(group_queue(row))
    if store_time is None or (bound and bound.source == DelaySource.EXACT):
        return bound
    at = min(store_time.at, now)
    if store_time.source == DelaySource.AT_LEAST and bound:
        at = min(at, bound.at)
    return StoreTime(at, store_time.source, store_time.error_ms)


def _age(first: StoreTime | None, now: datetime) -> int | None:
    """Return the age of a message; one of 0 ms is known only where it was interpolated."""
    age = _milliseconds(first.at, now) if first else None
    is_known = age or (first is not None and first.source == DelaySource.INTERPOLATED)
    return age if is_known else None


def _bound(
    offset: int,
    queue: QueueOffset,
    now: datetime,
    newest: datetime | None,
    clock_error_ms: int = 0,
) -> StoreTime | None:
    """Return the bound that the snapshot alone gives, by the store time of the last message.

    A bound of 0 ms has no information.
    """
    if newest and offset == (queue.max_offset or 0) - 1:
        return StoreTime(newest, DelaySource.EXACT, clock_error_ms)
    if newest and _milliseconds(newest, now):
        return StoreTime(newest, DelaySource.AT_LEAST, None)
    return None


def _milliseconds(start: datetime | None, end: datetime | None) -> int | None:
    if start is None or end is None:
        return None
    since, until = ((instant - EPOCH) // MILLISECOND for instant in (start, end))
    return until - since


def _span(count: int | None, start: datetime | None, end: datetime | None) -> int | None:
    if count is None or count < 0:
        return None
    length = _milliseconds(start, end)
    return 0 if count == 0 else None if length is None else max(0, length)
