"""The Iceberg catalog as plain Python sees it, and the same catalog as Spark has to be told.

Reads and small writes need no JVM. SQLite is the default; any catalog that both PyIceberg and
Iceberg's Spark runtime know (PostgreSQL, REST, Glue, Hive) is a matter of configuration.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationError
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    In,
    LessThan,
    Or,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import DataScan, Transaction
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import TableUpdate
from pyiceberg.transforms import HourTransform
from sqlalchemy.exc import DatabaseError

from lake.failures import DamagedError, essence
from lake.home import Home
from lake.schema import Table
from lake.tables import TABLES
from lake.window import HOUR, Window, floor_hour

NAME = "tidemark"
"""Name of the catalog; the SQLite and JDBC catalogs keep it in every row, so both sides agree."""

PROPERTIES = {
    # A commit a minute: without merging, planning a read would open a manifest per commit.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "8",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
"""Properties of every table."""

COMMIT_ATTEMPTS = 5

UNUSABLE = (
    *(OSError, EOFError, ValueError, LookupError, AssertionError, SystemError),
    *(ValidationError, DatabaseError),
)
"""What libraries raise at files that are gone, damaged or not ours to use."""

PUT_BACK = "put back a copy of its files; what is computed, tidemark recompute makes again"

SQLITE_BUSY_SECONDS = 30
"""How long a writer waits for another one's SQLite lock."""


@dataclass(frozen=True)
class CatalogConfig:
    """How to reach the catalog, from Python and from Spark.

    Attributes:
        python: properties for PyIceberg.
        spark: properties of Iceberg's ``SparkCatalog``, without their prefix.
    """

    python: Mapping[str, str] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, home: Home, environment: Mapping[str, str] = os.environ) -> "CatalogConfig":
        """The catalog of a home: SQLite beside the warehouse, unless the environment says other.

        ``TIDEMARK_CATALOG_TYPE`` (``rest``, ``sql``, ``glue``, ``hive``) with
        ``TIDEMARK_CATALOG_URI`` and ``TIDEMARK_WAREHOUSE`` names another one.
        """
        warehouse = environment.get("TIDEMARK_WAREHOUSE") or home.warehouse.as_uri()
        kind = environment.get("TIDEMARK_CATALOG_TYPE")
        uri = environment.get("TIDEMARK_CATALOG_URI", "")
        if kind is None:
            return cls(
                python={
                    "type": "sql",
                    "uri": f"sqlite:///{home.catalog}?timeout={SQLITE_BUSY_SECONDS}",
                    "warehouse": warehouse,
                },
                spark={
                    "type": "jdbc",
                    "uri": f"jdbc:sqlite:{home.catalog}?busy_timeout={SQLITE_BUSY_SECONDS}000",
                    "warehouse": warehouse,
                    "jdbc.schema-version": "V1",
                },
            )
        if kind == "sql":
            return cls(
                python={"type": "sql", "uri": uri, "warehouse": warehouse},
                spark={
                    "type": "jdbc",
                    "uri": "jdbc:" + uri.replace("+psycopg2", ""),
                    "warehouse": warehouse,
                    "jdbc.schema-version": "V1",
                },
            )
        properties = {"type": kind, "uri": uri, "warehouse": warehouse}
        return cls(python=properties, spark=properties)


def _shared(state: Snapshot, memo: Any) -> Snapshot:
    """A state in place of its copy.

    PyIceberg hands out deep copies of a table's metadata with all its states, which never change
    (they are frozen): with those of an hour that took half of a commit.
    """
    return state


Snapshot.__deepcopy__ = _shared  # pyright: ignore


