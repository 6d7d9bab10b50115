"""The data files of tables by hour, kept in memory until they change, and sessions that read them.

A manifest never changes, so each is read once: planning a month costs as little as planning an
hour.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

import duckdb
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table as IcebergTable

from tidemark.lake.catalog import Lake, versions
from tidemark.lake.damaged_files import usable
from tidemark.lake.schema import Table

Hours = Mapping[int, tuple[str, ...]]
"""Hours since 1970 to addresses of files."""


@dataclass(kw_only=True)
class _Known:
    checked: str | None = None
    version: str = ""
    hours: Hours | None = field(default_factory=dict)
    manifests: dict[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    engine = duckdb.connect()
    # Not with `parquet_metadata_cache`: it keeps 57 kB of each file that was ever read, and every
    # tick writes other files.
    engine.execute("SET GLOBAL TimeZone = 'UTC'")
    return engine


@contextmanager
def session() -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a session of the one DuckDB of this process, in UTC.

    An engine of its own costs a reader 20 ms of processor time, more than most reads.
    """
    try:
        with _engine().cursor() as cursor:
            yield cursor
    except (duckdb.FatalException, duckdb.InternalException):
        _engine.cache_clear()  # it refuses every later request
        raise


@contextmanager
def one_thread() -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a DuckDB of its own, in UTC: the number of threads is a setting of a whole engine."""
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'; SET threads = 1")
        yield engine


class DataFiles:
    """Remembers the data files of each table that was requested.

    A read of the catalog takes 2 ms, and a page reads twenty times. So where `present` is called
    regularly, the catalog is read again only for a table whose version has changed.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._known: dict[str, _Known] = {}
        self._versions: Mapping[str, str] = {}
        self._lock = threading.Lock()

    def present(self) -> Mapping[str, str]:
        """Return the present versions of all tables, of which files are given from now on.

        Raises:
            DamagedError: the catalog cannot be read.
        """
        self._versions = versions(self._lake)
        return self._versions

    def by_hour(self, table: Table) -> Hours | None:
        """Return the data files of a table; None where files hold deleted rows.

        Raises:
            DamagedError: the metadata of the table cannot be read.
        """
        present = self._versions.get(table.name)
        with self._lock:
            known = self._known.setdefault(table.name, _Known())
            if present is not None and known.checked == present:
                return known.hours
        result = self._lake.table(table.name)
        with self._lock:
            if known.version != result.metadata_location:
                with usable(f"the metadata of {table.name}"):
                    known.hours, known.manifests = self._read(result, known.manifests)
                known.version = result.metadata_location
            known.checked = present
            return known.hours

    def _read(
        self, table: IcebergTable, known: Mapping[str, tuple[tuple[int, str], ...]]
    ) -> tuple[Hours | None, dict[str, tuple[tuple[int, str], ...]]]:
        snapshot = table.current_snapshot()
        if snapshot is None:
            return {}, {}
        manifests: dict[str, tuple[tuple[int, str], ...]] = {}
        for manifest in snapshot.manifests(table.io):
            if manifest.content != ManifestContent.DATA:
                return None, {}
            path = manifest.manifest_path
            manifests[path] = known.get(path) or tuple(
                (entry.data_file.partition[0], entry.data_file.file_path)
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            )
        hours: dict[int, list[str]] = {}
        for entries in manifests.values():
            for hour, path in entries:
                hours.setdefault(hour, []).append(path)
        return {hour: tuple(sorted(paths)) for hour, paths in hours.items()}, manifests
