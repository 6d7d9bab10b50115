"""Clients that are online: which brokers and proxies report them."""

import asyncio
import re
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass, field

from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.admin.responses import ConsumerConnection
from tidemark.rocketmq.names import CONNECTIONS, RETRY_PREFIX
from tidemark.rocketmq.records import Client, Problem, Proxy
from tidemark.rocketmq.snapshot.broker_reading import BrokerReading
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import (
    BadResponseError,
    RemotingError,
    RequestCode,
    ResponseCode,
    ResponseError,
)

Online = dict[str, dict[str, ConsumerConnection]]
"""Responses of brokers to 203, in the brokers' order, by group with a connected client."""


def online_at(masters: Iterable[BrokerReading]) -> Online:
    """Return the online members at these brokers."""
    return merged_online(
        {group: {reading.broker: connection}}
        for reading in masters
        for group, connection in reading.connections.items()
        if connection and connection.connections
    )


def merged_online(parts: Iterable[Online]) -> Online:
    """Return the online members at brokers and proxies together."""
    online: Online = {}
    for part in parts:
        for group, connections in part.items():
            online.setdefault(group, {}).update(connections)
    return {group: dict(sorted(connections.items())) for group, connections in online.items()}


def broadcasts(consumer_group: str, online: Online) -> bool:
    """Return whether an online member of the group consumes in broadcast mode."""
    connections = online.get(consumer_group, {}).values()
    return any(connection.message_model == "BROADCASTING" for connection in connections)


def homes(online: Online, brokers: Container[str]) -> dict[tuple[str, str], str]:
    """Return by group and client id the first of some brokers that the member is connected to.

    Requests that are forwarded to the member go through that broker only. A proxy in local mode
    reports members of its broker too, and forwards nothing.
    """
    first: dict[tuple[str, str], str] = {}
    for group, connections in online.items():
        for broker, connection in connections.items():
            if broker not in brokers:
                continue
            for member in connection.connections:
                first.setdefault((group, member.client_id), broker)
    return first


_GRPC_CLIENT_ID = re.compile(r"@\d+@\d+@[0-9A-Za-z]+")
"""End of a client id that every gRPC client forms alike: ``host@process@number@nanoseconds``."""


def speaks_grpc(client_id: str, topics: Iterable[str]) -> bool:
    """Return whether a member is a gRPC client, which a proxy represents at the brokers.

    It never responds to forwarded requests, and the version that its connection reports is the
    proxy's.

    Args:
        client_id: the member.
        topics: the topics of its group's subscriptions. No gRPC client subscribes to a retry topic.
    """
    is_grpc_id = _GRPC_CLIENT_ID.search(client_id) is not None
    return is_grpc_id and not any(topic.startswith(RETRY_PREFIX) for topic in topics)


def is_grpc_client(client: Client) -> bool:
    """Return whether this member is a gRPC client, see `speaks_grpc`."""
    return speaks_grpc(client.client_id, (it.topic for it in client.subscriptions))


@dataclass(slots=True, frozen=True, kw_only=True)
class ProxyMembers:
    """Online members of groups as proxies reported them.

    Attributes:
        responded: proxies that reported; None when none is configured.
        proxies: each proxy that was requested; None when none was.
        online: by group the members at the proxies that reported.
    """

    responded: int | None = None
    proxies: list[Proxy] | None = None
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
        return ProxyMembers(responded=0)
    endpoints = list(dict.fromkeys(proxies))
    results = await asyncio.gather(
        *(_read_proxy(client, endpoint, groups, problems) for endpoint in endpoints)
    )
    responded = [reading for reading in results if reading]
    if not responded:
        operation = CONNECTIONS + " ".join(sorted(groups))
        problems.add(
            Problem(
                endpoint=proxies[0], operation=operation, code=None, message="no proxy responded"
            )
        )
    return ProxyMembers(
        responded=len(responded),
        proxies=[
            _proxy(endpoint, reading, groups)
            for endpoint, reading in zip(endpoints, results, strict=True)
        ],
        online=online_at(responded),
    )


def _proxy(endpoint: str, reading: BrokerReading | None, groups: Collection[str]) -> Proxy:
    if reading is None or set(groups) - reading.connections.keys():
        return Proxy(endpoint=endpoint, responded=reading is not None)
    connected = [it.connections for it in reading.connections.values() if it and it.connections]
    return Proxy(
        endpoint=endpoint,
        responded=True,
        members=sum(map(len, connected)),
        groups=len(connected),
    )


async def _read_proxy(
    client: RemotingClient, endpoint: str, groups: Collection[str], problems: Problems
) -> BrokerReading | None:
    """Return the report of one proxy; None where it does not respond."""
    try:
        await _require_proxy(client, endpoint)
        await admin.consumer_connection(client, endpoint, min(groups))
    except RemotingError as error:
        # It names no group: another proxy may report the members of each.
        problems.add(
            Problem(
                endpoint=endpoint,
                operation=CONNECTIONS.strip(),
                code=error.code,
                message=error.reason,
            )
        )
        return None
    reading = BrokerReading(
        broker=f"proxy {endpoint}", broker_id=0, address=endpoint, is_master=True
    )

    async def read(group: str) -> None:
        with problems:
            reading.connections[group] = await admin.consumer_connection(client, endpoint, group)

    await client.paced(sorted(groups), read)
    if failed := set(groups) - reading.connections.keys():
        operation = CONNECTIONS + " ".join(sorted(failed))
        message = f"the online members of {len(failed)} groups are unknown"
        problems.add(Problem(endpoint=endpoint, operation=operation, code=None, message=message))
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
