"""Runs that start in milliseconds: a server imports their modules once and forks for each run.

Importing Dagster, pyspark and Great Expectations takes longer than most of a tick's work with them.
Every run is still a process of its own, with the environment, the folder and the streams of its
client; a kill of the client kills the run. Like the Spark engine the server is an accelerator:
without it a run does its own imports.
"""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemark.host.leases import FileLeases
from tidemark.host.processes import start_of
from tidemark.host.services import NotStartedError, Service, bring_up
from tidemark.settings.home import Home

SUPPORTED = hasattr(os, "pidfd_open")
"""Whether this system can watch the end of a process as the server does: Linux."""

START_SECONDS = 120
LENGTH_BYTES = 4

STALE = b"stale"
"""Response of a server that no longer forks: its installation differs from that of the request,
or it cannot create a process."""

ROOT = Path(__file__).resolve().parents[2]
"""The folder of Tidemark's own packages: a checkout, or that of all installed packages."""

OWN_PACKAGES = ("assets", "expectations", "orchestration", "spark", "tidemark")
"""The packages of Tidemark that a run imports."""

forked = False
"""Whether this process was forked for a run; it must not pass the run to a server again."""


class ForkServerError(Exception):
    """The server did not start, or ended under a run; one line."""


@dataclass(frozen=True, kw_only=True)
class ForkServer(Service):
    """A started server.

    Attributes:
        socket: path of its Unix socket.
    """

    socket: str

    def listens(self) -> bool:
        """Return whether its socket is there."""
        return Path(self.socket).exists()


def installation() -> str:
    """Return a digest that identifies the installed code.

    It changes with each installed library and with each changed source file of Tidemark. A server
    has imported the code of its start, and a forked run must not mix it with newer code.
    """
    libraries = {
        (entry.name, entry.stat().st_mtime_ns)
        for folder in {path for path in sys.path if path and Path(path).is_dir()}
        for entry in os.scandir(folder)
        if entry.name.endswith(".dist-info")
    }
    own = {file for package in OWN_PACKAGES for file in _sources(ROOT / package)}
    values = (sys.version, sorted(libraries), sorted(own))
    return hashlib.sha256(repr(values).encode()).hexdigest()


def _sources(folder: os.PathLike[str]) -> Iterator[tuple[str, int]]:
    """Yield path and time of change of each source file below a folder."""
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith(".py"):
            yield entry.path, entry.stat().st_mtime_ns


def running(home: Home) -> ForkServer | None:
    """Return the server of a home when it is alive and listening."""
    return ForkServer.running(_state_file(home))


def up(home: Home) -> ForkServer:
    """Start the server of a home, or return the one that runs.

    Raises:
        ForkServerError: when it does not come up.
    """
    try:
        return bring_up(
            ForkServer,
            FileLeases(home),
            _state_file(home),
            lambda: _start(home),
            lambda: down(home),
            START_SECONDS,
        )
    except NotStartedError as error:
        raise ForkServerError(f"the fork server {error}; see {_log_file(home)}") from error


def down(home: Home) -> bool:
    """Stop the server of a home and the runs it forked; return False when none ran."""
    server = ForkServer.read(_state_file(home))
    stopped = server is not None and server.stop()
    if server is not None:
        shutil.rmtree(Path(server.socket).parent, ignore_errors=True)
    _state_file(home).unlink(missing_ok=True)
    return stopped


def run(home: Home, module: str, arguments: Sequence[str]) -> int | None:
    """Run a module's ``main()`` in a forked process to its end, as if it were this process.

    Args:
        home: whose server to use.
        module: a module with a function ``main`` that reads ``sys.argv``.
        arguments: of the command.

    Returns:
        Its exit code, 128 + n when signal n ended it; None when no server runs, or one that still
        has the code of another installation, and restarts.

    Raises:
        ForkServerError: when the server ended under the run.
    """
    connection = _request(home, module, arguments, detached=False, streams=(0, 1, 2))
    if connection is None:
        return None
    with connection:
        # The run shall end as this process would have ended.
        send = connection.send
        handlers = {
            number: signal.signal(number, lambda number, _: send(bytes([number])))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        reply = connection.recv(64)
    if reply == STALE:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        return None
    if not reply:
        raise ForkServerError(f"the fork server ended under the run; see {_log_file(home)}")
    code = int(reply)
    return code if code >= 0 else 128 - code


def start(home: Home, module: str, arguments: Sequence[str], log: Path) -> int | None:
    """Start a module's ``main()`` in a forked process of its own, without waiting for it.

    Returns:
        Its process id; None as for `run`.
    """
    with log.open("ab") as output, Path(os.devnull).open("rb") as nothing:
        streams = (nothing.fileno(), output.fileno(), output.fileno())
        connection = _request(home, module, arguments, detached=True, streams=streams)
        if connection is None:
            return None
        with connection:
            reply = connection.recv(64)
            return None if reply == STALE else int(reply)


def _start(home: Home) -> ForkServer:
    # Not in the home: the path of a Unix socket may only have about a hundred characters.
    path = Path(tempfile.mkdtemp(prefix="tidemark-")) / "runs.sock"
    with _log_file(home).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tidemark.embedded.fork_server", str(path)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return ForkServer(pid=process.pid, created=start_of(process.pid), socket=str(path))


def _request(
    home: Home, module: str, arguments: Sequence[str], *, detached: bool, streams: Sequence[int]
) -> socket.socket | None:
    server = None if forked else running(home)
    if server is None:
        return None
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(server.socket)
    except OSError:
        connection.close()
        return None
    request = {
        "module": module,
        "arguments": list(arguments),
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "detached": detached,
        "installation": installation(),
    }
    body = json.dumps(request).encode()
    socket.send_fds(connection, [len(body).to_bytes(LENGTH_BYTES, "big")], list(streams))
    connection.sendall(body)
    return connection


def _state_file(home: Home) -> Path:
    return home.engine / "fork_server.json"


def _log_file(home: Home) -> Path:
    return home.engine / "fork_server.log"
