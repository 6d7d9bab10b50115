"""Lag and delay of every group from one snapshot, in plain Python.

The definitions are those of ``spark.progress.queues`` and ``spark.progress.groups``; a test checks
that both give the same numbers. One snapshot has no rates. Its delays come from store times that
the caller passes; without them the snapshot gives a lower bound. A group is incomplete while a
broker is unreachable, and its number of queues is then unknown.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

from tidemark.live import broker_times
from tidemark.live.broker_times import (
    MILLISECOND,
    ByOurClock,
    StoreTime,
    StoreTimes,
    clock_errors,
    group_queue,
    undated,
)
from tidemark.live.consume_modes import NOTHING_REMEMBERED, Consumed, ConsumeModes
from tidemark.model.consumption import DelaySource
from tidemark.rocketmq import names
from tidemark.rocketmq.consume_modes import Kind
from tidemark.rocketmq.deep.store_times import Unconsumed
from tidemark.rocketmq.records import Client, ConsumerOffset, QueueOffset, Snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.wire.codes import RequestCode

if TYPE_CHECKING:
    from tidemark.lake.catalog_config import CatalogConfig


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


FEW_REQUESTS = 200
"""Requests to one broker that cost it less than reading the history costs us."""

PRECISE = 10
"""A delay from the history is precise when its error is at most this fraction (1/n) of it."""


def store_times(
    catalog: "Callable[[], CatalogConfig] | None", target: ClusterTarget, snapshot: ByOurClock
) -> StoreTimes:
    """Date the first unconsumed messages of all lagging queues, at a bounded cost.

    Brokers date a few messages, which is exact. With many messages, the history dates those that it
    knows precisely: they are old, and a broker reads old messages from disk. The brokers date the
    rest. Messages that they cannot date are dated by the history, however imprecise.

    Args:
        catalog: returns the configuration of the history's catalog; None without a history.
        target: the cluster of the snapshot.
        snapshot: its snapshot of a moment ago.

    Returns:
        Store times; a queue without one keeps the bound that the snapshot gives.
    """
    wanted = list(undated(snapshot))
    if not wanted:
        return StoreTimes()
    history = None
    if broker_times.requests_needed(wanted) > FEW_REQUESTS:
        history = _history(catalog, snapshot, wanted)
        precise = {key for key, time in history.known.items() if _is_precise(time, snapshot)}
        times = broker_times.requested(
            target, snapshot, [it for it in wanted if group_queue(it.row) not in precise]
        )
    else:
        times = broker_times.requested(target, snapshot, wanted)
    missing = [it for it in wanted if group_queue(it.row) not in times.known]
    if missing and history is None:
        history = _history(catalog, snapshot, missing)
    if history:
        times.known = history.known | times.known
        times.problems += history.problems
    return times


def _is_precise(time: StoreTime, snapshot: Snapshot) -> bool:
    if time.source == DelaySource.AT_LEAST or time.error_ms is None:
        return False
    age = snapshot.observed_at - time.at
    return age.total_seconds() * 1000 >= PRECISE * time.error_ms


def _history(
    catalog: "Callable[[], CatalogConfig] | None", snapshot: Snapshot, wanted: Sequence[Unconsumed]
) -> StoreTimes:
    """Read the history, if there is one; a history that cannot be read is a problem."""
    if catalog is None:
        return StoreTimes()
    # Imported here: without a history `tidemark lag` prints before PyIceberg would be imported.
    from tidemark.host.failures import one_line
    from tidemark.live import history_times

    try:
        return history_times.read(catalog(), snapshot, wanted)
    except Exception as error:
        return StoreTimes(problems=[f"progress.timeline: {one_line(error)}"])


SUMS = ("lag", "inflight", "available", "lost", "readable_lag", "lag_upper")
LARGEST = ("delay_ms", "ready_delay_ms", "lag_span_ms", "inflight_span_ms", "available_span_ms")

Pair = tuple[str, str]


def group_rows(
    snapshot: ByOurClock,
    times: StoreTimes | None = None,
    remembered: Mapping[Pair, str] = NOTHING_REMEMBERED,
) -> list[dict[str, Any]]:
    """Compute one row per group and topic, largest lag first.

    Args:
        snapshot: offsets and clients of one cluster.
        times: store times that the snapshot does not hold.
        remembered: how groups consumed, see `tidemark.live.consume_modes.remembered_modes`.

    Returns:
        Rows with the names of ``progress.groups``. ``delay_source`` and ``delay_error_ms`` show how
        ``delay_ms`` is known; an unknown value is None.
    """
    times = times or StoreTimes()
    written = {(row.broker, row.topic, row.queue_id): row for row in snapshot.queue_offsets}
    beyond = _beyond_read_queues(snapshot)
    errors = clock_errors(snapshot)
    members = _members(snapshot.clients)
    broadcasting = {
        client.consumer_group
        for client in snapshot.clients
        if client.message_model == "BROADCASTING"
    }
    known: dict[Pair, list[dict[str, Any]]] = defaultdict(list)
    unknown: dict[Pair, set[tuple[str, int]]] = defaultdict(set)
    modes = ConsumeModes.of(snapshot, remembered)
    for row in snapshot.consumer_offsets:
        if row.consumer_group in broadcasting and row.offset_store == "broker":
            continue
        if (row.broker, row.topic, row.queue_id) in beyond:
            continue
        pair = (row.consumer_group, row.topic)
        row = advanced(row, times)
        queue = written.get((row.broker, row.topic, row.queue_id))
        if queue is not None and is_measurement(row, queue):
            clock_error_ms = errors.get(row.broker, 0)
            consumed, now = modes.consumed(row), snapshot.observed_at
            known[pair].append(queue_row(row, queue, now, times, clock_error_ms, consumed))
            if consumed.kind is Kind.BROADCAST_BROKER:
                unknown[pair].add((row.broker, row.queue_id))  # a position of pulls, not progress
        else:
            unknown[pair].add((row.broker, row.queue_id))
    for group, topic in members:
        if group in broadcasting and not topic.startswith(names.RETRY_PREFIX):
            unknown[group, topic] |= {(b, q) for b, t, q in written.keys() - beyond if t == topic}
    system = {row.topic for row in snapshot.topics if row.kind == names.TopicKind.SYSTEM}
    pairs = [
        (group, topic)
        for group, topic in known.keys() | unknown.keys() | members.keys()
        if _of_users(group, topic) and topic not in system
    ]
    totals = _Groups(
        members=members, online=_clients(snapshot), missing=_Missing.of(snapshot), snapshot=snapshot
    )
    rows = [totals.row(pair, known[pair], unknown[pair]) for pair in pairs]
    return sorted(rows, key=lambda row: (-(row["lag"] or 0), row["consumer_group"], row["topic"]))


def _beyond_read_queues(snapshot: Snapshot) -> set[tuple[str, str, int]]:
    """Return queues that routes hide from consumers, see `spark.progress.unknown_queues`."""
    read_queues = {(row.broker, row.topic): row.read_queues for row in snapshot.topics}
    return {
        (row.broker, row.topic, row.queue_id)
        for row in snapshot.queue_offsets
        if row.max_offset is not None
        and (number := read_queues.get((row.broker, row.topic))) is not None
        and row.queue_id >= number
    }


def _members(clients: Iterable[Client]) -> dict[Pair, list[Client]]:
    members: dict[Pair, list[Client]] = defaultdict(list)
    for client in clients:
        of_lite = names.consumes_lite_topics(client.message_model)
        for subscription in client.subscriptions:
            # Such a member subscribes to the topic, too, whose lite topics it consumes.
            if not of_lite or names.is_lite_topic(subscription.topic):
                members[client.consumer_group, subscription.topic].append(client)
    return members


def _clients(snapshot: Snapshot) -> dict[str, list[Client]]:
    online: dict[str, list[Client]] = defaultdict(list)
    for client in snapshot.clients:
        online[client.consumer_group].append(client)
    return online


@dataclass(frozen=True)
class _Missing:
    """Parts of the cluster that a snapshot could not read.

    Attributes:
        unreachable: whether progress of a broker is missing because a request failed there.
        groups: groups whose online members a broker did not report.
        proxy: whether a proxy that nobody requested may know members that brokers do not report.
    """

    unreachable: bool
    groups: frozenset[str]
    proxy: bool

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        failed = {
            problem.endpoint
            for problem in snapshot.problems
            if problem.operation.startswith(RequestCode.GET_ALL_CONSUMER_OFFSET.name)
        }
        unreachable = {row.broker for row in snapshot.brokers if row.address in failed}
        responded = {row.broker for row in snapshot.brokers if row.version or row.config}
        responded |= {row.broker for row in snapshot.queue_offsets}
        unreachable |= {row.broker for row in snapshot.brokers} - responded
        unreachable -= {row.broker for row in snapshot.consumer_offsets}
        groups = (
            problem.operation.removeprefix(names.CONNECTIONS).split(" ")
            for problem in snapshot.problems
            if problem.operation.startswith(names.CONNECTIONS)
        )
        proxy = snapshot.proxies_answered is None and any(
            row.topic == names.PROXY_TOPIC for row in snapshot.topics
        )
        return cls(bool(unreachable), frozenset(chain.from_iterable(groups)), proxy)


def _of_users(group: str, topic: str) -> bool:
    return not (names.is_system_group(group) or names.topic_kind(topic) is names.TopicKind.SYSTEM)


@dataclass(frozen=True, kw_only=True)
class _Groups:
    """Sums up the queues of groups.

    Attributes:
        members: members by group and subscribed topic.
        online: members by group.
        missing: the parts that the snapshot could not read.
        snapshot: the snapshot.
    """

    members: dict[Pair, list[Client]]
    online: dict[str, list[Client]]
    missing: _Missing
    snapshot: Snapshot

    def row(
        self, pair: Pair, known: list[dict[str, Any]], unknown: set[tuple[str, int]]
    ) -> dict[str, Any]:
        """Compute the row of one group and topic from its queues."""
        group, topic = pair
        unreachable = self.missing.unreachable
        measured = [row for row in known if row["offset_store"] != "broker_broadcast"]
        served = _served(known)
        hidden = unknown - {(row["broker"], row["queue_id"]) for row in measured}
        online = self.online.get(group, [])
        is_unknown = unreachable or group in self.missing.groups or self.missing.proxy
        modes = _known(row["consume_mode"] for row in known)
        bounds = _known(row["lag_is_lower_bound"] for row in known)
        # Offsets that brokers keep for clients, or clients for themselves, are of broadcasting.
        is_shadow = any(row["offset_store"] != "broker" for row in known)
        shadow = "BROADCASTING" if is_shadow else None
        is_online = True if online else None if is_unknown else False
        return {
            "cluster": self.snapshot.cluster,
            "consumer_group": group,
            "topic": topic,
            **{name: _sum(row[name] for row in known) for name in SUMS},
            "queues": None if unreachable else len(measured) + len(hidden),
            "queues_unknown": None if unreachable else len(hidden),
            "queues_never_committed": sum(row["never_committed"] for row in known),
            "complete": not hidden and not unreachable,
            **_worst(known),
            **{name: max(_known(row[name] for row in served), default=None) for name in LARGEST},
            **_delay_quality(served),
            "consume_mode": min(modes, default=None),
            "consume_kind": max((row["consume_kind"] for row in known), default=None),
            "lag_is_lower_bound": max(bounds, default=None),
            "clients": None if is_online is None else len(self.members.get(pair, ())),
            "online": is_online,
            "message_model": min(_known(item.message_model for item in online), default=shadow),
            "consume_type": min(_known(item.consume_type for item in online), default=None),
            "client_version": min(
                _known(item.version for item in online), key=names.version_order, default=None
            ),
            "observed_at": self.snapshot.observed_at,
        }


def _served(known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the queues that are served now: all, without priorities.

    Queues of lower priority wait by design while one above them has messages, see
    `spark.progress.group_sums`.
    """
    waiting = [row["priority_rank"] for row in known if (row["lag"] or 0) > 0]
    first = min(_known(waiting), default=None)
    return [row for row in known if first is None or row["priority_rank"] == first]