class _Commit(Transaction):
    """A PyIceberg transaction that derives its metadata once per change, not once per look.

    Each derivation copies the metadata with all its snapshots, and an append looks two dozen times:
    at 200 snapshots it took 190 ms so, and takes 50 ms.
    """

    _derived: tuple[tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with the staged updates applied; nobody changes it in place."""
        if self._derived is None or self._derived[0] is not self._updates:
            self._derived = self._updates, super().table_metadata
        return self._derived[1]


@contextmanager
def usable(what: str, advice: str = PUT_BACK) -> Iterator[None]:
    """Around the use of files: says of which what is wrong with them.

    Raises:
        DamagedError: they are gone or damaged, or may not be used.
    """
    try:
        yield
    except DamagedError:
        raise
    except UNUSABLE as error:
        why = str(error) or type(error).__name__
        raise damaged(what, why, advice) from error


def damaged(what: str, why: str, advice: str = PUT_BACK) -> DamagedError:
    """What is wrong with some files, for whoever has to do something about it."""
    return DamagedError(f"{what} cannot be used: {essence(why)}; {advice}")


class Lake:
    """The tables as plain Python reads and writes them, without Spark.

    Attributes:
        home: where everything lies.
        config: how the catalog is reached.
    """

    def __init__(self, home: Home, config: CatalogConfig | None = None) -> None:
        self.home = home
        self.config = config or CatalogConfig.of(home)
        self._catalog: Catalog | None = None

    @property
    def catalog(self) -> Catalog:
        """The opened catalog with every declared table in it."""
        if self._catalog is None:
            self.home.path.mkdir(parents=True, exist_ok=True)
            of_home = self.config == CatalogConfig.of(self.home, {})
            what = str(self.home.catalog) if of_home else f"the {self.config.python['type']} one"
            with usable(f"the catalog, {what},", "free it, or put back a copy of it"):
                catalog = load_catalog(NAME, **self.config.python)
            for table in TABLES.values():
                with usable(f"the metadata of {table.name}"):
                    _ensure(catalog, table)
            self._catalog = catalog
        return self._catalog

    def table(self, name: str) -> IcebergTable:
        """The Iceberg table of that full name, at its newest state.

        Raises:
            DamagedError: it cannot be read.
        """
        with usable(f"the metadata of {name}"):
            return self.catalog.load_table(name)

    def read(
        self,
        table: Table,
        where: BooleanExpression | Window | None = None,
        columns: tuple[str, ...] = ("*",),
        limit: int | None = None,
    ) -> pa.Table:
        """Rows of a table.

        Args:
            table: its declaration.
            where: an Iceberg expression, or the window of the table's instant.
            columns: names, or all.
            limit: rows at most, in no particular order.

        Raises:
            DamagedError: a file of it is gone or damaged.
        """
        with self.scanned(table, where, selected_fields=columns, limit=limit) as scan:
            return scan.to_arrow()

    @contextmanager
    def scanned(
        self, table: Table, where: BooleanExpression | Window | None = None, **options: Any
    ) -> Iterator[DataScan]:
        """A scan of a table, around all that is done with it.

        Args:
            table: its declaration.
            where: an Iceberg expression, or the window of the table's instant.
            options: more of PyIceberg's ``Table.scan``.

        Raises:
            DamagedError: a file of it is gone or damaged.
        """
        condition = window_filter(table, where) if isinstance(where, Window) else where
        with usable(table.name):
            yield self.table(table.name).scan(
                row_filter=condition if condition is not None else AlwaysTrue(), **options
            )

    def count(self, table: Table, window: Window) -> int:
        """How many rows of a table lie in a window; of whole hours it is known without reading."""
        with self.scanned(table, window) as scan:
            return scan.count()

    def at_most(self, table: Table, window: Window) -> int:
        """How many rows the files hold that rows of a window may lie in; reads none of them."""
        with self.scanned(table, window) as scan:
            return sum(task.file.record_count for task in scan.plan_files())

    def oldest(self, table: Table) -> datetime | None:
        """An hour before which no row of a table lies, None for an empty one; reads no data."""
        found = self.table(table.name)
        if found.current_snapshot() is None:
            return None
        with usable(table.name):
            partitions = found.inspect.partitions().to_pylist()
        hours = [partition["partition"][f"{table.instant}_hour"] for partition in partitions]
        known = [hour for hour in hours if hour is not None]
        return datetime.fromtimestamp(min(known) * 3600, UTC) if known else None

    def append(self, table: Table, rows: pa.Table | list[dict[str, Any]]) -> int:
        """Adds rows in one commit and tells how many.

        Raises:
            CommitFailedException: when others kept committing in between.
        """
        data = _arrow(table, rows)
        if data.num_rows:
            self._commit(table, lambda commit: commit.append(data))
        return data.num_rows

    def replace(self, table: Table, window: Window, rows: pa.Table | list[dict[str, Any]]) -> int:
        """Replaces the rows of a window in one commit, also by nothing; tells how many stand."""
        data = _arrow(table, rows)
        self._overwrite(table, window_filter(table, window), data)
        return data.num_rows

    def _overwrite(self, table: Table, where: BooleanExpression, data: pa.Table) -> None:
        with warnings.catch_warnings():
            # That nothing stood there before is nothing to warn about.
            warnings.filterwarnings("ignore", "Delete operation did not match any records")
            self._commit(table, lambda commit: commit.overwrite(data, overwrite_filter=where))

    def _commit(self, table: Table, change: Callable[[Transaction], None]) -> None:
        """Commits a change, again when another writer of the same table was faster."""
        for attempt in range(COMMIT_ATTEMPTS):
            try:
                with _Commit(self.table(table.name)) as commit:
                    change(commit)
                return
            except CommitFailedException:
                if attempt == COMMIT_ATTEMPTS - 1:
                    raise

    def gather(
        self,
        table: Table,
        rows: pa.Table | list[dict[str, Any]],
        gone: Iterable[Mapping[str, Any]] = (),
    ) -> int:
        """Puts rows into their hours, one data file an hour, and tells how many.

        For the small tables that every run reads over days: appended to each minute they would
        be thousands of files. A row whose key stands already takes its place.

        Args:
            table: its declaration.
            rows: what is to stand.
            gone: key and instant of rows that are to stand no longer.
        """
        data, left = _arrow(table, rows), list(gone)
        instants = data[table.instant].unique().to_pylist()
        instants += [row[table.instant] for row in left]
        if not instants:
            return 0
        hours = sorted({floor_hour(instant) for instant in instants})
        where = any_of(*(window_filter(table, Window(hour, hour + HOUR)) for hour in hours))
        standing = self.read(table, where).select(table.column_names).cast(data.schema)
        out = {*_keys(table, data), *(tuple(row[name] for name in table.key) for row in left)}
        kept = pa.array([key not in out for key in _keys(table, standing)], type=pa.bool_())
        self._overwrite(table, where, pa.concat_tables([standing.filter(kept), data]))
        return data.num_rows

    def state(self, table: Table) -> int | None:
        """Which state of a table is the newest; None while nothing was ever written to it."""
        found = self.table(table.name).current_snapshot()
        return found.snapshot_id if found else None


def window_filter(table: Table, window: Window) -> BooleanExpression:
    """The window as a condition on the table's instant."""
    return all_of(not_before(table.instant, window.start), earlier_than(table.instant, window.end))


# What conditions are made of; the checker reads the models' fields, not their constructors.


def one_of(column: str, values: Iterable[str]) -> BooleanExpression:
    """The condition that a column has one of some values."""
    return In(column, set(values))  # pyright: ignore


def not_before(column: str, instant: datetime) -> BooleanExpression:
    """The condition that a column is an instant or later."""
    return GreaterThanOrEqual(column, instant.isoformat())  # pyright: ignore


def earlier_than(column: str, instant: datetime) -> BooleanExpression:
    """The condition that a column is earlier than an instant."""
    return LessThan(column, instant.isoformat())  # pyright: ignore


def all_of(*conditions: BooleanExpression) -> BooleanExpression:
    """The condition that two or more others are all true."""
    return And(*conditions)  # pyright: ignore


def any_of(*conditions: BooleanExpression) -> BooleanExpression:
    """The condition that one of some others is true."""
    return Or(*conditions) if len(conditions) > 1 else conditions[0]  # pyright: ignore


def _keys(table: Table, rows: pa.Table) -> Iterable[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in table.key), strict=True)


def _arrow(table: Table, rows: pa.Table | list[dict[str, Any]]) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    return pa.Table.from_pylist(rows, schema=table.arrow_schema())


def _ensure(catalog: Catalog, table: Table) -> None:
    """Creates the table, or adds the columns that its declaration has gained."""
    wanted = table.arrow_schema()
    try:
        existing = catalog.load_table(table.name)
    except NoSuchTableError:
        catalog.create_namespace_if_not_exists(table.namespace)
        schema = _fresh(catalog, wanted)
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
        update.union_by_name(wanted)


def _fresh(catalog: Catalog, wanted: pa.Schema) -> Schema:
    return assign_fresh_schema_ids(catalog._convert_schema_if_needed(wanted))


def _by_hour(schema: Schema, instant: str) -> PartitionSpec:
    source = schema.find_field(instant).field_id
    return PartitionSpec(
        PartitionField(
            source_id=source, field_id=1000, transform=HourTransform(), name=f"{instant}_hour"
        )
    )
