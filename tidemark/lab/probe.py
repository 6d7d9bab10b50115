"""Whether a cluster is up: every broker is registered and responds."""

import asyncio

from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.errors import RemotingError
from tidemark.rocketmq.wire.security import PLAIN, Security


def registered(namesrv: str, security: Security = PLAIN) -> set[tuple[str, int]] | None:
    """Return (broker, broker_id) of the listed brokers; None without a response."""

    async def request() -> set[tuple[str, int]]:
        async with RemotingClient(total_timeout=3, security=security) as client:
            info = await admin.broker_cluster_info(client, namesrv)
        return {(name, key) for name, group in info.brokers.items() for key in group.addresses}

    try:
        return asyncio.run(request())
    except RemotingError:
        return None


def unreachable(brokers: list[str], security: Security = PLAIN) -> list[str]:
    """Return the given broker addresses that do not respond now."""

    async def request() -> list[BaseException | object]:
        async with RemotingClient(total_timeout=3, security=security) as client:
            questions = (admin.broker_runtime_info(client, broker) for broker in brokers)
            return await asyncio.gather(*questions, return_exceptions=True)

    responses = asyncio.run(request())
    pairs = zip(brokers, responses, strict=True)
    return [broker for broker, response in pairs if isinstance(response, RemotingError)]
