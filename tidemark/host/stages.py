"""The step that a start has reached: one process writes it, others show it."""

import json
import os
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from tidemark.host.processes import find, start_of
from tidemark.settings.home import Home, write_whole


class Step(StrEnum):
    """The steps of a demo's start, in their order."""

    BROKERS = "starting a name server, two brokers and the Spark engine"
    WORKLOAD = "starting the workload, a group of every kind"
    DAGSTER = "starting Dagster, which begins ticks"
    FIRST_TICK = "computing the first snapshot"

    @property
    def number(self) -> int:
        """Its place among the steps, from 1."""
        return list(Step).index(self) + 1


USUAL_SECONDS = {Step.BROKERS: 17, Step.WORKLOAD: 8, Step.DAGSTER: 8, Step.FIRST_TICK: 35}
"""Seconds between those of two starts that were measured, both with all jars downloaded before.

An idle machine of two cores took 12, 10, 10 and 25 s, a half-idle one 22, 6, 6 and 45 s.
"""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The step that a start has reached.

    Attributes:
        step: the step.
        begun_at: when it began, in seconds since 1970.
        pid: the process that starts.
        created: start of that process, so that a reused id is never taken for it.
    """

    step: Step
    begun_at: float
    pid: int
    created: float

    @property
    def usual(self) -> int:
        """How long it usually takes, in seconds."""
        return USUAL_SECONDS[self.step]

    @property
    def seconds(self) -> int:
        """How long it has taken, in seconds."""
        return max(0, int(time.time() - self.begun_at))


def write(home: Home, step: Step) -> None:
    """Tell others what this process starts now."""
    pid = os.getpid()
    stage = Stage(step=step, begun_at=time.time(), pid=pid, created=start_of(pid))
    write_whole(_file(home), json.dumps(asdict(stage)))


def read(home: Home) -> Stage | None:
    """Return what is being started in a home, None where nothing is or its process has ended."""
    try:
        body = json.loads(_file(home).read_text())
        stage = Stage(**body | {"step": Step(body["step"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return stage if find(stage.pid, stage.created) else None


def clear(home: Home) -> None:
    """Tell others that nothing is being started any more."""
    _file(home).unlink(missing_ok=True)


def _file(home: Home) -> Path:
    return home.path / "starting.json"
