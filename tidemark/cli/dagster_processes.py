"""Dagster's processes on one machine: code server, daemon, and pages behind their guard."""

import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

from tidemark.cli.invocation import CommandError
from tidemark.host.processes import become
from tidemark.lab.layout import free_port_base
from tidemark.settings.home import Home

_DEFINITIONS = ("-m", "orchestration.definitions", "-h", "127.0.0.1")

_PR_SET_NAME = 15

CODE_SERVER_SECONDS = 120
"""Longest start of a code server."""

MODULES = (
    "dagster._cli",
    "dagster._core.execution.execute_in_process",
    "dagster._core.instance.factory",
    "dagster._core.instance.runs.run_domain",
    "dagster._core.storage.legacy_storage",
    "dagster._core.storage.local_compute_log_manager",
    "dagster._daemon.cli",
    "dagster._grpc.server",
    "dagster_webserver.app",
    "dagster_webserver.cli",
    "orchestration.definitions",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "tidemark.cli.commands.dev",
    "tidemark.cli.dagster_guard",
    "tidemark.embedded.event_log",
    "tidemark.embedded.launcher",
    "tidemark.embedded.storage",
)
"""The modules that the programs spend their first seconds on. None may read the environment while
it is imported."""

CHECKS = {"FRESHNESS_DAEMON_INTERVAL_SECONDS": "120"}
"""Dagster's own variables: a tick's assets may be late for minutes before they count as such."""


class Program(Protocol):
    """A started program, as `subprocess.Popen` is one."""

    @property
    def pid(self) -> int:
        """Its process."""
        ...

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""
        ...


@dataclass(kw_only=True)
class Forked:
    """A process that was forked from this one.

    Attributes:
        pid: its process.
        code: its exit code, None as long as it is not known.
    """

    pid: int
    code: int | None = None

    def poll(self) -> int | None:
        """Return its exit code, None while it runs; 0 where somebody else has waited for it."""
        if self.code is None:
            try:
                ended, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.code = 0
            else:
                self.code = os.waitstatus_to_exitcode(status) if ended else None
        return self.code


@dataclass(kw_only=True)
class DagsterProcesses:
    """Programs that a supervisor keeps running; Ctrl-C reaches the supervisor alone.

    They are forked from the supervisor, which imports their modules once: each would import for
    seconds, and keep a hundred megabytes of its own.

    Attributes:
        home: where their logs and Dagster's state lie.
        environment: of all programs.
        running: the processes by name.
    """

    home: Home
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    running: dict[str, Program] = field(default_factory=dict)

    def start(self, port: int | None) -> None:
        """Start the code server, and the daemon and pages that get the definitions from it.

        A daemon that gets the definitions from a module imports them again every minute, in a new
        process.

        Args:
            port: port of the pages on loopback, None for none.

        Raises:
            CommandError: the code server does not begin.
        """
        code = free_port_base()
        os.environ.update(CHECKS)  # some are read with the modules
        for name in MODULES:
            importlib.import_module(name)
        from tidemark.cli.main import main as tidemark
        from tidemark.embedded.dagster_private import check_seldom, programs, read_migrations

        dagster, daemon = programs()
        check_seldom()
        read_migrations()
        # A garbage collection that visited imported objects would copy their pages.
        gc.freeze()
        self._fork("code-server", dagster, "api", "grpc", *_DEFINITIONS, "-p", str(code))
        until = time.monotonic() + CODE_SERVER_SECONDS
        while not is_taken(code):
            if self.running["code-server"].poll() is not None or time.monotonic() > until:
                raise CommandError(f"no code server began; see {self.log('code-server')}")
            time.sleep(0.2)
        file = self.home.dagster / "workspace.yaml"
        server = {"host": "127.0.0.1", "port": code, "location_name": "tidemark"}
        file.write_text(json.dumps({"load_from": [{"grpc_server": server}]}))
        workspace = ("--workspace", str(file))
        self._fork("dagster-daemon", daemon, "run", *workspace)
        if port is not None:
            address = ("--host", "127.0.0.1", "--port", str(port))
            self._fork("webserver", tidemark, "webserver", *workspace, *address)

    def _fork(self, name: str, main: Callable[[], object], *arguments: str) -> None:
        """Run a program in a process of its own, in a session of its own, with output in a file."""
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            self.running[name] = Forked(pid=pid)
            return
        code = 1
        try:
            self._become(name)
            sys.argv = [name, *arguments]
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            # Nothing that the supervisor does at its end is for this process.
            os._exit(code)

    def _become(self, name: str) -> None:
        """Make this forked process one that a command of that name might have started."""
        with suppress(AttributeError):  # only Linux has it; `ps` and the tests show the name
            ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode())
        # A session of its own: Ctrl-C is for the supervisor, which stops things in order.
        with Path(os.devnull).open("rb") as nothing, self.log(name).open("ab") as output:
            streams = (nothing.fileno(), output.fileno(), output.fileno())
            become(streams, self.home.path, {**self.environment, **CHECKS})

    def log(self, name: str) -> Path:
        """Return the file that a process writes its output to."""
        return self.home.dagster / f"{name}.log"

    def check(self) -> None:
        """Make sure that every process still runs.

        Raises:
            CommandError: naming the one that ended, and its log.
        """
        for name, process in self.running.items():
            if (code := process.poll()) is not None:
                raise CommandError(f"{name} ended with {code}; see {self.log(name)}")


def start(
    program: str,
    arguments: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program of this environment in a session of its own, with its output in a file."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(Path(sys.executable).parent / program), *arguments],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for the supervisor, which stops things in order.
            start_new_session=True,
        )


def stop(processes: Iterable[Program]) -> None:
    """End processes and all their descendants: code servers and runs are children of Dagster."""
    family: list[psutil.Process] = []
    for process in processes:
        if process.poll() is not None:
            continue  # its id may be that of another process by now
        try:
            parent = psutil.Process(process.pid)
            family += [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
    for member in family:
        with suppress(psutil.NoSuchProcess):
            member.send_signal(signal.SIGTERM)
    _, alive = psutil.wait_procs(family, timeout=10)
    for member in alive:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(alive, timeout=5)


def is_taken(port: int) -> bool:
    """Return whether a process listens at a port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
