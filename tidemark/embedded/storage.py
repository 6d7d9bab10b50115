"""Dagster's runs and schedules in SQLite, on connections that a process keeps.

Dagster's own storages make an engine, open a database, compile a statement and close all of that
again, for each of the statements of daemons that check for work every few seconds: 7 ms of
processor time instead of 0.5.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.pool import QueuePool

from tidemark.embedded.dagster_private import (
    SQLITE_BUSY_TIMEOUT_SECONDS,
    SqliteRunStorage,
    SqliteScheduleStorage,
    create_db_conn_string,
)


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """The engine of a database.

    Attributes:
        engine: with its connections.
        file: device and number of the file that they opened; None where there was none.
    """

    engine: Engine
    file: tuple[int, int] | None


_kept: dict[tuple[int, str], _Kept] = {}
"""By process, as a forked one must not use the connections of its parent, and by address."""

_alone = threading.Lock()


def kept_engine(address: str) -> Engine:
    """Return the engine of a database in a file, made once in a process.

    Where the file was removed or replaced, the old connections would go on reading it: that
    address gets a new engine.

    Args:
        address: of SQLAlchemy.
    """
    file, key = _file_of(address), (os.getpid(), address)
    with _alone:
        kept = _kept.get(key)
        if kept is None or kept.file != file:
            if kept:
                kept.engine.dispose()
            engine = create_engine(
                address,
                poolclass=QueuePool,
                # Every thread gets one: a thread that waited for another's could wait for ever.
                max_overflow=-1,
                connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
            )
            _kept[key] = kept = _Kept(engine=engine, file=file)
        return kept.engine


def _is_prepared(address: str) -> bool:
    """Return whether this process has found the tables of a database before."""
    kept, file = _kept.get((os.getpid(), address)), _file_of(address)
    return kept is not None and file is not None and kept.file == file


def _file_of(address: str) -> tuple[int, int] | None:
    try:
        status = Path(make_url(address).database or "").stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class _OnKeptConnections:
    """A storage of Dagster in a file, on kept connections; Dagster's class is the next base."""

    database: ClassVar[str]

    @classmethod
    def from_config_value(cls: Any, inst_data: Any, config_value: Any) -> Any:
        """As `dagster.yaml` has it."""
        return cls.from_local(inst_data=inst_data, **config_value)

    @classmethod
    def from_local(cls: Any, base_dir: str, inst_data: Any = None) -> Any:
        """Open the storage in a folder; a process searches for its tables once."""
        address = create_db_conn_string(base_dir, cls.database)
        if _is_prepared(address):
            return cls(address, inst_data)
        of_dagster: Any = super()
        return of_dagster.from_local(base_dir, inst_data)

    @contextmanager
    def connect(self: Any) -> Iterator[Connection]:
        """Return a connection in a transaction."""
        with kept_engine(self._conn_string).begin() as connection:
            yield connection


class RunStorage(_OnKeptConnections, SqliteRunStorage):
    """Dagster's storage of runs and of the signs of life of its daemons."""

    database = "runs"


class ScheduleStorage(_OnKeptConnections, SqliteScheduleStorage):
    """Dagster's storage of the states and evaluations of schedules and sensors.

    Dagster's own searches for a table and an index of older versions before each statement.
    """

    database = "schedules"

    def __init__(self, conn_string: str, inst_data: Any = None) -> None:
        """Know the address of the database."""
        super().__init__(conn_string, inst_data)
        self._built: set[str] = set()
        self._has_instigators = False

    def has_instigators_table(self) -> bool:
        """Whether states have their own table; one that was found stays."""
        self._has_instigators = self._has_instigators or super().has_instigators_table()
        return self._has_instigators

    def has_built_index(self, migration_name: str) -> bool:
        """Whether an index is complete; one that was found so stays."""
        if migration_name not in self._built and super().has_built_index(migration_name):
            self._built.add(migration_name)
        return migration_name in self._built
