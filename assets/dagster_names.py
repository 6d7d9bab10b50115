"""Names by which Dagster knows what is ours: keys of resources, and tags of runs.

A project that mounts Tidemark may have a `lake` and a `spark` of its own. A run names its process
as it starts, so the tag is the same for all starters: Dagster's daemon, its UI, the fork server and
the command line.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import wraps
from typing import Any, TypeVar

from assets.partitions import HIDDEN, run_hours
from tidemark.host.processes import identity

PREFIX = "tidemark_"

NO_RESOURCES = ("context", "config")
"""Parameters of steps and sensors that are no resources."""

Body = TypeVar("Body", bound=Callable[..., Any])


def with_own_keys(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return resources by the keys that Dagster knows them by."""
    return {PREFIX + name: resource for name, resource in resources.items()}


def own_keys(body: Body) -> Body:
    """Return the body of a step or sensor for Dagster, which takes a parameter's name as a key.

    A body receives its resources by their plain names. For Dagster each name has `PREFIX`.
    """
    signature = inspect.signature(body)
    plain = {PREFIX + name: name for name in signature.parameters if name not in NO_RESOURCES}

    def called(*args: Any, **kwargs: Any) -> Any:
        return body(*args, **{plain.get(name, name): value for name, value in kwargs.items()})

    def iterated(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yield from called(*args, **kwargs)

    # Dagster distinguishes generator functions before it runs them.
    named = wraps(body)(iterated if inspect.isgeneratorfunction(body) else called)
    parameters = [
        parameter if parameter.name in NO_RESOURCES else parameter.replace(name=PREFIX + name)
        for name, parameter in signature.parameters.items()
    ]
    named.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore
    return named  # pyright: ignore


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
