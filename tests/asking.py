"""Offsets asked one by one, beside the bulk calls whose answers they prove."""

import asyncio
from collections.abc import Iterable

from lab.cluster import LabCluster
from rocketmq import admin
from rocketmq.client import RemotingClient

Key = tuple[str, str, str, int]
"""Broker, consumer group, topic and queue id."""


def asked(cluster: LabCluster, keys: Iterable[Key]) -> dict[Key, tuple[int | None, int]]:
    """Commit (14) and max offset (30) of each queue, from its master."""
    masters = {broker.broker: broker.address for broker in cluster.brokers if not broker.broker_id}

    async def ask() -> dict[Key, tuple[int | None, int]]:
        async with RemotingClient() as client:
            return {
                key: (
                    await admin.consumer_offset(client, masters[key[0]], *key[1:]),
                    await admin.max_offset(client, masters[key[0]], *key[2:]),
                )
                for key in keys
            }

    return asyncio.run(ask())
