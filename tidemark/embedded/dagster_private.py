"""The private names of Dagster that Tidemark uses, for the one version that has been tested.

No other module imports private modules of Dagster, and only the embedded size imports this one.
Another version stops here with one clear line.
"""

from collections.abc import Callable
from typing import Any

import dagster

VERSION = "1.13.27"
"""The version of Dagster whose private names these are."""

RUN_PROGRAM = "dagster._cli"
"""The module that executes a run, as Dagster's own launcher starts it."""


def wrong_version() -> str | None:
    """Return a line with the version to install where another Dagster is installed, else None."""
    if dagster.__version__ == VERSION:
        return None
    return (
        f"Tidemark is tested with dagster {VERSION} and {dagster.__version__} is installed; "
        f"install it with: pip install dagster=={VERSION}"
    )


if _wrong := wrong_version():
    raise ImportError(_wrong)

from dagster._core.launcher import (  # noqa: E402
    CheckRunHealthResult,
    DefaultRunLauncher,
    LaunchRunContext,
    WorkerStatus,
)
from dagster._core.storage.event_log import (  # noqa: E402
    SqlEventLogStorageTable,
    SqliteEventLogStorage,
    SqlPollingEventWatcher,
)
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable  # noqa: E402
from dagster._core.storage.event_log.sqlite import sqlite_event_log  # noqa: E402
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME  # noqa: E402
from dagster._core.storage.runs import SqliteRunStorage  # noqa: E402
from dagster._core.storage.runs.schema import RunTagsTable  # noqa: E402
from dagster._core.storage.schedules import SqliteScheduleStorage  # noqa: E402
from dagster._core.storage.sql import (  # noqa: E402
    ScriptDirectory,  # pyright: ignore[reportPrivateImportUsage]
    get_alembic_config,
)
from dagster._core.storage.sqlite import (  # noqa: E402
    SQLITE_BUSY_TIMEOUT_SECONDS,
    create_db_conn_string,
)
from dagster._grpc.types import ExecuteRunArgs  # noqa: E402
from dagster_shared.error import SerializableErrorInfo  # noqa: E402
from dagster_shared.serdes import serialize_value  # noqa: E402

_read_migrations = ScriptDirectory.from_config

_migrations: dict[str | None, ScriptDirectory] = {}
"""Migrations of databases that were read, by folder."""


def _kept_migrations(config: Any) -> ScriptDirectory:
    folder = config.get_main_option("script_location")
    if folder not in _migrations:
        _migrations[folder] = _read_migrations(config)
    return _migrations[folder]


# Dagster imports all its migrations, a hundred files, at each database that it opens, and twice at
# each that it makes: six times for a tick, whose events have a database of their own.
ScriptDirectory.from_config = staticmethod(_kept_migrations)  # pyright: ignore


def read_migrations() -> None:
    """Read the migrations of Dagster's databases, for this process and those it forks."""
    _kept_migrations(get_alembic_config(sqlite_event_log.__file__)).get_heads()


RELOAD_SECONDS = 240
"""Dagster stops its daemon where definitions that are older than 300 s cannot be loaded."""

WATCH_SECONDS = 30


def programs() -> tuple[Callable[[], object], Callable[[], object]]:
    """Return the mains of the commands ``dagster`` and ``dagster-daemon``; they read `sys.argv`."""
    # Imported here: a run needs no daemon.
    from dagster import _cli
    from dagster._daemon import cli as daemon

    return _cli.main, daemon.main


def check_seldom() -> None:
    """Let the daemon and the pages of this process, and of those it forks, check definitions less.

    By default they request the id of the code server every second and all definitions every minute,
    in case another code server has taken its place. Here one that ends ends them too.
    """
    from dagster._daemon import controller
    from dagster._grpc import server_watcher

    controller.RELOAD_WORKSPACE_INTERVAL = RELOAD_SECONDS
    server_watcher.WATCH_INTERVAL = WATCH_SECONDS


def forget_run(instance: dagster.DagsterInstance, run_id: str) -> None:
    """Remove a run from SQLite, its record last, so that a killed removal is repeated."""
    storage = instance.run_storage
    if isinstance(storage, SqliteRunStorage):
        # Dagster leaves it to a cascade, which SQLite does only where it is switched on.
        with storage.connect() as connection:
            connection.execute(RunTagsTable.delete().where(RunTagsTable.c.run_id == run_id))
    instance.event_log_storage.delete_events(run_id)
    storage.delete_run(run_id)


__all__ = [
    "INDEX_SHARD_NAME",
    "SQLITE_BUSY_TIMEOUT_SECONDS",
    "AssetCheckExecutionsTable",
    "CheckRunHealthResult",
    "DefaultRunLauncher",
    "ExecuteRunArgs",
    "LaunchRunContext",
    "RunTagsTable",
    "SerializableErrorInfo",
    "SqlEventLogStorageTable",
    "SqlPollingEventWatcher",
    "SqliteEventLogStorage",
    "SqliteRunStorage",
    "SqliteScheduleStorage",
    "WorkerStatus",
    "check_seldom",
    "create_db_conn_string",
    "forget_run",
    "programs",
    "read_migrations",
    "serialize_value",
]
