"""The demo: a real cluster with a workload, an engine, and Dagster ticking every minute.

One supervisor starts everything and stops what it started, by process, however it ends.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import psutil

from lab.cluster import LabCluster
from lab.layout import free_port_base
from orchestration.instance import run_services
from orchestration.instance.files import prepare
from orchestration.instance.storage import opened_storage
from orchestration.jobs import TICK
from settings.environment import Settings
from settings.home import Home
from tidemark.errors import CommandError

_DEFINITIONS = ("-m", "orchestration.definitions", "-h", "127.0.0.1")

Report = Callable[[str], None]

CHECK_SECONDS = 1.0
"""How often the supervisor checks what it started."""

CODE_SERVER_SECONDS = 120
"""So long a code server may take to begin; it imports for seconds."""

FIRST_TICK_SECONDS = 300
"""So long the first tick may take to begin; the schedule has it within a minute."""


@dataclass
class Demo:
    """A running demo.

    Attributes:
        settings: where everything lies, and which Spark computes.
        cluster: the RocketMQ cluster it watches.
        port: port of the Dagster UI, None without one.
        since: when it was started.
        processes: what the supervisor keeps running, by name.
    """

    settings: Settings
    cluster: LabCluster
    port: int | None
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def home(self) -> Home:
        """Where everything lies."""
        return self.settings.home


@contextmanager
def demo(
    settings: Settings, version: str, port: int | None, board: int, report: Report
) -> Iterator[Demo]:
    """Starts everything; stops it when the caller is done.

    Args:
        settings: where everything lies, and which Spark computes.
        version: of RocketMQ.
        port: port of the Dagster UI, None for no UI.
        board: port of the board.
        report: called with a line on what goes on.

    Raises:
        CommandError: when a port is taken.
        LabError: when the cluster does not come up.
        EngineError: when the engine does not.
    """
    for number, option in ((port, "--port"), (board, "--board-port")):
        if number is not None and _taken(number):
            raise CommandError(
                f"port {number} on 127.0.0.1 is taken; stop what listens there or give {option}"
            )
    home = settings.home
    home.make()
    home.dagster.mkdir(exist_ok=True)
    port_base = free_port_base()
    processes = {"board": _start_board(home, board, port_base)}
    try:
        report(f"the board is at http://127.0.0.1:{board}, with numbers after the second tick")
        yield from _running(settings, version, port, port_base, processes, report)
    finally:
        _stop(processes.values())


def _running(
    settings: Settings,
    version: str,
    port: int | None,
    port_base: int,
    processes: dict[str, subprocess.Popen[bytes]],
    report: Report,
) -> Iterator[Demo]:
    home = settings.home
    # Warming itself, the engine would take the processor from the brokers that start, and the first
    # numbers would come later than from a tick on a cold engine.
    settings = settings.model_copy(update={"engine_warm_up": False})
    with ThreadPoolExecutor(1) as pool:
        report("starting the Spark engine")
        engine_up = pool.submit(run_services.up, settings)
        try:
            report(f"booting RocketMQ {version}: a name server and two brokers")
            cluster = LabCluster.up(
                home.path / "lab", version=version, brokers=2, port_base=port_base, report=report
            )
        except BaseException:
            run_services.down(home)  # so that nobody waits until it is warm
            engine_up.exception()
            run_services.down(home)
            raise
    running = Demo(settings, cluster, port, processes=processes)
    try:
        report("starting the workload, a group of every kind")
        cluster.start_workload("all")
        engine_up.result()
        os.environ.pop("DAGSTER_HOME", None)  # the demo has a Dagster of its own
        prepare(home)
        environment = {
            **os.environ,
            "TIDEMARK_NAMESRV": cluster.namesrv,
            "TIDEMARK_SCHEDULE": "on",
            "PYTHONWARNINGS": "ignore",
        }
        _start_dagster(running, environment)
        yield running
    finally:
        report("stopping")
        _stop(running.processes.values())
        run_services.down(home)
        cluster.down(graceful=False)


def watch(running: Demo, ticks: int | None, report: Report) -> None:
    """Keeps the demo running until so many ticks are done, for ever without a number.

    The first tick does not wait for the schedule. An engine that was killed is started again; a
    Dagster process that ends is an error.

    Raises:
        CommandError: when Dagster ends or begins no tick, or a counted tick failed.
        StorageError: somebody removed Dagster's storage.
    """
    finished: set[str] = set()
    until = time.monotonic() + FIRST_TICK_SECONDS
    with opened_storage() as instance, _tick_at_once(running, report):
        while ticks is None or len(finished) < ticks:
            time.sleep(CHECK_SECONDS)
            for name, process in running.processes.items():
                if process.poll() is not None:
                    raise CommandError(
                        f"{name} ended with {process.returncode}; see {_log(running.home, name)}"
                    )
            if time.monotonic() > until and not instance.get_runs(limit=1):
                raise CommandError(
                    f"no tick began within {FIRST_TICK_SECONDS} s; see "
                    f"{_log(running.home, 'dagster-daemon')}"
                )
            if not run_services.is_up(running.home):
                report("the Spark engine is gone, starting it again")
                run_services.up(running.settings)
            for record in _finished(instance, running.since):
                if record.dagster_run.run_id not in finished:
                    finished.add(record.dagster_run.run_id)
                    report(_tick_line(len(finished), record))
        failed = [
            record
            for record in _finished(instance, running.since)
            if record.dagster_run.status is not dg.DagsterRunStatus.SUCCESS
        ]
        if failed:
            raise CommandError(f"{len(failed)} of {len(finished)} ticks failed; see the Dagster UI")


@contextmanager
def _tick_at_once(running: Demo, report: Report) -> Iterator[None]:
    """Let a tick run while the context is open; Dagster has it among the others.

    One that has not ended by then is stopped. One that failed is reported with its log, as it may
    have been before Dagster knew it.
    """
    name = "first-tick"
    with _log(running.home, name).open("ab") as log:
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "tidemark"), "tick"],
            env={**os.environ, "TIDEMARK_NAMESRV": running.cluster.namesrv},
            cwd=running.home.path,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for the supervisor, which stops things in order.
            start_new_session=True,
        )
    try:
        yield
    finally:
        failed = process.poll()
        _stop([process])
        if failed:
            report(f"the first tick ended with {failed}; see {_log(running.home, name)}")


def _tick_line(number: int, record: Any) -> str:
    seconds = (record.end_time or 0) - (record.start_time or 0)
    status = record.dagster_run.status.value.lower()
    return f"tick {number}: {status} in {seconds:.1f} s"


def _finished(instance: dg.DagsterInstance, since: datetime) -> list[Any]:
    """Ticks of this demo that ended, oldest first."""
    ended = [
        dg.DagsterRunStatus.SUCCESS,
        dg.DagsterRunStatus.FAILURE,
        dg.DagsterRunStatus.CANCELED,
    ]
    ticks = dg.RunsFilter(job_name=TICK.name, statuses=ended, created_after=since)
    return list(reversed(instance.get_run_records(ticks)))


def _start_dagster(running: Demo, environment: dict[str, str]) -> None:
    """Start the code server, and what gets the definitions from it: the daemon and the UI.

    A daemon that has the definitions from a module imports them again every minute, in a process
    that it starts for that.
    """
    code = free_port_base()
    _start(running, "dagster", ["api", "grpc", *_DEFINITIONS, "-p", str(code)], environment)
    until = time.monotonic() + CODE_SERVER_SECONDS
    while not _taken(code):
        if running.processes["dagster"].poll() is not None or time.monotonic() > until:
            raise CommandError(f"no code server began; see {_log(running.home, 'dagster')}")
        time.sleep(0.2)
    file = running.home.dagster / "workspace.yaml"
    server = {"host": "127.0.0.1", "port": code, "location_name": "tidemark"}
    file.write_text(json.dumps({"load_from": [{"grpc_server": server}]}))
    workspace = ["--workspace", str(file)]
    _start(running, "dagster-daemon", ["run", *workspace], environment)
    if running.port is not None:
        address = ["--host", "127.0.0.1", "--port", str(running.port)]
        _start(running, "dagster-webserver", [*workspace, *address], environment)


def _start(running: Demo, program: str, arguments: list[str], environment: dict[str, str]) -> None:
    """Start a program of Dagster as one of the processes of the demo."""
    with _log(running.home, program).open("ab") as log:
        running.processes[program] = subprocess.Popen(
            [str(Path(sys.executable).parent / program), *arguments],
            env=environment,
            cwd=running.home.path,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for the supervisor, which stops things in order.
            start_new_session=True,
        )


def _start_board(home: Home, port: int, port_base: int) -> subprocess.Popen[bytes]:
    """Starts the board of the cluster whose name server will listen at a port."""
    with _log(home, "board").open("ab") as log:
        return subprocess.Popen(
            [str(Path(sys.executable).parent / "tidemark"), "serve", "--port", str(port)],
            env={**os.environ, "TIDEMARK_NAMESRV": f"127.0.0.1:{port_base}"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _log(home: Home, name: str) -> Path:
    return home.dagster / f"{name}.log"


def _stop(processes: Any) -> None:
    """Ends processes and all their descendants: code servers and runs are children of Dagster."""
    family: list[psutil.Process] = []
    for process in processes:
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


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
