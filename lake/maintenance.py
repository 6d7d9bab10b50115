"""Statements that keep a table small: removal of old rows, compaction, expiry of snapshots.

Iceberg's own procedures do the work; this module decides which rows and snapshots they change.
"""

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from pyiceberg.table import Table as IcebergTable

from lake.catalog import NAME
from lake.schema import Table
from lake.window import Window

FILES = 5
"""Least number of files of an hour that are compacted."""


def removal(table: Table, before: datetime) -> str:
    """Return SQL that removes the rows before an hour; whole hours are whole files."""
    return f"DELETE FROM {table.name} WHERE {table.instant} < {_instant(before)}"


def compaction(table: Table, window: Window, files: int = FILES) -> str:
    """Return SQL that joins the small files of a window, in each hour that has enough of them."""
    where = (
        f"{table.instant} >= {_instant(window.start)} AND {table.instant} < {_instant(window.end)}"
    )
    return (
        f"CALL {NAME}.system.rewrite_data_files(table => '{table.name}', "
        f"where => \"{where}\", options => map('min-input-files', '{files}'))"
    )


def expiry(table: Table, before: datetime) -> str:
    """Return SQL that expires the versions before an instant, but never the newest."""
    return (
        f"CALL {NAME}.system.expire_snapshots(table => '{table.name}', "
        f"older_than => {_instant(before)}, retain_last => 1)"
    )


def orphan_removal(table: Table, before: datetime) -> str:
    """Return SQL that removes files which no version of a table names, as a killed run leaves them.

    Args:
        table: its declaration.
        before: files that are younger stay: a commit under way may be about to name them.
    """
    # An object store is listed by prefix; Hadoop has no file system for it.
    return (
        f"CALL {NAME}.system.remove_orphan_files(table => '{table.name}', "
        f"older_than => {_instant(before)}, prefix_listing => true)"
    )


def remove_leftovers(table: IcebergTable, before: datetime) -> int:
    """Remove left-overs of removed files on a disk; return the number of files and folders.

    Spark writes a hidden checksum beside each file. PyIceberg removes old metadata without it, and
    Iceberg lists neither hidden files nor folders of hours without a file.

    Args:
        table: the table; one in a bucket has no left-overs.
        before: instant from which files stay, because a file under way may need them.
    """
    location, removed = table.location(), 0
    if not location.startswith("file:"):
        return 0
    folder = Path(f"/{location.removeprefix('file:').lstrip('/')}")

    def is_old(path: Path) -> bool:
        return path.stat().st_mtime < before.timestamp()

    for checksum in list(folder.rglob(".*.crc")):
        file = checksum.with_name(checksum.name[1:].removesuffix(".crc"))
        if not file.exists() and is_old(checksum):
            checksum.unlink()
            removed += 1
    for hour in list((folder / "data").glob("*/")):
        if is_old(hour):
            with suppress(OSError):  # not empty
                hour.rmdir()
                removed += 1
    return removed


def _instant(instant: datetime) -> str:
    return f"TIMESTAMP '{instant.isoformat()}'"
