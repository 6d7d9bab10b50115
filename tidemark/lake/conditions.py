"""Conditions on rows of tables, as PyIceberg takes them.

The type checker reads the fields of PyIceberg's models and not their constructors.
"""

from collections.abc import Iterable
from datetime import datetime

from pyiceberg.expressions import And, BooleanExpression, GreaterThanOrEqual, In, LessThan, Or

from tidemark.lake.clocks import Window
from tidemark.lake.schema import Table


def window_filter(table: Table, window: Window) -> BooleanExpression:
    """Return the condition that the table's instant lies in a window."""
    return all_of(not_before(table.instant, window.start), earlier_than(table.instant, window.end))


def one_of(column: str, values: Iterable[str]) -> BooleanExpression:
    """Return the condition that a column has one of some values."""
    return In(column, set(values))  # pyright: ignore


def not_before(column: str, instant: datetime) -> BooleanExpression:
    """Return the condition that a column is an instant or later."""
    return GreaterThanOrEqual(column, instant.isoformat())  # pyright: ignore


def earlier_than(column: str, instant: datetime) -> BooleanExpression:
    """Return the condition that a column is earlier than an instant."""
    return LessThan(column, instant.isoformat())  # pyright: ignore


def all_of(*conditions: BooleanExpression) -> BooleanExpression:
    """Return the condition that two or more conditions are all true."""
    return And(*conditions)  # pyright: ignore


def any_of(*conditions: BooleanExpression) -> BooleanExpression:
    """Return the condition that at least one condition is true."""
    return Or(*conditions) if len(conditions) > 1 else conditions[0]  # pyright: ignore
