"""Declarations of all tables of Tidemark.

Iceberg tables, schema checks, Dagster column metadata, landing files and test builders all come
from these declarations; `TABLES` has them by full name.
"""

from tidemark.lake.schema import Table
from tidemark.lake.tables import alerting, progress, quality, raw

TABLES: dict[str, Table] = {
    table.name: table for table in (*raw.ALL, *progress.ALL, *quality.ALL, *alerting.ALL)
}
