"""The identity of a process: its id and its start, so that a reused id is another process.

The module uses nothing of Tidemark, so that the lab may use it too.
"""

import os
import socket

import psutil

SAME_START_SECONDS = 2.0
"""How far two readings of the same start may differ.

The system derives a start from the uptime and the wall clock, so a step of the clock moves it."""


def start_of(pid: int | None = None) -> float:
    """Return the start of a process, of this one without an id, in seconds since 1970.

    Raises:
        psutil.NoSuchProcess: it does not run.
    """
    return psutil.Process(pid).create_time()


def find(pid: int, started_at: float) -> psutil.Process | None:
    """Return the process with this id and start; None when it ended or the id is reused."""
    try:
        process = psutil.Process(pid)
        # The first thread may be a zombie while others still hold ports open.
        ended = process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
        same = abs(process.create_time() - started_at) < SAME_START_SECONDS
    except psutil.NoSuchProcess:
        return None
    return process if same and not ended else None


def identity(pid: int | None = None) -> str:
    """Return what names a process, this one without an id, among those of all hosts and times."""
    pid = os.getpid() if pid is None else pid
    return f"{pid}/{start_of(pid)}/{socket.gethostname()}"


def is_of_this_host(identity: str) -> bool:
    """Return whether the process of an `identity` ran, or runs, on this host."""
    return identity.split("/")[2] == socket.gethostname()


def named(identity: str) -> psutil.Process | None:
    """Return the process of an `identity` of this host; None when it has ended."""
    pid, started_at, _ = identity.split("/")
    return find(int(pid), float(started_at))
