"""Typed responses to requests about one counter or one queue.

Each ``decode_*`` is pure and raises `ValueError`, `KeyError`, `TypeError` or `AttributeError` for a
body of another request.
"""

from dataclasses import dataclass
from datetime import datetime

from rocketmq.typed_values import instant, integer, object_of, real, small
from rocketmq.wire.fastjson import loads

WINDOWS = {"minute": "statsMinute", "hour": "statsHour", "day": "statsDay"}
"""``stats_window`` to its name in a 315 body."""

_FIRST_CLOCK_MS = 1_262_304_000_000
"""2010 in milliseconds since 1970: a larger delay is no delay, but the broker's clock."""


@dataclass(slots=True, frozen=True)
class Stats:
    """A counter over one window (315); a mean is None where the broker had no number."""

    sum: int
    tps: float | None
    avgpt: float | None


@dataclass(slots=True, frozen=True)
class QueueEntry:
    """One entry of a consume queue (321)."""

    tags_code: int
    physical_offset: int
    size: int


@dataclass(slots=True, frozen=True)
class TimeSpan:
    """Store times of one queue around a group's progress (303), by the broker's clock.

    Attributes:
        oldest_stored_at: of the first retained message.
        newest_stored_at: of the last one.
        last_consumed_at: of message ``consumer_offset - 1``; of the first one at offset 0.
        delay_ms: the broker's now minus the store time of message ``consumer_offset``; 0 without a
            lag; None where that message cannot be read.
        broker_now: the broker's clock. It shows where no message can be read, for then the store
            time is -1.
    """

    oldest_stored_at: datetime | None
    newest_stored_at: datetime | None
    last_consumed_at: datetime | None
    delay_ms: int | None
    broker_now: datetime | None


def decode_broker_stats(body: bytes) -> dict[str, Stats]:
    """Decode a 315 body by window."""
    found = object_of(loads(body))
    return {
        window: Stats(
            integer(found[name]["sum"]),
            real(found[name].get("tps")),
            real(found[name].get("avgpt")),
        )
        for window, name in WINDOWS.items()
    }


def decode_queue_entries(body: bytes) -> list[QueueEntry]:
    """Decode a 321 body; without one, or with ``null``, the index was out of range: no entry."""
    found = loads(body) if body else None
    return [
        QueueEntry(
            integer(entry["tagsCode"]), integer(entry["physicOffset"]), small(entry["physicSize"])
        )
        for entry in ((object_of(found).get("queueData") or ()) if found is not None else ())
    ]


def decode_time_spans(body: bytes) -> dict[int, TimeSpan]:
    """Decode a 303 body by queue id; the body is about one topic."""
    spans: dict[int, TimeSpan] = {}
    for span in object_of(loads(body)).get("consumeTimeSpanSet") or ():
        delay = integer(span["delayTime"])
        is_clock = delay >= _FIRST_CLOCK_MS
        spans[integer(span["messageQueue"]["queueId"])] = TimeSpan(
            instant(span.get("minTimeStamp")),
            instant(span.get("maxTimeStamp")),
            instant(span.get("consumeTimeStamp")),
            None if is_clock or delay < 0 else delay,
            instant(delay - 1) if is_clock else None,
        )
    return spans
