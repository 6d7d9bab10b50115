"""Recovery after a power cut: a table returns to its newest version whose files are whole.

Spark syncs no file, so a power cut may take files of the newest version of a table while the
catalog names it. No other version is based on it (`tidemark.lake.durable_tables`). Recovery returns
the catalog to the version before, and all that may have been computed since is computed again.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.table import StaticTable
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Operation, Snapshot
from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from tidemark.host.leases import RUN
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR
from tidemark.lake.damaged_files import UNUSABLE
from tidemark.lake.durable_tables import added_files, path_of, sync_files
from tidemark.lake.landing import folders
from tidemark.lake.schema import not_before
from tidemark.lake.table_versions import OlderTablesError
from tidemark.lake.tables import TABLES, progress, raw

Report = Callable[[str], None]


def recover(lake: Lake, report: Report) -> list[str]:
    """Return tables that lost files to a whole version, if the last run that changed tables died.

    Args:
        lake: the tables; every file in a bucket is whole.
        report: receives a line for each table that is returned to an older version.

    Returns:
        The names of these tables.
    """
    catalog, leases = lake.unchecked_catalog, lake.shared.leases
    if path_of(lake.config.python["warehouse"]) is None or not isinstance(catalog, SqlCatalog):
        return []
    if not leases.is_abandoned(RUN) or (lease := leases.attempt(RUN)) is None:
        return []  # a running run holds the lease and has recovered the tables
    with lease:
        since: dict[str, datetime] = {}
        for name in TABLES:
            if instant := _recover(catalog, lake, name):
                since[name] = instant
                report(
                    f"{name}: files of its newest version were lost, as in a power cut; it is the "
                    f"version of {instant:%Y-%m-%dT%H:%M:%SZ} again, and what came later is "
                    "computed again"
                )
        if since:
            with suppress(OlderTablesError):  # whose snapshots a person has computed again
                first = min(since.values())
                _forget(lake, min([first - HOUR, *_observed_by_loads(lake, first)]))
    return list(since)


def _recover(catalog: SqlCatalog, lake: Lake, name: str) -> datetime | None:
    """Go back to the newest version of a table that is whole.

    Returns:
        Its instant; None where the table is whole, or no version of it is.
    """
    versions = list(_versions(catalog, lake, name))
    if not versions:
        return None  # the table was never created
    newest, *before = versions
    for checksum in list(_folder(newest).rglob(".*.crc")):
        checksum.unlink(missing_ok=True)  # Spark reads a file without one
    if _whole(lake, newest):
        return None
    for location in before:
        if table := _whole(lake, location):
            _point_to(catalog, name, newest, table)
            _forget_versions(catalog, name)
            return datetime.fromtimestamp(table.metadata.last_updated_ms / 1000, UTC)
    return None  # a reader gets a line with the remedy


def _versions(catalog: SqlCatalog, lake: Lake, name: str) -> Iterator[str]:
    """Yield the metadata files of a table as far as they name each other, the newest first."""
    with Session(catalog.engine) as session:
        row = session.execute(
            select(IcebergTables.metadata_location, IcebergTables.previous_metadata_location).where(
                *_row_of(catalog, name)
            )
        ).one_or_none()
    known = [location for location in row or () if location]
    yield from known
    for location in known:
        try:
            log = _read(lake, location).metadata.metadata_log
        except UNUSABLE:
            continue
        yield from (
            entry.metadata_file for entry in reversed(log) if entry.metadata_file not in known
        )
        return


def _row_of(catalog: Catalog, name: str) -> tuple[ColumnElement[bool], ...]:
    namespace, _, table = name.rpartition(".")
    return (
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == namespace,
        IcebergTables.table_name == table,
    )


def _folder(location: str) -> Path:
    path = path_of(location)
    assert path, "tables of a bucket are not recovered"
    return path.parent.parent


def _read(lake: Lake, location: str) -> IcebergTable:
    return StaticTable.from_metadata(location, dict(lake.config.python))


def _whole(lake: Lake, location: str) -> IcebergTable | None:
    """Return the table of a metadata file, None where not all that a reader needs is whole.

    All of that survives a power cut then: a run that was killed has left files that were not
    synced, and the next one builds on them.
    """
    try:
        table = _read(lake, location)
        snapshot = table.current_snapshot()
        needed = [location]
        if snapshot is not None:
            needed += [snapshot.manifest_list, *_needed(table, snapshot)]
            for file in added_files(table, snapshot):
                # A disk may keep the length of a file and lose its content.
                with table.io.new_input(file.file_path).open() as content:
                    pq.ParquetFile(content).read()
        sync_files(needed)
    except UNUSABLE:
        return None
    return table


def _needed(table: IcebergTable, snapshot: Snapshot) -> Iterator[str]:
    """Yield the manifests and data files of a version.

    Raises:
        OSError: one is missing or cut off.
    """
    for manifest in snapshot.manifests(table.io):
        yield manifest.manifest_path
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            if len(table.io.new_input(file.file_path)) != file.file_size_in_bytes:
                raise OSError(f"{file.file_path} is cut off")
            yield file.file_path


def _point_to(catalog: SqlCatalog, name: str, damaged: str, whole: IcebergTable) -> None:
    """Make the catalog name another version of a table."""
    log = whole.metadata.metadata_log
    with Session(catalog.engine) as session:
        session.execute(
            update(IcebergTables)
            .where(*_row_of(catalog, name), IcebergTables.metadata_location == damaged)
            .values(
                metadata_location=whole.metadata_location,
                previous_metadata_location=log[-1].metadata_file if log else None,
            )
        )
        session.commit()


def _forget_versions(catalog: SqlCatalog, name: str) -> None:
    """Forget older versions that lack files: the lost one may have been to forget them."""
    table = catalog.load_table(name)
    current = table.current_snapshot()
    lost = [
        snapshot.snapshot_id
        for snapshot in table.metadata.snapshots
        if snapshot != current and not _is_whole(table, snapshot)
    ]
    if lost:
        table.maintenance.expire_snapshots().by_ids(lost).commit()


def _is_whole(table: IcebergTable, snapshot: Snapshot) -> bool:
    try:
        list(_needed(table, snapshot))
    except UNUSABLE:
        return False
    return True


def _observed_by_loads(lake: Lake, since: datetime) -> Iterator[datetime]:
    """Yield the first observation of each load since an instant: a backlog may be of any age."""
    table = lake.table(raw.SNAPSHOTS.name)
    for snapshot in table.snapshots():
        is_load = snapshot.summary and snapshot.summary.operation is Operation.APPEND
        if is_load and snapshot.timestamp_ms >= since.timestamp() * 1000:
            for file in added_files(table, snapshot):
                with table.io.new_input(file.file_path).open() as content:
                    rows = pq.read_table(content, columns=["observed_at"])
                yield from filter(None, [pc.min(rows["observed_at"]).as_py()])


def _forget(lake: Lake, since: datetime) -> None:
    """Make the next runs load and compute again all snapshots observed since an instant.

    A table of an older program may have lost rows from which others were computed. A snapshot that
    is no longer in the landing keeps the raw rows that are left.
    """
    where, names = not_before("observed_at", since), ("snapshot_id", "observed_at")
    computed, loaded = (
        lake.read(table, where, columns=names).to_pylist()
        for table in (progress.SNAPSHOTS, raw.SNAPSHOTS)
    )
    landed = {item.snapshot_id for item in folders(lake.landing, since)}
    lake.upsert(progress.SNAPSHOTS, [], computed)
    lake.upsert(raw.SNAPSHOTS, [], [row for row in loaded if row["snapshot_id"] in landed])
