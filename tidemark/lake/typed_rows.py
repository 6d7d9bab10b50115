"""Rows of tables as typed structs, and structs as rows again.

Arrow makes Python values of nested columns and of instants one by one, in microseconds each. Here
a nested column is taken apart first, and an instant that many rows share is made once.
"""

from array import array
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, chain, pairwise
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tidemark.lake.schema import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIT = timedelta(microseconds=1)
_CODES = {BIGINT: "q", INT: "i", DOUBLE: "d"}
_BLANK = {STRING: "", BOOLEAN: False, TIMESTAMP: _EPOCH, BIGINT: 0, INT: 0, DOUBLE: 0.0}
_OFTEN_EQUAL = (str, datetime, type(None))


def arrow_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as an Arrow array; None is NULL.

    Args:
        values: the values; of a map dictionaries, of a struct dictionaries by its fields' names.
        kind: a type that declarations of tables use.

    Raises:
        TypeError, ValueError, OverflowError, AttributeError: a value is not of that type.
    """
    count, first = len(values), values[0] if values else None
    if count > 1 and type(first) in _OFTEN_EQUAL and values.count(first) == count:
        return pa.repeat(arrow_array([first], kind)[0], count)
    validity = None
    if None in values:
        validity = _bits(value is not None for value in values)
        blank = _BLANK.get(kind, {})
        values = [blank if value is None else value for value in values]
    buffers, children = _parts(values, kind)
    return pa.Array.from_buffers(kind, count, [validity, *buffers], children=children)


def _parts(values: Sequence[Any], kind: pa.DataType) -> tuple[list[pa.Buffer], list[pa.Array]]:
    """Return the buffers that follow the validity of an array without NULL, and its children."""
    if kind == STRING:
        texts = list(map(str.encode, values))
        return [_ends(texts), pa.py_buffer(b"".join(texts))], []
    if kind == BOOLEAN:
        return [_bits(values)], []
    if kind == TIMESTAMP:
        return _parts([(value - _EPOCH) // _UNIT for value in values], BIGINT)
    if kind in _CODES:
        return [pa.py_buffer(array(_CODES[kind], values))], []
    if isinstance(kind, pa.StructType):
        return [], [arrow_array([value.get(it.name) for value in values], it.type) for it in kind]
    if isinstance(kind, pa.MapType):
        entries = [dict(key=key, value=item) for value in values for key, item in value.items()]
        return [_ends(values)], [arrow_array(entries, pa.struct([kind.key_field, kind.item_field]))]
    assert isinstance(kind, pa.ListType), kind
    return [_ends(values)], [arrow_array(list(chain.from_iterable(values)), kind.value_type)]


def _bits(flags: Iterable[bool]) -> pa.Buffer:
    """Return flags as bits, the first one lowest."""
    digits = bytes(map(ord("0").__add__, flags))
    return pa.py_buffer(int(digits[::-1] or b"0", 2).to_bytes(len(digits) // 8 + 1, "little"))


def _ends(parts: Iterable[Collection[Any]]) -> pa.Buffer:
    """Return where each part ends in all of them together, behind a 0."""
    return pa.py_buffer(array("i", accumulate(map(len, parts), initial=0)))


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
        msgspec.to_builtins(item, builtin_types=(datetime,), enc_hook=_text) for item in structs
    ]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} is no value of a column")


def _values(column: pa.Array) -> list[Any]:
    if types.is_timestamp(column.type):
        distinct = column.unique()
        instants = distinct.to_pylist()
        places = pc.index_in(column, value_set=distinct)
        return [instants[place] for place in places.to_pylist()]
    if types.is_struct(column.type):
        names = [field.name for field in column.type]
        parts = [_values(part) for part in column.flatten()]
        return [dict(zip(names, values, strict=True)) for values in zip(*parts, strict=True)]
    if types.is_list(column.type):
        return _parted(column, _values(column.values))
    if types.is_map(column.type):
        pairs = zip(_values(column.keys), _values(column.items), strict=True)
        return [dict(entries) for entries in _parted(column, list(pairs))]
    return column.to_pylist()


def _parted(column: pa.ListArray, values: list[Any]) -> list[list[Any]]:
    """Return the values of a column of lists as one list a row; NULL is an empty list."""
    return [values[start:end] for start, end in pairwise(column.offsets.to_pylist())]
