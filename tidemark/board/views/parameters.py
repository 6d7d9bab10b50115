"""Parameters of requests that choose rows: instants and windows, filters, orders and pages.

A cursor contains the place of the last row in the order, so the next page starts right after it,
also when rows were added or removed since.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.board.http_responses import ProblemError
from tidemark.board.views.view import Shown, View
from tidemark.lake.clocks import MICROSECOND, Window
from tidemark.lake.schema import Table
from tidemark.settings.times import utc_instant

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""Bounds of instants in requests, with room for any time span around them."""

LONGEST = timedelta(days=400)

MOST_ROWS = 1000
"""Rows of a page at most."""

_IS_CURSOR = "is_cursor"

_NO_CURSOR = (
    ValueError,
    KeyError,
    TypeError,
    OverflowError,
    RecursionError,
    binascii.Error,
    pa.ArrowException,
)
"""Errors of an invalid cursor: a client may send any text, and any JSON inside of it."""


def instant_of(name: str, text: str) -> datetime:
    """Return the instant of a parameter, in UTC where it has no zone.

    Raises:
        ProblemError: it is no ISO 8601 instant, or not between `EARLIEST` and `LATEST`.
    """
    try:
        # A plus that was not escaped arrives as a blank.
        instant = utc_instant(text.strip().replace(" ", "+") if "T" in text else text)
        if not EARLIEST <= instant < LATEST:
            raise OverflowError
    except OverflowError:
        years = f"{EARLIEST.year} to {LATEST.year - 1}"
        raise ProblemError(400, f"{name}={text!r}: the years are {years}") from None
    except ValueError:
        raise ProblemError(
            400, f"{name}={text!r}: an ISO 8601 instant is wanted, e.g. 2026-11-19T08:00:00Z"
        ) from None
    return instant


def window_of(start: str, end: str, length: timedelta = timedelta(hours=1)) -> Window:
    """Return the window of two parameters.

    Args:
        start: first instant; `length` before the last without.
        end: last instant; now without.
        length: of the window without a start.

    Raises:
        ProblemError: one is no instant, or they are not in order.
    """
    last = instant_of("to", end) if end else datetime.now(UTC)
    first = instant_of("from", start) if start else last - length
    if first >= last:
        raise ProblemError(400, "from: it must be before to")
    if last - first > LONGEST:
        raise ProblemError(400, f"from: at most {LONGEST.days} days before to")
    return Window(first, last + MICROSECOND)


def shown(view: View, at: str | None) -> Shown:
    """Return the newest rows, or those that were the newest at an instant.

    Raises:
        ProblemError: `at` is no instant.
    """
    return view.at(instant_of("at", at)) if at else view.newest


@dataclass(frozen=True)
class Order:
    """The order of rows: by a column, then by the key; unknown values come last.

    Attributes:
        column: the column.
        descending: whether the largest comes first.
    """

    column: str
    descending: bool = False

    @classmethod
    def of(cls, text: str, table: Table) -> "Order":
        """Return the order that ``lag`` or ``-lag`` names.

        Raises:
            ProblemError: the table has no such column, or it has no order.
        """
        name = text.removeprefix("-")
        column = next((column for column in table.columns if column.name == name), None)
        if column is None or pa.types.is_nested(column.type):
            raise ProblemError(400, f"sort={text!r}: {table.name} has no column to sort by so")
        return cls(name, text.startswith("-"))


def having(rows: pa.Table, **equal: str | None) -> pa.Table:
    """Return the rows whose columns have these values; None matches any."""
    for name, value in equal.items():
        if value is not None:
            rows = rows.filter(pc.equal(rows[name], value))
    return rows


def containing(rows: pa.Table, text: str, columns: Sequence[str]) -> pa.Table:
    """Return the rows one of whose columns contains a text, whatever its case."""
    if not text:
        return rows
    result = pa.array([False] * rows.num_rows, pa.bool_())
    for name in columns:
        contains = pc.match_substring(rows[name], text, ignore_case=True)
        result = pc.or_(result, pc.fill_null(contains, False))
    return rows.filter(result)


def page(
    rows: pa.Table, table: Table, order: Order, limit: int, cursor: str | None
) -> tuple[pa.Table, str | None]:
    """Return a page of rows in an order, and the cursor of the next page.

    Raises:
        ProblemError: the cursor is not one of this order.
    """
    by = list(dict.fromkeys([order.column, *table.key]))
    places = rows.select(by)
    if cursor is not None:
        places = pa.concat_tables([places, _row_of(cursor, order, places.schema)])
    is_cursor = pa.array([False] * rows.num_rows + [True] * (places.num_rows - rows.num_rows))
    directions = [(name, "ascending") for name in [*by, _IS_CURSOR]]
    directions[0] = (order.column, "descending" if order.descending else "ascending")
    sorted_places = pc.sort_indices(
        places.append_column(_IS_CURSOR, is_cursor), sort_keys=directions
    )
    start = 0
    if cursor is not None:
        start = pc.index(sorted_places, rows.num_rows).as_py() + 1
    chosen = rows.take(sorted_places.slice(start, limit))
    if start + limit >= places.num_rows or not chosen.num_rows:
        return chosen, None
    last = chosen.slice(chosen.num_rows - 1).select(by).to_pylist()[0]
    return chosen, _cursor_at(last, order)


def _cursor_at(last: dict[str, Any], order: Order) -> str:
    values = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in last.items()
    }
    text = json.dumps([order.column, order.descending, values])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _row_of(cursor: str, order: Order, schema: pa.Schema) -> pa.Table:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        column, descending, values = json.loads(text)
        if (column, descending) != (order.column, order.descending):
            raise ValueError("of another order")
        row = {
            field.name: datetime.fromisoformat(values[field.name])
            if pa.types.is_timestamp(field.type) and values[field.name] is not None
            else values[field.name]
            for field in schema
        }
        return pa.Table.from_pylist([row], schema=schema)
    except _NO_CURSOR as error:
        raise ProblemError(400, "cursor: it is not one of this list; start without it") from error


def page_of_list(
    rows: Sequence[dict[str, Any]], key: str, limit: int, cursor: str | None
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of rows that are in order, and the cursor of the next page.

    Raises:
        ProblemError: no row is at the cursor any more.
    """
    start = 0
    if cursor is not None:
        places = [place for place, row in enumerate(rows) if str(row[key]) == cursor]
        if not places:
            raise ProblemError(400, "cursor: its row is gone from this list; start without it")
        start = places[0] + 1
    chosen = list(rows[start : start + limit])
    has_more = bool(chosen) and start + limit < len(rows)
    return chosen, str(chosen[-1][key]) if has_more else None
