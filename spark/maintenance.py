"""Statements that keep a table small: what is removed, joined and forgotten.

Iceberg's own procedures do the work; which rows and snapshots they may touch is said here.
"""

from datetime import datetime

from lake.catalog import NAME
from lake.schema import Table
from lake.window import Window

FILES = 5
"""So many files of an hour are worth joining."""


def removal(table: Table, before: datetime) -> str:
    """Removes the rows before an hour; whole hours are files, so none is rewritten."""
    return f"DELETE FROM {table.name} WHERE {table.instant} < {_instant(before)}"


def compaction(table: Table, window: Window) -> str:
    """Joins the files that the ticks of each hour of a window left."""
    where = (
        f"{table.instant} >= {_instant(window.start)} AND {table.instant} < {_instant(window.end)}"
    )
    return (
        f"CALL {NAME}.system.rewrite_data_files(table => '{table.name}', "
        f"where => \"{where}\", options => map('min-input-files', '{FILES}'))"
    )


def expiry(table: Table, before: datetime) -> str:
    """Forgets the states of a table before an instant, but never the newest, with their files."""
    return (
        f"CALL {NAME}.system.expire_snapshots(table => '{table.name}', "
        f"older_than => {_instant(before)}, retain_last => 1)"
    )


def _instant(instant: datetime) -> str:
    return f"TIMESTAMP '{instant.isoformat()}'"
