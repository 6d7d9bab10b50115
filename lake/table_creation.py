"""Creating declared tables in a catalog, and adding the columns that a declaration gained."""

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.transforms import HourTransform

from lake.schema import Table

PROPERTIES = {
    # A commit a minute: without merging, planning a read would open a manifest per commit.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "8",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
"""Properties of every table."""


def ensure(catalog: Catalog, table: Table) -> None:
    """Create the table, or add the columns that its declaration has gained."""
    declared = table.arrow_schema()
    try:
        existing = catalog.load_table(table.name)
    except NoSuchTableError:
        catalog.create_namespace_if_not_exists(table.namespace)
        schema = _with_fresh_ids(catalog, declared)
        catalog.create_table_if_not_exists(
            table.name,
            schema=schema,
            partition_spec=_by_hour(schema, table.instant),
            properties=PROPERTIES,
        )
        return
    if set(existing.schema().column_names) >= set(table.column_names):
        return
    with existing.update_schema() as update:
        update.union_by_name(declared)


def _with_fresh_ids(catalog: Catalog, declared: pa.Schema) -> Schema:
    return assign_fresh_schema_ids(catalog._convert_schema_if_needed(declared))


def _by_hour(schema: Schema, instant: str) -> PartitionSpec:
    source = schema.find_field(instant).field_id
    return PartitionSpec(
        PartitionField(
            source_id=source, field_id=1000, transform=HourTransform(), name=f"{instant}_hour"
        )
    )
