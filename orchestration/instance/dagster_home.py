"""Dagster's home: its configuration files, and one line where its storage cannot be opened."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from sqlalchemy.exc import DatabaseError

from tidemark.host.failures import essence
from tidemark.settings.home import Home, remove_unfinished, write_whole

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


MARK = "# Written by Tidemark"

CONFIG = (
    MARK
    + """ at each start; without this line it stays as it is.
telemetry:
  enabled: false
nux:
  # No invitations to newsletters between an engineer and the board.
  enabled: false
concurrency:
  runs:
    # A lease lets runs that change tables follow each other; collecting waits for none.
    max_concurrent_runs: 8
    # A backfill has a run for some hours each: one at a time, so that ticks start between them.
    tag_concurrency_limits:
      - key: dagster/backfill
        limit: 1
event_log_storage:
  module: tidemark.embedded.event_log
  class: EventLog
  config:
    base_dir: {events}
run_storage:
  module: tidemark.embedded.storage
  class: RunStorage
  config:
    base_dir: {runs}
schedule_storage:
  module: tidemark.embedded.storage
  class: ScheduleStorage
  config:
    base_dir: {schedules}
run_launcher:
  module: tidemark.embedded.launcher
  class: ForkingRunLauncher
# A failed run leaves its work to the next tick, and no condition materializes an asset: these two
# daemons would check every few seconds for what never comes.
run_retries:
  enabled: false
auto_materialize:
  enabled: false
  use_sensors: false
run_monitoring:
  enabled: true
  start_timeout_seconds: 120
  # A dead run is found within a minute. A run that names its own longest time has that.
  poll_interval_seconds: 30
  max_runtime_seconds: 172800
  cancel_timeout_seconds: 60
retention:
  schedule:
    purge_after_days: 7
  sensor:
    purge_after_days: 2
"""
)


def prepare(home: Home) -> Path:
    """Name the home of Dagster and ours in the environment; return that of Dagster.

    Where ``DAGSTER_HOME`` names another, that is the operator's, and used as it is. Else it is made
    in ours. There too a file that Tidemark did not write stays as it is. Small files that killed
    processes left unfinished are removed.
    """
    os.environ["TIDEMARK_HOME"] = str(home.path)
    if home.path.is_dir():
        remove_unfinished(home.path, *filter(Path.is_dir, home.path.iterdir()))
    if of_operator := named_by_operator(home):
        return of_operator
    home.make()
    home.dagster.mkdir(exist_ok=True)
    config = home.dagster / "dagster.yaml"
    # Where Dagster itself would keep the log; JSON is YAML whatever the folder is called.
    folders = {"events": "history/runs", "runs": "history", "schedules": "schedules"}
    places = {name: json.dumps(str(home.dagster / path)) for name, path in folders.items()}
    text = CONFIG.format(**places)
    existing = config.read_text() if config.exists() else MARK
    if existing.startswith(MARK) and existing != text:
        write_whole(config, text)
    os.environ["DAGSTER_HOME"] = str(home.dagster)
    return home.dagster


def named_by_operator(home: Home) -> Path | None:
    """Return the home of Dagster that the environment names, where it is none of Tidemark's."""
    named = os.environ.get("DAGSTER_HOME")
    path = Path(named).absolute() if named else home.dagster
    config = path / "dagster.yaml"
    is_ours = path == home.dagster or (config.exists() and config.read_text().startswith(MARK))
    return None if is_ours else path
