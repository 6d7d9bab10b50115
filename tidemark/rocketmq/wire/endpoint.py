"""Addresses: ``host:port`` as text, allowed networks, and the address of a host that accepts."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TypeVar


@dataclass(slots=True, frozen=True)
class Networks:
    """The networks that may be connected to.

    Attributes:
        allowed: at least one.
    """

    allowed: tuple[IPv4Network | IPv6Network, ...]

    @classmethod
    def of(cls, text: str) -> "Networks":
        """Return the networks of a text like ``10.0.0.0/8 10.1.2.3``.

        Blanks or commas separate them. An address alone is a network of one.

        Raises:
            ValueError: a part of it is no network, or there is none.
        """
        allowed = []
        for part in filter(None, re.split(r"[\s,]+", text)):
            try:
                allowed.append(ip_network(part))
            except ValueError as error:
                raise ValueError(f"{part!r} is no network like 10.0.0.0/8: {error}") from None
        if not allowed:
            raise ValueError("no network here, write one like 10.0.0.0/8")
        return cls(tuple(allowed))

    def within(self, addresses: Sequence[str]) -> list[str]:
        """Return the addresses that are in one of the networks."""
        return [address for address in addresses if self._holds(address)]

    def _holds(self, address: str) -> bool:
        result = ip_address(address.partition("%")[0])  # without the interface of a local one
        mapped = getattr(result, "ipv4_mapped", None)
        return any((mapped or result) in network for network in self.allowed)

    def __str__(self) -> str:
        return ", ".join(map(str, self.allowed))


T = TypeVar("T")

_NO_HOST = re.compile(r"[\s;,/]")
"""Characters of a list of addresses or a URL that no host name has."""

LONGEST_ENDPOINT = 300
"""Characters of an endpoint: host names have 253 at most (RFC 1035)."""


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``[v6]:port``.

    Raises:
        ValueError: the text is neither.
    """
    if len(endpoint) > LONGEST_ENDPOINT:
        raise ValueError(f"{endpoint[:40]!r}... is not HOST:PORT")
    host, colon, port = endpoint.strip().rpartition(":")
    is_port = port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65536
    if not colon or not host or not is_port or _NO_HOST.search(host):
        raise ValueError(f"{endpoint!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


async def first_to_accept(
    addresses: Sequence[str], until: float, connect: Callable[[str], Awaitable[T]]
) -> T:
    """Connect to the first address of a host that accepts.

    Each gets an equal share of the time that is left. Else one that drops packets, such as an IPv6
    address without a route, would use up the time of the others.

    Args:
        addresses: at least one, tried in this order.
        until: loop time in seconds, to which the caller limits the last one.
        connect: connects to one address.

    Raises:
        OSError: the last address does not accept.
    """
    clock = asyncio.get_running_loop().time
    for left, address in zip(range(len(addresses), 1, -1), addresses, strict=False):
        now = clock()
        try:
            async with asyncio.timeout_at(now + (until - now) / left):
                return await connect(address)
        except OSError:
            continue
    return await connect(addresses[-1])
