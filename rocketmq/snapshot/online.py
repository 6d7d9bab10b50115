"""Members of consumer groups that are online, with the brokers where they are."""

import re
from collections.abc import Container, Iterable

from rocketmq.admin.responses import ConsumerConnection
from rocketmq.names import RETRY_PREFIX
from rocketmq.records import Client
from rocketmq.snapshot.broker_reading import BrokerReading

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
    found: Online = {}
    for part in parts:
        for group, connections in part.items():
            found.setdefault(group, {}).update(connections)
    return {group: dict(sorted(connections.items())) for group, connections in found.items()}


def broadcasts(consumer_group: str, online: Online) -> bool:
    """Return whether an online member of the group consumes in broadcast mode."""
    connections = online.get(consumer_group, {}).values()
    return any(connection.message_model == "BROADCASTING" for connection in connections)


def homes(online: Online, brokers: Container[str]) -> dict[tuple[str, str], str]:
    """Return by group and client id the first of some brokers that the member is connected to.

    Requests that are forwarded to the member go through that broker only. A proxy in local mode
    reports members of its broker too, and forwards nothing.
    """
    found: dict[tuple[str, str], str] = {}
    for group, connections in online.items():
        for broker, connection in connections.items():
            if broker not in brokers:
                continue
            for member in connection.connections:
                found.setdefault((group, member.client_id), broker)
    return found


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
