"""A sample of what 208 tells of groups, to hold against what was read in bulk (43 and 202).

Two ways to the same numbers that share no code here and little at the broker: who reads both knows
when one of them is read wrong. Other groups are drawn each time, so in the course of a day all are.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from rocketmq import admin
from rocketmq.deep.master_reader import MasterReader
from rocketmq.names import is_system_group
from rocketmq.pacing import paced
from rocketmq.rows import ConsumeStatsSample, Snapshot

AT_ONCE = 4


def pairs(snapshot: Snapshot, broker: str) -> list[tuple[str, str]]:
    """(consumer group, topic) with progress on a broker; 208 knows no broadcast."""
    return sorted(
        {
            (row.consumer_group, row.topic)
            for row in snapshot.consumer_offsets
            if row.broker == broker
            and row.offset_store == "broker"
            and row.consumer_offset is not None
            and not is_system_group(row.consumer_group)
        }
    )


@dataclass(slots=True)
class ConsumeStatsReader(MasterReader):
    """Asks about a group and topic with each request.

    Attributes:
        rows: what was found, filled by `read`.
    """

    rows: list[ConsumeStatsSample] = field(default_factory=list)

    async def read(self, known: Iterable[tuple[str, str]]) -> None:
        """Ask about some of the (consumer group, topic) pairs."""
        known = list(known)
        await paced(Random().sample(known, min(self.limit, len(known))), self._ask, AT_ONCE)

    async def _ask(self, pair: tuple[str, str]) -> None:
        group, topic = pair
        with self.problems:
            told = await admin.consume_stats(self.client, self.address, group, [topic])
            for queue_id, stats in told.get(topic, {}).items():
                self.rows.append(
                    ConsumeStatsSample(
                        self.broker,
                        group,
                        topic,
                        queue_id,
                        stats.consumer_offset,
                        stats.broker_offset,
                    )
                )
