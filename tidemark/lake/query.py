"""SQL on a table without Spark: DuckDB on the files that PyIceberg names."""

import re
from collections.abc import Iterator

import duckdb
import pyarrow as pa
from pyiceberg.expressions import BooleanExpression, IsNull

from tidemark.lake import clocks
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, MICROSECOND, Window
from tidemark.lake.damaged_files import damaged
from tidemark.lake.schema import Table, not_before, window_filter
from tidemark.model.spelling import did_you_mean

ISOLATED = (
    "SET TimeZone = 'UTC'",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""First statements of a session in which a person's SQL runs on registered rows.

With them the SQL can read no file and no variable of Python, and can write nothing.
"""

_WORDS_OF_SQL = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'"

_UNKNOWN_COLUMN = re.compile(r'Referenced column "([^"]+)" (?:was )?not found')


class QueryError(Exception):
    """A condition is not valid SQL on a table; the text is one line."""


def select(lake: Lake, table: Table, where: str = "", limit: int = 1000) -> pa.Table:
    """Return rows of a table, newest first.

    It reads back from the newest hours until there are enough: of months of history a person
    mostly wants the last minutes.

    Args:
        lake: the tables.
        table: its declaration.
        where: a SQL condition on its columns; all rows without one.
        limit: most rows.

    Raises:
        QueryError: the condition is not valid SQL on this table.
        DamagedError: a file of the table is missing or damaged.
    """
    tables: list[pa.Table] = []
    missing = limit
    for part in _newest_first(lake, table):
        tables.append(_selected(lake, table, part, where, missing))
        missing -= tables[-1].num_rows
        if not missing:
            break
    return pa.concat_tables(tables)


def _newest_first(lake: Lake, table: Table) -> Iterator[BooleanExpression]:
    """Yield conditions that divide a table by time: an hour, two, four, ..., rows without one.

    Rows of a clock that is ahead come after all others, so that they do not hide the newest rows.
    """
    end = clocks.latest() + MICROSECOND
    known = sorted(lake.rows_by_hour(table), reverse=True)
    hours = [hour for hour in known if hour < end]
    first, count = 0, 1
    while first < len(hours):
        part = hours[first : first + count]
        yield window_filter(table, Window(part[-1], min(part[0] + HOUR, end)))
        first, count = first + count, 2 * count
    if known and known[0] > end - HOUR:
        yield not_before(table.instant, end)
    yield IsNull(table.instant)  # pyright: ignore


def _selected(
    lake: Lake, table: Table, part: BooleanExpression, where: str, limit: int
) -> pa.Table:
    """Return the newest rows of a part of a table."""
    with lake.scanned(table, part) as scan:
        rows = scan.to_arrow_batch_reader()
    order = ", ".join(f'"{name}"' for name in table.key if name != table.instant)
    condition = f"WHERE ({where}\n)" if where.strip() else ""
    text = f'SELECT * FROM rows {condition} ORDER BY "{table.instant}" DESC, {order} LIMIT {limit}'
    with duckdb.connect() as session:
        session.register("rows", rows)
        for setting in ISOLATED:
            session.execute(setting)
        try:
            return _only_selection(session, text).to_arrow_table()
        except duckdb.Error as error:
            if not condition or "Python exception" in str(error):
                raise damaged(table.name, str(error)) from error
            reason = str(error).splitlines()[0]
            if reason.endswith('at or near ")"') and where.count("(") == where.count(")"):
                reason = "the condition is not complete"  # the parenthesis is ours
            if isinstance(error, duckdb.ParserException):
                reason += _advice_on_quotes(session, table)
            if unknown := _UNKNOWN_COLUMN.search(reason):
                reason = _no_column(unknown[1], where, table)
            raise QueryError(f"--where {where!r} on {table.name}: {reason}") from error


def _no_column(name: str, where: str, table: Table) -> str:
    """Return that a name is no column, with the advice that a person needs."""
    if f'"{name}"' in where:
        return f"no column {name!r}; a text is written in single quotes"
    return f"no column {name!r}{did_you_mean(name, table.column_names)}"


def _advice_on_quotes(session: duckdb.DuckDBPyConnection, table: Table) -> str:
    """Return how to write columns that are named by a word of SQL; nothing without such columns."""
    words = session.sql(_WORDS_OF_SQL).fetchall()
    names = [f'"{name}"' for (name,) in words if name in table.column_names]
    return f"; as a word of SQL, a column is written in quotes: {', '.join(names)}" if names else ""


def _only_selection(session: duckdb.DuckDBPyConnection, text: str) -> duckdb.DuckDBPyRelation:
    """Return the rows of a text that is one statement and reads.

    Raises:
        duckdb.Error: it is more than that.
    """
    statements = session.extract_statements(text)
    if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
        raise duckdb.InvalidInputException("a condition on columns is wanted, and nothing else")
    return session.sql(text)
