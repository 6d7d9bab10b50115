"""The lowest cost of a collector: the same requests over bare connections."""

import asyncio
from collections.abc import Iterable
from itertools import islice

IN_FLIGHT = 256


class _Bare(asyncio.Protocol):
    """Sends frames with so many in flight, and keeps the responses as bytes."""

    def __init__(self, requests: Iterable[bytes]):
        self.responses: list[bytes] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._left = iter(requests)
        self._open = 0
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send(IN_FLIGHT)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        start, before = 0, len(self.responses)
        while len(self._buffer) - start >= 4:
            end = start + 4 + int.from_bytes(self._buffer[start : start + 4], "big")
            if end > len(self._buffer):
                break
            self.responses.append(bytes(self._buffer[start:end]))
            start = end
        del self._buffer[:start]
        count = len(self.responses) - before
        self._open -= count
        self._send(count)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the broker closed the connection"))

    def _send(self, count: int) -> None:
        frames = list(islice(self._left, count))
        self._open += len(frames)
        self._transport.write(b"".join(frames))
        if not self._open and not self.done.done():
            self.done.set_result(None)


async def exchange(endpoint: str, requests: Iterable[bytes]) -> list[bytes]:
    """Send frames over one connection, `IN_FLIGHT` at a time.

    Returns:
        The responses as they came, one each, length word and all.

    Raises:
        OSError: no connection, or it broke.
    """
    host, _, port = endpoint.rpartition(":")
    loop = asyncio.get_running_loop()
    transport, link = await loop.create_connection(lambda: _Bare(requests), host, int(port))
    try:
        await link.done
    finally:
        transport.close()
    return link.responses
