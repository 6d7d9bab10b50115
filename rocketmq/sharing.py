"""One look shared by several processes: each reads some brokers, all know what concerns all.

A group may be online at one broker and have its progress on another, so parts of a look are not
looks of their own. What they must know of each other is little, and is told by an exchange.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rocketmq.answers import ConsumerConnection
from rocketmq.reading import Reading

Exchange = Callable[[Any], Awaitable[list[Any]]]
"""Tells all parts what this one found; returns what each found, in the order of parts."""

Online = dict[str, dict[str, ConsumerConnection]]
"""By group that has a client connected, what each of those brokers said, in the brokers' order."""


async def alone(found: Any) -> list[Any]:
    """The exchange of a look that has one part."""
    return [found]


@dataclass(slots=True, frozen=True)
class Share:
    """The part of a look that one process takes.

    Attributes:
        index: which part, from 0; that one asks the name server.
        count: parts there are.
        exchange: must be called equally often by all parts, and does not return before it is.
    """

    index: int = 0
    count: int = 1
    exchange: Exchange = alone

    def of(self, readings: Iterable[Reading]) -> list[Reading]:
        """Those that this part reads: whole broker groups, for slaves are read by their master."""
        readings = list(readings)
        brokers = sorted({reading.broker for reading in readings})
        own = set(brokers[self.index :: self.count])
        return [reading for reading in readings if reading.broker in own]


WHOLE = Share()


def online_at(masters: Iterable[Reading]) -> Online:
    """Who is online at these brokers."""
    return online_at_all(
        {group: {reading.broker: connection}}
        for reading in masters
        for group, connection in reading.connections.items()
        if connection and connection.connections
    )


def online_at_all(parts: Iterable[Online]) -> Online:
    """The same of all parts together."""
    found: Online = {}
    for part in parts:
        for group, connections in part.items():
            found.setdefault(group, {}).update(connections)
    return {group: dict(sorted(connections.items())) for group, connections in found.items()}


def homes(online: Online) -> dict[tuple[str, str], str]:
    """By group and client id, the one broker that a member is asked through: its first."""
    found: dict[tuple[str, str], str] = {}
    for group, connections in online.items():
        for broker, connection in connections.items():
            for member in connection.connections:
                found.setdefault((group, member.client_id), broker)
    return found
