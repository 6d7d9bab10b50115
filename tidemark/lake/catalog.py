"""The tables: reads and small writes by plain Python, without Spark."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import DataScan, Transaction
from pyiceberg.table import Table as IcebergTable
from sqlalchemy import event, select
from sqlalchemy.exc import IntegrityError, ProgrammingError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tidemark.host.leases import TABLES, Lease
from tidemark.host.shared import Shared
from tidemark.lake import tables
from tidemark.lake.catalog_config import SQLITE_JOURNAL, CatalogConfig
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.damaged_files import FREE, usable
from tidemark.lake.durable_tables import sync_versions
from tidemark.lake.landing_places import Disk
from tidemark.lake.pyiceberg_patches import (
    keep_metadata,
    keep_null_lists,
    transaction,
    was_put_back,
)
from tidemark.lake.schema import Table, any_of, window_filter
from tidemark.lake.table_versions import OlderTablesError, all_exist, pending, require_present
from tidemark.settings.home import Home

NAME = "tidemark"
"""Name of the catalog; the SQLite and JDBC catalogs keep it in every row, so both sides agree."""

CLOCK_PUT_BACK = "tidemark.clock-put-back"
"""Property of a table: when a clock that was ahead was last found to have been set back."""

COMMIT_ATTEMPTS = 10

TABLES_SECONDS = 60.0
"""Longest wait for another process that makes the tables, which takes seconds."""

OVERTAKEN = (CommitFailedException, ValidationException)
"""Errors of PyIceberg when another writer committed to the table, or to the rows, first."""


@retry(
    # Another process has just made a table of the catalog's own.
    retry=retry_if_exception_type((IntegrityError, ProgrammingError)),
    stop=stop_after_attempt(5),
    wait=wait_random_exponential(multiplier=0.1, max=1),
    reraise=True,
)
def _opened(properties: Mapping[str, str]) -> Catalog:
    catalog = load_catalog(NAME, **properties)
    if isinstance(catalog, SqlCatalog) and catalog.engine.dialect.name == "sqlite":
        event.listen(catalog.engine, "connect", _with_journal)
        catalog.engine.dispose()  # closes the connections opened so far
    return catalog


def _with_journal(connection: Any, _: object) -> None:
    connection.execute(f"PRAGMA journal_mode = {SQLITE_JOURNAL}")


class Lake:
    """The tables, read and written by plain Python without Spark.

    Attributes:
        home: the folder of all state.
        config: how to reach the catalog.
        landing: where snapshots land.
        shared: leases and small state of all processes that use these tables.
        held: the lease without which these tables must not be changed; None where none is needed.
    """

    def __init__(self, home: Home, config: CatalogConfig | None = None) -> None:
        self.home = home
        self.config = config or CatalogConfig.of(home)
        self.landing = self.config.landing or Disk(home.landing)
        self.shared = self.config.shared or Shared.of_home(home)
        self.held: Lease | None = None
        self._unsynced: dict[str, int | None] = {}

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog with every declared table in it, opened once.

        Raises:
            DamagedError: it cannot be used.
            LeaseError: another process has been making the tables for `TABLES_SECONDS`.
            VersionError: tables are missing, and others are those of another program.
        """
        catalog = self.unchecked_catalog
        if not all_exist(catalog):
            # Processes that start together would create the same tables.
            with self.shared.leases.acquire(TABLES, TABLES_SECONDS):
                for step in pending(catalog):
                    if step.version is not None:
                        raise OlderTablesError(step)
                    step.run(catalog)
        return catalog

    @cached_property
    def unchecked_catalog(self) -> Catalog:
        """The catalog, whatever is in it, opened once.

        Raises:
            DamagedError: it cannot be used.
        """
        self.home.make()
        keep_metadata()
        keep_null_lists()
        of_home = "sqlite" in self.config.drivers
        advice = FREE if of_home else "start it, or mend TIDEMARK_CATALOG_URI"
        with usable(f"the catalog, {self.config.place},", advice):
            return _opened(self.config.python)

    def table(self, name: str) -> IcebergTable:
        """Return the Iceberg table of a full name at its newest version.

        Raises:
            DamagedError: it cannot be read.
            OlderTablesError: it is that of an older program, see `tidemark.lake.upgrading`.
            VersionError: it is that of a newer program.
        """
        catalog = self.catalog  # first, so that an error of the home names the home
        with usable(f"the metadata of {name}"):
            table = catalog.load_table(name)
        require_present(name, table)
        return table

    def ready_for_spark(self, table: Table) -> int | None:
        """Prepare a table for a commit of Spark, also after a clock that was ahead.

        The files of that commit are synced before the next commit, or at `sync`: no commit may be
        based on files that a power cut could take.

        Returns:
            The version that Spark's commit must be based on; None while the table is empty.

        Raises:
            DamagedError: it cannot be read.
            LostError: the lease that is `held` was lost.
        """
        self.sync()
        result = self.table(table.name)
        if was_put_back(result.metadata_location):
            # Any commit writes the instants as they were read; this one records when that was.
            now = datetime.now(UTC).isoformat(timespec="seconds")
            with usable(table.name), result.transaction() as commit:
                commit.set_properties({CLOCK_PUT_BACK: now})
        snapshot = result.current_snapshot()
        base = snapshot.snapshot_id if snapshot else None
        self.confirm()
        self._unsynced[table.name] = base
        return base

    def read(
        self,
        table: Table,
        where: BooleanExpression | Window | None = None,
        columns: tuple[str, ...] = ("*",),
        limit: int | None = None,
    ) -> pa.Table:
        """Return rows of a table.

        Args:
            table: its declaration.
            where: an Iceberg expression, or the window of the table's instant.
            columns: names, or all.
            limit: most rows, in no particular order.

        Raises:
            DamagedError: a file of the table is missing or damaged.
        """
        with self.scanned(table, where, selected_fields=columns, limit=limit) as scan:
            return scan.to_arrow()

    @contextmanager
    def scanned(
        self, table: Table, where: BooleanExpression | Window | None = None, **options: Any
    ) -> Iterator[DataScan]:
        """Yield a scan of a table; its errors name the table while the context is open.

        Args:
            table: its declaration.
            where: as for `read`, whose errors are raised here too.
            options: further options of PyIceberg's ``Table.scan``.
        """
        condition = window_filter(table, where) if isinstance(where, Window) else where
        result = self.table(table.name)
        with usable(table.name):
            yield result.scan(
                row_filter=condition if condition is not None else AlwaysTrue(), **options
            )

    def count(self, table: Table, window: Window) -> int:
        """Return how many rows of a table lie in a window; whole hours need no data."""
        with self.scanned(table, window) as scan:
            return scan.count()

    def has_rows(self, table: Table, window: Window) -> bool:
        """Return whether a window of a table holds any row."""
        return self.read(table, window, columns=(table.instant,), limit=1).num_rows > 0

    def max_rows(self, table: Table, window: Window) -> int:
        """Return an upper bound of the rows of a window, from the metadata of files."""
        with self.scanned(table, window) as scan:
            return sum(task.file.record_count for task in scan.plan_files())

    def oldest_hour(self, table: Table) -> datetime | None:
        """Return the oldest hour with rows of a table, None for an empty one; reads no data."""
        return min(self.rows_by_hour(table), default=None)

    def newest_hour(self, table: Table) -> datetime | None:
        """Return the newest hour with rows of a table, None for an empty one; reads no data."""
        return max(self.rows_by_hour(table), default=None)

    def rows_by_hour(self, table: Table) -> dict[datetime, int]:
        """Return how many rows a table has of each hour with any; reads no data."""
        result = self.table(table.name)
        snapshot = result.current_snapshot()
        rows: dict[datetime, int] = {}
        if snapshot is None:
            return rows
        with usable(table.name):
            for manifest in snapshot.manifests(result.io):
                for entry in manifest.fetch_manifest_entry(result.io):
                    hours = entry.data_file.partition[0]  # since 1970, of the table's instant
                    if hours is not None:
                        hour = datetime.fromtimestamp(hours * 3600, UTC)
                        rows[hour] = rows.get(hour, 0) + entry.data_file.record_count
        return rows

    def append(
        self,
        table: Table,
        rows: pa.Table | list[dict[str, Any]],
        missing: Callable[[IcebergTable, pa.Table], pa.Table] | None = None,
    ) -> int:
        """Add rows in one commit.

        Args:
            table: its declaration.
            rows: the rows.
            missing: returns those rows that a version of the table lacks; None where all are new.
                It is called with the version that the commit builds on.

        Returns:
            How many rows were added.

        Raises:
            CommitFailedException: other writers committed first at every attempt.
            LostError: the lease that is `held` was lost.
        """
        data, added = _arrow(table, rows), 0

        def change(newest: IcebergTable, commit: Transaction) -> None:
            nonlocal added
            new = missing(newest, data) if missing else data
            added = new.num_rows
            if added:
                commit.append(new)

        if data.num_rows:
            self._commit(table, change)
        return added

    def replace(self, table: Table, window: Window, rows: pa.Table | list[dict[str, Any]]) -> int:
        """Replace the rows of a window in one commit; return how many rows it holds then."""
        data = _arrow(table, rows)
        self._overwrite(table, window_filter(table, window), lambda _: data)
        return data.num_rows

    def _overwrite(
        self,
        table: Table,
        where: BooleanExpression,
        rows_of: Callable[[IcebergTable], pa.Table],
    ) -> None:
        """Replace the rows of a condition by those made of the table's newest version."""

        def change(newest: IcebergTable, commit: Transaction) -> None:
            commit.overwrite(rows_of(newest), overwrite_filter=where)

        with warnings.catch_warnings():
            # An empty window is no reason for a warning.
            warnings.filterwarnings("ignore", "Delete operation did not match any records")
            self._commit(table, change)

    def _commit(self, table: Table, change: Callable[[IcebergTable, Transaction], None]) -> None:
        """Commit a change; make it again from fresh rows where another writer was first.

        The change is based on a version that the holder of the lease has seen. Another process that
        took the lease over and committed has made a newer version.

        Raises:
            LostError: the lease that is `held` was lost.
        """
        self.sync()

        @retry(
            retry=retry_if_exception_type(OVERTAKEN),
            stop=stop_after_attempt(COMMIT_ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.1, max=2),
            reraise=True,
        )
        def attempt() -> None:
            newest = self.table(table.name)
            self.confirm()
            with transaction(_once(newest)) as commit:
                change(newest, commit)

        attempt()

    def confirm(self) -> None:
        """Make sure that these tables may be changed.

        Raises:
            LostError: the lease that is `held` was lost.
        """
        if self.held:
            self.held.confirm()

    def sync(self) -> None:
        """Make the commits of Spark survive a power cut."""
        while self._unsynced:
            name, since = next(iter(self._unsynced.items()))
            table = self.table(name)
            with usable(name):
                sync_versions(table, since)
            del self._unsynced[name]

    def upsert(
        self,
        table: Table,
        rows: pa.Table | list[dict[str, Any]],
        removed: Iterable[Mapping[str, Any]] = (),
    ) -> int:
        """Insert rows, or replace those with the same key; each hour stays one data file.

        Use it for small tables of which every run reads days: with an append each minute they would
        have thousands of files.

        Args:
            table: its declaration.
            rows: the rows to insert.
            removed: key and instant of rows to remove.

        Returns:
            How many rows were inserted or replaced.
        """
        data, to_remove = _arrow(table, rows), list(removed)
        instants = data[table.instant].unique().to_pylist()
        instants += [row[table.instant] for row in to_remove]
        if not instants:
            return 0
        hours = sorted({floor_hour(instant) for instant in instants})
        where = any_of(*(window_filter(table, Window(hour, hour + HOUR)) for hour in hours))
        replaced = {
            *_keys(table, data),
            *(tuple(row[name] for name in table.key) for row in to_remove),
        }

        def merged(newest: IcebergTable) -> pa.Table:
            with usable(table.name):
                existing = newest.scan(row_filter=where).to_arrow()
            existing = existing.select(table.column_names).cast(data.schema)
            is_kept = [key not in replaced for key in _keys(table, existing)]
            kept = existing.filter(pa.array(is_kept, type=pa.bool_()))
            return pa.concat_tables([kept, data])

        self._overwrite(table, where, merged)
        return data.num_rows

    def version(self, table: Table) -> int | None:
        """Return the newest version of a table; None while nothing was ever written to it."""
        snapshot = self.table(table.name).current_snapshot()
        return snapshot.snapshot_id if snapshot else None


