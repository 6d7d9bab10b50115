"""The private names of Dagster that Tidemark uses, for the one version that has been tested.

No other module imports private modules of Dagster. Another version stops here with one clear line.
"""

import dagster

VERSION = "1.13.27"
"""The version of Dagster whose private names these are."""

RUN_PROGRAM = "dagster._cli"
"""The module that executes a run, as Dagster's own launcher starts it."""


def wrong_version() -> str | None:
    """Return what to install when another version of Dagster is installed, else None."""
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
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME  # noqa: E402
from dagster._core.storage.runs import SqliteRunStorage  # noqa: E402
from dagster._core.storage.runs.schema import RunTagsTable  # noqa: E402
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS  # noqa: E402
from dagster._grpc.types import ExecuteRunArgs  # noqa: E402
from dagster_shared.error import SerializableErrorInfo  # noqa: E402
from dagster_shared.serdes import serialize_value  # noqa: E402

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
    "WorkerStatus",
    "serialize_value",
]
