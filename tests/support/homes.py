"""Homes with a warm engine: a tick then costs seconds, so that many can be run."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg

from spark.session.engine import Engine
from tests.support.checkout import ROOT
from tidemark.embedded import forking
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.settings.home import Home

TIDEMARK = Path(sys.executable).with_name("tidemark")
DAGSTER = TIDEMARK.with_name("dagster")
SETTINGS = ("TIDEMARK_", "DAGSTER_", "SPARK_")


@dataclass(frozen=True)
class Warm:
    """A home with a warm engine.

    Attributes:
        lake: its tables.
    """

    lake: Lake

    @property
    def home(self) -> Home:
        return self.lake.home

    def tick(self) -> None:
        """Run one tick on landed snapshots."""
        done = run(self.home, ["tick", "--no-collect"])
        assert done.returncode == 0, done.stderr

    def recompute(self, window: Window) -> None:
        """Whole hours again."""
        hours = ["--from", window.start.isoformat(), "--to", window.end.isoformat()]
        done = run(self.home, ["recompute", *hours])
        assert done.returncode == 0, done.stderr


def newest_check(home: Home, *table: str) -> tuple[str, dg.AssetCheckEvaluation]:
    """The id of a home's newest run, and its results of a table's suite."""
    with dg.DagsterInstance.from_config(str(home.dagster)) as instance:
        (newest,) = instance.get_runs(limit=1)
        events = [entry.dagster_event for entry in instance.all_logs(newest.run_id)]
    judged = [
        event.asset_check_evaluation_data
        for event in events
        if event and event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION
    ]
    (mine,) = [
        evaluation
        for evaluation in judged
        if tuple(evaluation.asset_key.path) == table and evaluation.check_name == "expectations"
    ]
    return newest.run_id, mine


@contextmanager
def warmed(home: Home, engine: Engine) -> Iterator[Warm]:
    """A home that takes the engine for its own, in a session that only its runs share."""
    lake = Lake(home)
    lake.catalog  # noqa: B018  the tables must exist before the engine reads them
    home.engine.mkdir()
    replace(engine, session_id=str(uuid.uuid4())).write(home.engine / "engine.json")
    declare_objectives(home.path)
    forking.up(home)
    try:
        yield Warm(lake)
    finally:
        forking.down(home)


OBJECTIVES = """\
objectives:
- {name: on-time, match: {}, delay: 30s, target: 99%, window: 6h}
- {name: short, match: {topic: orders}, lag: 50, target: 0.9, window: 2h}
"""
"""Objectives of shared homes, so that their runs count minutes too."""


def declare_objectives(folder: Path) -> Path:
    """Declares the objectives of shared homes in a folder and returns their file."""
    file = folder / "objectives.yaml"
    file.write_text(OBJECTIVES)
    return file


def environment(home: Home, **settings: str) -> dict[str, str]:
    """Return the environment of a command: that home, and no setting of the developer."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key == "SPARK_SUBMIT_OPTS" or not key.startswith(SETTINGS)
    }
    return kept | {"TIDEMARK_HOME": str(home.path), "COLUMNS": "200"} | settings


def run(
    home: Home, arguments: Sequence[str], timeout: float = 600, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Runs the `tidemark` command to its end."""
    return subprocess.run(
        [str(TIDEMARK), *arguments],
        cwd=home.path if home.path.is_dir() else ROOT,
        env=environment(home, **settings),
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def dagster_job(
    home: Home, job: str, *, settings: Mapping[str, str] | None = None, **ops: Any
) -> None:
    """Run a job as Dagster's own command does.

    Args:
        home: the home.
        job: name of the job.
        settings: variables of Tidemark.
        ops: configuration of its steps.
    """
    command = [str(DAGSTER), "job", "execute", "-m", "orchestration.definitions", "-j", job]
    config = ["--config", str(home.path / "run.yaml")] if ops else []
    (home.path / "run.yaml").write_text(json.dumps({"ops": ops}))
    done = subprocess.run(
        [*command, *config],
        cwd=ROOT,
        env=environment(home, DAGSTER_HOME=str(home.dagster), **(settings or {})),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
