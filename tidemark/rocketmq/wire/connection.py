"""One connection to one endpoint: bytes in, frames out, responses matched to requests by opaque."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tidemark.rocketmq.wire.codes import (
    BrokenFrameError,
    BudgetError,
    ConnectionLostError,
    NoResponseError,
    NotRocketMQError,
    RemotingError,
    RequestTimeoutError,
    UnreachableError,
)
from tidemark.rocketmq.wire.frame import Frame, FrameError, take_frames
from tidemark.rocketmq.wire.pacing import Allowance, Pace
from tidemark.rocketmq.wire.security import tls_failure


@dataclass(slots=True, kw_only=True)
class Peer:
    """The state of one endpoint.

    Attributes:
        endpoint: ``host:port``.
        pace: how many requests it may have under way.
        connecting: held while a connection is made.
        connection: the latest connection.
        connections: connections made so far.
        version: `MQVersion` ordinal of the latest response; 0 where it is unknown.
        failure: error class and reason once the endpoint counts as unreachable.
        calls: calls to it that have not ended, those that wait for their turn included.
    """

    endpoint: str
    pace: Pace
    connecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: "EndpointConnection | None" = None
    connections: int = 0
    version: int = 0
    failure: tuple[type[UnreachableError], str] | None = None
    calls: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether it has an open connection without running requests."""
        return not self.calls and self.connection is not None and not self.connection.closed


@dataclass(slots=True, kw_only=True)
class PendingRequest:
    """A request under way.

    Attributes:
        response: resolves to the response, or to an error.
        operation: name and subject of the request, for error messages.
        sent_at: loop time in seconds.
        timeout: seconds granted to the response.
        full_timeout: False where a total deadline shortened the timeout.
    """

    response: asyncio.Future[Frame]
    operation: str
    sent_at: float
    timeout: float
    full_timeout: bool


class EndpointConnection(asyncio.Protocol):
    """One connection to a broker or name server.

    Args:
        peer: state of the endpoint; the connection records the version and the failure there.
        allowance: counts the bytes received, and bounds them.
        encrypted: whether the connection uses TLS.

    Attributes:
        pending: requests under way by opaque.
        closed: whether the connection has ended.
        on_end: is called once when it ends.
    """

    def __init__(self, peer: Peer, allowance: Allowance, encrypted: bool):
        self.pending: dict[int, PendingRequest] = {}
        self.closed = False
        self.on_end: Callable[[], None] | None = None
        self._peer = peer
        self._allowance = allowance
        self._encrypted = encrypted
        self._buffer = bytearray()
        self._responses = 0
        self._received_at = 0.0
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, data: bytes) -> None:
        """Queue bytes; all bytes queued in one turn of the loop leave in one system call."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(data)

    def _flush(self) -> None:
        data, self._unsent = b"".join(self._unsent), []
        if self._transport and not self.closed:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        """Match each complete frame to its request."""
        self._allowance.received += len(data)
        if self._allowance.is_used_up:
            self.end(BudgetError, self._allowance.reason)
            return
        self._buffer += data
        try:
            frames = take_frames(self._buffer)
        except FrameError as error:
            if self._responses:
                self.end(BrokenFrameError, f"a broken frame: {error}")
            else:
                self.give_up(NotRocketMQError, f"does not speak RocketMQ: {error}")
            return
        for frame in frames:
            # Other frames do not count: a broker may also send requests of its own, and responses
            # to requests that have timed out.
            request = self.pending.pop(frame.opaque, None) if frame.is_response else None
            if request and not request.response.done():
                self._responses += 1
                self._peer.version = frame.version if frame.language == "JAVA" else 0
                request.response.set_result(frame)
        if frames:
            self._received_at = asyncio.get_running_loop().time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the requests under way; give up an endpoint that has never responded."""
        if self._responses or not self.pending:
            self.end(ConnectionLostError, "the connection broke before the response")
        else:
            hint = "" if self._encrypted else ", does it want TLS?"
            reason = tls_failure(exc) or f"closed the connection without a response{hint}"
            self.give_up(NotRocketMQError, reason)

    def expire(self, opaque: int) -> None:
        """Time out one request; give up an endpoint that has sent nothing since the request."""
        request = self.pending.get(opaque)
        if request is None or request.response.done():
            return
        reason = f"no response within {request.timeout:.3g} s"
        if self._buffer:
            came = f"{len(self._buffer)} bytes of one came"
            reason += f", {came}: request_timeout may be too short for this network"
        if self._received_at > request.sent_at or not request.full_timeout:
            del self.pending[opaque]
            error = RequestTimeoutError(self._peer.endpoint, request.operation, reason)
            request.response.set_exception(error)
        else:
            self.give_up(NoResponseError, reason)

    def give_up(self, kind: type[UnreachableError], reason: str) -> None:
        """Mark the endpoint as unreachable; fail running and later requests."""
        self._peer.failure = (kind, reason)
        self.end(kind, reason)

    def end(self, kind: type[RemotingError], reason: str) -> None:
        """Close the connection and fail running requests."""
        self.closed = True
        if self._transport:
            self._transport.abort()
        pending, self.pending = self.pending, {}
        self._buffer.clear()
        for request in pending.values():
            if not request.response.done():
                error = kind(self._peer.endpoint, request.operation, reason)
                request.response.set_exception(error)
        on_end, self.on_end = self.on_end, None
        if on_end:
            on_end()
