"""Members of groups that are online at a RocketMQ Proxy in cluster mode.

The brokers behind such a proxy report no member (206): a gRPC client is connected to the proxy
only. Proxies share their members, but one that has just started, or that cannot reach the others,
knows only its own clients. So all proxies receive the request, and their reports are united.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from rocketmq.admin import requests as admin
from rocketmq.names import CONNECTIONS
from rocketmq.records import Problem
from rocketmq.snapshot.broker_reading import BrokerReading
from rocketmq.snapshot.online import Online, online_at
from rocketmq.snapshot.problems import Problems
from rocketmq.wire.client import RemotingClient
from rocketmq.wire.codes import RequestCode, ResponseCode
from rocketmq.wire.errors import BadResponseError, RemotingError, ResponseError


@dataclass(slots=True, frozen=True)
class ProxyMembers:
    """Online members of groups as proxies reported them.

    Attributes:
        responded: proxies that reported; None when none is configured.
        online: by group the members at the proxies that reported.
    """

    responded: int | None = None
    online: Online = field(default_factory=dict)


async def read_proxies(
    client: RemotingClient, proxies: Sequence[str], groups: Collection[str], problems: Problems
) -> ProxyMembers:
    """Request the online members of groups (203) from every proxy.

    Args:
        client: the transport.
        proxies: remoting ports, ``host:port``.
        groups: the groups of the cluster.
        problems: receives failed requests, with the groups whose members are therefore unknown.
    """
    if not proxies:
        return ProxyMembers()
    if not groups:
        return ProxyMembers(0)
    found = await asyncio.gather(
        *(_read_proxy(client, endpoint, groups, problems) for endpoint in dict.fromkeys(proxies))
    )
    responded = [reading for reading in found if reading]
    if not responded:
        operation = CONNECTIONS + " ".join(sorted(groups))
        problems.add(Problem(proxies[0], operation, None, "no proxy responded"))
    return ProxyMembers(len(responded), online_at(responded))


async def _read_proxy(
    client: RemotingClient, endpoint: str, groups: Collection[str], problems: Problems
) -> BrokerReading | None:
    """Return the report of one proxy; None where it does not respond."""
    try:
        await _require_proxy(client, endpoint)
        await admin.consumer_connection(client, endpoint, min(groups))
    except RemotingError as error:
        # It names no group: another proxy may report the members of each.
        problems.add(Problem(endpoint, CONNECTIONS.strip(), error.code, error.reason))
        return None
    reading = BrokerReading(f"proxy {endpoint}", 0, endpoint, is_master=True)

    async def read(group: str) -> None:
        with problems:
            reading.connections[group] = await admin.consumer_connection(client, endpoint, group)

    await client.paced(sorted(groups), read)
    if failed := set(groups) - reading.connections.keys():
        operation = CONNECTIONS + " ".join(sorted(failed))
        message = f"the online members of {len(failed)} groups are unknown"
        problems.add(Problem(endpoint, operation, None, message))
    return reading


async def _require_proxy(client: RemotingClient, endpoint: str) -> None:
    """Refuse a broker: it responds to 203 too, for its own connections only.

    Groups behind the real proxies would seem offline. A proxy in either mode has no processor for a
    broker's configuration (`RemotingProtocolServer`).

    Raises:
        RemotingError: no proxy responded.
    """
    try:
        config = await admin.broker_config(client, endpoint)
    except ResponseError as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return
        raise
    broker = config.get("brokerName", "without a name")
    reason = f"this is the broker {broker}, no proxy: `proxies` takes remoting ports of proxies"
    raise BadResponseError(endpoint, RequestCode.GET_BROKER_CONFIG.name, reason)
