"""Endpoints: ``host:port`` as text, allowed networks, host names, and the address that accepts.

A name server may list any number of host names, and a resolver may take half a minute for one. A
thread for each would exhaust the process; threads that all clusters share alike would let one
cluster take those of the others. So few threads resolve names, fewer of them for one cluster.
"""

import asyncio
import re
import socket
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
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


THREADS = 16
"""Lookups under way in this process; a thread that hangs costs its stack of 8 MiB of addresses."""

OF_ONE_OWNER = 4
"""Lookups under way for one cluster; a name takes some 20 ms, so 200 brokers take a second."""


@dataclass(slots=True, eq=False, kw_only=True)
class _Lookup:
    """One lookup.

    Attributes:
        host: the name.
        port: of the service.
        loop: the event loop that waits for the result.
        result: resolves to the addresses, without any where the name is not known.
        is_wanted: whether a request still waits for it.
    """

    host: str
    port: int
    loop: asyncio.AbstractEventLoop
    result: asyncio.Future[list[str]]
    is_wanted: bool = True

    def run(self) -> None:
        """Call the system's resolver, and pass on its result."""
        try:
            known = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            known = []
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in known))
        try:
            self.loop.call_soon_threadsafe(self._settle, addresses)
        except RuntimeError:  # the loop is closed: nothing waits for the result
            return

    def _settle(self, addresses: list[str]) -> None:
        if not self.result.done():
            self.result.set_result(addresses)


@dataclass(slots=True, kw_only=True)
class Resolver:
    """Looks up host names in daemon threads, the clusters in turns.

    Python waits for asyncio's own executor at exit, so a resolver that hangs would block the whole
    process there.

    Attributes:
        threads: lookups under way at most.
        of_one_owner: lookups under way for one owner at most, abandoned ones included.
    """

    threads: int = THREADS
    of_one_owner: int = OF_ONE_OWNER
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _waiting: dict[str, deque[_Lookup]] = field(default_factory=dict)
    _under_way: Counter[str] = field(default_factory=Counter)
    _working: int = 0

    async def addresses(self, owner: str, host: str, port: int) -> list[str]:
        """Return the IP addresses of a host; the caller limits the time.

        Args:
            owner: the cluster that the lookup is for.
            host: a name or an address.
            port: of the service.

        Raises:
            OSError: the host name is unknown.
        """
        if is_address(host):
            return [host]
        loop = asyncio.get_running_loop()
        lookup = _Lookup(host=host, port=port, loop=loop, result=loop.create_future())
        with self._lock:
            self._waiting.setdefault(owner, deque()).append(lookup)
            is_needed = self._working < self.threads
            self._working += is_needed
        try:
            if is_needed:
                self._start()
            addresses = await lookup.result
        finally:
            lookup.is_wanted = False
        if not addresses:
            raise OSError(f"host name {host!r} is not known")
        return addresses

    def _start(self) -> None:
        try:
            threading.Thread(target=self._work, daemon=True, name="resolve").start()
        except RuntimeError as error:  # the system has no thread left
            with self._lock:
                self._working -= 1
            raise OSError("no thread to look up the host name") from error

    def _work(self) -> None:
        """Look names up until none is left that this thread may take."""
        owner = None
        while taken := self._next(owner):
            owner, lookup = taken
            lookup.run()

    def _next(self, done_for: str | None) -> tuple[str, _Lookup] | None:
        """Return the next lookup and its owner, which then takes its turn after all others."""
        with self._lock:
            if done_for is not None:
                self._under_way[done_for] -= 1
            for owner in list(self._waiting):
                waiting = self._waiting[owner]
                while waiting and not waiting[0].is_wanted:
                    waiting.popleft()
                if not waiting:
                    del self._waiting[owner]
                elif self._under_way[owner] < self.of_one_owner:
                    self._waiting[owner] = self._waiting.pop(owner)
                    self._under_way[owner] += 1
                    return owner, waiting.popleft()
            self._under_way += Counter()  # forgets owners without any
            self._working -= 1
            return None


def is_address(host: str) -> bool:
    """Return whether a host is an IP address."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
            return True
        except (OSError, ValueError):
            continue
    return False


RESOLVER = Resolver()
"""The one of this process."""
