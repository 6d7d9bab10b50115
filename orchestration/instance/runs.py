"""Runs in Dagster's records: dead and overdue ones are ended, old ones are removed.

Every run names its process and its longest time in its tags. Dagster's daemon, every tick of the
schedule, and the command line, which needs no daemon, check the runs under way. So a run that was
killed or hangs delays no other.

Dagster's own history grows by one database per run. Dagster removes ticks of schedules and sensors
(``retention`` in ``dagster.yaml``), but no run. The history contains no data of Tidemark: rows that
a run computed stay.
"""

import os
import shutil
import signal
import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import dagster as dg
import psutil

from assets.dagster_names import LONGEST_TAG, OF_TIDEMARK, process_of
from tidemark.host.processes import is_of_this_host, named
from tidemark.settings.home import Home

KILL_SECONDS = 20
"""Longest time for an interrupted run to end by itself. A kill loses nothing: the next tick
computes the missing rows."""

UNDER_WAY = (
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)


def end_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """End the runs whose process has ended or that exceed their longest time; return their ids.

    A run that names no process, or one of another host, is ended by its longest time only.
    """
    ended = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=list(UNDER_WAY))):
        run = record.dagster_run
        if is_dead(run):
            _report_dead(instance, run)
        elif run.status == dg.DagsterRunStatus.STARTED and _is_overdue(record):
            stop(instance, run)
            seconds = run.tags[LONGEST_TAG]
            instance.report_run_failed(
                run, f"it took longer than {seconds} s (TIDEMARK_RUN_MINUTES)"
            )
        else:
            continue
        ended.append(run.run_id)
    return ended


def is_dead(run: dg.DagsterRun) -> bool:
    """Return whether the process of a run is known to have ended."""
    process = process_of(run.run_id, run.tags)
    return process is not None and is_of_this_host(process) and named(process) is None


def is_alive(run: dg.DagsterRun) -> bool:
    """Return whether the process of a run is known to run on this host."""
    return process_on_this_host(run) is not None


def process_on_this_host(run: dg.DagsterRun) -> psutil.Process | None:
    """Return the process of a run when it is known and runs here."""
    process = process_of(run.run_id, run.tags)
    return named(process) if process and is_of_this_host(process) else None


def stop(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Interrupt a run and, if that does not end it, kill it; False when it does not run here."""
    process = process_on_this_host(run)
    if process is None or process.pid == os.getpid():
        return False
    instance.report_run_canceling(run)
    try:
        process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + KILL_SECONDS
        while is_alive(run) and time.monotonic() < deadline:
            time.sleep(0.1)
        if is_alive(run):
            process.kill()
    except psutil.NoSuchProcess:
        pass  # it has ended meanwhile
    return True


def _report_dead(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    if run.status == dg.DagsterRunStatus.CANCELING:
        instance.report_run_canceled(run, "its process has ended")
    else:
        instance.report_run_failed(run, "its process was killed")


def _is_overdue(record: dg.RunRecord) -> bool:
    longest = record.dagster_run.tags.get(LONGEST_TAG)
    if not longest or record.start_time is None:
        return False
    return time.time() - record.start_time > float(longest)


ENDED = (
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
)

EMBEDDED_LOG = "tidemark.embedded.event_log"

REMOVAL_SECONDS = 5.0
"""Longest time of one removal, which a sensor makes while others wait."""

SPARE_BYTES = 64 * 2**20
"""Free space inside a database from which it is vacuumed, when that is half of it."""

LOG_BYTES = 16 * 2**20
"""Size from which a log is rotated; one older log stays."""


@dataclass(frozen=True)
class RunHistory:
    """Retention of Dagster's history of runs.

    Attributes:
        age: the age from which a run that has ended is forgotten; ``TIDEMARK_RUN_HISTORY_DAYS``.
    """

    age: timedelta = timedelta(days=7)


def forget_runs(instance: dg.DagsterInstance, before: datetime, most: int) -> int:
    """Forget the oldest runs that ended and were made before an instant; return how many.

    In an instance that Tidemark does not keep for itself, only runs with its tag are its own.

    Args:
        instance: of Dagster.
        before: the instant.
        most: how many runs at most.
    """
    is_ours_alone = is_embedded(instance)
    tags = None if is_ours_alone else OF_TIDEMARK
    old = dg.RunsFilter(statuses=list(ENDED), created_before=before, tags=tags)
    until, forgotten = time.monotonic() + REMOVAL_SECONDS, 0
    for record in instance.get_run_records(old, limit=most, ascending=True):
        if time.monotonic() > until:
            break
        _forget(instance, record.dagster_run.run_id)
        forgotten += 1
    if is_ours_alone:
        instance.event_log_storage.forget_before(before)  # pyright: ignore  of our own kind
    return forgotten


def is_embedded(instance: dg.DagsterInstance) -> bool:
    """Return whether the instance file of the embedded size configures an instance.

    It alone names our event log; the module is not imported to find that out.
    """
    return type(instance.event_log_storage).__module__ == EMBEDDED_LOG


def _forget(instance: dg.DagsterInstance, run_id: str) -> None:
    """Remove a run, its record last, so that a killed removal is repeated."""
    with suppress(NotImplementedError):
        instance.compute_log_manager.delete_logs(prefix=[run_id])
    if is_embedded(instance):
        from tidemark.embedded.dagster_private import forget_run

        forget_run(instance, run_id)
    else:
        instance.delete_run(run_id)


def shrink(home: Home) -> list[Path]:
    """Vacuum the databases that are half empty; return which.

    Forgotten rows leave space that new ones take, so this happens after a great change only.
    """
    history = home.dagster / "history"
    shrunk = []
    for path in (history / "runs" / "index.db", history / "runs.db"):
        if not path.exists():
            continue
        with closing(
            sqlite3.connect(path, timeout=REMOVAL_SECONDS, isolation_level=None)
        ) as database:
            pages, free, size = (
                database.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
            if free * size > SPARE_BYTES and free * 2 > pages:
                # Another process is writing, or the disk is too full: later, then.
                with suppress(sqlite3.OperationalError):
                    database.execute("VACUUM")
                    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                    shrunk.append(path)
    return shrunk


def rotate_logs(home: Home) -> list[Path]:
    """Rotate the logs of daemons and runs that have grown large; return which.

    Their processes keep them open to append, so a log is copied and emptied in its place. A line
    that is written between the two is lost.
    """
    rotated = []
    for path in sorted((*home.dagster.glob("*.log"), *home.engine.glob("*.log"))):
        if path.stat().st_size > LOG_BYTES:
            with suppress(OSError):  # a full disk; the log grows until there is room
                shutil.copyfile(path, path.with_name(f"{path.name}.1"))
                with path.open("r+b") as log:
                    log.truncate(0)
                rotated.append(path)
    return rotated
