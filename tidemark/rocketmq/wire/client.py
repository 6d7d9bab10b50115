"""The transport: many requests under way over one connection per endpoint, read-only by force.

A `RemotingClient` serves one snapshot and is then discarded. An endpoint that proved unreachable
stays so for the lifetime of the client, so an unreachable broker costs one timeout in all.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import Any, NoReturn, Self, TypeVar

from tidemark.rocketmq.names import version_name
from tidemark.rocketmq.wire.addresses import RESOLVER, first_to_accept, split_endpoint
from tidemark.rocketmq.wire.codes import (
    FORWARDED_TO_CLIENTS,
    LOOKS_UP_MESSAGES,
    READ_ONLY,
    BadResponseError,
    BudgetError,
    ConnectError,
    ConnectionLostError,
    DeniedError,
    ForbiddenRequest,
    OutsideError,
    RefusedError,
    RequestCode,
    RequestTimeoutError,
    ResponseCode,
    ResponseError,
    UnreachableError,
)
from tidemark.rocketmq.wire.connection import EndpointConnection, Peer, PendingRequest
from tidemark.rocketmq.wire.frame import Frame, encode_request
from tidemark.rocketmq.wire.pacing import BUSY, MAX_RETRIES, Allowance, Pace, paced
from tidemark.rocketmq.wire.security import PLAIN, Security, is_denial, tls_failure

T = TypeVar("T")

MAX_RECONNECTS = 3
"""Connections one endpoint may break before it counts as unreachable."""

NO_TIME = "no time left for the request"

MAX_CONNECTIONS = 128
"""Connections of one client that are open at a time: a process has 1,024 descriptors by default."""


class RemotingClient:
    """Sends read-only requests and matches responses to them.

    Args:
        connect_timeout: seconds for one connection; the lookup of a host name may take as long.
        request_timeout: seconds from sending a request to its response.
        total_timeout: seconds from now after which every request fails; None for no limit.
        in_flight: requests under way at one endpoint at a time; the rest wait their turn.
        max_requests: requests to one endpoint at most, None for no limit.
        security: our account, and whether connections are encrypted.
        client_reports: also allow `FORWARDED_TO_CLIENTS`; one of them can make a client commit.
        message_lookup: also allow `LOOKS_UP_MESSAGES`.
        allowance: the bytes and values that may be received; several clients of a snapshot share
            one.
        max_connections: connections open at a time; an endpoint that has none waits until another
            one is idle.
        owner: the cluster, by which lookups of host names take turns.

    Attributes:
        in_flight: requests under way at one endpoint at a time.
        encrypted: whether connections use TLS.
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
        client_reports: bool = False,
        message_lookup: bool = False,
        allowance: Allowance | None = None,
        max_connections: int = MAX_CONNECTIONS,
        owner: str = "",
    ):
        self._allowed = READ_ONLY | (FORWARDED_TO_CLIENTS if client_reports else frozenset())
        self._allowed |= LOOKS_UP_MESSAGES if message_lookup else frozenset()
        self._allowance = allowance or Allowance()
        self._received_before = self._allowance.received
        self._sent_requests = self._sent_bytes = 0
        self._connect_timeout = connect_timeout
        self._request_timeout = request_timeout
        self.in_flight = in_flight
        self.encrypted = security.tls is not None
        self._max_requests = max_requests
        self._security = security
        self._tls_context: ssl.SSLContext | None = None
        self._loop = asyncio.get_running_loop()
        self._deadline = None if total_timeout is None else self._loop.time() + total_timeout
        self._opaque = count(1)
        self._peers: dict[str, Peer] = {}
        self._max_connections, self._connections = max_connections, 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._owner = owner

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def requests(self) -> int:
        """Requests sent."""
        return self._sent_requests

    @property
    def bytes(self) -> int:
        """Bytes sent and received."""
        return self._sent_bytes + self._allowance.received - self._received_before

    @property
    def is_over(self) -> bool:
        """Whether every further request fails: the time or the allowance is used up."""
        is_late = self._deadline is not None and self._loop.time() >= self._deadline
        return is_late or self._allowance.is_used_up

    async def paced(
        self, items: Iterable[T], send: Callable[[T], Awaitable[None]], at_once: int | None = None
    ) -> int:
        """Call `send` for every item until the client `is_over`, then for one more, which fails.

        The other side decides the number of items. A failure of each would take longer than the
        time limit of the requests.

        Args:
            items: the subjects of requests.
            send: sends one; records its failure.
            at_once: requests under way, as many as the client has at one endpoint unless given.

        Returns:
            Items that were left out.
        """
        left_out, is_reported = 0, False

        async def in_time(item: T) -> None:
            nonlocal left_out, is_reported
            if is_reported:
                left_out += 1
                return
            is_reported = self.is_over
            await send(item)

        await paced(items, in_time, at_once or self.in_flight)
        return left_out

    async def call(
        self,
        endpoint: str,
        code: RequestCode,
        fields: Mapping[str, str] | None = None,
        *,
        subject: str = "",
        timeout: float | None = None,
    ) -> Frame:
        """Send one request and wait for its response.

        Args:
            endpoint: ``host:port``.
            code: the request.
            fields: ``extFields`` of the request.
            subject: the subject of the request, for error messages.
            timeout: seconds, instead of the client's request timeout.

        Returns:
            The response, whose code is SUCCESS.

        Raises:
            ForbiddenRequest: the code is not on the read-only list; nothing was sent.
            RemotingError: one of its subclasses, see `tidemark.rocketmq.wire.codes`.
        """
        if code not in self._allowed:
            raise ForbiddenRequest(f"request code {int(code)} is not on the read-only list")
        operation = f"{code.name} {subject}".rstrip()
        peer = self._peers.get(endpoint)
        if peer is None:
            pace = Pace(self.in_flight, self._max_requests)
            peer = self._peers[endpoint] = Peer(endpoint=endpoint, pace=pace)
        if self._security.credentials:
            fields = self._security.credentials.sign(fields)
        limit = self._request_timeout if timeout is None else timeout
        peer.calls += 1
        try:
            async with peer.pace:
                frame = await self._send_with_retries(peer, code, fields, operation, limit)
        finally:
            peer.calls -= 1
            if self._waiting:
                self._close_idle(peer)
        self.require_time(endpoint, operation)
        if frame.code == ResponseCode.SUCCESS:
            return frame
        account, remark = self._security.credentials, frame.remark
        if account and remark:
            remark = account.redacted(remark)
        if is_denial(frame):
            raise DeniedError(endpoint, operation, frame.code, remark, account is not None)
        raise ResponseError(endpoint, operation, frame.code, remark)

    def version_of(self, endpoint: str) -> str | None:
        """Return the RocketMQ version of an endpoint, such as ``V5_3_3``.

        Every response of a Java process carries the version. None where no response has come, or
        where the responses carry no number.
        """
        peer = self._peers.get(endpoint)
        return version_name(peer.version) if peer and peer.version > 0 else None

    async def close(self) -> None:
        """Close every connection; running requests fail with `ConnectionLostError`.

        Later requests fail as after the deadline, so tasks of a failed snapshot open no connection.
        """
        self._deadline = self._loop.time()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(TimeoutError())
        for peer in self._peers.values():
            if peer.connection:
                peer.connection.end(ConnectionLostError, "the client was closed")
        self._peers.clear()
        await asyncio.sleep(0)

    async def _send_with_retries(
        self,
        peer: Peer,
        code: RequestCode,
        fields: Mapping[str, str] | None,
        operation: str,
        limit: float,
    ) -> Frame:
        """Send a request; send it again after a rest while the broker reports that it is busy."""
        pace, clock, retries = peer.pace, self._loop.time, MAX_RETRIES
        while True:
            await self._rest(pace)
            connection = await self._connection(peer, operation)
            if not pace.spend():
                reason = f"the budget of {self._max_requests} requests per snapshot is used up"
                raise BudgetError(peer.endpoint, operation, reason)
            sent_at = clock()
            try:
                frame = await self._send(connection, code, fields, operation, limit)
            except RequestTimeoutError:
                pace.record_slow(sent_at, clock())
                raise
            if frame.code not in BUSY:
                pace.record_response(sent_at, clock())
                return frame
            pace.record_busy(sent_at, clock())
            too_late = self._deadline is not None and pace.rests_until >= self._deadline
            if not retries or too_late:
                return frame
            retries -= 1

    async def _rest(self, pace: Pace) -> None:
        """Wait while a busy endpoint rests, but never beyond the deadline."""
        while (now := self._loop.time()) < pace.rests_until:
            until = pace.rests_until
            if self._deadline is not None:
                if now >= self._deadline:
                    return
                until = min(until, self._deadline)
            await asyncio.sleep(until - now)

    async def _send(
        self,
        connection: EndpointConnection,
        code: RequestCode,
        fields: Mapping[str, str] | None,
        operation: str,
        limit: float,
    ) -> Frame:
        now = self._loop.time()
        until = now + limit if self._deadline is None else min(now + limit, self._deadline)
        opaque = next(self._opaque)
        future = self._loop.create_future()
        request = PendingRequest(
            response=future,
            operation=operation,
            sent_at=now,
            timeout=until - now,
            full_timeout=until == now + limit,
        )
        connection.pending[opaque] = request
        timer = self._loop.call_at(until, connection.expire, opaque)
        data = encode_request(code, opaque, fields)
        self._sent_requests += 1
        self._sent_bytes += len(data)
        connection.send(data)
        try:
            return await request.response
        finally:
            timer.cancel()
            connection.pending.pop(opaque, None)

    async def _connection(self, peer: Peer, operation: str) -> EndpointConnection:
        """Return the open connection to an endpoint; make one if there is none."""
        self._check(peer, operation)
        if peer.connection and not peer.connection.closed:
            return peer.connection
        async with peer.connecting:
            self._check(peer, operation)
            if peer.connection and not peer.connection.closed:
                return peer.connection
            if peer.connections > MAX_RECONNECTS:
                self._give_up(peer, ConnectError, "the connection keeps breaking", operation)
            addresses = await self._addresses(peer, operation)
            await self._take_connection(peer, operation)
            try:
                connection = await self._connect(peer, addresses, operation)
            except BaseException:
                self._return_connection()
                raise
            connection.on_end = self._return_connection
            if connection.closed:
                connection.end(ConnectionLostError, "the connection broke")
            peer.connections += 1
            peer.connection = connection
            return connection

    async def _take_connection(self, peer: Peer, operation: str) -> None:
        """Wait until one more connection may be open; idle ones are closed for it."""
        if self._connections < self._max_connections:
            self._connections += 1
            return
        waiter = self._loop.create_future()
        self._waiting.append(waiter)
        for other in self._peers.values():
            if other.is_idle:
                self._close_idle(other)
                break
        try:
            async with asyncio.timeout_at(self._deadline):
                await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled() and not waiter.exception():
                self._return_connection()  # it came too late
            if isinstance(error, TimeoutError):
                raise RequestTimeoutError(peer.endpoint, operation, NO_TIME) from None
            raise

    def _return_connection(self) -> None:
        """Hand a connection that ended to the endpoint that waits longest."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._connections -= 1

    def _close_idle(self, peer: Peer) -> None:
        if peer.is_idle and peer.connection:
            peer.connections -= 1  # it did not break
            peer.connection.end(ConnectionLostError, "closed for another endpoint")

    def _check(self, peer: Peer, operation: str) -> None:
        if peer.failure:
            kind, reason = peer.failure
            raise kind(peer.endpoint, operation, reason)
        self.require_time(peer.endpoint, operation)
        if self._allowance.is_used_up:
            raise BudgetError(peer.endpoint, operation, self._allowance.reason)

    def require_time(self, endpoint: str, operation: str) -> None:
        """Refuse work that would begin after the deadline, also the decoding of a response.

        Raises:
            RequestTimeoutError: no time is left.
        """
        if self._deadline is not None and self._loop.time() >= self._deadline:
            raise RequestTimeoutError(endpoint, operation, NO_TIME)

    def refuse_large(self, endpoint: str, operation: str, frame: Frame) -> None:
        """Refuse a body that would take too much memory.

        Raises:
            BadResponseError: it has more values than a body, or all bodies of the snapshot, may
                have.
        """
        if reason := self._allowance.refuse_large(frame.body):
            raise BadResponseError(endpoint, operation, reason)

    def _give_up(
        self, peer: Peer, kind: type[UnreachableError], reason: str, operation: str
    ) -> NoReturn:
        peer.failure = (kind, reason)
        raise kind(peer.endpoint, operation, reason)

    async def addresses(self, endpoint: str) -> list[str]:
        """Return the IP addresses of an endpoint that may be connected to.

        Raises:
            OutsideError: none of them is in the networks of the cluster.
            OSError, ValueError: the host is unknown, or the text is no endpoint.
            TimeoutError: the lookup takes longer than a connection may.
        """
        host, port = split_endpoint(endpoint)
        until = self._loop.time() + self._connect_timeout
        if self._deadline is not None:
            until = min(until, self._deadline)
        async with asyncio.timeout_at(until):
            addresses = await RESOLVER.addresses(self._owner, host, port)
        networks = self._security.networks
        allowed = addresses if networks is None else networks.within(addresses)
        if not allowed:
            reason = (
                f"{', '.join(addresses[:3])} is outside of the networks of brokers ({networks})"
            )
            raise OutsideError(endpoint, "", reason)
        return allowed

    async def _addresses(self, peer: Peer, operation: str) -> list[str]:
        try:
            return await self.addresses(peer.endpoint)
        except OutsideError as error:
            self._give_up(peer, OutsideError, error.reason, operation)
        except TimeoutError:
            reason = f"no address of the host within {self._connect_timeout:g} s"
            self._give_up(peer, ConnectError, reason, operation)
        except (OSError, ValueError) as error:
            reason = f"could not connect: {getattr(error, 'strerror', None) or error}"
            self._give_up(peer, ConnectError, reason, operation)

    async def _connect(
        self, peer: Peer, addresses: list[str], operation: str
    ) -> EndpointConnection:
        until = self._loop.time() + self._connect_timeout
        if self._deadline is not None:
            until = min(until, self._deadline)
        try:
            _, port = split_endpoint(peer.endpoint)
            async with asyncio.timeout_at(until):
                return await first_to_accept(addresses, until, partial(self._open, peer, port))
        except ConnectionRefusedError:
            reason = "connection refused, nothing listens there"
            self._give_up(peer, RefusedError, reason, operation)
        except TimeoutError:
            reason = f"no connection within {self._connect_timeout:g} s"
            self._give_up(peer, ConnectError, reason, operation)
        except (OSError, ValueError) as error:
            # A handshake that the other side ends is a ConnectionResetError without a text.
            ended = "the other side ended the TLS handshake, does it speak TLS?"
            reason = tls_failure(error) or getattr(error, "strerror", None) or str(error) or ended
            self._give_up(peer, ConnectError, f"could not connect: {reason}", operation)

    async def _open(self, peer: Peer, port: int, address: str) -> EndpointConnection:
        """Connect to one address of a host."""
        secure: dict[str, Any] = {}
        tls = self._security.tls
        if tls:
            self._tls_context = self._tls_context or tls.context()
            host, _ = split_endpoint(peer.endpoint)
            secure = {"ssl": self._tls_context, "server_hostname": tls.server_name or host}
        _, connection = await self._loop.create_connection(
            lambda: EndpointConnection(peer, self._allowance, self.encrypted),
            address,
            port,
            **secure,
        )
        return connection
