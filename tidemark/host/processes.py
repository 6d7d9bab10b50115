"""Processes of this machine: their identity, its Java, and the `tidemark` command in its shells.

The identity of a process distinguishes it from another one with a reused id. The module uses
nothing of Tidemark, so that the lab may use it too.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import psutil

SECONDS = 60


def java_tool(tool: str) -> str | None:
    """Return the path of ``java`` or ``javac``, from ``JAVA_HOME``, else from ``PATH``."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(tool, path=str(Path(home) / "bin") if home else None)


def java_version(path: str) -> int | None:
    """Return the feature version of a tool, 17 of 17.0.15; None where it prints none."""
    done = subprocess.run(
        [path, "-version"], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    # `openjdk version "17.0.15"`, `javac 17.0.15`, and `"1.8.0_292"` before Java 9.
    version = re.search(r'(?:version "|javac )(?:1\.)?(\d+)', done.stdout + done.stderr)
    return int(version[1]) if version else None


def become(streams: Sequence[int], folder: Path, environment: Mapping[str, str]) -> None:
    """Make this forked process what a command in a session of its own would be.

    Args:
        streams: standard input, output and error; copies of these are made.
        folder: the working folder.
        environment: all its variables.
    """
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()


SAME_START_SECONDS = 2.0
"""Largest difference between two readings of the same start.

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
    """Return a name of a process, by default this one, that is unique over all hosts and times."""
    pid = os.getpid() if pid is None else pid
    return f"{pid}/{start_of(pid)}/{socket.gethostname()}"


def is_of_this_host(identity: str) -> bool:
    """Return whether the process of an `identity` ran, or runs, on this host."""
    return identity.split("/")[2] == socket.gethostname()


def named(identity: str) -> psutil.Process | None:
    """Return the process of an `identity` of this host; None when it has ended."""
    pid, started_at, _ = identity.split("/")
    return find(int(pid), float(started_at))


def at_work_in(home: Path, default: str) -> Iterator[psutil.Process]:
    """Yield the other processes of Tidemark and Dagster on this host that use a home.

    Parents of this process, and processes that the system hides from it, are not among them.

    Args:
        home: absolute path of the home.
        default: name of the home of a command that names none, in its working folder.
    """
    family = {os.getpid(), *(process.pid for process in psutil.Process().parents())}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid not in family and _home_of(process, default) == home:
                yield process


def _home_of(process: psutil.Process, default: str) -> Path | None:
    """Return the home that a command of Tidemark or Dagster names; None of other programs."""
    words = process.cmdline()
    if not any(Path(word).name.startswith(("tidemark", "dagster")) for word in words[:3]):
        return None
    named = [after for word, after in pairwise(words) if word == "--home"]
    named += [word.removeprefix("--home=") for word in words if word.startswith("--home=")]
    named.append(process.environ().get("TIDEMARK_HOME") or default)
    return Path(process.cwd(), named[0])


_NAME = "tidemark"
_CALL = re.compile(rf"(?<![\w./-]){_NAME} (?=[a-z])")


def here() -> str:
    """Return the command for the shell that this process was started from.

    That is its name where the shell finds it on PATH, else the path as it was typed.
    """
    script = Path(sys.argv[0])
    if script.name != _NAME:
        script = _script()
    return _NAME if _is_on_path(script) else shlex.quote(str(script))


def elsewhere() -> str:
    """Return the command for any other shell of this machine.

    A virtual environment is on PATH only in shells that have activated it.
    """
    if "VIRTUAL_ENV" not in os.environ and _is_on_path(_script()):
        return _NAME
    return shlex.quote(str(_script()))


def pasteable(text: str, command: str) -> str:
    """Return a text with its calls of the command as a shell finds it, by `here` or `elsewhere`."""
    return _CALL.sub(lambda _: f"{command} ", text)


def _is_on_path(script: Path) -> bool:
    """Return whether the shell finds this command, and not that of another installation."""
    first = shutil.which(_NAME)
    with suppress(OSError):
        return first is not None and Path(first).samefile(script)
    return False


def _script() -> Path:
    return Path(sys.executable).with_name(_NAME)
