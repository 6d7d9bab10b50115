"""The services that make runs short, up and down together and warm: Spark engine, fork server."""

import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from orchestration.instance import files
from spark.session import engine
from spark.session.configuration import LOCAL_MASTER
from spark.session.engine import Engine, state_file
from tidemark.embedded import forking
from tidemark.host.processes import find, start_of
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.tables import raw
from tidemark.lake.upgrading import upgrade
from tidemark.planning.history import measured_rows
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

LONGEST_SECONDS = 600
"""Past this the engine counts as ready, however warm it is."""

MODULE = "tidemark.embedded.warm_up_ticks"

DONE = "done"
"""The file in the home of these ticks that shows that all of them succeeded."""


def warm(home: Home, engine: Engine, rows: int) -> bool:
    """Run ticks on a new engine, in processes like those of real ticks.

    Args:
        home: of the engine and of the fork server.
        engine: the engine.
        rows: about how many offsets a snapshot of its real ticks holds: the number decides which
            plans Spark makes.

    Returns:
        Whether they succeeded; an engine that is not warm is only slower.
    """
    own = Home.of(home.engine / "warming")
    shutil.rmtree(own.path, ignore_errors=True)
    own.engine.mkdir(parents=True)
    # The ticks there have no settings, so they search for an engine on the default master.
    own_session = replace(engine, session_id=str(uuid.uuid4()), master=LOCAL_MASTER)
    own_session.write(state_file(own))
    try:
        _run(home, [str(own.path), str(rows)], home.engine / "warming.log")
        return (own.path / DONE).exists()
    finally:
        shutil.rmtree(own.path, ignore_errors=True)


def usual_rows(lake: Lake) -> int:
    """Return about how many offsets of queues and consumers the newest snapshot holds; 0 = none."""
    newest = lake.newest_hour(raw.SNAPSHOTS)
    if newest is None:
        return 0
    hour = Window(newest, newest + HOUR)
    return measured_rows(lake, hour) // max(1, lake.count(raw.SNAPSHOTS, hour))


def _run(home: Home, arguments: list[str], log: Path) -> None:
    pid = forking.start(home, MODULE, arguments, log)
    if pid is not None:
        with suppress(psutil.NoSuchProcess):  # it has ended already
            started_at = start_of(pid)
            _wait(lambda: find(pid, started_at) is None, lambda: _kill(pid, started_at))
        return
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    _wait(lambda: process.poll() is not None, process.kill)


def _wait(is_over: Callable[[], bool], kill: Callable[[], object]) -> None:
    """Wait for a process that may hang; an interruption takes it along."""
    deadline = time.monotonic() + LONGEST_SECONDS
    try:
        while not is_over() and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        kill()


def _kill(pid: int, started_at: float) -> None:
    process = find(pid, started_at)
    if process:
        process.kill()


def up(settings: Settings) -> engine.Engine:
    """Start the services that do not run yet, and warm up a new engine.

    Raises:
        EngineError: when the Spark engine does not come up.
        ForkServerError: when the fork server does not.
    """
    home = settings.home
    files.prepare(home)  # a daemon that is started next finds its folder
    catalog = CatalogConfig.of(home, settings.catalog)
    lake = Lake(home, catalog)
    upgrade(lake)  # the tables must exist before the engine reads them
    rows = usual_rows(lake)
    before = engine.running(home)
    was_running = forking.running(home) is not None
    try:
        with ThreadPoolExecutor(1) as pool:
            server = pool.submit(forking.up, home) if forking.SUPPORTED else None
            started = engine.up(home, catalog, settings.spark)
            if server:
                server.result()
        if started != before and settings.engine_warm_up and _can_warm(catalog, settings):
            warm(home, started, rows)
    except BaseException:
        # An interruption reaches the engine's thread only; the server may have come up meanwhile.
        if not was_running:
            forking.down(home)
        if before is None:
            engine.down(home)
        raise
    return started


def _can_warm(catalog: CatalogConfig, settings: Settings) -> bool:
    """Return whether the engine can read tables that lie in a home of this machine."""
    return "sqlite" in catalog.drivers and (
        not settings.spark.master or settings.spark.master.startswith("local")
    )


def down(home: Home) -> bool:
    """Stop both; return False when no engine ran."""
    forking.down(home)
    return engine.down(home)


def is_up(home: Home) -> bool:
    """Return whether both run."""
    forks = not forking.SUPPORTED or forking.running(home) is not None
    return forks and engine.running(home) is not None
