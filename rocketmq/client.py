"""The transport: many requests in flight over one connection per endpoint, read-only by force.

A `RemotingClient` is made for one look at a cluster and thrown away: an endpoint that proved
unreachable stays so for its lifetime, so that a dead broker costs one timeout and not one per call.
"""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self

from rocketmq.codes import ASKS_CLIENTS, READ_ONLY, RequestCode, ResponseCode
from rocketmq.endpoint import resolve, split_endpoint
from rocketmq.errors import (
    BrokenFrameError,
    BudgetError,
    ConnectError,
    ConnectionLostError,
    DeniedError,
    ForbiddenRequest,
    NotRocketMQError,
    RefusedError,
    RemotingError,
    RequestTimeoutError,
    ResponseError,
    SilentError,
    UnreachableError,
)
from rocketmq.frame import Frame, FrameError, encode_request, take_frames
from rocketmq.names import version_name
from rocketmq.pacing import BUSY, MAX_RETRIES, Pace
from rocketmq.security import PLAIN, Security, is_denial, tls_failure

MAX_RECONNECTS = 3
"""Connections one endpoint may break before it counts as unreachable."""


class RemotingClient:
    """Sends read-only requests and matches answers to them.

    Args:
        connect_timeout: seconds for one connection, name resolution included.
        request_timeout: seconds from sending a request to its answer.
        total_timeout: seconds from now after which every request fails; None for no limit.
        in_flight: requests under way at one endpoint at a time; the rest wait their turn.
        max_requests: requests to one endpoint at most, None for no limit.
        security: who we are, and whether connections are encrypted.
        ask_clients: let `ASKS_CLIENTS` through too; one of them can make a client commit.

    Attributes:
        in_flight: requests under way at one endpoint at a time.
        requests: requests sent.
        bytes: bytes sent and received.
    """

    def __init__(
        self,
        *,
        connect_timeout: float = 2.0,
        request_timeout: float = 3.0,
        total_timeout: float | None = None,
        in_flight: int = 64,
        max_requests: int | None = None,
        security: Security = PLAIN,
        ask_clients: bool = False,
    ):
        self._allowed = READ_ONLY | ASKS_CLIENTS if ask_clients else READ_ONLY
        self.requests = 0
        self.bytes = 0
        self._connect_timeout = connect_timeout
        self._request_timeout = request_timeout
        self.in_flight = in_flight
        self._max_requests = max_requests
        self._security = security
        self._tls_context: ssl.SSLContext | None = None
        self._loop = asyncio.get_running_loop()
        self._deadline = None if total_timeout is None else self._loop.time() + total_timeout
        self._opaque = count(1)
        self._peers: dict[str, _Peer] = {}

    async def __aenter__(self) -> Self:
        return self

    @property
    def encrypted(self) -> bool:
        """Whether connections are TLS."""
        return self._security.tls is not None

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def call(
        self,
        endpoint: str,
        code: RequestCode,
        fields: Mapping[str, str] | None = None,
        *,
        subject: str = "",
        timeout: float | None = None,
    ) -> Frame:
        """Ask one thing and wait for its answer.

        Args:
            endpoint: ``host:port``.
            code: what to ask.
            fields: ``extFields`` of the request.
            subject: what it is about, for error messages.
            timeout: seconds, instead of the client's request timeout.

        Returns:
            The answer, whose code is SUCCESS.

        Raises:
            ForbiddenRequest: the code is not on the read-only list; nothing was sent.
            RemotingError: one of its subclasses, see `rocketmq.errors`.
        """
        if code not in self._allowed:
            raise ForbiddenRequest(f"request code {int(code)} is not on the read-only list")
        operation = f"{RequestCode(code).name} {subject}".rstrip()
        peer = self._peers.get(endpoint)
        if peer is None:
            pace = Pace(self.in_flight, self._max_requests)
            peer = self._peers[endpoint] = _Peer(endpoint, pace)
        if self._security.credentials:
            fields = self._security.credentials.sign(fields)
        limit = self._request_timeout if timeout is None else timeout
        async with peer.pace:
            frame = await self._ask_patiently(peer, code, fields, operation, limit)
        if frame.code == ResponseCode.SUCCESS:
            return frame
        account, remark = self._security.credentials, frame.remark
        if account and remark:
            remark = account.redacted(remark)
        if is_denial(frame):
            raise DeniedError(endpoint, operation, frame.code, remark, account is not None)
        raise ResponseError(endpoint, operation, frame.code, remark)

    def version_of(self, endpoint: str) -> str | None:
        """The RocketMQ version of who answers there, such as ``V5_3_3``; None where nobody told.

        Every answer carries it; one without a number says nothing of its version.
        """
        peer = self._peers.get(endpoint)
        return version_name(peer.version) if peer and peer.version > 0 else None

    async def close(self) -> None:
        """Close every connection; requests still under way fail with `ConnectionLostError`."""
        for peer in self._peers.values():
            if peer.link:
                peer.link.end(ConnectionLostError, "the client was closed")
        self._peers.clear()
        await asyncio.sleep(0)

    async def _ask_patiently(
        self,
        peer: "_Peer",
        code: RequestCode,
        fields: Mapping[str, str] | None,
        operation: str,
        limit: float,
    ) -> Frame:
        """Ask, and again after a rest while the broker says that it is busy."""
        pace, clock, retries = peer.pace, self._loop.time, MAX_RETRIES
        while True:
            await self._rest(pace)
            link = await self._link(peer, operation)
            if not pace.spend():
                reason = f"the budget of {self._max_requests} requests for one look is used up"
                raise BudgetError(peer.endpoint, operation, reason)
            sent_at = clock()
            try:
                frame = await self._ask(link, code, fields, operation, limit)
            except RequestTimeoutError:
                pace.late(sent_at, clock())
                raise
            if frame.code not in BUSY:
                pace.answered(sent_at, clock())
                return frame
            pace.busy(sent_at, clock())
            too_late = self._deadline is not None and pace.rests_until >= self._deadline
            if not retries or too_late:
                return frame
            retries -= 1

    async def _rest(self, pace: Pace) -> None:
        """Leave a busy endpoint alone, but never beyond the deadline."""
        while (now := self._loop.time()) < pace.rests_until:
            until = pace.rests_until
            if self._deadline is not None:
                if now >= self._deadline:
                    return
                until = min(until, self._deadline)
            await asyncio.sleep(until - now)

    async def _ask(
        self,
        link: "_Link",
        code: RequestCode,
        fields: Mapping[str, str] | None,
        operation: str,
        limit: float,
    ) -> Frame:
        now = self._loop.time()
        until = now + limit if self._deadline is None else min(now + limit, self._deadline)
        opaque = next(self._opaque)
        had_its_time = until == now + limit
        request = _Request(self._loop.create_future(), operation, now, until - now, had_its_time)
        link.pending[opaque] = request
        timer = self._loop.call_at(until, link.expire, opaque)
        data = encode_request(code, opaque, fields)
        self.requests += 1
        self.bytes += len(data)
        link.send(data)
        try:
            return await request.answer
        finally:
            timer.cancel()
            link.pending.pop(opaque, None)

    async def _link(self, peer: "_Peer", operation: str) -> "_Link":
        """The open connection to an endpoint, made if there is none."""
        self._check(peer, operation)
        if peer.link and not peer.link.closed:
            return peer.link
        async with peer.connecting:
            self._check(peer, operation)
            if peer.link and not peer.link.closed:
                return peer.link
            if peer.connections > MAX_RECONNECTS:
                self._give_up(peer, ConnectError, "the connection keeps breaking", operation)
            peer.connections += 1
            peer.link = await self._connect(peer, operation)
            return peer.link

    def _check(self, peer: "_Peer", operation: str) -> None:
        if peer.failure:
            kind, reason = peer.failure
            raise kind(peer.endpoint, operation, reason)
        if self._deadline is not None and self._loop.time() >= self._deadline:
            raise RequestTimeoutError(peer.endpoint, operation, "no time left to ask")

    def _give_up(
        self, peer: "_Peer", kind: type[UnreachableError], reason: str, operation: str
    ) -> "_Link":
        peer.failure = (kind, reason)
        raise kind(peer.endpoint, operation, reason)

    async def _connect(self, peer: "_Peer", operation: str) -> "_Link":
        until = self._loop.time() + self._connect_timeout
        if self._deadline is not None:
            until = min(until, self._deadline)
        try:
            host, port = split_endpoint(peer.endpoint)
            async with asyncio.timeout_at(until):
                return await self._open(peer, await resolve(host, port), port)
        except ConnectionRefusedError:
            reason = "connection refused, nothing listens there"
            return self._give_up(peer, RefusedError, reason, operation)
        except TimeoutError:
            reason = f"no connection within {self._connect_timeout:g} s"
            return self._give_up(peer, ConnectError, reason, operation)
        except (OSError, ValueError) as error:
            reason = tls_failure(error) or getattr(error, "strerror", None) or str(error)
            return self._give_up(peer, ConnectError, f"could not connect: {reason}", operation)

    async def _open(self, peer: "_Peer", addresses: list[str], port: int) -> "_Link":
        """Connect to the first address of a host that accepts."""
        for address in addresses[:-1]:
            try:
                return await self._open(peer, [address], port)
            except OSError:
                continue
        secure: dict[str, Any] = {}
        tls = self._security.tls
        if tls:
            self._tls_context = self._tls_context or tls.context()
            host, _ = split_endpoint(peer.endpoint)
            secure = {"ssl": self._tls_context, "server_hostname": tls.server_name or host}
        _, link = await self._loop.create_connection(
            lambda: _Link(self, peer), addresses[-1], port, **secure
        )
        return link


