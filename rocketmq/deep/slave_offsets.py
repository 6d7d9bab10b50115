"""The consumer offsets of slaves, compared with those of their master.

A slave copies them (every 10 s on 4.x, every minute on 5.x), and after a failover consumers
continue from its copy. A slave of another version may be unable to read its master's response
(apache/rocketmq 10284). Its copy then no longer changes, and a failover redelivers everything
since.
"""

import asyncio
from collections.abc import Iterable

from rocketmq.admin import requests as admin
from rocketmq.admin.responses import ConsumerOffsetTable
from rocketmq.names import OffsetKey
from rocketmq.records import Broker, ConsumerOffset, Snapshot
from rocketmq.snapshot.problems import Problems
from rocketmq.wire.client import RemotingClient


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
