"""Runs whose process has ended, but which Dagster still records as started.

Dagster's daemon watches the runs that it launched. Nothing watches a run of the command line: after
a kill it would stay *started* for ever, and no tick would follow.
"""

import os

import dagster as dg

from lake.processes import find, start_of

PROCESS_TAG = "tidemark/process"


def process_tag(pid: int | None = None) -> dict[str, str]:
    """Return the tag that names a process by id and start; this process without an id."""
    pid = os.getpid() if pid is None else pid
    return {PROCESS_TAG: f"{pid}/{start_of(pid)}"}


def end_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Report runs as failed whose tagged process has ended, and return their ids."""
    started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    dead = [
        run for run in started if PROCESS_TAG in run.tags and not is_alive(run.tags[PROCESS_TAG])
    ]
    for run in dead:
        instance.report_run_failed(run, "its process was killed")
    return [run.run_id for run in dead]


def is_alive(tag: str) -> bool:
    """Return whether the process of a `process_tag` runs."""
    pid, started_at = tag.split("/")
    return find(int(pid), float(started_at)) is not None
