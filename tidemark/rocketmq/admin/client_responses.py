"""Typed reports of clients about themselves, which brokers forward.

Each ``decode_*`` is pure and raises `ValueError`, `KeyError`, `TypeError` or `AttributeError` for a
body of another request. Clients in other languages than Java report less; absent fields are None.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemark.rocketmq.admin.responses import subscription
from tidemark.rocketmq.records import Subscription
from tidemark.rocketmq.stacks import ConsumeStacks, consume_stacks
from tidemark.rocketmq.typed_values import (
    boolean,
    instant,
    integer,
    object_of,
    optional,
    real,
    short_text,
    small,
    text,
)
from tidemark.rocketmq.wire.fastjson import loads

STRATEGIES = {
    "AllocateMessageQueueAveragely": "AVG",
    "AllocateMessageQueueAveragelyByCircle": "AVG_BY_CIRCLE",
    "AllocateMessageQueueConsistentHash": "CONSISTENT_HASH",
    "AllocateMessageQueueByConfig": "CONFIG",
    "AllocateMessageQueueByMachineRoom": "MACHINE_ROOM",
    "AllocateMachineRoomNearby": "MACHINE_ROOM_NEARBY",
}
"""Java class to its `AllocateMessageQueueStrategy.getName`."""


@dataclass(slots=True, frozen=True)
class MessageQueue:
    """A queue as clients identify it."""

    topic: str
    broker: str
    queue_id: int


@dataclass(slots=True, frozen=True, kw_only=True)
class ProcessQueue:
    """The state of one queue in a client (307); instants by the client's clock.

    Attributes:
        commit_offset: next offset to consume, in the client's memory: up to 5 s ahead of the
            broker; None where a POP client holds the queue.
        cached_min_offset: first message of the cache, 0 when that is empty.
        cached_max_offset: last message of the cache, 0 when that is empty.
        cached_messages: messages in the cache, or the unacknowledged ones of a POP client.
        locked: the client's own mark; it matters for ordered consumption only.
        last_lock_at: when the broker last granted the lock; for ordered consumption only.
        unlock_tries: failed attempts to release the lock of a dropped queue.
        in_order_messages: messages that an ordered client has taken out of the cache to consume.
        in_order_max_offset: last of them, 0 without one.
        popped: whether brokers hand out its messages one by one; queue -1 is then all of a topic's
            on a broker (seen on 5.3.3).
    """

    commit_offset: int | None
    cached_min_offset: int | None
    cached_max_offset: int | None
    cached_messages: int | None
    cached_mib: int | None
    locked: bool | None
    dropped: bool | None
    last_pull_at: datetime | None
    last_consume_at: datetime | None
    popped: bool = False
    last_lock_at: datetime | None = None
    unlock_tries: int | None = None
    in_order_messages: int | None = None
    in_order_max_offset: int | None = None


@dataclass(slots=True, frozen=True, kw_only=True)
class PullLimits:
    """Limits of a queue's cache in a client; above one of them the client does not pull the queue.

    They come from ``pullThresholdForQueue``, ``pullThresholdSizeForQueue``,
    ``consumeConcurrentlyMaxSpan`` and ``popThresholdForQueue``. At a rebalance the client sets the
    first two again where it has limits for a whole topic, and reports the present ones
    (`RebalancePushImpl.messageQueueChanged`).

    Attributes:
        messages: cached, those being consumed included.
        mib: cached, in whole MiB.
        span: offsets between the first and the last cached message; None for ordered consumption,
            which has no such limit.
        popped: messages handed out by POP and not acknowledged.
    """

    messages: int | None = None
    mib: int | None = None
    span: int | None = None
    popped: int | None = None


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumeStatus:
    """A client's statistics of one topic (307): the last minute, failures of the last hour.

    Attributes:
        pull_rt_ms: milliseconds of a pull that found messages.
        consume_rt_ms: milliseconds of a listener call; from the last hour where the last minute
            had none (`ConsumerStatsManager`).
    """

    pull_rt_ms: float | None
    pull_tps: float | None
    consume_rt_ms: float | None
    consume_ok_tps: float | None
    consume_failed_tps: float | None
    consume_failed_last_hour: int | None


@dataclass(slots=True, frozen=True, kw_only=True)
class RunningInfo:
    """The report of a client about itself (307).

    Attributes:
        thread_count: consuming threads; None for clients that poll.
        allocation_strategy: one of `STRATEGIES`, or the simple name of another class.
        subscriptions: its own, sorted by topic; None where it reports none.
        messages_at_once: messages it can work on at a time; None for clients that poll.
        consume_orderly: whether its listener is an ordered one; None where it does not report it.
        consume_batch_size: most messages of one listener call; None for clients that poll.
        pull_limits: of each queue that it pulls.
    """

    thread_count: int | None
    allocation_strategy: str | None
    started_at: datetime | None
    subscriptions: list[Subscription] | None
    queues: dict[MessageQueue, ProcessQueue]
    topics: dict[str, ConsumeStatus]
    messages_at_once: int | None = None
    consume_orderly: bool | None = None
    consume_batch_size: int | None = None
    pull_limits: PullLimits = PullLimits()


def decode_running_info(body: bytes) -> RunningInfo:
    """Decode a 307 body."""
    mapping = object_of(loads(body))
    properties = object_of(mapping.get("properties") or {})
    subscriptions = mapping.get("subscriptionSet")
    queues = dict(_queues(mapping.get("mqPopTable"), _pop_queue))
    queues |= dict(_queues(mapping.get("mqTable"), _process_queue))
    threads = optional(small, _number_in(properties, "PROP_THREADPOOL_CORE_SIZE"))
    orderly = optional(text, properties.get("PROP_CONSUMEORDERLY"))
    is_orderly = None if orderly is None else orderly.lower() == "true"
    batch = optional(small, _number_in(properties, "consumeMessageBatchMaxSize"))
    return RunningInfo(
        thread_count=threads,
        allocation_strategy=allocation_strategy(
            optional(text, properties.get("allocateMessageQueueStrategy"))
        ),
        started_at=instant(_number_in(properties, "PROP_CONSUMER_START_TIMESTAMP")),
        subscriptions=None
        if subscriptions is None
        else sorted(
            (subscription(short_text(it["topic"]), it) for it in subscriptions),
            key=lambda it: it.topic,
        ),
        queues=queues,
        topics={
            short_text(topic): _status(it)
            for topic, it in (mapping.get("statusTable") or {}).items()
        },
        messages_at_once=None if threads is None or batch is None else threads * batch,
        consume_orderly=is_orderly,
        consume_batch_size=batch,
        pull_limits=_pull_limits(properties, is_orderly),
    )


LARGEST_WITH_STACKS = 8 * 1024 * 1024
"""Bytes of a report with stacks: 2,000 threads of 30 frames take some 7 MB."""


@dataclass(slots=True, frozen=True)
class MemberReport:
    """The report of a client about itself with stacks (307).

    Attributes:
        stacks: of its consume threads; None where the client reports no stacks.
        held: the queues that it pulls now, without those that it gave up; None for clients that
            poll, which do not report them.
    """

    stacks: ConsumeStacks | None
    held: frozenset[MessageQueue] | None


def decode_stacks(body: bytes, group: str) -> MemberReport:
    """Decode the stacks and the queues of a 307 body.

    Raises:
        ValueError: the body is larger than `LARGEST_WITH_STACKS`.
    """
    if len(body) > LARGEST_WITH_STACKS:
        raise ValueError(f"a report of {len(body)} bytes")
    mapping = object_of(loads(body))
    jstack = mapping.get("jstack")
    if jstack is not None and not isinstance(jstack, str):
        raise TypeError("the stacks are no text")
    held = None
    properties = object_of(mapping.get("properties") or {})
    if _number_in(properties, "PROP_THREADPOOL_CORE_SIZE") is not None:
        queues = _queues(mapping.get("mqTable"), _process_queue)
        held = frozenset(at for at, queue in queues if not queue.dropped)
    return MemberReport(consume_stacks(jstack, group) if jstack else None, held)


def _pull_limits(properties: dict[str, Any], is_orderly: bool | None) -> PullLimits:
    # Push consumers name the span the first way, lite pull consumers the second.
    spans = (
        _number_in(properties, name) for name in ("consumeConcurrentlyMaxSpan", "consumeMaxSpan")
    )
    return PullLimits(
        messages=_number_in(properties, "pullThresholdForQueue"),
        mib=_number_in(properties, "pullThresholdSizeForQueue"),
        span=None if is_orderly else next((span for span in spans if span is not None), None),
        popped=_number_in(properties, "popThresholdForQueue"),
    )


def allocation_strategy(described: str | None) -> str | None:
    """Return ``AVG`` for the text of a Java object, ``a.b.AllocateMessageQueueAveragely@6a787b9f``.

    An unknown class gives its simple name, no text gives None.
    """
    match = re.match(r"[\w.$]+", described or "")
    if not match:
        return None
    qualified = match[0].rstrip(".").rpartition(".")[2]
    inner = qualified.rpartition("$")[2]
    name = inner if inner[:1].isalpha() else qualified
    return STRATEGIES.get(name, name)


def decode_consumer_status(body: bytes) -> dict[str, dict[MessageQueue, int]]:
    """Decode a 223 body: by client id, the offsets in the client's memory."""
    table = object_of(loads(body)).get("consumerTable") or {}
    return {
        short_text(client_id): {
            _message_queue(key): integer(offset) for key, offset in offsets.items()
        }
        for client_id, offsets in table.items()
    }


