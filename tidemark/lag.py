"""Lag of every group from one snapshot in plain Python, for an answer in a fraction of a second.

The definitions are those of ``spark.progress`` and ``spark.groups``; a test holds both to the same
numbers. One look has no history, so there are no rates here, and a delay is what the snapshot
itself tells: exact of the newest message and of those asked for, else a lower bound. Nor does it
tell what a silent broker had: no group is complete then, and of how many queues is not known.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Self

from rocketmq import names
from rocketmq.rows import Client, ConsumerOffset, QueueOffset, Snapshot

SUMS = ("lag", "inflight", "available", "lost", "readable_lag", "lag_upper")
LARGEST = ("delay_ms", "lag_span_ms", "inflight_span_ms", "available_span_ms")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)

Pair = tuple[str, str]


def group_rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    """One row per group and topic, named as in ``progress.groups``, largest lag first."""
    written = {(row.broker, row.topic, row.queue_id): row for row in snapshot.queue_offsets}
    members = _members(snapshot.clients)
    broadcasting = {
        client.consumer_group
        for client in snapshot.clients
        if client.message_model == "BROADCASTING"
    }
    known: dict[Pair, list[dict[str, Any]]] = defaultdict(list)
    unknown: dict[Pair, set[tuple[str, int]]] = defaultdict(set)
    for row in snapshot.consumer_offsets:
        if row.consumer_group in broadcasting and row.offset_store == "broker":
            continue
        pair = (row.consumer_group, row.topic)
        queue = written.get((row.broker, row.topic, row.queue_id))
        if queue is not None and _measured(row, queue):
            known[pair].append(_queue(row, queue, snapshot.observed_at))
        else:
            unknown[pair].add((row.broker, row.queue_id))
    for group, topic in members:
        if group in broadcasting and not topic.startswith(names.RETRY_PREFIX):
            unknown[group, topic] |= {(b, q) for b, t, q in written if t == topic}
    pairs = [pair for pair in known.keys() | unknown.keys() | members.keys() if _of_users(*pair)]
    gaps = _Gaps.of(snapshot)
    rows = [_group(pair, known[pair], unknown[pair], members, snapshot, gaps) for pair in pairs]
    return sorted(rows, key=lambda row: (-(row["lag"] or 0), row["consumer_group"], row["topic"]))


def _members(clients: Iterable[Client]) -> dict[Pair, list[Client]]:
    members: dict[Pair, list[Client]] = defaultdict(list)
    for client in clients:
        for subscription in client.subscriptions:
            members[client.consumer_group, subscription.topic].append(client)
    return members


@dataclass(frozen=True)
class _Gaps:
    """What a look could not find out.

    Attributes:
        silent: whether a broker told nothing of consumers because something went wrong there.
        unheard: groups of which some broker did not tell who is online.
    """

    silent: bool
    unheard: frozenset[str]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        failed = {problem.endpoint for problem in snapshot.problems}
        asked = {row.broker for row in snapshot.brokers if row.address in failed}
        silent = asked - {row.broker for row in snapshot.consumer_offsets}
        unheard = (
            problem.operation.removeprefix(names.CONNECTIONS).split(" ")
            for problem in snapshot.problems
            if problem.operation.startswith(names.CONNECTIONS)
        )
        return cls(bool(silent), frozenset(chain.from_iterable(unheard)))


def _of_users(group: str, topic: str) -> bool:
    return not (names.is_system_group(group) or names.topic_kind(topic) is names.TopicKind.SYSTEM)


def _measured(row: ConsumerOffset, queue: QueueOffset) -> bool:
    """Whether these can be measurements: the quarantine's rules on one queue."""
    if queue.min_offset is None or queue.max_offset is None:
        return False
    offsets = (queue.min_offset, row.consumer_offset or 0, row.pull_offset or 0)
    return min(offsets) >= 0 and queue.min_offset <= queue.max_offset


