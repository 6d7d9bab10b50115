"""The demo: a real cluster with a workload, an engine, and Dagster ticking every minute.

All processes are descendants of the command, whose supervision ends them, however it ends.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from orchestration.instance.dagster_home import opened_storage, prepare
from orchestration.jobs import TICK
from tidemark.cli.dagster_processes import DagsterProcesses, Program, is_taken, start, stop
from tidemark.cli.invocation import CommandError
from tidemark.cli.supervision import Report
from tidemark.embedded import run_services
from tidemark.host import stages
from tidemark.host.stages import Step
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import free_port_base
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

CHECK_SECONDS = 1.0
"""Seconds between checks of the started processes until the first tick is done."""

LATER_CHECK_SECONDS = 5.0
"""Seconds between checks afterwards. Each reads Dagster's records: once a second they took 3 % of a
processor."""

FIRST_TICK_SECONDS = 300
"""Longest wait for the first tick, which the schedule starts within a minute."""

OVERLAP = timedelta(minutes=5)
"""Longest time from the end of a tick to its record being seen, as while the engine starts."""

WAITING_SECONDS = 15.0
"""Time between two lines about a step that goes on."""

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
        steps: what of its start is done.
        since: when it was started.
    """

    settings: Settings
    cluster: LabCluster
    port: int | None
    dagster: DagsterProcesses
    steps: "Steps"
    since: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def home(self) -> Home:
        """The home of the demo."""
        return self.settings.home


class Steps:
    """The steps of a start: lines for who waits at the terminal, and a file for the board."""

    def __init__(self, home: Home, report: Report) -> None:
        """Begin to count the time."""
        self._home = home
        self.report = report
        self._begun = time.monotonic()
        self._step: Step | None = None
        self._step_begun = self._reported_at = self._begun

    def begin(self, step: Step) -> None:
        """Report the next step: its number of how many, the time so far, and how long it takes."""
        self._step, self._step_begun = step, time.monotonic()
        self._reported_at = self._step_begun
        stages.write(self._home, step)
        spent = self._step_begun - self._begun
        self.report(
            f"[{spent:3.0f} s] {step.number}/{len(Step)} {step}, "
            f"usually {stages.USUAL_SECONDS[step]} s"
        )

    def wait(self) -> None:
        """Report a step that goes on, now and then."""
        now = time.monotonic()
        if self._step and now - self._reported_at >= WAITING_SECONDS:
            self._reported_at = now
            usual = stages.USUAL_SECONDS[self._step]
            self.report(
                f"[{now - self._begun:3.0f} s] still {self._step}, "
                f"{now - self._step_begun:.0f} s of usually {usual} s"
            )

    def done(self) -> None:
        """The start is over."""
        if self._step:
            self._step = None
            stages.clear(self._home)


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
    home = settings.home
    home.make()
    home.dagster.mkdir(exist_ok=True)
    port_base = free_port_base()
    processes: dict[str, Program] = {"board": _start_board(home, board, port, port_base)}
    report(f"the board is at http://127.0.0.1:{board}, live as soon as brokers respond")
    steps = Steps(home, report)
    cluster = _boot(home, version, port_base, processes, steps)
    DagsterProcesses(home=home, running=processes).check()
    steps.begin(Step.DAGSTER)
    dagster = _start_dagster(home, cluster, port, board, processes)
    return Demo(settings=settings, cluster=cluster, port=port, dagster=dagster, steps=steps)


def _boot(
    home: Home,
    version: str,
    port_base: int,
    processes: dict[str, Program],
    steps: "Steps",
) -> LabCluster:
    """Start the cluster with its workload, and the engine.

    The engine is started by a process of its own, which an interruption ends at once.
    """
    steps.begin(Step.BROKERS)
    log = home.dagster / ENGINE_LOG
    engine_up = processes["engine"] = start("tidemark", ["engine", "up"], log, os.environ)
    cluster = LabCluster.up(
        home.path / "lab", version, brokers=2, port_base=port_base, report=steps.report
    )
    steps.begin(Step.WORKLOAD)
    cluster.start_workload("all")
    while (code := engine_up.poll()) is None:
        time.sleep(CHECK_SECONDS / 4)
        steps.wait()
    del processes["engine"]
    if code:
        raise CommandError(f"the Spark engine did not start; see {log}")
    return cluster


def _start_dagster(
    home: Home,
    cluster: LabCluster,
    port: int | None,
    board: int,
    processes: dict[str, Program],
) -> DagsterProcesses:
    os.environ.pop("DAGSTER_HOME", None)  # the demo has a Dagster of its own
    prepare(home)
    environment = {
        **os.environ,
        "TIDEMARK_NAMESRV": cluster.namesrv,
        "TIDEMARK_SCHEDULE": "on",
        "TIDEMARK_BOARD_URL": f"http://127.0.0.1:{board}",
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
    began = dg.RunsFilter(created_after=running.since)  # not those of an earlier demo
    is_success: dict[str, bool] = {}
    checked_at = running.since
    until = time.monotonic() + FIRST_TICK_SECONDS
    running.steps.begin(Step.FIRST_TICK)
    with opened_storage() as instance, _tick_at_once(running, report):
        while ticks is None or len(is_success) < ticks:
            time.sleep(LATER_CHECK_SECONDS if is_success else CHECK_SECONDS)
            running.dagster.check()
            running.steps.wait()
            if time.monotonic() > until and not instance.get_runs(began, limit=1):
                raise CommandError(
                    f"no tick began within {FIRST_TICK_SECONDS} s; see "
                    f"{running.dagster.log('dagster-daemon')}"
                )
            if not run_services.is_up(running.home):
                report("the Spark engine is gone, starting it again")
                run_services.up(running.settings)
            now = datetime.now(UTC)
            for record in finished(instance, running.since, checked_at):
                run = record.dagster_run
                if run.run_id not in is_success:
                    is_success[run.run_id] = run.status is dg.DagsterRunStatus.SUCCESS
                    running.steps.done()
                    report(_tick_line(len(is_success), record))
            checked_at = now
        if failed := list(is_success.values()).count(False):
            raise CommandError(f"{failed} of {len(is_success)} ticks failed; see the Dagster UI")


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


def finished(instance: dg.DagsterInstance, since: datetime, checked_at: datetime) -> list[Any]:
    """Return the ticks that began after an instant and have ended of late, oldest first.

    Args:
        instance: Dagster's records, which a demo of days has thousands of.
        since: the instant.
        checked_at: the last check; ticks that ended up to `OVERLAP` before it are returned again.
    """
    ended = [
        dg.DagsterRunStatus.SUCCESS,
        dg.DagsterRunStatus.FAILURE,
        dg.DagsterRunStatus.CANCELED,
    ]
    ticks = dg.RunsFilter(
        job_name=TICK.name,
        statuses=ended,
        created_after=since,
        updated_after=max(since, checked_at - OVERLAP),
    )
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
