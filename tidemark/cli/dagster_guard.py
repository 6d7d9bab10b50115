"""Dagster's pages behind a guard, because any web page could send Dagster a mutation.

``dagster-webserver`` executes mutations that are sent by GET, or by POST as plain text, and checks
neither Host nor Origin. The guard refuses requests that a page of another origin can send before
Dagster receives them, and adds headers that keep foreign pages from framing Dagster's.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemark.board.access import SAFE, is_known, is_own_change, is_own_read

GRAPHQL = "/graphql"
"""Path of Dagster's API, after any prefix; queries, mutations and subscriptions go there."""

_APPLICATION = "create_app_from_workspace_process_context"
"""Name by which the command ``dagster-webserver`` makes its application."""


class DagsterGuard:
    """Refuses requests that a page of another origin may have sent."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        """Guard an application.

        Args:
            app: Dagster's application.
            names: names by which browsers reach it, besides loopback and addresses.
        """
        self.app = app
        self.names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it with the reason."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        reason = self._reason(scope)
        if reason is None:
            await self.app(scope, receive, _framed_by_nobody(send))
        elif scope["type"] == "websocket":
            # Before it is accepted, a socket that is closed gets HTTP 403.
            await send({"type": "websocket.close", "code": 1008, "reason": reason})
        else:
            await PlainTextResponse(f"{reason}\n", 403)(scope, receive, send)

    def _reason(self, scope: Scope) -> str | None:
        """Return why a request is refused, None where it is served."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not is_known(host, self.names):
            return (
                f"{host[:100]!r} is not a name of these pages: TIDEMARK_WEBSERVER_HOSTS lists "
                "the names by which browsers reach them"
            )
        if scope["type"] == "websocket":
            return None if is_own_change(headers) else "this connection comes from another site"
        is_graphql = scope["path"].endswith(GRAPHQL)
        if is_graphql and b"query" in parse_qs(scope["query_string"]):
            return "GraphQL is taken from the body of a POST, not from the address"
        if scope["method"] in SAFE:
            is_own = is_own_read(headers, page=not is_graphql)
            return None if is_own else "this request comes from another site"
        if not is_own_change(headers):
            return "this request comes from another site"
        if scope["method"] != "POST":
            return f"Dagster's pages take no {scope['method'][:20]}"
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            # A form or a text needs no permission of ours to be sent from a page elsewhere.
            return "send it as Content-Type: application/json"
        return None


def _framed_by_nobody(send: Send) -> Send:
    """Return a sender that forbids pages of others to frame a response, or to embed it."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["x-frame-options"] = "DENY"
            headers["cross-origin-resource-policy"] = "same-origin"
        await send(message)

    return guarded


def serve(arguments: Sequence[str], names: frozenset[str]) -> None:
    """Serve Dagster's pages behind the guard until the process is ended.

    Args:
        arguments: options of ``dagster-webserver``.
        names: as for `DagsterGuard`.
    """
    from dagster_webserver import cli

    # Without the name this fails, so an upgrade that renames it serves no page without the guard.
    unguarded = getattr(cli, _APPLICATION)

    def guarded(*given: Any, **options: Any) -> DagsterGuard:
        return DagsterGuard(unguarded(*given, **options), names)

    setattr(cli, _APPLICATION, guarded)
    cli.dagster_webserver.main(
        list(arguments), prog_name="tidemark webserver", auto_envvar_prefix="DAGSTER_WEBSERVER"
    )
