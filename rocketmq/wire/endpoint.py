"""Addresses: ``host:port`` as text, and the address of a host that accepts."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

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
