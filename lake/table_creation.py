"""Creating declared tables in a catalog."""

from importlib.metadata import version

import pyarrow as pa
from pyarrow.fs import FileSelector
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.transforms import HourTransform

from lake.damaged_files import damaged
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


_FIRST = "00000-"
"""Beginning of the metadata file of a table without rows, the only file after a kill."""


def create(catalog: Catalog, table: Table) -> None:
    """Create a table, unless another process just has.

    Raises:
        DamagedError: its place has the files of a table that the catalog does not name.
    """
    catalog.create_namespace_if_not_exists(table.namespace)
    _require_empty_place(catalog, table)
    schema = _with_fresh_ids(catalog, table.arrow_schema())
    catalog.create_table_if_not_exists(
        table.name,
        schema=schema,
        partition_spec=_by_hour(schema, table.instant),
        properties=PROPERTIES | {PROGRAM: version("tidemark")},
    )


def _require_empty_place(catalog: Catalog, table: Table) -> None:
    """Refuse a place with files of another catalog's table: each would remove the other's files.

    That happens where an address of the catalog is wrong, or where the catalog was lost. The server
    of a REST catalog chooses the place of a table by itself.
    """
    if not isinstance(catalog, MetastoreCatalog):
        return
    from pyiceberg.io.pyarrow import PyArrowFileIO  # slow, and seldom needed

    namespace, _, name = table.name.partition(".")
    place = f"{catalog._resolve_table_location(None, namespace, name)}/metadata"
    io = load_file_io(catalog.properties, place)
    if not isinstance(io, PyArrowFileIO):
        return  # another one cannot list
    scheme, host, path = io.parse_location(place, catalog.properties)
    files = io.fs_by_scheme(scheme, host).get_file_info(FileSelector(path, allow_not_found=True))
    used = any(
        file.base_name.endswith(".metadata.json") and not file.base_name.startswith((_FIRST, "."))
        for file in files
    )
    if used and not catalog.table_exists(table.name):
        raise damaged(
            place.removesuffix("/metadata"),
            "it has the files of a table that this catalog does not name",
            "mend TIDEMARK_CATALOG_URI, or put back the catalog or a backup; for new tables name "
            "another TIDEMARK_WAREHOUSE",
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
