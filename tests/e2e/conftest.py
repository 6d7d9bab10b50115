"""Homes with a warm engine: a tick then costs seconds, so that many can be run."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql.connect.session import SparkSession

from lake.catalog import CatalogConfig, Lake
from lake.home import Home
from lake.window import Window
from orchestration import running
from spark import engine

ROOT = Path(__file__).parent.parent.parent
TIDEMARK = Path(sys.executable).with_name("tidemark")
SETTINGS = ("TIDEMARK_", "DAGSTER_", "SPARK_")


class Runs:
    """Runs Dagster jobs on a home in a process of its own, which lives as long as the engine.

    A Spark Connect session and Dagster's settings would not get along with what other tests keep
    in this process; one process for many runs spares them the imports.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))

    def tick(self, *, collect: bool = False, **settings: str) -> str:
        """One tick on what has landed, or with a look at a cluster first; its run id."""
        return self._pool.submit(_tick, self.home, collect, settings).result()

    def recompute(self, window: Window) -> str:
        """Whole hours again; the run id."""
        return self._pool.submit(_recompute, self.home, window).result()

    def close(self) -> None:
        self._pool.submit(_forget_session).result()
        self._pool.shutdown()


def _tick(home: Home, collect: bool, settings: dict[str, str]) -> str:
    os.environ.update(settings)
    return running.tick(home, collect=collect)


def _recompute(home: Home, window: Window) -> str:
    return running.recompute(home, window)


def _forget_session() -> None:
    """Stops the session while its engine still listens; at exit it would complain for pages."""
    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()


@dataclass(frozen=True)
class Warm:
    """A home with a warm engine.

    Attributes:
        lake: its tables.
        runs: what runs jobs on it.
    """

    lake: Lake
    runs: Runs

    @property
    def home(self) -> Home:
        return self.lake.home


@contextmanager
def warm(home: Home) -> Iterator[Warm]:
    """A home whose engine runs for as long as the caller needs it."""
    lake = Lake(home)
    assert lake.catalog
    engine.up(home, CatalogConfig.of(home, {}))
    runs = Runs(home)
    try:
        yield Warm(lake, runs)
        runs.close()
    finally:
        engine.down(home)


@pytest.fixture(scope="session")
def warm_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """A home with a warm engine, shared: tests keep apart by cluster and hour."""
    with warm(Home.of(tmp_path_factory.mktemp("warm"))) as made:
        yield made


def environment(home: Home, **settings: str) -> dict[str, str]:
    """What a command sees: that home and nothing that the person running the tests has set."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(SETTINGS)}
    return kept | {"TIDEMARK_HOME": str(home.path), "COLUMNS": "200"} | settings


def run(
    home: Home, arguments: Sequence[str], timeout: float = 300, **settings: str
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
