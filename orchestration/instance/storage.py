"""Dagster's storage with failures in one line, as people delete it while processes use it."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from sqlalchemy.exc import DatabaseError

from tidemark.host.failures import essence

_REMOVED = re.compile(
    "no such table|unable to open database|readonly database|disk image is malformed"
)
"""Messages of SQLite about a file that was removed or replaced under an open connection."""


class StorageError(RuntimeError):
    """Dagster's storage was removed or damaged; the text names it and the remedy."""


@contextmanager
def opened_storage() -> Iterator[dg.DagsterInstance]:
    """Open Dagster's instance of ``DAGSTER_HOME``.

    Raises:
        StorageError: its storage was removed or damaged.
    """
    try:
        with dg.DagsterInstance.get() as instance:
            yield instance
    except DatabaseError as error:
        if not _REMOVED.search(str(error)):
            raise
        raise StorageError(
            f"Dagster's storage in {os.environ.get('DAGSTER_HOME')} was removed or damaged while "
            f"it was in use ({essence(str(error.orig))}): stop what runs on this home and start it "
            "again; only the history of runs is lost"
        ) from error
