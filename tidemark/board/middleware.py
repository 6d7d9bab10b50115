"""Middleware of the board: HEAD requests, encoded segments, limits, refusals, quiet times."""

import asyncio
from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemark.board.http_responses import problem, strict_headers
from tidemark.board.store import Store


class HeadMiddleware:
    """Lets every address that responds to GET respond to HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a HEAD request on as GET, and send the status and the headers of its response."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        is_over = False

        async def without_body(message: Message) -> None:
            nonlocal is_over
            if message["type"] != "http.response.body":
                await send(message)
            elif not is_over:
                # A body without an end, as that of /changes, ends here too.
                is_over = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self.app({**scope, "method": "GET"}, receive, without_body)


REFUSALS = frozenset({401, 403, 421, 429, 503})
"""Statuses of requests that were refused before they cost much."""

PROBES = frozenset({"/healthz", "/readyz"})

REFUSAL_SECONDS = 0.2

WAITING_REFUSALS = 100
"""Refusals that wait at once. More would take the connections of others."""


RECORDED = REFUSALS - {503}
"""Refusals that the audit trail lists; 503 is also the response of a board that is not ready."""

OTHER_PARTS = "another address"

Count = Callable[[str, str, int, datetime], None]
"""Counts a refusal by its author, method and part of the board, status and instant."""


def part_of_board(path: str, parts: Container[str]) -> str:
    """Return the part of the board that a path belongs to: ``/group``, ``/api/v1/groups``.

    Args:
        path: of a request.
        parts: the first names of the paths of all routes; what a client makes up is none of them.
    """
    prefix, rest = ("/api/v1", path[7:]) if path.startswith("/api/v1/") else ("", path)
    name = rest[1:].partition("/")[0]
    return f"{prefix}/{name}" if name in parts else OTHER_PARTS


class RefusalsMiddleware:
    """Sends a refusal after a moment, so clients that repeat refused requests cost little.

    It counts them, too: who, on which part of the board. A request without credentials whose
    response demands a login is no refusal: browsers begin so.
    """

    def __init__(self, app: ASGIApp, count: Count, parts: Container[str]) -> None:
        """Wrap an application.

        Args:
            app: the application.
            count: counts a refusal.
            parts: see `part_of_board`.
        """
        self.app = app
        self._count_refusal = count
        self._parts = parts
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and wait before the response where it is a refusal."""

        async def after_a_moment(message: Message) -> None:
            is_refusal = message.get("status") in REFUSALS and scope["path"] not in PROBES
            if is_refusal:
                self._count(scope, message["status"])
            if is_refusal and self._waiting < WAITING_REFUSALS:
                self._waiting += 1
                try:
                    await asyncio.sleep(REFUSAL_SECONDS)
                finally:
                    self._waiting -= 1
            await send(message)

        # The guard behind this sets the person in the state of the request.
        scope.setdefault("state", {})
        await self.app(scope, receive, after_a_moment)

    def _count(self, scope: Scope, status: int) -> None:
        names = {name for name, _ in scope["headers"]}
        if status not in RECORDED or (status == 401 and b"authorization" not in names):
            return
        person = scope["state"].get("person")
        address, _ = scope.get("client") or ("", 0)
        access = f"{scope['method'][:10]} {part_of_board(scope['path'], self._parts)}"
        author = person.name if person else address or "unknown address"
        self._count_refusal(author, access, status, datetime.now(UTC))


class AwakeMiddleware:
    """Lets the tables be followed while there are requests.

    The first request after a quiet time waits for them, and holds up no other one.
    """

    WITHOUT_TABLES = ("/healthz", "/static/")

    def __init__(self, app: ASGIApp, store: Store) -> None:
        self.app, self.store = app, store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Note a request, and let it wait where the tables are not followed."""
        if scope["type"] == "http" and not scope["path"].startswith(self.WITHOUT_TABLES):
            if self.store.is_awake:
                self.store.note_request()
            else:
                await run_in_threadpool(self.store.watch)
        await self.app(scope, receive, send)


SLASH = "\uf8ff"
"""Stands for a slash inside a part while an address is resolved; no name holds it."""


class SegmentsMiddleware:
    """Keeps an escaped slash from dividing an address."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its path taken apart before it is unescaped."""
        if scope["type"] == "http" and b"%" in scope.get("raw_path", b""):
            parts = scope["raw_path"].partition(b"?")[0].decode("ascii", "replace").split("/")
            path = "/".join(unquote(part).replace("/", SLASH) for part in parts)
            scope = {**scope, "path": path}
        await self.app(scope, receive, send)


def part(text: str) -> str:
    """Return a part of an address as it was written."""
    return text.replace(SLASH, "/")


_DIGITS = 18
"""Digits of a length that is read as a number."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Longest parts of a request, in bytes as they are sent.

    Names of RocketMQ have at most 255 characters, and a character takes at most 12 bytes here. A
    cursor holds the key of a row.

    Attributes:
        head: names and values of all headers.
        address: path and query together.
        part: a part of the path, and the name or the value of a parameter.
        parameters: parameters of an address.
        body: the body.
    """

    head: int = 32_768
    address: int = 8192
    part: int = 4096
    parameters: int = 32
    body: int = 65_536


class LimitsMiddleware:
    """Refuses a request that brings more than `Limits`."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it without reading its body."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if refused := self._refused(scope):
            response = problem(*refused, strict_headers(scope["path"][: self.limits.part]))
            await response(scope, receive, send)
            return
        await self.app(scope, self._bounded(receive), send)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and the reason of a refusal; None where the request is served."""
        most, query = self.limits, scope["query_string"]
        if sum(len(name) + len(value) for name, value in scope["headers"]) > most.head:
            return 431, f"headers have at most {most.head} bytes"
        path = scope.get("raw_path") or scope["path"].encode()
        if len(path) + len(query) > most.address:
            return 414, f"an address has at most {most.address} bytes"
        if any(len(part) > most.part for part in path.split(b"/")):
            return 414, f"a part of an address has at most {most.part} bytes"
        parameters = query.split(b"&", most.parameters)
        if len(parameters) > most.parameters:
            return 400, f"an address has at most {most.parameters} parameters"
        if any(
            len(part) > most.part for parameter in parameters for part in parameter.split(b"=", 1)
        ):
            return 414, f"a parameter has at most {most.part} bytes"
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or len(length) > _DIGITS or int(length) > most.body:
            return 413, f"a body has at most {most.body} bytes"
        return None

    def _bounded(self, receive: Receive) -> Receive:
        """Return a receiver that ends the request whose body is longer than allowed."""
        left = self.limits.body

        async def bounded() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, f"a body has at most {self.limits.body} bytes")
            return message

        return bounded
