"""Dagster's event log in SQLite, on connections that stay open."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Engine, create_engine, select
from sqlalchemy.event import listen
from sqlalchemy.pool import StaticPool

from tidemark.embedded.dagster_private import (
    INDEX_SHARD_NAME,
    SQLITE_BUSY_TIMEOUT_SECONDS,
    AssetCheckExecutionsTable,
    SqlEventLogStorageTable,
    SqliteEventLogStorage,
    SqlPollingEventWatcher,
)

NO_RUN = ""
"""The id of the run of events that belong to none, as those of sensors and of freshness."""

AT_A_TIME = 2000
"""Rows that are checked for removal at a time; a day of ticks has thirty thousand checks."""

KEPT = 8
"""Databases kept open: that of all runs, and those of the runs that were read last."""


def _sync_less(connection: Any, _: object) -> None:
    """Let SQLite wait for the disk when it writes its journal back, and not at each event.

    A killed process loses nothing, and no end of the machine damages a database: it may lose the
    newest events, as those of the run that ended with it.
    """
    connection.execute("PRAGMA synchronous = NORMAL")


class EventLog(SqliteEventLogStorage):
    """Dagster's own event log, with databases that stay open.

    Dagster's own opens and closes a database for each of the hundreds of statements of a tick and
    prepares each statement again, and SQLite writes its journal back with the last connection: 3 ms
    an event instead of 0.6. Here the newest events stay in the journal. So a watcher of a run reads
    them from the database, where Dagster's own waits for the file to change.
    """

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        """Opens, or makes, the database of all runs in a folder."""
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        self._alone = threading.Lock()
        self._found_tables: set[str] = set()
        super().__init__(base_dir, inst_data)
        self._watching = SqlPollingEventWatcher(self)

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> Self:
        """As `dagster.yaml` has it."""
        return cls(inst_data=inst_data, **config_value)

    def run_connection(self, run_id: str | None = None) -> AbstractContextManager[Connection]:
        """Return the database of a run, in a transaction."""
        return self._kept(str(run_id), lambda: SqliteEventLogStorage.run_connection(self, run_id))

    def index_connection(self) -> AbstractContextManager[Connection]:
        """Return the database of all runs, in a transaction."""
        return self._kept(INDEX_SHARD_NAME, lambda: SqliteEventLogStorage.index_connection(self))

    def has_table(self, table_name: str) -> bool:
        """Whether the database of all runs has a table; Dagster's own searches at each check."""
        if table_name not in self._found_tables and super().has_table(table_name):
            self._found_tables.add(table_name)
        return table_name in self._found_tables

    @contextmanager
    def _kept(
        self, shard: str, made: Callable[[], AbstractContextManager[Connection]]
    ) -> Iterator[Connection]:
        with self._alone:
            engine = self._engines.pop(shard, None)
            if engine is None:
                with made():  # Dagster's own creates missing tables in it
                    engine = create_engine(
                        self.conn_string_for_shard(shard),
                        poolclass=StaticPool,
                        connect_args={
                            "timeout": SQLITE_BUSY_TIMEOUT_SECONDS,
                            "check_same_thread": False,
                        },
                    )
                    listen(engine, "connect", _sync_less)
            self._engines[shard] = engine
            if len(self._engines) > KEPT:
                self._engines.popitem(last=False)[1].dispose()
            with engine.begin() as connection:
                yield connection

    def watch(self, run_id: str, cursor: str | None, callback: Any) -> None:
        """Call back for each event of a run after a place in its log."""
        self._watching.watch_run(run_id, cursor, callback)

    def end_watch(self, run_id: str, handler: Any) -> None:
        """End the calls of a watch."""
        self._watching.unwatch_run(run_id, handler)

    def delete_events(self, run_id: str) -> None:
        """Remove a run with its database, which Dagster would leave behind empty."""
        super().delete_events(run_id)
        self._close(run_id)
        for end in ("", "-wal", "-shm"):
            Path(self.path_for_shard(run_id) + end).unlink(missing_ok=True)

    def forget_before(self, instant: datetime) -> None:
        """Remove rows that no removal of a run covers: results of checks, and events without a run.

        Both are found by their place, oldest first and some at a time, as no index has their time.
        """
        checks, events = AssetCheckExecutionsTable.c, SqlEventLogStorageTable.c
        at = instant.astimezone(UTC).replace(tzinfo=None)
        old_checks = AssetCheckExecutionsTable.delete().where(checks.create_timestamp < at)
        old_events = SqlEventLogStorageTable.delete().where(
            (events.run_id == NO_RUN) & (events.timestamp < at)
        )
        first_checks = select(checks.id).order_by(checks.id).limit(AT_A_TIME)
        first_events = select(events.id).where(events.run_id == NO_RUN)
        first_events = first_events.order_by(events.id).limit(AT_A_TIME)
        with self.index_connection() as connection:
            connection.execute(old_checks.where(checks.id.in_(first_checks)))
            connection.execute(old_events.where(events.id.in_(first_events)))
        if Path(self.path_for_shard(NO_RUN)).exists():
            with self.run_connection(NO_RUN) as connection:
                connection.execute(old_events.where(events.id.in_(first_events)))

    def wipe(self) -> None:
        """Remove all runs and events, with the files."""
        self._close()
        super().wipe()

    def dispose(self) -> None:
        """Close all connections."""
        self._watching.close()
        self._close()
        super().dispose()

    def _close(self, run_id: str | None = None) -> None:
        with self._alone:
            if run_id is not None:
                engine = self._engines.pop(run_id, None)
                if engine is not None:
                    engine.dispose()
                return
            while self._engines:
                self._engines.popitem()[1].dispose()
