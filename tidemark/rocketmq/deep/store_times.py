"""Reading of the unconsumed messages of groups at one master: their store times and their tags.

Both readers send many small requests to a master, within a limit (`MasterReader`). The tags come
from samples of consume queues. The store time of the first unconsumed message (303) is read for
pairs of group and topic that lag. The broker reports the age of that message by its own clock. A
request about a group that never consumed gives that clock (`AdminBrokerProcessor` subtracts the
store time -1 from its now). An age belongs to the progress that the broker saw. It counts where the
consumer offset equals that of the snapshot before and after the request.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple, TypeVar

from tidemark.rocketmq import names
from tidemark.rocketmq.admin import deep_requests
from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.admin.deep_requests import TimeSpan
from tidemark.rocketmq.names import OffsetKey
from tidemark.rocketmq.records import ConsumerOffset, QueueOffset, QueueTag, Snapshot
from tidemark.rocketmq.snapshot.broker_reading import NEVER_CONSUMES, timed_spans
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.typed_values import whole_milliseconds
from tidemark.rocketmq.wire.client import RemotingClient

T = TypeVar("T")

ROTATING = 4
"""One of so many requests within a limit goes to the other items, in turn."""


def chosen(ranked: Sequence[T], limit: int, turn: int, key: Callable[[T], Any]) -> list[T]:
    """Return the items to request: most of the limit by need, the rest in turn.

    Over consecutive snapshots each item has its turn, also where the ranking never changes.

    Args:
        ranked: the items, the most needed first.
        limit: most items.
        turn: number of the deep snapshot.
        key: a stable order of items, by which turns go.
    """
    if len(ranked) <= limit:
        return list(ranked)
    if limit <= 0:
        return []
    in_turn = -(-limit // ROTATING)
    most_needed = limit - in_turn
    others = sorted(ranked[most_needed:], key=key)
    start = turn * in_turn % len(others)
    return [*ranked[:most_needed], *[*others, *others][start : start + in_turn]]


@dataclass(slots=True, kw_only=True)
class MasterReader:
    """Sends requests to one master; failures go to the problems.

    Attributes:
        broker: name of its broker group.
        address: ``host:port``.
        limit: requests at most.
        turn: number of the deep snapshot, see `chosen`.
        left_out: items that the limit left out, counted by `read`.
    """

    client: RemotingClient
    problems: Problems
    broker: str
    address: str
    limit: int
    turn: int = 0
    left_out: int = 0


@dataclass(slots=True, frozen=True)
class Unconsumed:
    """The messages of one queue that one group can still read and has not consumed.

    Attributes:
        row: the group's progress on the queue.
        queue: how far the queue is written.
        offsets: from the first such message to the last.
    """

    row: ConsumerOffset
    queue: QueueOffset
    offsets: range


def unconsumed(snapshot: Snapshot) -> Iterator[Unconsumed]:
    """Yield the unconsumed messages of a snapshot; without a commit, the whole retained range.

    Queues without unconsumed messages, and queues with unknown offsets, are left out. So are lite
    topics, because no further request about them is sent (`tidemark.rocketmq.admin.pop`).
    """
    queues = {
        (queue.broker, queue.topic, queue.queue_id): queue for queue in snapshot.queue_offsets
    }
    for row in snapshot.consumer_offsets:
        queue = queues.get((row.broker, row.topic, row.queue_id))
        if names.is_lite_topic(row.topic):
            continue
        if queue is None or queue.min_offset is None or queue.max_offset is None:
            continue
        first = max(queue.min_offset, row.consumer_offset or 0)
        if first < queue.max_offset:
            yield Unconsumed(row, queue, range(first, queue.max_offset))


def lags_by_pair(behind: Iterable[Unconsumed]) -> dict[str, dict[tuple[str, str], int]]:
    """Return the unconsumed messages of each (topic, consumer group), by broker."""
    lags: dict[str, dict[tuple[str, str], int]] = {}
    for it in behind:
        of_broker = lags.setdefault(it.row.broker, {})
        pair = it.row.topic, it.row.consumer_group
        of_broker[pair] = of_broker.get(pair, 0) + len(it.offsets)
    return lags


def stratified(offsets: range, size: int, run: int, random: Random) -> list[range]:
    """Return a sample of a whole range: one run from each of its equal strata.

    A run starts anywhere in its stratum: producers write tags in turn, and equal steps could meet
    the same tag every time.

    Args:
        offsets: the range to sample, in steps of 1.
        size: offsets to sample; all where the range has no more.
        run: neighbouring offsets that one request reads.
        random: where in its stratum a run starts.

    Returns:
        Runs in order, without overlap, together at most ``size`` offsets.
    """
    run = min(run, size)
    if len(offsets) <= size or run <= 0:
        return [offsets[at : at + size] for at in range(0, len(offsets), size)] if size > 0 else []
    strata = size // run
    runs = []
    for number in range(strata):
        stratum = offsets[len(offsets) * number // strata : len(offsets) * (number + 1) // strata]
        start = random.randrange(len(stratum) - run + 1)
        runs.append(stratum[start : start + run])
    return runs


RUN = 16
"""Neighbouring entries that one request reads."""

RUNS_AT_ONCE = 8
"""Requests under way at one broker; each reads a consume queue, which may be cold."""


class Run(NamedTuple):
    """Neighbouring positions of one queue."""

    topic: str
    queue_id: int
    positions: range


def filtered_ranges(
    snapshot: Snapshot, unconsumed: Iterable[Unconsumed], broker: str
) -> dict[tuple[str, int], range]:
    """Return by (topic, queue) of a broker the unconsumed range of the group furthest behind.

    Only groups that are online and filter by tags count. The widest range of several groups on one
    queue contains the others. A sample of its own for each would weigh the newest messages too
    heavily, and so distort the share of the group that is furthest behind.
    """
    filtered = {
        (client.consumer_group, subscription.topic)
        for client in snapshot.clients
        for subscription in client.subscriptions
        if subscription.tags and subscription.expression_type in (None, "TAG")
    }
    widest: dict[tuple[str, int], range] = {}
    for it in unconsumed:
        if it.row.broker != broker or (it.row.consumer_group, it.row.topic) not in filtered:
            continue
        key = it.row.topic, it.row.queue_id
        if len(it.offsets) > len(widest.get(key, ())):
            widest[key] = it.offsets
    return widest


@dataclass(slots=True, kw_only=True)
class TagReader(MasterReader):
    """Reads samples of consume-queue entries from one master.

    Attributes:
        rows: the sampled entries, filled by `read`.
    """

    rows: list[QueueTag] = field(default_factory=list)

    async def read(self, ranges: dict[tuple[str, int], range], size: int) -> None:
        """Sample every range by ``size`` positions at most.

        Queues beyond the limit get no sample at all, never a part of one. The widest ranges come
        first.
        """
        queues = sorted(ranges, key=lambda queue: (-len(ranges[queue]), queue))
        number = max(1, -(-size // RUN))
        queues = chosen(queues, max(self.limit // number, 0), self.turn, key=tuple)
        self.left_out = len(ranges) - len(queues)
        await self.client.paced(
            self._runs({it: ranges[it] for it in queues}, size), self._read_run, RUNS_AT_ONCE
        )

    def _runs(self, ranges: dict[tuple[str, int], range], size: int) -> Iterator[Run]:
        random = Random()
        for (topic, queue_id), offsets in sorted(ranges.items()):
            for positions in stratified(offsets, size, RUN, random):
                yield Run(topic, queue_id, positions)

    async def _read_run(self, run: Run) -> None:
        with self.problems:
            entries = await deep_requests.queue_entries(
                self.client,
                self.address,
                run.topic,
                run.queue_id,
                run.positions.start,
                len(run.positions),
            )
            for position, entry in zip(run.positions, entries, strict=False):
                self.rows.append(
                    QueueTag(
                        broker=self.broker,
                        topic=run.topic,
                        queue_id=run.queue_id,
                        position=position,
                        tags_code=entry.tags_code,
                        physical_offset=entry.physical_offset,
                        size=entry.size,
                    )
                )


PAIRS_AT_ONCE = 2
"""Requests under way at one broker: each reads several old messages of every queue."""


class Pair(NamedTuple):
    """A group on a topic."""

    consumer_group: str
    topic: str


@dataclass(slots=True, kw_only=True)
class StoreTimeReader(MasterReader):
    """Fills ``first_unconsumed_at``; groups that are online come first, then the largest lag."""

    _found: dict[tuple[Pair, int], tuple[TimeSpan, datetime]] = field(default_factory=dict)
    _ahead: timedelta | None = None

    def set_clock(self, skew_ms: int | None) -> None:
        """Use the skew of the snapshot, because store times are corrected by that skew later."""
        self._ahead = None if skew_ms is None else timedelta(milliseconds=skew_ms)

    async def read(self, unconsumed: Iterable[Unconsumed], online: Container[str]) -> None:
        """Read store times and fill the rows of queues with unconsumed messages on this master."""
        waiting = [it for it in unconsumed if it.row.broker == self.broker and _is_readable(it)]
        lags: dict[Pair, int] = {}
        for it in waiting:
            lags[_pair(it)] = lags.get(_pair(it), 0) + len(it.offsets)
        pairs = sorted(lags, key=lambda it: (it.consumer_group not in online, -lags[it], it))
        self.left_out = max(0, len(pairs) - self.limit)
        pairs = chosen(pairs, self.limit, self.turn, key=tuple)
        if not pairs:
            return
        if self._ahead is None:
            await self._read_clock(pairs[0].topic)
        if self._ahead is None:
            return
        await self.client.paced(pairs, self._read_pair, PAIRS_AT_ONCE)
        with self.problems:
            progress = (await admin.consumer_offsets(self.client, self.address)).offsets
            for it in waiting:
                committed = progress.get(OffsetKey(it.row.topic, it.row.consumer_group), {})
                entry = self._found.get((_pair(it), it.row.queue_id))
                if entry and committed.get(it.row.queue_id) == it.row.consumer_offset:
                    it.row.first_unconsumed_at = _stored_at(it, *entry)

    async def _read_clock(self, topic: str) -> None:
        with self.problems:
            spans, at, _ = await timed_spans(self.client, self.address, NEVER_CONSUMES, topic)
            clocks = (span.broker_now for span in spans.values() if span.broker_now)
            self._ahead = next((clock - at for clock in clocks), None)

    async def _read_pair(self, pair: Pair) -> None:
        with self.problems:
            spans, at, _ = await timed_spans(self.client, self.address, *pair)
            for queue_id, span in spans.items():
                if span.delay_ms and self._ahead is not None:
                    stored = at + self._ahead - timedelta(milliseconds=span.delay_ms)
                    self._found[pair, queue_id] = span, stored


def _is_readable(it: Unconsumed) -> bool:
    """Return whether 303 covers the row: not broadcast, its next message still retained."""
    committed = it.row.consumer_offset
    return it.row.offset_store == "broker" and committed == it.offsets.start


def _pair(it: Unconsumed) -> Pair:
    return Pair(it.row.consumer_group, it.row.topic)


def _stored_at(it: Unconsumed, span: TimeSpan, stored: datetime) -> datetime:
    """Return the store time in whole milliseconds: exact for the oldest message of a queue.

    For other messages it comes from the age, limited by its neighbours, and is off by up to half of
    the response time.
    """
    if it.offsets.start == it.queue.min_offset and span.oldest_stored_at:
        return span.oldest_stored_at
    if span.last_consumed_at:
        stored = max(stored, span.last_consumed_at)
    if span.newest_stored_at:
        stored = min(stored, span.newest_stored_at)
    return whole_milliseconds(stored)
