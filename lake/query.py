"""SQL on a table without Spark: DuckDB on the files that PyIceberg names."""

import duckdb
import pyarrow as pa

from lake.catalog import Lake
from lake.damaged_files import damaged
from lake.schema import Table

ISOLATED = (
    "SET TimeZone = 'UTC'",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""What a session starts with in which a person's SQL computes on the rows it was given.

It reads no file, no variable of Python, and writes nothing.
"""


class QueryError(Exception):
    """A condition is not valid SQL on a table; the text is one line."""


def select(lake: Lake, table: Table, where: str = "", limit: int = 1000) -> pa.Table:
    """Return rows of a table, newest first.

    Args:
        lake: the tables.
        table: its declaration.
        where: a SQL condition on its columns; all rows without one.
        limit: most rows.

    Raises:
        QueryError: the condition is not valid SQL on this table.
        DamagedError: a file of the table is missing or damaged.
    """
    with lake.scanned(table) as scan:
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
            raise QueryError(f"--where {where!r} on {table.name}: {reason}") from error


def _only_selection(session: duckdb.DuckDBPyConnection, text: str) -> duckdb.DuckDBPyRelation:
    """Return the rows of a text that is one statement and reads.

    Raises:
        duckdb.Error: it is more than that.
    """
    statements = session.extract_statements(text)
    if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
        raise duckdb.InvalidInputException("a condition on columns is wanted, and nothing else")
    return session.sql(text)
