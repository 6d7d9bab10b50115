"""Runs that have ended, but which Dagster still records as under way, and runs that take too long.

Every run names its process and its longest time in its tags. Dagster's daemon, every tick of the
schedule, and the command line, which needs no daemon, check the runs under way. So a run that was
killed or hangs delays no other.
"""

import os
import signal
import time

import dagster as dg
import psutil

from assets.run_tags import LONGEST_TAG, process_of
from tidemark.host.processes import is_of_this_host, named

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
