"""Samples of tag codes (321), from which the share of a filtered lag is estimated."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from rocketmq import admin
from rocketmq.deep.master_reader import MasterReader
from rocketmq.deep.unread import Unread, stratified
from rocketmq.pacing import paced
from rocketmq.rows import QueueTag, Snapshot

RUN = 16
"""Neighbouring entries one request takes."""

AT_ONCE = 8
"""Requests under way at one broker; each reads a consume queue, which may be cold."""


class Run(NamedTuple):
    """Neighbouring positions of one queue."""

    topic: str
    queue_id: int
    positions: range


def filtered_ranges(
    snapshot: Snapshot, unread: Iterable[Unread], broker: str
) -> dict[tuple[str, int], range]:
    """By (topic, queue) of a broker, what the group furthest behind has not read there.

    Only groups that are online and select by tags count. Of several on one queue, the widest range
    holds the others': a sample of its own for each would thicken the newest part, and so bend the
    share of the group that is furthest behind.
    """
    filtered = {
        (client.consumer_group, subscription.topic)
        for client in snapshot.clients
        for subscription in client.subscriptions
        if subscription.tags and subscription.expression_type in (None, "TAG")
    }
    widest: dict[tuple[str, int], range] = {}
    for it in unread:
        if it.row.broker != broker or (it.row.consumer_group, it.row.topic) not in filtered:
            continue
        key = it.row.topic, it.row.queue_id
        if len(it.offsets) > len(widest.get(key, ())):
            widest[key] = it.offsets
    return widest


@dataclass(slots=True)
class TagReader(MasterReader):
    """Asks for samples.

    Attributes:
        rows: what was found, filled by `read`.
    """

    rows: list[QueueTag] = field(default_factory=list)

    async def read(self, ranges: dict[tuple[str, int], range], size: int) -> None:
        """Sample every range by ``size`` positions at most.

        Queues beyond the limit get no sample, none gets part of one.
        """
        await paced(self._runs(ranges, size), self._ask, AT_ONCE)

    def _runs(self, ranges: dict[tuple[str, int], range], size: int) -> Iterator[Run]:
        random = Random()
        for (topic, queue_id), offsets in sorted(ranges.items()):
            runs = stratified(offsets, size, RUN, random)
            self.limit -= len(runs)
            if self.limit < 0:
                return
            yield from (Run(topic, queue_id, positions) for positions in runs)

    async def _ask(self, run: Run) -> None:
        with self.problems:
            entries = await admin.queue_entries(
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
