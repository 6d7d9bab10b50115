"""Offsets from one request per queue, to prove those of bulk requests."""

import asyncio
from collections.abc import Iterable

from tidemark.lab.cluster import LabCluster
from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.wire.client import RemotingClient

Key = tuple[str, str, str, int]
"""Broker, consumer group, topic and queue id."""


def offsets_one_by_one(
    cluster: LabCluster, keys: Iterable[Key]
) -> dict[Key, tuple[int | None, int]]:
    """Return commit (14) and max offset (30) of each queue, from its master."""
    masters = {broker.broker: broker.address for broker in cluster.brokers if not broker.broker_id}

    async def send() -> dict[Key, tuple[int | None, int]]:
        async with RemotingClient() as client:
            return {
                key: (
                    await admin.consumer_offset(client, masters[key[0]], *key[1:]),
                    await admin.max_offset(client, masters[key[0]], *key[2:]),
                )
                for key in keys
            }

    return asyncio.run(send())
