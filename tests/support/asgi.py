"""Requests to an application as bytes, longer and wilder than any client sends them."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

Header = tuple[bytes, bytes]


def respond(
    app: Any,
    target: str,
    *,
    method: str = "GET",
    headers: Iterable[Header] = (),
    body: bytes = b"",
    client: tuple[str, int] = ("127.0.0.1", 1),
) -> tuple[int, bytes]:
    """Send one request to an application; return the status and the body of its response."""
    path, _, query = target.partition("?")
    given = list(headers)
    if not any(name == b"host" for name, _ in given):
        given.append((b"host", b"127.0.0.1"))
    if body:
        given.append((b"content-length", str(len(body)).encode()))
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": quote(path, safe="/%").encode(),
        "root_path": "", "query_string": query.encode(), "headers": given, "client": client,
        "server": ("127.0.0.1", 80), "state": {},
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    with suppress(Exception):  # the application has responded 500 and raises it for a log
        asyncio.run(app(scope, receive, send))
    return sent[0]["status"], b"".join(item.get("body", b"") for item in sent)
