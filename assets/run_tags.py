"""Tags of every run of Tidemark: the mark that it is ours, its process and its longest time.

A run names its process as it starts, so the tag is the same for all starters: Dagster's daemon, its
UI, the fork server and the command line.
"""

import math
from collections.abc import Mapping
from datetime import timedelta

from assets.partitions import HIDDEN, run_hours
from tidemark.host.processes import identity

PROCESS_TAG = HIDDEN + "process"

OF_TIDEMARK = {HIDDEN + "run": "true"}
"""The tag of every run of Tidemark, by which Dagster finds them among those of others."""

JOB_TAG = HIDDEN + "job"
"""Names the job of a run. The job itself may have another name, where a project mounts it."""

LONGEST_TAG = "dagster/max_runtime"
"""Seconds after which Dagster's daemon ends a run; so does `orchestration.instance.runs`."""


def process_tags(run_id: str, pid: int | None = None) -> dict[str, str]:
    """Return the tags of a run of Tidemark with its process; this process without an id.

    The tag names the run as well as the process, because a repeated run inherits the tags of the
    run that died.
    """
    return {PROCESS_TAG: f"{identity(pid)}/{run_id}", **OF_TIDEMARK}


def job_tags(job: str) -> dict[str, str]:
    """Return the tags of all runs of a job of Tidemark."""
    return {**OF_TIDEMARK, JOB_TAG: job}


def process_of(run_id: str, tags: Mapping[str, str]) -> str | None:
    """Return the identity of a run's process; None while it is not known."""
    process, _, of_run = tags.get(PROCESS_TAG, "").rpartition("/")
    return process if process and of_run == run_id else None


def longest_time_tag(tags: Mapping[str, str], longest: timedelta) -> dict[str, str]:
    """Return the tag of a run's longest time; a run that recomputes days has it for each day."""
    days = math.ceil(run_hours(tags) / 24) or 1
    return {LONGEST_TAG: str(round(longest.total_seconds() * days))}
