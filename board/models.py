"""The schemas of the API's responses, for its OpenAPI document; from the declarations of tables."""

from datetime import datetime
from functools import cache
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, Field, create_model

from lake.schema import Table


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


@cache
def page_model(table: Table) -> type[BaseModel]:
    """Return the model of a page of a table's rows."""
    row = row_model(table)
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
