"""Lag and delay of one queue: unknown offsets stay unknown, expired messages are not readable."""

from datetime import UTC, datetime, timedelta

import pytest

from tidemark.live.broker_times import StoreTime, StoreTimes, group_queue
from tidemark.live.consume_modes import Consumed
from tidemark.live.lag import advanced, is_measurement, queue_row
from tidemark.rocketmq.consume_modes import Kind
from tidemark.rocketmq.records import ConsumerOffset, QueueOffset

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def offset(committed: int | None, pulled: int | None = None) -> ConsumerOffset:
    return ConsumerOffset(
        broker="broker-a",
        consumer_group="billing",
        topic="orders",
        queue_id=0,
        client_id=None,
        consumer_offset=committed,
        pull_offset=pulled,
    )


def queue(minimum: int | None, maximum: int | None, age: float | None = None) -> QueueOffset:
    stored = None if age is None else NOON - timedelta(seconds=age)
    return QueueOffset(
        broker="broker-a",
        topic="orders",
        queue_id=0,
        min_offset=minimum,
        max_offset=maximum,
        newest_stored_at=stored,
    )


def computed(row, ends, times=None, clock_error_ms=0):
    consumed = Consumed(mode=None, kind=Kind.PULL, inflight=None, ready_offset=row.pull_offset)
    return queue_row(row, ends, NOON, times or StoreTimes(), clock_error_ms, consumed)


@pytest.mark.parametrize(
    ("committed", "pulled", "minimum", "maximum", "expected"),
    [
        pytest.param(60, None, 0, 100, (40, 0, 40, 40, None), id="within the retained range"),
        pytest.param(60, 90, 70, 100, (40, 10, 30, 30, 10), id="ten expired"),
        pytest.param(10, None, 70, 70, (60, 60, 0, 0, None), id="all expired"),
        pytest.param(None, None, 70, 100, (None, None, None, 30, None), id="never committed"),
        pytest.param(100, 100, 0, 100, (0, 0, 0, 0, 0), id="nothing left"),
        pytest.param(120, None, 0, 100, (-20, 0, 0, 0, None), id="commit beyond the end"),
    ],
)
def test_counts_of_messages(committed, pulled, minimum, maximum, expected):
    row = computed(offset(committed, pulled), queue(minimum, maximum))
    names = ("lag", "lost", "readable_lag", "lag_upper", "available")
    assert tuple(row[name] for name in names) == expected


@pytest.mark.parametrize(
    ("committed", "age", "expected"),
    [
        pytest.param(99, 5, (5000, "exact", 7, False), id="the last message"),
        pytest.param(60, 5, (5000, "at_least", None, True), id="an earlier one"),
        pytest.param(60, None, (None, None, None, True), id="no store time"),
        pytest.param(60, 0, (None, None, None, True), id="a bound of 0 is none"),
        pytest.param(100, 5, (0, "exact", 0, False), id="nothing left"),
    ],
)
def test_delay_without_history_is_a_bound(committed, age, expected):
    row = computed(offset(committed), queue(0, 100, age), clock_error_ms=7)
    names = ("delay_ms", "delay_source", "delay_error_ms", "delay_is_bound")
    assert tuple(row[name] for name in names) == expected


def test_a_store_time_from_history_replaces_the_bound():
    row = offset(60)
    times = StoreTimes(
        known={group_queue(row): StoreTime(NOON - timedelta(minutes=2), "interpolated", 900)}
    )
    body = computed(row, queue(0, 100, 5), times)
    assert (body["delay_ms"], body["delay_source"]) == (120_000, "interpolated")
    assert body["delay_error_ms"] == 900


def test_a_row_advances_to_its_dated_offset():
    row = offset(60, 70)
    times = StoreTimes(advanced={group_queue(row): 80})
    assert advanced(row, StoreTimes()) is row
    assert (advanced(row, times).consumer_offset, advanced(row, times).pull_offset) == (80, 80)


@pytest.mark.parametrize(
    ("committed", "minimum", "maximum", "expected"),
    [
        (60, 0, 100, True),
        (None, 0, 100, True),
        (-5, 0, 100, False),
        (60, 50, 40, False),
        (60, None, 100, False),
    ],
)
def test_impossible_offsets_are_no_measurement(committed, minimum, maximum, expected):
    assert is_measurement(offset(committed), queue(minimum, maximum)) is expected


def test_beside_a_known_first_message_the_next_one_is_not_guessed():
    row, ends = offset(0, 10), queue(0, 1000, 1)
    row.first_unconsumed_at = NOON - timedelta(hours=1)
    body = computed(row, ends)
    assert (body["delay_ms"], body["delay_source"]) == (3_600_000, "exact")
    assert body["ready_delay_ms"] is body["available_span_ms"] is None
    assert computed(offset(0, 10), ends)["ready_delay_ms"] == 1000, "all is a bound of 1 s"


def test_a_message_interpolated_at_this_very_instant_has_an_age():
    row = offset(99)
    times = StoreTimes(known={group_queue(row): StoreTime(NOON, "interpolated", 60_000)})
    body = computed(row, queue(0, 100), times)
    assert (body["delay_ms"], body["delay_source"]) == (0, "interpolated")
    assert body["delay_error_ms"] == 60_000
