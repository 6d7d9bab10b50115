"""Requests that only deep snapshots send, and their responses."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from tidemark.rocketmq.admin import client_responses
from tidemark.rocketmq.admin.round_trip import request
from tidemark.rocketmq.typed_values import instant, integer, object_of, real, small
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import BadResponseError, RequestCode, ResponseCode, ResponseError
from tidemark.rocketmq.wire.fastjson import loads

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


@dataclass(slots=True, frozen=True, kw_only=True)
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
    mapping = object_of(loads(body))
    return {
        window: Stats(
            integer(mapping[name]["sum"]),
            real(mapping[name].get("tps")),
            real(mapping[name].get("avgpt")),
        )
        for window, name in WINDOWS.items()
    }


def decode_queue_entries(body: bytes) -> list[QueueEntry]:
    """Decode a 321 body; without one, or with ``null``, the index was out of range: no entry."""
    value = loads(body) if body else None
    return [
        QueueEntry(
            integer(entry["tagsCode"]), integer(entry["physicOffset"]), small(entry["physicSize"])
        )
        for entry in ((object_of(value).get("queueData") or ()) if value is not None else ())
    ]


def decode_time_spans(body: bytes) -> dict[int, TimeSpan]:
    """Decode a 303 body by queue id; the body is about one topic."""
    spans: dict[int, TimeSpan] = {}
    for span in object_of(loads(body)).get("consumeTimeSpanSet") or ():
        delay = integer(span["delayTime"])
        is_clock = delay >= _FIRST_CLOCK_MS
        spans[integer(span["messageQueue"]["queueId"])] = TimeSpan(
            oldest_stored_at=instant(span.get("minTimeStamp")),
            newest_stored_at=instant(span.get("maxTimeStamp")),
            last_consumed_at=instant(span.get("consumeTimeStamp")),
            delay_ms=None if is_clock or delay < 0 else delay,
            broker_now=instant(delay - 1) if is_clock else None,
        )
    return spans


CLIENT_SECONDS = 12.0
"""Timeout of a forwarded request: the broker waits up to 10 s for the client (`Broker2Client`)."""


async def broker_stats(
    client: RemotingClient, endpoint: str, name: str, key: str
) -> dict[str, Stats] | None:
    """315: a counter by window; None where it counted nothing since the broker's start."""
    fields = {"statsName": name, "statsKey": key}
    code, subject = RequestCode.VIEW_BROKER_STATS_DATA, f"{name} {key}"
    try:
        return await request(client, endpoint, code, decode_broker_stats, fields, subject)
    except ResponseError as error:
        # The whole remark, "The stats <name> <key> not exist", may be cut for a long key.
        if error.code == ResponseCode.SYSTEM_ERROR and f"The stats <{name}>" in error.reason:
            return None
        raise


async def queue_entries(
    client: RemotingClient, endpoint: str, topic: str, queue_id: int, index: int, count: int
) -> list[QueueEntry]:
    """321: consume-queue entries from ``index`` on; at the end of a file fewer than ``count``."""
    fields = {"topic": topic, "queueId": str(queue_id), "index": str(index), "count": str(count)}
    code, subject = RequestCode.QUERY_CONSUME_QUEUE, f"{topic} {queue_id} {index}"
    return await request(client, endpoint, code, decode_queue_entries, fields, subject)


async def running_info(
    client: RemotingClient, endpoint: str, group: str, client_id: str
) -> client_responses.RunningInfo:
    """307: the report of a member about itself. Needs a transport with ``client_reports``.

    Without stacks: for those the member walks through all its threads, see `running_stacks`.
    """
    fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": "false"}
    code, subject = RequestCode.GET_CONSUMER_RUNNING_INFO, f"{group} {client_id}"
    decode = client_responses.decode_running_info
    return await request(client, endpoint, code, decode, fields, subject, CLIENT_SECONDS)


async def running_stacks(
    client: RemotingClient, endpoint: str, group: str, client_id: str
) -> client_responses.MemberReport:
    """307 with ``jstackEnable``: the stacks of a member's consume threads, and its queues.

    The member stops all its threads for the moment in which it reads their stacks
    (`Thread.getAllStackTraces`). So a deep snapshot never sends this. Needs a transport with
    ``client_reports``.
    """
    fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": "true"}
    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    decode = partial(client_responses.decode_stacks, group=group)
    return await request(
        client, endpoint, code, decode, fields, f"{group} {client_id}", CLIENT_SECONDS
    )


async def consumer_status(
    client: RemotingClient, endpoint: str, group: str, topic: str, client_id: str
) -> dict[client_responses.MessageQueue, int]:
    """223: offsets in the memory of a member, Java only. Needs ``client_reports``.

    Raises:
        BadResponseError: also when the member did not respond; the broker then reports success
            and leaves the member out.
    """
    fields = {"topic": topic, "group": group, "clientAddr": client_id}
    code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    decode = client_responses.decode_consumer_status
    subject = f"{group} {topic} {client_id}"
    offsets = await request(client, endpoint, code, decode, fields, subject, CLIENT_SECONDS)
    if client_id not in offsets:
        raise BadResponseError(endpoint, f"{code.name} {subject}", "the client did not respond")
    return offsets[client_id]
