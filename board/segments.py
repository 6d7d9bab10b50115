"""Path segments with any character: the segment of a group called ``a/b`` is ``a%2Fb``."""

from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

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