def _queue(row: ConsumerOffset, queue: QueueOffset, now: datetime) -> dict[str, Any]:
    """What one queue's offsets say; see the contract of ``progress.queues``."""
    maximum, minimum = queue.max_offset or 0, queue.min_offset or 0
    committed, pulled = row.consumer_offset, row.pull_offset
    lag = lost = readable = None
    upper = maximum - minimum
    if committed is not None:
        lag, lost = maximum - committed, max(0, minimum - committed)
        upper = readable = max(0, lag - lost)
    newest = min(queue.newest_stored_at, now) if queue.newest_stored_at else None
    first_at = pull_at = None
    source = "exact"
    if readable and lost == 0 and row.first_unconsumed_at:
        first_at = min(row.first_unconsumed_at, now)
        pull_at = first_at if pulled == committed else None
    elif readable:
        first_at, source = _stored(max(committed or 0, minimum), queue, now)
    if pulled is not None and pulled < maximum and pull_at is None:
        pull_at, _ = _stored(pulled, queue, now)
    inflight = None if pulled is None or committed is None else pulled - committed
    available = None if pulled is None else maximum - pulled
    nothing_left = readable == 0 and lag is not None and lag >= 0
    handed_out = newest if available == 0 else pull_at
    return {
        "broker": row.broker,
        "queue_id": row.queue_id,
        "lag": lag,
        "inflight": inflight,
        "available": available,
        "lost": lost,
        "readable_lag": readable,
        "lag_upper": upper,
        "delay_ms": 0 if nothing_left else _milliseconds(first_at, now) or None,
        "delay_source": source,
        "lag_span_ms": _span(lag, first_at, newest),
        "inflight_span_ms": _span(inflight, first_at, handed_out),
        "available_span_ms": _span(available, pull_at, newest),
        "never_committed": committed is None,
    }


def _stored(offset: int, queue: QueueOffset, now: datetime) -> tuple[datetime | None, str]:
    """When a message was stored at the latest, and whether exactly then, without any history.

    That a message is at least 0 ms old says nothing.
    """
    newest = min(queue.newest_stored_at or now, now)
    if queue.newest_stored_at and offset == (queue.max_offset or 0) - 1:
        return newest, "exact"
    return (newest if _milliseconds(newest, now) else None), "at_least"


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


def _group(
    pair: Pair,
    known: list[dict[str, Any]],
    unknown: set[tuple[str, int]],
    members: dict[Pair, list[Client]],
    snapshot: Snapshot,
    gaps: _Gaps,
) -> dict[str, Any]:
    group, topic = pair
    hidden = unknown - {(row["broker"], row["queue_id"]) for row in known}
    sums = {name: _sum(row[name] for row in known) for name in SUMS}
    largest = {name: max(_known(row[name] for row in known), default=None) for name in LARGEST}
    lagging = [row for row in known if row["lag"] is not None]
    worst = min(
        lagging,
        key=lambda row: (-max(0, row["lag"]), row["broker"], row["queue_id"]),
        default=None,
    )
    mean = (sums["lag"] or 0) / len(lagging) if lagging else 0
    online = [client for client in snapshot.clients if client.consumer_group == group]
    not_asked = gaps.silent or group in gaps.unheard
    is_online = True if online else None if not_asked else False
    most = max(0, worst["lag"]) if worst else None
    return {
        "cluster": snapshot.cluster,
        "consumer_group": group,
        "topic": topic,
        **sums,
        "queues": None if gaps.silent else len(known) + len(hidden),
        "queues_unknown": None if gaps.silent else len(hidden),
        "queues_never_committed": sum(row["never_committed"] for row in known),
        "complete": not hidden and not gaps.silent,
        "max_queue_lag": most,
        "worst_broker": worst["broker"] if worst else None,
        "worst_queue_id": worst["queue_id"] if worst else None,
        **largest,
        "delay_is_lower_bound": any(
            row["readable_lag"] and (row["delay_ms"] is None or row["delay_source"] == "at_least")
            for row in known
        ),
        "skew": most / mean if most is not None and mean > 0 else None,
        "clients": None if is_online is None else len(members.get(pair, ())),
        "online": is_online,
        "message_model": min(_known(item.message_model for item in online), default=None),
        "consume_type": min(_known(item.consume_type for item in online), default=None),
        "client_version": min(
            _known(item.version for item in online), key=names.version_order, default=None
        ),
        "observed_at": snapshot.observed_at,
    }


def _known(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum of what is known; a negative count, a broken invariant, counts as 0."""
    found = _known(values)
    return sum(max(0, value) for value in found) if found else None
