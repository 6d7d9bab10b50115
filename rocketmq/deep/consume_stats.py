"""A sample of the progress that 208 reports, to cross-check the bulk responses (43 and 202).

The two ways to the same numbers share no code here and little code in the broker. A difference
shows that one of them is read wrongly. Each snapshot draws other groups, so a day covers them all.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from rocketmq.admin import requests as admin
from rocketmq.deep.master_reader import MasterReader
from rocketmq.names import is_lite_topic, is_system_group
from rocketmq.records import ConsumeStatsSample, Snapshot

AT_ONCE = 4


def pairs(snapshot: Snapshot, broker: str) -> list[tuple[str, str]]:
    """Return (consumer group, topic) with progress on a broker; 208 does not cover broadcast.

    No lite topic is among them, see `rocketmq.admin.lite`.
    """
    return sorted(
        {
            (row.consumer_group, row.topic)
            for row in snapshot.consumer_offsets
            if row.broker == broker
            and row.offset_store == "broker"
            and row.consumer_offset is not None
            and not is_system_group(row.consumer_group)
            and not is_lite_topic(row.topic)
        }
    )


@dataclass(slots=True)
class ConsumeStatsReader(MasterReader):
    """Requests the progress of one group on one topic at a time.

    Attributes:
        rows: the sample, filled by `read`.
    """

    rows: list[ConsumeStatsSample] = field(default_factory=list)

    async def read(self, known: Iterable[tuple[str, str]]) -> None:
        """Request a random choice of the (consumer group, topic) pairs."""
        known = list(known)
        await self.client.paced(
            Random().sample(known, min(self.limit, len(known))), self._read_pair, AT_ONCE
        )

    async def _read_pair(self, pair: tuple[str, str]) -> None:
        group, topic = pair
        with self.problems:
            found = await admin.consume_stats(self.client, self.address, group, [topic])
            for queue_id, stats in found.get(topic, {}).items():
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
