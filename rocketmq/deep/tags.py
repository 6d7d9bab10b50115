"""Samples of tag codes (321); they give the share of a lag that a filter selects."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from rocketmq.admin import deep_requests
from rocketmq.deep.choice import chosen
from rocketmq.deep.master_reader import MasterReader
from rocketmq.deep.unconsumed import Unconsumed, stratified
from rocketmq.records import QueueTag, Snapshot

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


@dataclass(slots=True)
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
        each = max(1, -(-size // RUN))
        queues = chosen(queues, max(self.limit // each, 0), self.turn, key=tuple)
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
                        self.broker,
                        run.topic,
                        run.queue_id,
                        position,
                        entry.tags_code,
                        entry.physical_offset,
                        entry.size,
                    )
                )
