"""Creating declared tables in a catalog."""

from importlib.metadata import version

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.transforms import HourTransform

from lake.schema import Table

VERSION = 2
"""The version of the declared tables; 1 is that of tidemark 0.1.0."""

VERSION_PROPERTY = "tidemark.version"

PROGRAM = "tidemark.program"
"""Property of a table with the program that created or upgraded it."""

PROPERTIES = {
    VERSION_PROPERTY: str(VERSION),
    # A commit a minute: without merging, planning a read would open a manifest per commit.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "8",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    # Ticks, people and maintenance of several hosts commit to one table.
    "commit.retry.num-retries": "10",
}
"""Properties of every table."""


def create(catalog: Catalog, table: Table) -> None:
    """Create a table, unless another process just has."""
    catalog.create_namespace_if_not_exists(table.namespace)
    schema = _with_fresh_ids(catalog, table.arrow_schema())
    catalog.create_table_if_not_exists(
        table.name,
        schema=schema,
        partition_spec=_by_hour(schema, table.instant),
        properties=PROPERTIES | {PROGRAM: version("tidemark")},
    )


def _with_fresh_ids(catalog: Catalog, declared: pa.Schema) -> Schema:
    return assign_fresh_schema_ids(catalog._convert_schema_if_needed(declared))


def _by_hour(schema: Schema, instant: str) -> PartitionSpec:
    source = schema.find_field(instant).field_id
    return PartitionSpec(
        PartitionField(
            source_id=source, field_id=1000, transform=HourTransform(), name=f"{instant}_hour"
        )
    )
