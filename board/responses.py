"""Responses: JSON of rows, problems as RFC 9457 describes them, and headers of all responses."""

import math
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import Response

PROBLEM = "application/problem+json"

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""On every response: nothing from elsewhere, no script in a page, no page in a frame."""


class ProblemError(Exception):
    """A request that cannot be served.

    Attributes:
        status: the HTTP status.
        detail: one line for the person behind the request.
        headers: further headers of the response.
    """

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})


def json_response(
    content: Any, status: int = 200, media_type: str = "application/json"
) -> Response:
    """Return content as JSON: instants in ISO 8601 UTC, unknown as null."""
    return Response(msgspec.json.encode(_plain(content)), status, media_type=media_type)


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem: its status, its name and the reason in one line."""
    content = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    response = json_response(content, status, PROBLEM)
    response.headers.update(headers or {})
    return response


def strict_headers(path: str) -> dict[str, str]:
    """Return the headers of every response at a path."""
    return SECURITY_HEADERS | {"cache-control": _caching(path)}


def _caching(path: str) -> str:
    """Return how long a browser may keep a response: files are of a version, numbers are of now."""
    return "private, max-age=86400" if path.startswith("/static/") else "no-store"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
