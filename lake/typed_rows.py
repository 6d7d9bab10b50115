"""Rows of tables as typed structs, and structs as rows again.

Arrow makes Python values of nested columns and of instants one by one, in microseconds each. Here
a nested column is taken apart first, and an instant that many rows share is made once.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Record = TypeVar("Record", bound=msgspec.Struct)
Value = TypeVar("Value")


def typed_rows(rows: pa.Table, kind: type[Record]) -> list[Record]:
    """Return rows as structs; a field has its default where its column is NULL.

    Args:
        rows: with a column for each field; other columns are ignored.
        kind: the type of the structs; a field that may be NULL has a default.

    Raises:
        msgspec.ValidationError: when a value is not of its field's type.
    """
    names = kind.__struct_fields__
    known = [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in zip(*columns_of(rows, names), strict=True)
    ]
    return converted(known, list[kind])


def converted(values: Any, kind: type[Value]) -> Value:
    """Return plain values as a type, of which a class of its own is made from its text.

    Raises:
        msgspec.ValidationError: when a value is not of its field's type.
    """
    return msgspec.convert(values, kind, dec_hook=lambda own, text: own(text))


def columns_of(rows: pa.Table, names: Sequence[str]) -> list[list[Any]]:
    """Return the values of columns; of lists and maps NULL is an empty one."""
    return [_values(rows[name].combine_chunks()) for name in names]


def dict_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows as JSON has them: maps are dictionaries, of which Arrow makes pairs."""
    return rows.to_pylist(maps_as_pydicts="strict")


def plain_rows(structs: Iterable[msgspec.Struct]) -> list[dict[str, Any]]:
    """Return structs as rows that Arrow understands."""
    return [
        msgspec.to_builtins(each, builtin_types=(datetime,), enc_hook=_text) for each in structs
    ]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} is no value of a column")


def _values(column: pa.Array) -> list[Any]:
    if types.is_timestamp(column.type):
        distinct = column.unique()
        instants = distinct.to_pylist()
        places = pc.index_in(column, value_set=distinct)  # pyright: ignore
        return [instants[place] for place in places.to_pylist()]
    if types.is_struct(column.type):
        names = [field.name for field in column.type]
        parts = [_values(part) for part in column.flatten()]
        return [dict(zip(names, values, strict=True)) for values in zip(*parts, strict=True)]
    if types.is_list(column.type):
        return _parted(column, _values(column.values))
    if types.is_map(column.type):
        pairs = zip(_values(column.keys), _values(column.items), strict=True)
        return [dict(each) for each in _parted(column, list(pairs))]
    return column.to_pylist()


def _parted(column: pa.ListArray, values: list[Any]) -> list[list[Any]]:
    """Return the values of a column of lists as one list a row; NULL is an empty list."""
    return [values[start:end] for start, end in pairwise(column.offsets.to_pylist())]
