"""The unconsumed messages of each group on each queue of a snapshot, and samples of them. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from tidemark.rocketmq import names
from tidemark.rocketmq.admin import deep_requests
from tidemark.rocketmq.deep.master_reader import MasterReader, chosen
from tidemark.rocketmq.records import ConsumerOffset, QueueOffset, QueueTag, Snapshot


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

AT_ONCE = 8
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
            self._runs({it: ranges[it] for it in queues}, size), self._read_run, AT_ONCE
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
