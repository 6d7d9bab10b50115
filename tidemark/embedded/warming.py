"""Warm-up of a new engine: ticks on made-up snapshots, before a real tick needs the engine.

Java interprets code that it has not run often, and Spark compiles a query when it first runs it.
The first tick of a cold engine takes four times the processor time of a later one. So a new engine
runs some ticks (`tidemark.embedded.warm_up_ticks`) in a home and a session of their own, whose
tables no run sees.
"""

import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from spark.session.configuration import LOCAL_MASTER
from spark.session.engine import Engine, state_file
from tidemark.embedded import forking
from tidemark.host.processes import find, start_of
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.tables import raw
from tidemark.planning.history import measured_rows
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
