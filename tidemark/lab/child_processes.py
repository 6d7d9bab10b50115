"""Processes that are known by id and start time, so that a reused id is never signalled."""

import math
import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil
from pydantic import BaseModel

from tidemark.host.processes import find, start_of

_CHECK_SECONDS = 0.02

_AT_REST = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)

FREEZE_SECONDS = 10.0
"""Longest time for a process to stop: it takes milliseconds, unless it waits for a disk."""

_TAKEN = (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that a process handles by default, also where its parent ignores them.

Python ignores the last two. A process that a shell starts in the background ignores SIGINT;
Dagster's code then ignores SIGTERM too."""

# Kept so that the end of a child is collected: otherwise it stays behind as a zombie.
_children: set[int] = set()


class Process(BaseModel, frozen=True):
    """A process as it is written down.

    Attributes:
        pid: its id.
        started_at: its start, seconds since 1970, as psutil reports it.
    """

    pid: int
    started_at: float

    def find(self) -> psutil.Process | None:
        """Return the running process; None when it ended, also where another has its id now."""
        process = find(self.pid, self.started_at)
        if self.pid in _children:
            with suppress(ChildProcessError):  # another thread collects it, or the parent of a fork
                if os.waitpid(self.pid, os.WNOHANG) != (0, 0):
                    _children.discard(self.pid)
                    return None
        return process

    def send(self, number: signal.Signals) -> bool:
        """Signal it; False when it does not run any more."""
        process = self.find()
        if process is None:
            return False
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            return False
        return True

    def freeze(self) -> bool:
        """SIGSTOP it; returns when none of its threads works on, which a busy one does for a while.

        Returns:
            False when it does not run any more, or still works after `FREEZE_SECONDS`.
        """
        if not self.send(signal.SIGSTOP):
            return False
        deadline = time.monotonic() + FREEZE_SECONDS
        while (process := self.find()) and _works(process):
            if time.monotonic() > deadline:
                return False
            time.sleep(_CHECK_SECONDS)
        return process is not None


def start(command: list[str], log: Path, environment: Mapping[str, str]) -> Process:
    """Start a process in a session of its own, so that a Ctrl-C in the terminal does not reach it.

    Args:
        command: program and arguments.
        log: where its output is appended.
        environment: the whole environment of the process.
    """
    with log.open("ab") as output, Path(os.devnull).open("rb") as nothing:
        streams = (nothing.fileno(), output.fileno(), output.fileno())
        pid = os.posix_spawnp(
            command[0],
            command,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)
            ],
            setsid=True,
            setsigdef=_TAKEN,
        )
    _children.add(pid)
    try:
        return Process(pid=pid, started_at=start_of(pid))
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise


def stop(processes: Iterable[Process], graceful_seconds: float) -> None:
    """End all of them at once: SIGTERM, and SIGKILL for those left after ``graceful_seconds``.

    With ``graceful_seconds`` 0 they are killed at once. Returns when none is left.
    """
    running = list(processes)
    if graceful_seconds > 0:
        for process in running:
            process.send(signal.SIGTERM)
            # A stopped process handles a SIGTERM only when it resumes.
            process.send(signal.SIGCONT)
        running = _left(running, graceful_seconds)
    for process in running:
        process.send(signal.SIGKILL)
    _left(running, math.inf)


def _works(process: psutil.Process) -> bool:
    """Return whether any of its threads, each with its own status, is neither stopped nor ended."""
    for thread in process.threads():
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(thread.id).status() not in _AT_REST:
                return True
    return False


def _left(processes: Iterable[Process], seconds: float) -> list[Process]:
    """Wait until all have ended; return those that have not within ``seconds``.

    Their ids may stay: another process may be the parent, and keep a zombie for as long as it runs
    itself.
    """
    deadline = time.monotonic() + seconds
    while left := [process for process in processes if process.find()]:
        if time.monotonic() > deadline:
            break
        time.sleep(_CHECK_SECONDS)
    return left
