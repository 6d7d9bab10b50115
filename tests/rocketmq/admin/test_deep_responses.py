"""Bodies about one counter or queue that real brokers sent, decoded."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tidemark.rocketmq.admin import deep_requests
from tidemark.rocketmq.admin.deep_requests import QueueEntry, Stats

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(milliseconds):
    return EPOCH + timedelta(milliseconds=milliseconds)


SERVED = {
    "4.9.7": Stats(11775, 196.25, 1.000679867425852),
    "5.3.3": Stats(10733, 178.88035199413343, 1.0013995148348573),
}
ENTRIES = {
    "4.9.7": [QueueEntry(66, 0, 300), QueueEntry(65, 2700, 300), QueueEntry(67, 5107, 301)],
    "5.3.3": [QueueEntry(67, 2812, 352), QueueEntry(65, 5980, 352), QueueEntry(67, 8796, 352)],
}
SPANS = {  # first and newest message, the last one consumed, the age of the next one
    "4.9.7": (1795253373732, 1795253491983, 1795253373970, 118007),
    "5.3.3": (1795252811747, 1795252924384, 1795252812887, 111506),
}


def test_broker_stats(version, recorded):
    body = recorded(version, "315_GROUP_GET_NUMS_lab_orders_at_g-fast_m.body")
    idle = Stats(0, 0.0, 0.0)
    expected = {"minute": SERVED[version], "hour": idle, "day": idle}
    assert deep_requests.decode_broker_stats(body) == expected


def test_a_mean_that_is_no_number():
    window = {"avgpt": None, "sum": 0, "tps": None}
    body = json.dumps(dict.fromkeys(("statsDay", "statsHour", "statsMinute"), window)).encode()
    assert deep_requests.decode_broker_stats(body)["hour"] == Stats(0, None, None)


def test_queue_entries(version, recorded):
    body = recorded(version, "321_query_cq_m.body")
    assert deep_requests.decode_queue_entries(body) == ENTRIES[version]


@pytest.mark.parametrize("body", [b"", b"null", b'{"maxQueueIndex":3,"minQueueIndex":0}'])
def test_no_entry_out_of_range(body):
    assert deep_requests.decode_queue_entries(body) == []


def test_time_spans(version, recorded):
    spans = deep_requests.decode_time_spans(recorded(version, "303_consume_span_m.body"))
    assert sorted(spans) == list(range(8))
    oldest, newest, consumed, delay = SPANS[version]
    assert spans[0] == deep_requests.TimeSpan(
        oldest_stored_at=at(oldest),
        newest_stored_at=at(newest),
        last_consumed_at=at(consumed),
        delay_ms=delay,
        broker_now=None,
    )


def test_a_delay_of_56_years_is_the_brokers_clock():
    body = (
        b'{"consumeTimeSpanSet":[{"consumeTimeStamp":1795252811747,"delayTime":1795259129817,'
        b'"maxTimeStamp":-1,"messageQueue":{"queueId":2},"minTimeStamp":1795252811747}]}'
    )
    span = deep_requests.decode_time_spans(body)[2]
    assert (span.delay_ms, span.broker_now) == (None, at(1795259129816))
    assert span.newest_stored_at is None


@pytest.mark.parametrize(
    "decode",
    [
        deep_requests.decode_broker_stats,
        deep_requests.decode_queue_entries,
        deep_requests.decode_time_spans,
    ],
)
def test_another_body_is_refused(decode):
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        decode(b"[1]")
