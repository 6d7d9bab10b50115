"""Store times of first unconsumed messages, requested from the brokers of a snapshot (303).

One request covers all queues of a group and topic on a broker. The broker reports the age of the
message by its own clock, so a difference between clocks does not count. Requests, requests in
flight and time are bounded. Groups with the largest lag come first.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple, NewType

from tidemark.model.consumption import DelaySource
from tidemark.rocketmq import names
from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.admin.deep_requests import TimeSpan
from tidemark.rocketmq.deep.store_times import Pair, Unconsumed, unconsumed
from tidemark.rocketmq.names import OffsetKey
from tidemark.rocketmq.records import ConsumerOffset, Snapshot
from tidemark.rocketmq.snapshot.broker_reading import NEVER_CONSUMES, timed_spans
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.wire.client import RemotingClient

MILLISECOND = timedelta(milliseconds=1)
MICROSECOND = timedelta(microseconds=1)

ByOurClock = NewType("ByOurClock", Snapshot)
"""A snapshot whose store times are by our clock: delays of any other are wrong by the skew."""


def remove_skew(snapshot: Snapshot) -> ByOurClock:
    """Set the store times of a snapshot back to our clock, in place, and return it.

    A clock that was not measured counts as ours. The snapshot does not keep the raw instants.
    """
    skews = {
        row.broker: timedelta(milliseconds=row.clock_skew_ms)
        for row in snapshot.brokers
        if row.clock_skew_ms
    }
    for queue in snapshot.queue_offsets:
        if queue.newest_stored_at and queue.broker in skews:
            queue.newest_stored_at = _by_our_clock(queue.newest_stored_at, skews[queue.broker])
    for row in snapshot.consumer_offsets:
        if row.first_unconsumed_at and row.broker in skews:
            row.first_unconsumed_at = _by_our_clock(row.first_unconsumed_at, skews[row.broker])
    return ByOurClock(snapshot)


def _by_our_clock(instant: datetime, skew: timedelta) -> datetime | None:
    """Return an instant without a skew; None where no calendar has it."""
    try:
        return instant - skew
    except OverflowError:
        return None


def clock_errors(snapshot: Snapshot) -> dict[str, int]:
    """Return by broker the milliseconds that its measured skew may be off."""
    return {
        row.broker: row.clock_error_ms for row in snapshot.brokers if row.clock_error_ms is not None
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQueue:
    """One queue of one consumer group, where its progress is stored."""

    broker: str
    consumer_group: str
    topic: str
    queue_id: int
    offset_store: str
    client_id: str | None


@dataclass(frozen=True, slots=True)
class StoreTime:
    """The store time of a message.

    Attributes:
        at: the instant by our clock; the latest possible one where the source is ``at_least``.
        source: ``exact``, ``interpolated`` or ``at_least``, as in ``progress.queues``.
        error_ms: milliseconds that ``at`` may be off; None for ``at_least``.
    """

    at: datetime
    source: str
    error_ms: int | None


@dataclass(slots=True, kw_only=True)
class StoreTimes:
    """Store times of first unconsumed messages, which the snapshot itself does not contain.

    Attributes:
        known: by queue of a group, the store time of its first readable unconsumed message.
        advanced: by queue of a group, the consumer offset that it committed while store times were
            read, at most the end of the queue. A store time above belongs to this offset.
        clock_ahead: by broker, how far its clock is ahead of ours, where it was measured.
        problems: why store times are missing, one line each.
    """

    known: dict[GroupQueue, StoreTime] = field(default_factory=dict)
    advanced: dict[GroupQueue, int] = field(default_factory=dict)
    clock_ahead: dict[str, timedelta] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Observation(NamedTuple):
    """The end of one queue in one snapshot."""

    max_offset: int
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class Step:
    """The step from the last observation without a message to the first one with it.

    Attributes:
        before: the earlier observation; None where the history begins with the later one.
        after: the later observation.
        newest_stored_at: store time of message ``after.max_offset - 1``, where it is known.
    """

    before: Observation | None
    after: Observation
    newest_stored_at: datetime | None

    def store_time(self, offset: int) -> StoreTime:
        """Return when the message at an offset of this step was stored.

        The formula of the contract: ``m0, t0`` before, ``m1, t1`` after, ``s1`` the store time of
        message ``m1 - 1``. A message before the first observation has a latest instant only.
        """
        m1, t1 = self.after
        m0, t0 = self.before or (0, None)
        if m1 < m0:
            m0 = 0
        if offset < m0:
            t0 = None
        newest = self.newest_stored_at
        is_known = newest is not None and (t0 is None or newest >= t0)
        s1 = min(newest, t1) if newest is not None and is_known else t1
        if is_known and offset == m1 - 1:
            return StoreTime(s1, DelaySource.EXACT, 0)
        if t0 is None:
            return StoreTime(s1, DelaySource.AT_LEAST, None)
        share = (offset - m0 + 1) / (m1 - m0)
        at = t0 + int((s1 - t0) / MICROSECOND * share) * MICROSECOND
        return StoreTime(at, DelaySource.INTERPOLATED, (s1 - t0) // MILLISECOND)


def group_queue(row: ConsumerOffset) -> GroupQueue:
    """Return the key of a row of progress."""
    return GroupQueue(
        broker=row.broker,
        consumer_group=row.consumer_group,
        topic=row.topic,
        queue_id=row.queue_id,
        offset_store=row.offset_store,
        client_id=row.client_id,
    )


def undated(snapshot: Snapshot) -> Iterator[Unconsumed]:
    """Yield the queues of groups whose first unconsumed message the snapshot does not date.

    Queues without a committed offset have no delay. The last message of a queue has its store time
    in the snapshot.
    """
    for item in unconsumed(snapshot):
        row, queue = item.row, item.queue
        is_users = not names.is_system_group(row.consumer_group) and (
            names.topic_kind(row.topic) is not names.TopicKind.SYSTEM
        )
        is_dated = row.first_unconsumed_at or (queue.newest_stored_at and len(item.offsets) == 1)
        if is_users and row.consumer_offset is not None and not is_dated:
            yield item


Ages = dict[GroupQueue, StoreTime]
Offsets = Mapping[OffsetKey, Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the cost of requests for store times.

    Attributes:
        requests: requests to one broker at most, one per group and topic.
        in_flight: requests under way at one broker; each reads several messages of every queue.
        seconds: time after which no further request is sent.
        last_seconds: time that responses under way have after that.
    """

    requests: int = 2_000
    in_flight: int = 4
    seconds: float = 1.2
    last_seconds: float = 0.5


