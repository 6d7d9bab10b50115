"""Versions of tables, and the steps that move an older table to the present version.

Each table carries the version of its declaration as a property. One commit moves a table, so a
killed upgrade leaves each table either old or new, and the next upgrade moves the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.metadata import version as installed

import pyarrow as pa
from pyarrow.fs import FileSelector
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table as IcebergTable
from pyiceberg.transforms import HourTransform

from tidemark.lake.damaged_files import damaged, usable
from tidemark.lake.schema import Table
from tidemark.lake.tables import TABLES

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


class VersionError(Exception):
    """The tables are not of the version that this program reads and writes; one line."""


class OlderTablesError(VersionError):
    """The tables are those of an older program."""

    def __init__(self, step: "Step") -> None:
        ours = f"tidemark {installed('tidemark')}"
        older = f"is of version {step.version}, and {ours} needs version {VERSION}"
        lacks = f"lacks columns of {ours} ({', '.join(step.added)})"
        super().__init__(
            f"{step.table.name} {older if step.version != VERSION else lacks}: "
            "run tidemark upgrade; the next tick does it too"
        )


@dataclass(frozen=True)
class Step:
    """The step that brings one table to the present version.

    Attributes:
        table: its declaration.
        version: its version now; None where it does not exist.
        added: names of the columns that it lacks.
    """

    table: Table
    version: int | None
    added: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The step in one line."""
        if self.version is None:
            return f"{self.table.name}: new"
        moves = (f"version {self.version} becomes {VERSION}",) if self.version != VERSION else ()
        adds = (f"adds {', '.join(self.added)}",) if self.added else ()
        return f"{self.table.name}: {', '.join((*moves, *adds))}"

    def run(self, catalog: Catalog) -> None:
        """Take the step, in one commit.

        Raises:
            DamagedError: the table cannot be read or written.
        """
        with usable(f"the metadata of {self.table.name}"):
            self._run(catalog)

    def _run(self, catalog: Catalog) -> None:
        if self.version is None:
            create(catalog, self.table)
            return
        existing = catalog.load_table(self.table.name)
        with existing.transaction() as transaction:
            if self.added:
                with transaction.update_schema() as change:
                    change.union_by_name(self.table.arrow_schema())
            transaction.set_properties(PROPERTIES | {PROGRAM: installed("tidemark")})


def pending(catalog: Catalog) -> Iterator[Step]:
    """Yield the steps that remain.

    Raises:
        VersionError: a newer program has written the tables.
    """
    for table in TABLES.values():
        existing = _existing(catalog, table)
        step = Step(table, None) if existing is None else _step_of(table, existing)
        if step is not None:
            yield step


def all_exist(catalog: Catalog) -> bool:
    """Return whether a catalog has every declared table, of whatever version.

    That needs a request for each namespace. The versions need the metadata of each table, which
    takes 25 ms to read after a thousand commits: `require_present` has them when a table is used.

    Raises:
        DamagedError: the catalog cannot be read.
    """
    names: set[str] = set()
    for namespace in sorted({table.namespace for table in TABLES.values()}):
        with usable(f"the list of tables in {namespace}"):
            try:
                names |= {".".join(table) for table in catalog.list_tables(namespace)}
            except NoSuchNamespaceError:
                return False
    return TABLES.keys() <= names


def require_present(name: str, existing: IcebergTable) -> None:
    """Refuse a table of another version, or without all columns.

    Raises:
        OlderTablesError: it must be upgraded first.
        VersionError: a newer program has written it.
    """
    step = _step_of(TABLES[name], existing) if name in TABLES else None
    if step is not None:
        raise OlderTablesError(step)


def _step_of(table: Table, existing: IcebergTable) -> Step | None:
    number = version_of(existing)
    if number > VERSION:
        newer, ours = existing.properties.get(PROGRAM, "a newer one"), installed("tidemark")
        raise VersionError(
            f"{table.name} is of version {number}, written by tidemark {newer}; this is "
            f"tidemark {ours}, which knows version {VERSION}: install tidemark {newer}"
        )
    names = set(existing.schema().column_names)
    added = tuple(name for name in table.column_names if name not in names)
    return Step(table, number, added) if number < VERSION or added else None


def version_of(table: IcebergTable) -> int:
    """Return the version of a table; 0.1.0 recorded none, and wrote version 1."""
    return int(table.properties.get(VERSION_PROPERTY, 1))


def _existing(catalog: Catalog, table: Table) -> IcebergTable | None:
    with usable(f"the metadata of {table.name}"):
        try:
            return catalog.load_table(table.name)
        except NoSuchTableError:
            return None
