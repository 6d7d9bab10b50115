"""Runs whose process is gone, but which Dagster still believes to be under way.

Dagster's daemon watches the runs it launched. One that the command line runs in its own process
is watched by nobody: killed, it would stay *started* for ever, and no tick would follow.
"""

import dagster as dg
import psutil

PROCESS_TAG = "tidemark/process"


def process_tag(pid: int | None = None) -> dict[str, str]:
    """The tag that names a process, this one unless told, by id and start."""
    process = psutil.Process(pid)
    return {PROCESS_TAG: f"{process.pid}/{process.create_time()}"}


def end_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Reports runs as failed whose tagged process does not run any more; returns their ids."""
    started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    dead = [
        run for run in started if PROCESS_TAG in run.tags and not is_alive(run.tags[PROCESS_TAG])
    ]
    for run in dead:
        instance.report_run_failed(run, "its process was killed")
    return [run.run_id for run in dead]


def is_alive(tag: str) -> bool:
    """Whether the process of a `process_tag` runs."""
    pid, created = tag.split("/")
    try:
        return psutil.Process(int(pid)).create_time() == float(created)
    except psutil.NoSuchProcess:
        return False
