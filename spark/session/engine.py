"""The engine: a Spark Connect server on this machine that outlives the runs it serves.

Runs find it by the state file in its home. A run uses it when it responds, and starts a Spark of
its own when it does not, so the engine is an accelerator and never a condition.
"""

import os
import random
import secrets
import socket
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from spark.session.configuration import LOCAL_MASTER, driver_config, password_file, require_java
from spark.session.packages import fetched_once, packages_of
from spark.session.reaching import UnreachableError
from tidemark.host.leases import FileLeases
from tidemark.host.processes import start_of
from tidemark.host.services import NotStartedError, Service, bring_up
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.settings.home import Home
from tidemark.settings.sections import DEFAULT_SPARK, SparkSettings

START_SECONDS = 180
"""Past this a start has failed; the first one fetches Iceberg's jars."""

PORTS = range(12000, 20000)
"""Ports below those that kernels assign by themselves (from 32768 on Linux)."""

PORT_ATTEMPTS = 100

TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""Spark's own variable, of servers and clients."""

SESSION_TIMEOUT = "365d"
"""A session that is closed for idleness can never be opened again under its id."""


class EngineError(Exception):
    """The engine could not be started; the text gives the reason and the path of its log."""


@dataclass(frozen=True, kw_only=True)
class Engine(Service):
    """A started engine.

    Attributes:
        port: gRPC port on 127.0.0.1.
        session_id: of the session that runs share.
        token: sent by every client; a client that has it can run code as this user.
        master: of its Spark.
    """

    port: int
    session_id: str
    token: str = field(repr=False)
    master: str = LOCAL_MASTER

    @property
    def remote(self) -> str:
        """Its Spark Connect address.

        Only to the literal name ``localhost`` does pyspark send a token without TLS.
        """
        return f"sc://localhost:{self.port}"

    @property
    def shared(self) -> str:
        """The address of one session for all runs, of which there is one at a time.

        The engine keeps compiled code separately for each session (`CodeGenerator.cache` has the
        session's class loader in its key), and half of a tick would be spent on compilation.
        """
        return f"{self.remote}/;session_id={self.session_id}"

    def admit(self) -> None:
        """Let the sessions of this process in.

        pyspark reads the token from the environment, so that no setting and no address holds it.
        """
        os.environ[TOKEN] = self.token

    def listens(self) -> bool:
        """Return whether it owns its port: another process that responds there is no engine."""
        process = self.process()
        try:
            connections = process.net_connections("tcp") if process else []
        except psutil.Error:
            return False
        return any(
            it.laddr.port == self.port for it in connections if it.status == psutil.CONN_LISTEN
        )


def running(home: Home) -> Engine | None:
    """Return the engine of a home when it is alive and listening."""
    return Engine.running(state_file(home))


def up(
    home: Home,
    catalog: CatalogConfig,
    settings: SparkSettings = DEFAULT_SPARK,
    *,
    port: int | None = None,
) -> Engine:
    """Start the engine of a home, or return the one that runs.

    Args:
        home: the home with its state and its log.
        catalog: where the tables are.
        settings: its master and its memory.
        port: where it listens; a free one unless given.

    Raises:
        EngineError: when it does not come up.
    """
    try:
        with fetched_once(() if settings.jars else packages_of(catalog.drivers)):
            return bring_up(
                Engine,
                FileLeases(home),
                state_file(home),
                lambda: _start(home, catalog, settings, port or _free_port()),
                lambda: down(home),
                START_SECONDS,
            )
    except UnreachableError as error:
        raise EngineError(str(error)) from error
    except NotStartedError as error:
        raise EngineError(f"the Spark engine {error}; see {log_file(home)}") from error


def down(home: Home) -> bool:
    """Stop the engine of a home; return False when none ran."""
    engine = Engine.read(state_file(home))
    stopped = engine is not None and engine.stop()
    state_file(home).unlink(missing_ok=True)
    return stopped


def log_file(home: Home) -> Path:
    """Return the file of the engine's output."""
    return home.engine / "engine.log"


def state_file(home: Home) -> Path:
    """Return the file by which the engine of a home is found."""
    return home.engine / "engine.json"


def foreground(
    home: Home, catalog: CatalogConfig, settings: SparkSettings, port: int
) -> tuple[list[str], dict[str, str]]:
    """Return the command of a Connect server on loopback, and the environment that it needs.

    Args:
        home: the home with the file of the catalog's password.
        catalog: where the tables are.
        settings: its master, memory and jars.
        port: where it listens.

    Raises:
        UnreachableError: there is no Java that Spark runs on.
    """
    require_java()
    # Imported here: commands that do not use pyspark call `running`.
    import pyspark

    config = {
        **driver_config(catalog, settings),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.session.manager.defaultSessionTimeout": SESSION_TIMEOUT,
    }
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit")]
    for name, value in config.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--name", "tidemark-engine", "spark-internal"]
    environment = {
        "MALLOC_ARENA_MAX": "2",  # else each of fifty threads may keep memory of its own
        **{k: v for k, v in os.environ.items() if k not in ("SPARK_REMOTE", "SPARK_HOME")},
        "PYSPARK_PYTHON": sys.executable,
        **password_file(home, catalog),
    }
    return command, environment


def _start(home: Home, catalog: CatalogConfig, settings: SparkSettings, port: int) -> Engine:
    command, environment = foreground(home, catalog, settings, port)
    token = secrets.token_urlsafe(32)
    with log_file(home).open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=home.engine,
            # A Ctrl-C in the terminal or the end of a run must not take the engine along.
            start_new_session=True,
            env=environment | {TOKEN: token},
        )
    created = start_of(process.pid)
    master = settings.master or LOCAL_MASTER
    return Engine(
        pid=process.pid,
        created=created,
        port=port,
        session_id=str(uuid.uuid4()),
        token=token,
        master=master,
    )


def _free_port() -> int:
    """Return a port that stays free while a JVM starts; the kernel may give its own to others."""
    for _ in range(PORT_ATTEMPTS):
        port = random.choice(PORTS)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise EngineError(f"no free port from {PORTS.start} to {PORTS.stop - 1} for the Spark engine")
