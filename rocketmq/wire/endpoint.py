"""Addresses: ``host:port`` as text, and the IP addresses of a host name."""

import asyncio
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

_NO_HOST = re.compile(r"[\s;,/]")
"""In a list of addresses, or a URL, but in no host name."""


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``[v6]:port``.

    Raises:
        ValueError: the text is neither.
    """
    host, colon, port = endpoint.strip().rpartition(":")
    is_port = port.isdecimal() and 0 < int(port) < 65536
    if not colon or not host or not is_port or _NO_HOST.search(host):
        raise ValueError(f"{endpoint!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


async def resolve(host: str, port: int) -> list[str]:
    """Return the IP addresses of a host.

    The resolver runs in a daemon thread. Python waits for asyncio's own executor at exit, so a
    resolver that hangs would block the whole process there.

    Raises:
        OSError: the host name is unknown.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
            return [host]
        except OSError:
            continue
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def settle(addresses: list[str]) -> None:
        if not found.done():
            found.set_result(addresses)

    def query() -> None:
        try:
            known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            known = []
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in known))
        try:
            loop.call_soon_threadsafe(settle, addresses)
        except RuntimeError:  # the loop is closed: nothing waits for the result
            return

    threading.Thread(target=query, daemon=True, name="resolve").start()
    addresses = await found
    if not addresses:
        raise OSError(f"host name {host!r} is not known")
    return addresses


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
