"""Offsets that only deep snapshots read: consume statistics, ends of queues, offsets of slaves."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.admin.responses import ConsumerOffsetTable, QueueStats
from tidemark.rocketmq.deep.store_times import MasterReader
from tidemark.rocketmq.names import OffsetKey, is_lite_topic, is_system_group
from tidemark.rocketmq.records import (
    Broker,
    ConsumerOffset,
    ConsumeStatsSample,
    QueueOffset,
    Snapshot,
)
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.wire.client import RemotingClient

AT_ONCE = 4


def pairs(snapshot: Snapshot, broker: str) -> list[tuple[str, str]]:
    """Return (consumer group, topic) with progress on a broker; 208 does not cover broadcast.

    No lite topic is among them, see `tidemark.rocketmq.admin.pop`.
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


@dataclass(slots=True, kw_only=True)
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
            consume_stats = await admin.consume_stats(self.client, self.address, group, [topic])
            for queue_id, stats in consume_stats.get(topic, {}).items():
                self.rows.append(
                    ConsumeStatsSample(
                        broker=self.broker,
                        consumer_group=group,
                        topic=topic,
                        queue_id=queue_id,
                        consumer_offset=stats.consumer_offset,
                        max_offset=stats.broker_offset,
                    )
                )


def overtaken_queues(snapshot: Snapshot, broker: str) -> dict[str, list[QueueOffset]]:
    """Return by topic the queues of a broker whose known end a client has overtaken."""
    ahead: dict[tuple[str, int], int] = {}
    for row in snapshot.consumer_offsets:
        if row.broker == broker and row.client_id is not None and row.consumer_offset is not None:
            key = row.topic, row.queue_id
            ahead[key] = max(row.consumer_offset, ahead.get(key, 0))
    queue_offsets: dict[str, list[QueueOffset]] = {}
    for queue in snapshot.queue_offsets:
        offset = ahead.get((queue.topic, queue.queue_id), 0) if queue.broker == broker else 0
        if queue.max_offset is not None and offset > queue.max_offset:
            queue_offsets.setdefault(queue.topic, []).append(queue)
    return queue_offsets


async def read_ends_again(
    client: RemotingClient, problems: Problems, snapshot: Snapshot, broker: str, address: str
) -> None:
    """Read the ends of the overtaken queues of a broker, one request (202) per topic."""
    for topic, queues in overtaken_queues(snapshot, broker).items():
        with problems:
            advance_ends(queues, await admin.topic_stats(client, address, topic) or {})


def advance_ends(queues: list[QueueOffset], ends: Mapping[int, QueueStats]) -> None:
    """Move the ends of queues forward, never back."""
    for queue in queues:
        now = ends.get(queue.queue_id)
        if now and (now.max_offset or 0) > (queue.max_offset or 0):
            queue.max_offset, queue.newest_stored_at = now.max_offset, now.newest_stored_at


async def read_slave_offsets(
    client: RemotingClient, problems: Problems, snapshot: Snapshot, slaves: Iterable[str]
) -> None:
    """Read the offsets of slaves, one request (43) each, and compare them with their master's.

    Args:
        client: the transport.
        problems: where failures go.
        snapshot: filled with its bulk part; gets the columns of `raw.brokers` about slaves.
        slaves: addresses of slaves that responded, whose masters did too.
    """
    rows = {row.address: row for row in snapshot.brokers}

    async def read(address: str) -> None:
        with problems:
            compare(
                rows[address],
                await admin.consumer_offsets(client, address),
                snapshot.consumer_offsets,
            )

    await asyncio.gather(*(read(address) for address in slaves))


def compare(slave: Broker, table: ConsumerOffsetTable, committed: Iterable[ConsumerOffset]) -> None:
    """Fill how far a slave's copy is behind; ``committed`` was read before the copy."""
    slave.offsets_behind = slave.offsets_missing = slave.offsets_late = slave.offsets_copied = 0
    for row in committed:
        if row.broker != slave.broker or row.client_id is not None or not row.consumer_offset:
            continue
        key = OffsetKey(row.topic, row.consumer_group, row.offset_store == "broker_broadcast")
        copied = table.offsets.get(key, {}).get(row.queue_id)
        if copied is None:
            slave.offsets_missing += 1
        elif copied < row.consumer_offset:
            slave.offsets_late += 1
        slave.offsets_copied += copied or 0
        slave.offsets_behind += max(0, row.consumer_offset - (copied or 0))