@dataclass(slots=True)
class _Peer:
    """What is known of one endpoint."""

    endpoint: str
    pace: Pace
    connecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    link: "_Link | None" = None
    connections: int = 0
    version: int = 0
    failure: tuple[type[UnreachableError], str] | None = None


@dataclass(slots=True)
class _Request:
    """A request under way."""

    answer: asyncio.Future[Frame]
    operation: str
    sent_at: float
    seconds: float
    had_its_time: bool


class _Link(asyncio.Protocol):
    """One connection: bytes in, answers out, matched by opaque."""

    def __init__(self, client: RemotingClient, peer: _Peer):
        self.pending: dict[int, _Request] = {}
        self.closed = False
        self._client = client
        self._peer = peer
        self._buffer = bytearray()
        self._answers = 0
        self._heard_at = 0.0
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, data: bytes) -> None:
        """Send with all that is asked in the same turn of the loop: one system call for many."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(data)

    def _flush(self) -> None:
        data, self._unsent = b"".join(self._unsent), []
        if self._transport and not self.closed:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._client.bytes += len(data)
        self._buffer += data
        try:
            frames = take_frames(self._buffer)
        except FrameError as error:
            if self._answers:
                self.end(BrokenFrameError, f"a broken frame: {error}")
            else:
                self.give_up(NotRocketMQError, f"does not speak RocketMQ: {error}")
            return
        for frame in frames:
            # Only answers to what was asked count: a broker may also send requests, and answers
            # to requests that have timed out.
            request = self.pending.pop(frame.opaque, None) if frame.is_response else None
            if request and not request.answer.done():
                self._answers += 1
                self._peer.version = frame.version if frame.language == "JAVA" else 0
                request.answer.set_result(frame)
        if frames:
            self._heard_at = asyncio.get_running_loop().time()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answers or not self.pending:
            self.end(ConnectionLostError, "the connection broke before the answer")
        else:
            hint = "" if self._client.encrypted else ", does it want TLS?"
            reason = tls_failure(exc) or f"closed the connection without an answer{hint}"
            self.give_up(NotRocketMQError, reason)

    def expire(self, opaque: int) -> None:
        """The time of one request is over."""
        request = self.pending.get(opaque)
        if request is None or request.answer.done():
            return
        reason = f"no answer within {request.seconds:.3g} s"
        if self._heard_at > request.sent_at or not request.had_its_time:
            del self.pending[opaque]
            error = RequestTimeoutError(self._peer.endpoint, request.operation, reason)
            request.answer.set_exception(error)
        else:
            self.give_up(SilentError, reason)

    def give_up(self, kind: type[UnreachableError], reason: str) -> None:
        """The endpoint is of no use: fail what is under way and all that would follow."""
        self._peer.failure = (kind, reason)
        self.end(kind, reason)

    def end(self, kind: type[RemotingError], reason: str) -> None:
        """Close the connection and fail what is under way."""
        self.closed = True
        if self._transport:
            self._transport.abort()
        pending, self.pending = self.pending, {}
        self._buffer.clear()
        for request in pending.values():
            if not request.answer.done():
                error = kind(self._peer.endpoint, request.operation, reason)
                request.answer.set_exception(error)