LIMITS = Limits()


def requested(
    target: ClusterTarget, snapshot: Snapshot, wanted: Sequence[Unconsumed], limits: Limits = LIMITS
) -> StoreTimes:
    """Request the store times of first unconsumed messages from their brokers.

    Args:
        target: the cluster, with its account and its own limits.
        snapshot: its snapshot of a moment ago.
        wanted: the queues of groups to date.
        limits: limits of the cost.

    Returns:
        The store times that brokers reported; queues that could not be requested are missing.
    """
    return asyncio.run(_requested(target, snapshot, wanted, limits))


def requests_needed(wanted: Sequence[Unconsumed]) -> int:
    """Return the number of requests that the broker with the most would get."""
    pairs = {(item.row.broker, _pair(item)) for item in wanted}
    return max(Counter(broker for broker, _ in pairs).values(), default=0)


async def _requested(
    target: ClusterTarget, snapshot: Snapshot, wanted: Sequence[Unconsumed], limits: Limits
) -> StoreTimes:
    masters = {row.broker: row.address for row in snapshot.brokers if row.broker_id == 0}
    by_broker: dict[str, list[Unconsumed]] = defaultdict(list)
    lags: dict[Pair, int] = defaultdict(int)
    for item in wanted:
        # 303 uses only progress that brokers store for groups in clustering mode.
        if item.row.offset_store == "broker" and item.row.broker in masters:
            by_broker[item.row.broker].append(item)
            lags[_pair(item)] += len(item.offsets)
    store_times, problems = StoreTimes(), Problems()
    stop = asyncio.get_running_loop().time() + limits.seconds
    patient = replace(
        target,
        request_timeout=min(target.request_timeout, limits.seconds),
        in_flight=min(target.in_flight, limits.in_flight),
    )
    async with patient.client(limits.seconds + limits.last_seconds) as client:
        known = {row.broker for row in snapshot.brokers if row.clock_skew_ms is not None}
        readers = [
            _BrokerReader(
                client=client,
                problems=problems,
                address=masters[broker],
                observed_at=snapshot.observed_at,
                times=store_times,
                wanted=items,
                clock_is_known=broker in known,
            )
            for broker, items in by_broker.items()
        ]
        await asyncio.gather(*(reader.read(lags, limits, stop) for reader in readers))
    store_times.problems = [problem.line for problem in problems.rows()]
    left_out = sum(reader.left_out for reader in readers)
    if left_out:
        store_times.problems.append(
            f"{left_out} groups of queues were beyond the limits of one live snapshot"
        )
    return store_times


