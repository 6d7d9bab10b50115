"""Processes of the compose file, each with a home of its own, of a user without rights."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.support.command_lines import DEPLOY
from tests.support.homes import declare_objectives
from tests.support.servers import Bucket, free_port
from tidemark.settings.secrets import PURPOSES, Process

USER = pwd.getpwnam("nobody").pw_uid
"""Java wants a user whom the machine knows; the image knows its own."""

START_SECONDS = 420
TOKEN = "marked-engine-token"
BOARD_TOKEN = "marked-board-token"
SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
PREFIX = "processes"
"""In the bucket: below it are tables and landing."""

OPERATOR = "operator"
"""Whoever runs a command to its end: on another host than all services."""


@dataclass(kw_only=True)
class Host:
    """A host of the compose file's containers: PostgreSQL, a bucket, and a home for each.

    Attributes:
        folder: with the logs of processes, and below `scratch` what they may write to.
        programs: the bin folder of the installed wheel.
        environment: of all processes, in addition to their homes; each gets the secrets of its own.
        ports: of the compose file, to free ones of this machine.
        running: processes by name of their service.
    """

    folder: Path
    programs: Path
    environment: dict[str, str]
    ports: dict[str, int]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def command(self, words: list[str]) -> list[str]:
        """The command of the compose file, on free ports of loopback."""
        here = {"0.0.0.0": "127.0.0.1", "/etc/dagster/workspace.yaml": str(self.workspace)}
        here |= {name: str(port) for name, port in self.ports.items()}
        here |= {"/tmp/collected": str(self.scratch("collector") / "collected"), "30s": "5s"}
        program = str(self.programs / words[0])
        arguments = (here.get(word, word) for word in words[1:])
        return [*as_user(self.programs / "python"), program, *arguments]

    def scratch(self, name: str) -> Path:
        """The folder that a service may write to, made where it is missing."""
        path = self.folder / "scratch" / name
        if not path.exists():
            path.mkdir(mode=0o700)
            if not os.geteuid():
                os.chown(path, USER, USER)
        return path

    def variables(self, name: str) -> dict[str, str]:
        """The environment of a service."""
        scratch = self.scratch(name)
        # As in the chart, the service makes the home itself.
        own = {"HOME": str(scratch), "TIDEMARK_HOME": str(scratch / "home")}
        process = Process.CODE if name == OPERATOR else Process(name)
        of_others = {
            variable
            for purpose in PURPOSES
            if process not in purpose.processes
            for variable in purpose.variables
        }
        mine = {name: text for name, text in self.environment.items() if name not in of_others}
        return mine | own

    @property
    def workspace(self) -> Path:
        return self.folder / "dagster" / "workspace.yaml"

    def start(self, *services: str) -> None:
        for name in services:
            with (self.folder / f"{name}.log").open("wb") as log:
                self.running[name] = subprocess.Popen(
                    self.command(SERVICES[name]["command"]),
                    cwd=self.scratch(name),
                    env=self.variables(name),
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the image to its end."""
        return subprocess.run(
            self.command([*words]),
            cwd=self.scratch(OPERATOR),
            env=self.variables(OPERATOR),
            capture_output=True,
            text=True,
            timeout=120,
        )

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        """End all processes as a platform does; the daemon first, which starts runs."""
        for name in ("daemon", *self.running):
            if process := self.running.pop(name, None):
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


@cache
def as_user(program: Path) -> tuple[str, ...]:
    """Return the command that starts a program as an ordinary user where the tests run as root.

    A Python below root's home is out of reach for others. Then they may read everything, and write
    no more than before.
    """
    if os.geteuid():
        return ()
    user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
    reader = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    # A process that it starts, too: it itself is found by the rights of root.
    code = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', '']))"
    for words in (user, (*user, *reader)):
        if not subprocess.run([*words, program, "-c", code], capture_output=True).returncode:
            return words
    pytest.skip("nobody but root can start this Python")


@contextmanager
def host(programs: Path, uri: str, namesrv: str, store: Bucket) -> Iterator[Host]:
    # Not below pytest's folder, which only its owner may enter.
    folder = Path(tempfile.mkdtemp(prefix="tidemark-host-"))
    folder.chmod(0o755)
    (folder / "scratch").mkdir(mode=0o755)
    (folder / "clusters.yaml").write_text(
        f"clusters:\n- {{name: stand-in, namesrv: '{namesrv}'}}\n"
    )
    ports = {port: free_port() for port in ("3000", "4000", "8080", "15002")}
    shutil.copytree(DEPLOY / "dagster", folder / "dagster")
    workspace = folder / "dagster" / "workspace.yaml"
    workspace.write_text(workspace.read_text().replace("4000", str(ports["4000"])))
    dagster = uri.replace("postgresql:", "postgresql+psycopg2:").replace("/iceberg", "/dagster")
    environment = SERVICES["code"]["environment"] | store.credentials
    environment |= {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "DAGSTER_HOME": str(folder / "dagster"),
        "DAGSTER_CODE_HOST": "127.0.0.1",
        "DAGSTER_PG_URL": dagster,
        "TIDEMARK_CATALOG_URI": uri,
        "TIDEMARK_WAREHOUSE": f"s3://{store.folder.name}/{PREFIX}/warehouse",
        "TIDEMARK_LANDING": f"s3://{store.folder.name}/{PREFIX}/landing",
        "TIDEMARK_S3_ENDPOINT": store.endpoint,
        "TIDEMARK_CLUSTERS": str(folder / "clusters.yaml"),
        "TIDEMARK_OBJECTIVES": str(declare_objectives(folder)),
        "TIDEMARK_SPARK_REMOTE": f"sc://localhost:{ports['15002']}",
        "TIDEMARK_SPARK_JARS": str(folder / "jars"),
        "TIDEMARK_SERVE_TOKEN": BOARD_TOKEN,
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": TOKEN,
        "SPARK_SUBMIT_OPTS": os.environ["SPARK_SUBMIT_OPTS"],
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if java := os.environ.get("JAVA_HOME"):
        environment["JAVA_HOME"] = java
    made = Host(folder=folder, programs=programs, environment=environment, ports=ports)
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)


def ready(made: Host, name: str, probe) -> object:
    """Wait for a probe that gives something or ends with 0."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert made.running[name].poll() is None, made.log(name)
        try:
            result = probe()
        except OSError:
            result = None
        if result and getattr(result, "returncode", 0) == 0:
            return result
        time.sleep(1)
    raise AssertionError(made.log(name))
