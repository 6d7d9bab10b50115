"""One stored message without its content: what identifies it, and how often it was handed out.

The body is skipped while the record is decoded and is in no result. Of the properties only those of
RocketMQ that identify a message are taken, because producers choose the others.
"""

import struct
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address

from tidemark.rocketmq.admin.round_trip import decoded
from tidemark.rocketmq.typed_values import instant
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import RequestCode

MAGICS = {-626843481: "B", -626843477: "H"}
"""Magic number of a record to the type of the length of its topic: two bytes from 5.1 on."""

LONGEST_VALUE = 500
"""Characters that are kept of a property; keys of a message have no limit of their own."""

_HEAD = struct.Struct(">iiiiiqqiq")
_BORN_V6, _STORED_V6 = 16, 32
"""Bits of the system flag: the address of the producer or broker takes 20 bytes instead of 8."""

_NAME_END, _PROPERTY_END = "\x01", "\x02"


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A stored message without its body; texts are cut to `LONGEST_VALUE` characters.

    Attributes:
        topic: the topic that it is stored in.
        queue_id: its queue.
        queue_offset: its place in the queue.
        msg_id: the id that its producer gave it (``UNIQ_KEY``); None without one.
        keys: the keys of its producer, separated by blanks.
        tags: its tag.
        reconsume_times: how often a member handed it back before.
        origin_topic: the topic of a message that waits in a retry topic.
        origin_msg_id: the id of the first message where this is a later attempt.
        born_host: address of its producer, ``IP:PORT``.
        born_at: when it was made, by the producer's clock.
        stored_at: when it was stored, by the broker's clock.
        body_bytes: size of the body as stored.
    """

    topic: str
    queue_id: int
    queue_offset: int
    msg_id: str | None
    keys: str | None
    tags: str | None
    reconsume_times: int
    origin_topic: str | None
    origin_msg_id: str | None
    born_host: str
    born_at: datetime | None
    stored_at: datetime | None
    body_bytes: int


def decode_message(record: bytes, physical_offset: int) -> Message:
    """Decode a record of the commit log (33), and skip its body.

    Args:
        record: the record.
        physical_offset: where it must lie: brokers do not check that a record begins there.

    Raises:
        ValueError: it is no record, or another one.
    """
    try:
        size, magic, _, queue_id, _, queue_offset, own_offset, flag, born = _HEAD.unpack_from(
            record
        )
        if magic not in MAGICS or own_offset != physical_offset or size != len(record):
            raise ValueError("no message begins there")
        at = _HEAD.size
        born_host, at = _host(record, at, flag & _BORN_V6)
        (stored,) = struct.unpack_from(">q", record, at)
        _, at = _host(record, at + 8, flag & _STORED_V6)
        reconsume_times, _, body_bytes = struct.unpack_from(">iqi", record, at)
        if body_bytes < 0:
            raise ValueError("a body of a negative size")
        at += 16 + body_bytes
        topic, at = _text(record, at, MAGICS[magic])
        properties, _ = _text(record, at, "H")
    except struct.error as error:
        raise ValueError("a record that is cut off") from error
    values = dict(
        part.split(_NAME_END, 1) for part in properties.split(_PROPERTY_END) if _NAME_END in part
    )
    return Message(
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        msg_id=_kept(values, "UNIQ_KEY"),
        keys=_kept(values, "KEYS"),
        tags=_kept(values, "TAGS"),
        reconsume_times=reconsume_times,
        origin_topic=_kept(values, "RETRY_TOPIC"),
        origin_msg_id=_kept(values, "ORIGIN_MESSAGE_ID"),
        born_host=born_host,
        born_at=instant(born),
        stored_at=instant(stored),
        body_bytes=body_bytes,
    )


def _host(record: bytes, at: int, is_v6: int) -> tuple[str, int]:
    """Return ``IP:PORT`` at a place of a record, and the place after it."""
    length = 16 if is_v6 else 4
    if at + length + 4 > len(record):
        raise ValueError("a record that is cut off")
    address = ip_address(record[at : at + length])
    (port,) = struct.unpack_from(">i", record, at + length)
    text = f"[{address}]" if address.version == 6 else str(address)
    return f"{text}:{port}", at + length + 4


def _text(record: bytes, at: int, length_type: str) -> tuple[str, int]:
    """Return a text behind its length, and the place after it."""
    length = struct.Struct(f">{length_type}")
    (size,) = length.unpack_from(record, at)
    start = at + length.size
    if start + size > len(record):
        raise ValueError("a record that is cut off")
    return record[start : start + size].decode("utf-8", "replace"), start + size


def _kept(values: dict[str, str], name: str) -> str | None:
    text = values.get(name) or None
    if text is None or len(text) <= LONGEST_VALUE:
        return text
    return text[: LONGEST_VALUE - 1] + "…"


async def stored_message(
    client: RemotingClient, endpoint: str, topic: str, physical_offset: int
) -> Message:
    """33: the message at an offset of the commit log, without its body.

    The broker sends the whole message. Needs a transport with ``message_lookup``.
    """
    code = RequestCode.VIEW_MESSAGE_BY_ID
    # An account of RocketMQ 5 needs the right to the topic, which 4.9 ignores.
    fields = {"offset": str(physical_offset), "topic": topic}
    frame = await client.call(endpoint, code, fields, subject=topic)
    return decoded(lambda: decode_message(frame.body, physical_offset), endpoint, code, topic)
