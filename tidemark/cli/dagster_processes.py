"""Dagster's processes on one machine: code server, daemon, and pages behind their guard."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tidemark.cli.errors import CommandError
from tidemark.lab.layout import free_port_base
from tidemark.settings.home import Home

_DEFINITIONS = ("-m", "orchestration.definitions", "-h", "127.0.0.1")

CODE_SERVER_SECONDS = 120
"""Longest start of a code server, which imports for seconds."""


@dataclass(kw_only=True)
class DagsterProcesses:
    """Programs that a supervisor keeps running; Ctrl-C reaches the supervisor alone.

    Attributes:
        home: where their logs and Dagster's state lie.
        environment: of all programs.
        running: the processes by name.
    """

    home: Home
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

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
        self.start_program("dagster", "api", "grpc", *_DEFINITIONS, "-p", str(code))
        until = time.monotonic() + CODE_SERVER_SECONDS
        while not is_taken(code):
            if self.running["dagster"].poll() is not None or time.monotonic() > until:
                raise CommandError(f"no code server began; see {self.log('dagster')}")
            time.sleep(0.2)
        file = self.home.dagster / "workspace.yaml"
        server = {"host": "127.0.0.1", "port": code, "location_name": "tidemark"}
        file.write_text(json.dumps({"load_from": [{"grpc_server": server}]}))
        workspace = ("--workspace", str(file))
        self.start_program("dagster-daemon", "run", *workspace)
        if port is not None:
            address = ("--host", "127.0.0.1", "--port", str(port))
            self.start_program("tidemark", "webserver", *workspace, *address, name="webserver")

    def start_program(self, program: str, *arguments: str, name: str = "") -> None:
        """Start a program that is installed beside this Python, under its own or another name."""
        self.running[name or program] = start(
            program, arguments, self.log(name or program), self.environment, self.home.path
        )

    def log(self, name: str) -> Path:
        """Return the file that a process writes its output to."""
        return self.home.dagster / f"{name}.log"

    def check(self) -> None:
        """Make sure that every process still runs.

        Raises:
            CommandError: naming the one that ended, and its log.
        """
        for name, process in self.running.items():
            if process.poll() is not None:
                raise CommandError(f"{name} ended with {process.returncode}; see {self.log(name)}")


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


def stop(processes: Iterable[subprocess.Popen[bytes]]) -> None:
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