def _queues(table: Any, decode: Any) -> Iterator[tuple[MessageQueue, ProcessQueue]]:
    for key, info in (table or {}).items():
        yield _message_queue(key), decode(object_of(info))


def _message_queue(key: Any) -> MessageQueue:
    named = dict(key)
    return MessageQueue(
        short_text(named["topic"]), short_text(named["brokerName"]), small(named["queueId"])
    )


def _process_queue(info: dict[str, Any]) -> ProcessQueue:
    commit = optional(integer, info.get("commitOffset"))
    return ProcessQueue(
        commit_offset=None if commit == -1 else commit,  # neither the client nor the broker has one
        cached_min_offset=optional(integer, info.get("cachedMsgMinOffset")),
        cached_max_offset=optional(integer, info.get("cachedMsgMaxOffset")),
        cached_messages=optional(integer, info.get("cachedMsgCount")),
        cached_mib=optional(integer, info.get("cachedMsgSizeInMiB")),
        locked=optional(boolean, info.get("locked")),
        dropped=optional(boolean, info.get("droped")),  # so RocketMQ spells it
        last_pull_at=instant(info.get("lastPullTimestamp")),
        last_consume_at=instant(info.get("lastConsumeTimestamp")),
        last_lock_at=instant(info.get("lastLockTimestamp")),
        unlock_tries=optional(integer, info.get("tryUnlockTimes")),
        in_order_messages=optional(integer, info.get("transactionMsgCount")),
        in_order_max_offset=optional(integer, info.get("transactionMsgMaxOffset")),
    )


def _pop_queue(info: dict[str, Any]) -> ProcessQueue:
    unacknowledged, popped_at = (
        optional(integer, info.get("waitAckCount")),
        instant(info.get("lastPopTimestamp")),
    )
    dropped = optional(boolean, info.get("droped"))
    return ProcessQueue(
        commit_offset=None,
        cached_min_offset=None,
        cached_max_offset=None,
        cached_messages=unacknowledged,
        cached_mib=None,
        locked=None,
        dropped=dropped,
        last_pull_at=popped_at,
        last_consume_at=None,
        popped=True,
    )


def _status(info: dict[str, Any]) -> ConsumeStatus:
    return ConsumeStatus(
        pull_rt_ms=real(info.get("pullRT")),
        pull_tps=real(info.get("pullTPS")),
        consume_rt_ms=real(info.get("consumeRT")),
        consume_ok_tps=real(info.get("consumeOKTPS")),
        consume_failed_tps=real(info.get("consumeFailedTPS")),
        consume_failed_last_hour=optional(integer, info.get("consumeFailedMsgs")),
    )


def _number_in(properties: dict[str, Any], name: str) -> int | None:
    digits = str(properties.get(name, ""))
    return integer(int(digits)) if digits.isdecimal() else None
