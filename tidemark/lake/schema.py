"""Declarations of tables and columns, the schemas derived from them, and conditions on rows.

Arrow types are the one type language of the declarations: Arrow, Iceberg, Spark and the text shown
to people are all derived from them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    LessThan,
    Or,
)

from tidemark.lake.clocks import Window

BIGINT = pa.int64()
INT = pa.int32()
DOUBLE = pa.float64()
BOOLEAN = pa.bool_()
STRING = pa.string()
TIMESTAMP = pa.timestamp("us", tz="UTC")
STRINGS = pa.list_(STRING)
STRING_MAP = pa.map_(STRING, STRING)


@dataclass(frozen=True)
class Column:
    """One column: its name, Arrow type and meaning.

    Attributes:
        name: the column's name, equal in all tables where the meaning is equal.
        type: Arrow type.
        comment: one sentence with the unit, shown in Iceberg, Dagster and the documentation.
    """

    name: str
    type: pa.DataType
    comment: str


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table of the contract.

    Attributes:
        name: ``namespace.table``, also the key of its Dagster asset.
        comment: the grain and purpose in one or two sentences.
        columns: the columns in order.
        key: the columns that make a row unique.
        nullable_key: key columns that may be NULL (NULL is then a value of its own).
        instant: the timestamp column whose hour partitions the table.
    """

    name: str
    comment: str
    columns: Sequence[Column]
    key: tuple[str, ...]
    nullable_key: tuple[str, ...] = ()
    instant: str = "observed_at"

    @property
    def namespace(self) -> str:
        """``raw`` | ``progress`` | ``quality`` | ``alerting``."""
        return self.name.split(".")[0]

    @property
    def is_of_hours(self) -> bool:
        """Whether a row is of an hour, and not of a snapshot."""
        return "hour" in self.key

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.split(".")[1]

    @property
    def column_names(self) -> list[str]:
        """Names of the columns in order."""
        return [column.name for column in self.columns]

    @property
    def required(self) -> list[str]:
        """The key columns that must not be NULL."""
        return [name for name in self.key if name not in self.nullable_key]

    def arrow_schema(self) -> pa.Schema:
        """Return the Arrow schema, comments as field metadata."""
        return pa.schema(
            pa.field(column.name, column.type, metadata={"doc": column.comment})
            for column in self.columns
        )

    def arrow_table(self, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
        """Return rows as an Arrow table of this schema; columns that a row lacks are NULL.

        Raises:
            ValueError: a row has a column that is not declared, which Arrow alone would ignore.
        """
        listed = list(rows)
        unknown = {name for row in listed for name in row}.difference(self.column_names)
        if unknown:
            raise ValueError(f"{self.name} has no column {', '.join(sorted(unknown))}")
        return pa.Table.from_pylist(listed, schema=self.arrow_schema())


def type_text(kind: pa.DataType) -> str:
    """Return an Arrow type as the contract and Spark's DDL spell it.

    Raises:
        TypeError: for a type that no declaration uses.
    """
    if pa.types.is_list(kind):
        return f"array<{type_text(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_text(kind.key_type)},{type_text(kind.item_type)}>"
    if pa.types.is_struct(kind):
        inner = ",".join(f"{field.name}:{type_text(field.type)}" for field in kind.fields)
        return f"struct<{inner}>"
    names = {
        BIGINT: "bigint",
        INT: "int",
        DOUBLE: "double",
        BOOLEAN: "boolean",
        STRING: "string",
        TIMESTAMP: "timestamp",
    }
    if kind not in names:
        raise TypeError(f"no spelling for the Arrow type {kind}")
    return names[kind]


def window_filter(table: Table, window: Window) -> BooleanExpression:
    """Return the condition that the table's instant lies in a window."""
    return all_of(not_before(table.instant, window.start), earlier_than(table.instant, window.end))


def equal_to(column: str, value: str) -> BooleanExpression:
    """Return the condition that a column is a value."""
    return EqualTo(column, value)  # pyright: ignore


def one_of(column: str, values: Iterable[str]) -> BooleanExpression:
    """Return the condition that a column has one of some values."""
    return In(column, set(values))  # pyright: ignore


def not_before(column: str, instant: datetime) -> BooleanExpression:
    """Return the condition that a column is an instant or later."""
    return GreaterThanOrEqual(column, instant.isoformat())  # pyright: ignore


def earlier_than(column: str, instant: datetime) -> BooleanExpression:
    """Return the condition that a column is earlier than an instant."""
    return LessThan(column, instant.isoformat())  # pyright: ignore


def less_than(column: str, number: float) -> BooleanExpression:
    """Return the condition that a column is below a number."""
    return LessThan(column, number)  # pyright: ignore


def all_of(*conditions: BooleanExpression) -> BooleanExpression:
    """Return the condition that two or more conditions are all true."""
    return And(*conditions)  # pyright: ignore


def any_of(*conditions: BooleanExpression) -> BooleanExpression:
    """Return the condition that at least one condition is true."""
    return Or(*conditions) if len(conditions) > 1 else conditions[0]  # pyright: ignore