def _worst(known: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the largest lag of a queue, where it is, and how far it is above the mean."""
    lagging = [row for row in known if row["lag"] is not None]
    worst = min(
        lagging,
        key=lambda row: (-max(0, row["lag"]), row["broker"], row["queue_id"]),
        default=None,
    )
    most = max(0, worst["lag"]) if worst else None
    mean = sum(max(0, row["lag"]) for row in lagging) / len(lagging) if lagging else 0
    has_priorities = any(row["priority_rank"] is not None for row in known)
    return {
        "max_queue_lag": most,
        "worst_broker": worst["broker"] if worst else None,
        "worst_queue_id": worst["queue_id"] if worst else None,
        "skew": None if has_priorities or most is None or mean <= 0 else most / mean,
    }


def _delay_quality(known: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the quality of the largest delay, and its possible error.

    It is a lower bound as soon as the delay of one lagging queue is unknown or a lower bound, as in
    `spark.progress.group_sums`. The same applies to the delay of messages that wait for a client.
    """
    delays = [row for row in known if row["delay_ms"] is not None]
    largest = max(delays, key=lambda row: row["delay_ms"], default=None)
    is_bound = any(row["delay_is_bound"] for row in known)
    are_ready = any(row["ready_delay_ms"] is not None for row in known)
    is_ready_bound = any(row["ready_delay_is_bound"] for row in known)
    source = error_ms = None
    if largest is not None:
        source = DelaySource.AT_LEAST if is_bound else largest["delay_source"]
    if largest is not None and not is_bound:
        errors = [(row["delay_ms"], row["delay_error_ms"] or 0) for row in delays]
        most = max(delay + error for delay, error in errors) - largest["delay_ms"]
        least = largest["delay_ms"] - max(delay - error for delay, error in errors)
        error_ms = max(most, least)
    return {
        "delay_is_lower_bound": None if largest is None else is_bound,
        "ready_delay_is_lower_bound": None if not are_ready else is_ready_bound,
        "delay_source": source,
        "delay_error_ms": error_ms,
    }


def _known(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _sum(values: Iterable[int | None]) -> int | None:
    """Return the sum of the known values; a negative count, a broken invariant, counts as 0.

    A sum that 64 bits do not hold is unknown.
    """
    known = _known(values)
    total = sum(max(0, value) for value in known) if known else None
    return total if total is None or total < 2**63 else None
