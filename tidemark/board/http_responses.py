"""Responses: JSON of rows, problems as RFC 9457 describes them, headers of all responses."""

import math
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec
import pyarrow as pa
from fastapi import Response
from pydantic import BaseModel, Field, create_model

from tidemark.lake.schema import Table


class Problem(BaseModel):
    """The reason why a request failed, in the format of RFC 9457."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str


@cache
def row_model(table: Table) -> type[BaseModel]:
    """Return the model of a table's row, every column with its meaning."""
    fields: dict[str, Any] = {
        # Any column may be unknown.
        column.name: (_type(column.type) | None, Field(None, description=column.comment))
        for column in table.columns
    }
    name = "".join(part.title() for part in table.name.replace(".", "_").split("_"))
    return create_model(name, __doc__=table.comment, **fields)


def object_model(
    name: str, doc: str, base: type[BaseModel] | None = None, /, **fields: tuple[Any, str]
) -> type[BaseModel]:
    """Return the model of an object of a response; each value may be unknown.

    Args:
        name: its name in the document of the API.
        doc: what it is.
        base: a model whose fields it has too.
        fields: name to the type and the meaning of a value.
    """
    declared: dict[str, Any] = {
        field: (kind | None, Field(None, description=meaning))
        for field, (kind, meaning) in fields.items()
    }
    return create_model(name, __base__=base, __doc__=doc, **declared)


def page_model(table: Table) -> type[BaseModel]:
    """Return the model of a page of a table's rows."""
    return page_of(row_model(table))


@cache
def page_of(row: type[BaseModel]) -> type[BaseModel]:
    """Return the model of a page of rows."""
    items = Field(description="the rows, in the requested order")
    cursor = Field(None, description="give it as `cursor` for the next page; null at the end")
    fields: dict[str, Any] = {
        "items": (list[row], items),  # pyright: ignore
        "next_cursor": (str | None, cursor),
    }
    return create_model(f"{row.__name__}Page", **fields)


@cache
def details_model(table: Table, **parts: Table) -> type[BaseModel]:
    """Return the model of a table's row with the rows of other tables about it, by name."""
    row = row_model(table)
    fields: dict[str, Any] = {
        name: (list[row_model(part)], Field(description=part.comment))
        for name, part in parts.items()
    }
    return create_model(f"{row.__name__}Details", __base__=row, **fields)


def _type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return list[_type(kind.value_type)]
    if pa.types.is_map(kind):
        return dict[str, Any]
    if pa.types.is_struct(kind):
        return dict[str, Any]
    if pa.types.is_timestamp(kind):
        return datetime
    if pa.types.is_boolean(kind):
        return bool
    if pa.types.is_integer(kind):
        return int
    return float if pa.types.is_floating(kind) else str


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
