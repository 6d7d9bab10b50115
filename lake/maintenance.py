"""Statements that keep a table small: removal of old rows, compaction, expiry of old states.

Iceberg's own procedures do the work; which rows and snapshots they may touch is decided here.
"""

from datetime import datetime

from lake.catalog import NAME
from lake.schema import Table
from lake.window import Window

FILES = 5
"""Least number of files of an hour that are compacted."""


def removal(table: Table, before: datetime) -> str:
    """Return SQL that removes the rows before an hour; whole hours are whole files."""
    return f"DELETE FROM {table.name} WHERE {table.instant} < {_instant(before)}"


def compaction(table: Table, window: Window, files: int = FILES) -> str:
    """Return SQL that joins the files of each hour of a window that has at least so many."""
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


def _instant(instant: datetime) -> str:
    return f"TIMESTAMP '{instant.isoformat()}'"