@dataclass(slots=True, kw_only=True)
class _BrokerReader:
    """Dates the first unconsumed messages of one master.

    A response is about the offset that the broker holds at that moment. Offsets are read again
    after the responses. Where one advanced, a second response brackets the message at it: it was
    stored between the messages of the two responses.
    """

    client: RemotingClient
    problems: Problems
    address: str
    observed_at: datetime
    times: StoreTimes
    wanted: list[Unconsumed]
    clock_is_known: bool = False
    left_out: int = 0
    _by_pair: dict[Pair, list[Unconsumed]] = field(default_factory=dict)

    async def read(self, lags: dict[Pair, int], limits: Limits, stop: float) -> None:
        """Send the requests, those of groups with the largest lag first."""
        for item in self.wanted:
            self._by_pair.setdefault(_pair(item), []).append(item)
        pairs = sorted(self._by_pair, key=lambda pair: (-lags[pair], pair))
        self.left_out = max(0, len(pairs) - limits.requests)
        pairs = pairs[: limits.requests]
        clock = asyncio.get_running_loop().time
        first: Ages = {}
        second: Ages = {}

        async def request(pair: Pair) -> None:
            if clock() < stop:
                await self._date(pair, first)
            else:
                self.left_out += 1

        async def request_again(pair: Pair) -> None:
            if clock() < stop:
                await self._date(pair, second)

        if not self.clock_is_known:
            await self._measure_clock(pairs[0].topic)
        await self.client.paced(pairs, request, limits.in_flight)
        offsets = await self._offsets()
        moved = {_pair(item) for item in self.wanted if self._advanced_to(item, offsets)}
        again = [pair for pair in pairs if pair in moved][: limits.requests - len(pairs)]
        await self.client.paced(again, request_again, limits.in_flight)
        for item in self.wanted:
            self._conclude(item, offsets, first, second)

    async def _measure_clock(self, topic: str) -> None:
        """Measure the broker's clock: it reports its now for a group that never consumed."""
        with self.problems:
            spans, at, _ = await timed_spans(self.client, self.address, NEVER_CONSUMES, topic)
            now = next((span.broker_now for span in spans.values() if span.broker_now), None)
            if now:
                self.times.clock_ahead[self.wanted[0].row.broker] = now - at

    async def _date(self, pair: Pair, ages: Ages) -> None:
        with self.problems:
            spans, at, uncertain = await timed_spans(self.client, self.address, *pair)
            for item in self._by_pair[pair]:
                span = spans.get(item.row.queue_id)
                age = None if span is None else _age(item, span)
                if age is not None:
                    error_ms = -(-uncertain // MILLISECOND)
                    ages[group_queue(item.row)] = StoreTime(at - age, DelaySource.EXACT, error_ms)

    async def _offsets(self) -> Offsets | None:
        with self.problems:
            return (await admin.consumer_offsets(self.client, self.address)).offsets
        return None

    def _advanced_to(self, item: Unconsumed, offsets: Offsets | None) -> int | None:
        """Return the newer offset of a queue, None where it is the snapshot's or unknown."""
        if offsets is None:
            return None
        row = item.row
        now = offsets.get(OffsetKey(row.topic, row.consumer_group), {}).get(row.queue_id)
        return now if now is not None and now > (row.consumer_offset or 0) else None

    def _conclude(
        self, item: Unconsumed, offsets: Offsets | None, first: Ages, second: Ages
    ) -> None:
        """Keep the store time of one queue of a group."""
        key, row = group_queue(item.row), item.row
        earliest, latest = first.get(key), second.get(key)
        now = self._advanced_to(item, offsets)
        if now is not None and (earliest or latest or now >= item.offsets.stop):
            self.times.advanced[key] = min(now, item.offsets.stop)
            if now >= item.offsets.stop:
                return
            self.times.known[key] = _between(earliest, latest, self.observed_at)
        elif earliest and offsets is None:
            self.times.known[key] = StoreTime(earliest.at, DelaySource.AT_LEAST, None)
        elif earliest:
            pair = OffsetKey(row.topic, row.consumer_group)
            # A group that was rewound meanwhile is left as the snapshot saw it.
            if (offsets or {}).get(pair, {}).get(row.queue_id) == row.consumer_offset:
                self.times.known[key] = earliest


def _between(
    earliest: StoreTime | None, latest: StoreTime | None, observed_at: datetime
) -> StoreTime:
    """Return the store time of a message between those of two responses, in order of offsets."""
    end = latest.at if latest else observed_at
    if earliest is None:
        return StoreTime(end, DelaySource.AT_LEAST, None)
    half = max(timedelta(0), end - earliest.at) / 2
    uncertain = max(time.error_ms or 0 for time in (earliest, latest) if time)
    error_ms = -(-half // MILLISECOND) + uncertain
    return StoreTime(earliest.at + half, DelaySource.INTERPOLATED, error_ms)


def _pair(item: Unconsumed) -> Pair:
    return Pair(item.row.consumer_group, item.row.topic)


def _age(item: Unconsumed, span: TimeSpan) -> timedelta | None:
    """Return the age of the first readable message by the broker's clock, None where unknown."""
    if span.delay_ms:
        return timedelta(milliseconds=span.delay_ms)
    is_expired = item.row.consumer_offset != item.offsets.start
    if is_expired and span.broker_now and span.oldest_stored_at:
        return span.broker_now - span.oldest_stored_at
    return None
