"""Distant brokers: a proxy that delays every byte, and a name server that lists it."""

import asyncio
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench.standin import answering, in_process, listing


@contextmanager
def serve(brokers: Mapping[str, str], seconds: float) -> Iterator[str]:
    """Put so much round trip before brokers; gives the address of a name server that lists them.

    Args:
        brokers: address by broker name.
        seconds: round trip, half of it each way.
    """
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(1 + len(brokers))]
    with in_process(_run, sockets, dict(brokers), sockets, seconds / 2) as address:
        yield address


def _run(brokers: dict[str, str], sockets: list[socket.socket], delay: float) -> None:
    async def proxy() -> None:
        loop = asyncio.get_running_loop()
        ports = [it.getsockname()[1] for it in sockets[1:]]
        known = listing(list(brokers), ports)
        await loop.create_server(lambda: answering(known), sock=sockets[0])
        for address, listening in zip(brokers.values(), sockets[1:], strict=True):
            await loop.create_server(lambda it=address: _Near(it, delay), sock=listening)
        await asyncio.Event().wait()

    asyncio.run(proxy())


class _Side(asyncio.Protocol):
    """One end of a connection; the other end sends the received bytes later."""

    def __init__(self, delay: float):
        self.delay = delay
        self.transport: asyncio.Transport | None = None
        self.other: _Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(self.delay, self._pass_on, data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other and self.other.transport:
            self.other.transport.close()

    def _pass_on(self, data: bytes) -> None:
        if self.other and self.other.transport:
            self.other.transport.write(data)


class _Near(_Side):
    """The end that a collector connects to."""

    def __init__(self, address: str, delay: float):
        super().__init__(delay)
        self._address = address

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.transport:
            self.transport.pause_reading()
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        host, _, port = self._address.rpartition(":")
        loop = asyncio.get_running_loop()
        _, far = await loop.create_connection(lambda: _Side(self.delay), host, int(port))
        self.other, far.other = far, self
        if self.transport:
            self.transport.resume_reading()
