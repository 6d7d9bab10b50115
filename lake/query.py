"""SQL on a table without Spark: DuckDB on the files that PyIceberg names."""

import duckdb
import pyarrow as pa

from lake.catalog import Lake
from lake.damaged_files import damaged
from lake.schema import Table


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
    with duckdb.connect() as session:
        session.execute("SET TimeZone = 'UTC'")
        session.register("rows", rows)
        condition = f"WHERE ({where}\n)" if where.strip() else ""
        try:
            return session.sql(
                f'SELECT * FROM rows {condition} ORDER BY "{table.instant}" DESC, {order} '
                f"LIMIT {limit}"
            ).to_arrow_table()
        except duckdb.Error as error:
            if not condition or "Python exception" in str(error):
                raise damaged(table.name, str(error)) from error
            reason = str(error).splitlines()[0]
            raise QueryError(f"--where {where!r} on {table.name}: {reason}") from error