def _once(table: IcebergTable) -> IcebergTable:
    """Return a table on which PyIceberg attempts each commit once.

    By default it repeats the commit on the version of another writer that was first, without a
    check whether it may. `Lake._commit` makes that check.
    """
    properties = {**table.metadata.properties, "commit.retry.num-retries": "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def _keys(table: Table, rows: pa.Table) -> Iterable[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in table.key), strict=True)


def _arrow(table: Table, rows: pa.Table | list[dict[str, Any]]) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else table.arrow_table(rows)


def versions(lake: Lake) -> dict[str, str]:
    """Return the place of each table's metadata, which every change gives a new one.

    They are cheap enough to read every second: a catalog in SQL gives all places at once. Another
    one gets a request for every table.

    Raises:
        DamagedError: the catalog cannot be read.
    """
    catalog = lake.catalog
    if not isinstance(catalog, SqlCatalog):
        return {name: lake.table(name).metadata_location for name in tables.TABLES}
    places = select(
        IcebergTables.table_namespace,
        IcebergTables.table_name,
        IcebergTables.metadata_location,
    ).where(IcebergTables.catalog_name == catalog.name)
    with usable("the catalog", FREE), catalog.engine.connect() as connection:
        rows = connection.execute(places).all()
    return {f"{namespace}.{name}": str(place) for namespace, name, place in rows}
