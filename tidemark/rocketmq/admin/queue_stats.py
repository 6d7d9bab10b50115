"""Typed response of 202: how far the queues of one topic are written."""

import re
from datetime import datetime
from functools import partial
from typing import NamedTuple

from tidemark.rocketmq.typed_values import instant, instants, integer, object_of, small
from tidemark.rocketmq.wire.fastjson import loads


class QueueStats(NamedTuple):
    """Range of a written queue; ``newest_stored_at`` is the store time of ``max_offset - 1``.

    A broker reports both offsets. They are None where the files of a store cannot be read.
    """

    min_offset: int | None
    max_offset: int | None
    newest_stored_at: datetime | None


_NAME = rb'[^"\\{}\x00-\x1f\x80-\xff]*+'
_INTEGER = rb"(-?(?:0|[1-9]\d{0,17}+))"
_QUEUE = re.compile(
    rb'\{"brokerName":"%b","queueId":(0|[1-9]\d{0,8}+),"topic":"(%b)"\}:'
    rb'\{"lastUpdateTimestamp":%b,"maxOffset":%b,"minOffset":%b\}'
    % (_NAME, _NAME, _INTEGER, _INTEGER, _INTEGER)
)
_BEFORE_QUEUES = b'{"offsetTable":{'
_BETWEEN_QUEUES = frozenset({b","})
_AFTER_QUEUES = re.compile(
    rb'\}(?:,"topicPutTps":(?:0|[1-9]\d{0,17}+)\.\d{1,17}+(?:E-?\d{1,2}+)?)?\}'
)
_queue_stats = partial(tuple.__new__, QueueStats)  # its own constructor takes twice as long


def decode_topic_stats(body: bytes, topic: str) -> dict[int, QueueStats]:
    """Decode a 202 body by queue id; the body is about one topic.

    A snapshot needs thousands of these bodies. One pattern reads the form that brokers send. The
    parser reads every other form, and every body that the pattern cannot prove.

    Args:
        body: the body.
        topic: the requested topic.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: the body is not a 202 body, is about
            another topic, or lists a queue twice.
    """
    parts = _QUEUE.split(body)  # text before; per queue five values and the text after
    if (
        parts[0] == _BEFORE_QUEUES
        and set(parts[6:-1:6]) <= _BETWEEN_QUEUES
        and _AFTER_QUEUES.fullmatch(parts[-1])
        and set(parts[2::6]) == {topic.encode()}
    ):
        tops = list(map(int, parts[4::6]))
        times = instants(map(int, parts[3::6]))
        if min(tops) <= 0:
            pairs = zip(times, tops, strict=True)
            times = [stored_at if top > 0 else None for stored_at, top in pairs]
        rows = zip(map(int, parts[5::6]), tops, times, strict=True)
        stats = dict(zip(map(int, parts[1::6]), map(_queue_stats, rows), strict=True))
        if len(stats) == len(tops):
            return stats
    return parse_topic_stats(body, topic)


def parse_topic_stats(body: bytes, topic: str) -> dict[int, QueueStats]:
    """Decode a 202 body in any form through the parser; see `decode_topic_stats`."""
    stats = {}
    for key, value in object_of(object_of(loads(body))["offsetTable"]).items():
        queue = dict(key)
        if queue["topic"] != topic:
            raise ValueError(f"a response about topic {queue['topic']!r:.100}")
        queue_id = small(queue["queueId"])
        if queue_id in stats:
            raise ValueError(f"queue {queue_id} is listed twice")
        maximum = integer(value["maxOffset"])
        stored_at = instant(value.get("lastUpdateTimestamp")) if maximum > 0 else None
        stats[queue_id] = QueueStats(integer(value["minOffset"]), maximum, stored_at)
    return stats
