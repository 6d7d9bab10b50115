"""Connections to the board: how many there are, and how long a client may take for a request.

Nobody is known before the head of a request is complete, so a connection that waits for one is
closed after some seconds, and earlier where it takes the place of another. uvicorn has a time for
connections between two requests, and none for those that never send one.
"""

import asyncio
import resource
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 1000
"""Connections at once, where the system allows twice as many open files."""


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Bounds of connections.

    Attributes:
        connections: at once.
        head: bytes of a request line and its headers that are kept while the rest is awaited.
        head_seconds: from a connection, or the response before, to the end of the head.
        body_seconds: from there to the end of the body.
        idle_seconds: between two requests.
        stalled_seconds: how long a client may take nothing of a response.
    """

    connections: int
    head: int = 32_768
    head_seconds: float = 10
    body_seconds: float = 30
    idle_seconds: float = 5
    stalled_seconds: float = 60

    @classmethod
    def of_system(cls) -> "ConnectionLimits":
        """Return bounds that leave half of the files that this process may open."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls(connections=MOST if files < 0 else min(MOST, files // 2))


class Phase(StrEnum):
    """The part of an exchange that a connection waits for."""

    HEAD = "head"
    BODY = "body"
    RESPONSE = "response"


class Connections:
    """The connections of one server.

    Attributes:
        limits: their bounds.
        open: all of them.
        waiting: those that wait for a client, the longest waiting first.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.open: set[Connection] = set()
        self.waiting: dict[Connection, None] = {}

    def make_room(self) -> None:
        """Close the connection that has waited longest where there are too many.

        Where none waits for its client this is the newest, which waits for its first request.
        """
        if len(self.open) > self.limits.connections and self.waiting:
            next(iter(self.waiting)).abort()


class Connection(H11Protocol):
    """A connection whose client takes bounded time."""

    def __init__(self, *args: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self._all = connections
        self._phase: Phase | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def abort(self) -> None:
        """Close it now, whatever is not sent yet."""
        self._forget()
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore
        """Wait for the first request; where there are too many connections one is closed."""
        super().connection_made(transport)
        self._all.open.add(self)
        self._follow()
        self._all.make_room()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of this one."""
        super().on_response_complete()
        self._follow()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._forget()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client to take the sent bytes."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self._all.limits.stalled_seconds, self.abort)

    def resume_writing(self) -> None:
        """Stop the timer of a client that took nothing, and resume sending."""
        super().resume_writing()
        if self._stalled:
            self._stalled.cancel()

    def _follow(self) -> None:
        """Start the time of a phase that has begun."""
        phase = self._present()
        if phase is self._phase or self not in self._all.open:
            return
        self._phase = phase
        if self._deadline:
            self._deadline.cancel()
        self._all.waiting.pop(self, None)
        limits = self._all.limits
        if phase is not Phase.RESPONSE:
            self._all.waiting[self] = None
            seconds = limits.head_seconds if phase is Phase.HEAD else limits.body_seconds
            self._deadline = self.loop.call_later(seconds, self.abort)

    def _present(self) -> Phase:
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.BODY
        is_over = self.cycle is None or self.cycle.response_complete
        return Phase.HEAD if is_over else Phase.RESPONSE

    def _forget(self) -> None:
        self._all.open.discard(self)
        self._all.waiting.pop(self, None)
        for timer in (self._deadline, self._stalled):
            if timer:
                timer.cancel()


def server(app: ASGIApp, limits: ConnectionLimits | None = None) -> uvicorn.Server:
    """Return the server of the board, with bounded connections.

    Args:
        app: the board.
        limits: bounds of connections; by default those that the system allows.
    """
    limits = limits or ConnectionLimits.of_system()
    config = uvicorn.Config(
        app,
        http=partial(Connection, connections=Connections(limits)),  # pyright: ignore
        ws="none",
        h11_max_incomplete_event_size=limits.head,
        timeout_keep_alive=limits.idle_seconds,  # pyright: ignore
        # Anybody can send invalid requests, and fill a log with warnings about them.
        log_level="error",
        access_log=False,
        server_header=False,
        # Pages that wait for changes never close by themselves.
        timeout_graceful_shutdown=2,
        # The trusted proxy is known by its own address, whatever it forwards.
        proxy_headers=False,
    )
    return uvicorn.Server(config)
