"""One snapshot shared by several processes: each reads some brokers and exchanges what all need.

A group may be online at one broker and have its progress on another. So the parts of a snapshot
are not snapshots of their own. The little they must know of each other goes through an exchange.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rocketmq.snapshot.broker_reading import BrokerReading

Exchange = Callable[[Any], Awaitable[list[Any]]]
"""Sends the findings of this part to all parts; returns those of each, in the order of parts."""


async def alone(found: Any) -> list[Any]:
    """Exchange nothing: the snapshot has one part."""
    return [found]


@dataclass(slots=True, frozen=True)
class Share:
    """The part of a snapshot that one process collects.

    Attributes:
        index: number of the part; part 0 reads the name server.
        count: number of parts.
        exchange: all parts must call it equally often; it returns when all have called it.
    """

    index: int = 0
    count: int = 1
    exchange: Exchange = alone

    def of(self, readings: Iterable[BrokerReading]) -> list[BrokerReading]:
        """Return the readings of this part: whole broker groups, as slaves go with their master."""
        readings = list(readings)
        brokers = sorted({reading.broker for reading in readings})
        own = set(brokers[self.index :: self.count])
        return [reading for reading in readings if reading.broker in own]


WHOLE = Share()
