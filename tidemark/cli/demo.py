"""The demo: a real cluster with a workload, an engine, and Dagster ticking every minute.

All processes are descendants of the command, whose supervision ends them, however it ends.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from orchestration.instance.files import opened_storage, prepare
from orchestration.jobs import TICK
from tidemark.cli.dagster_processes import DagsterProcesses, is_taken, start, stop
from tidemark.cli.errors import CommandError
from tidemark.cli.supervision import Report
from tidemark.embedded import run_services
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import free_port_base
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

CHECK_SECONDS = 1.0
"""Seconds between checks of the started processes by the supervisor."""

FIRST_TICK_SECONDS = 300
"""Longest wait for the first tick, which the schedule starts within a minute."""


ENGINE_LOG = "engine.log"
"""The output of the command that starts the engine, in Dagster's folder."""


@dataclass(kw_only=True)
class Demo:
    """A running demo.

    Attributes:
        settings: the home, and the Spark that computes.
        cluster: the RocketMQ cluster it watches.
        port: port of the Dagster UI, None without one.
        dagster: Dagster's processes, which the supervisor keeps running, as the board.
        since: when it was started.
    """

    settings: Settings
    cluster: LabCluster
    port: int | None
    dagster: DagsterProcesses
    since: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def home(self) -> Home:
        """The home of the demo."""
        return self.settings.home


def demo(settings: Settings, version: str, port: int | None, board: int, report: Report) -> Demo:
    """Start cluster, engine, Dagster and board; the supervision of the command ends them.

    Args:
        settings: the home, and the Spark that computes.
        version: of RocketMQ.
        port: port of the Dagster UI, None for no UI.
        board: port of the board.
        report: called with a line for each step.

    Raises:
        CommandError: when a port is taken, or the engine does not come up.
        LabError: when the cluster does not come up.
    """
    for number, option in ((port, "--port"), (board, "--board-port")):
        if number is not None and is_taken(number):
            raise CommandError(
                f"port {number} on 127.0.0.1 is taken; stop what listens there or give {option}"
            )
    # The warm-up of the engine would take the processor from the starting brokers, and the first
    # numbers would be later than from a tick on a cold engine.
    settings = settings.model_copy(update={"engine_warm_up": False})
    home = settings.home
    home.make()
    home.dagster.mkdir(exist_ok=True)
    port_base = free_port_base()
    processes = {"board": _start_board(home, board, port, port_base)}
    report(f"the board is at http://127.0.0.1:{board}, with numbers after the second tick")
    cluster = _boot(home, version, port_base, processes, report)
    dagster = _start_dagster(home, cluster, port, processes)
    return Demo(settings=settings, cluster=cluster, port=port, dagster=dagster)


def _boot(
    home: Home,
    version: str,
    port_base: int,
    processes: dict[str, subprocess.Popen[bytes]],
    report: Report,
) -> LabCluster:
    """Start the cluster with its workload, and the engine beside it.

    The engine is started by a process of its own, which an interruption ends at once.
    """
    report("starting the Spark engine")
    log = home.dagster / ENGINE_LOG
    environment = {**os.environ, "TIDEMARK_ENGINE_WARM_UP": "off"}
    engine_up = processes["engine"] = start("tidemark", ["engine", "up"], log, environment)
    report(f"booting RocketMQ {version}: a name server and two brokers")
    cluster = LabCluster.up(
        home.path / "lab", version, brokers=2, port_base=port_base, report=report
    )
    report("starting the workload, a group of every kind")
    cluster.start_workload("all")
    code = engine_up.wait()
    del processes["engine"]
    if code:
        raise CommandError(f"the Spark engine did not start; see {log}")
    return cluster


def _start_dagster(
    home: Home, cluster: LabCluster, port: int | None, processes: dict[str, subprocess.Popen[bytes]]
) -> DagsterProcesses:
    os.environ.pop("DAGSTER_HOME", None)  # the demo has a Dagster of its own
    prepare(home)
    environment = {
        **os.environ,
        "TIDEMARK_NAMESRV": cluster.namesrv,
        "TIDEMARK_SCHEDULE": "on",
        "PYTHONWARNINGS": "ignore",
    }
    dagster = DagsterProcesses(home=home, environment=environment, running=processes)
    dagster.start(port)
    return dagster


def watch(running: Demo, ticks: int | None, report: Report) -> None:
    """Keep the demo running until so many ticks are done, for ever without a number.

    The first tick does not wait for the schedule. An engine that was killed is started again; a
    Dagster process that ends is an error.

    Raises:
        CommandError: when Dagster ends or begins no tick, or a counted tick failed.
        StorageError: Dagster's storage was removed.
    """
    finished: set[str] = set()
    until = time.monotonic() + FIRST_TICK_SECONDS
    with opened_storage() as instance, _tick_at_once(running, report):
        while ticks is None or len(finished) < ticks:
            time.sleep(CHECK_SECONDS)
            running.dagster.check()
            if time.monotonic() > until and not instance.get_runs(limit=1):
                raise CommandError(
                    f"no tick began within {FIRST_TICK_SECONDS} s; see "
                    f"{running.dagster.log('dagster-daemon')}"
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
    log = running.dagster.log("first-tick")
    environment = {**os.environ, "TIDEMARK_NAMESRV": running.cluster.namesrv}
    process = start("tidemark", ["tick"], log, environment, running.home.path)
    try:
        yield
    finally:
        failed = process.poll()
        stop([process])
        if failed:
            report(f"the first tick ended with {failed}; see {log}")


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


def _start_board(
    home: Home, port: int, dagster: int | None, port_base: int
) -> subprocess.Popen[bytes]:
    """Start the board of the cluster whose name server will listen at a port."""
    environment = {**os.environ, "TIDEMARK_NAMESRV": f"127.0.0.1:{port_base}"}
    if dagster is not None:
        environment["TIDEMARK_DAGSTER_URL"] = f"http://127.0.0.1:{dagster}"
    log = home.dagster / "board.log"
    return start("tidemark", ["serve", "--port", str(port)], log, environment)
