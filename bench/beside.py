"""A backfill beside collection and ticks: which gaps and delays it causes.

``python -m bench.beside [--hours 24] [--groups 250] [--every 10s]``. One cluster has a made-up past
(`bench.past`) that is computed again in hours; another, a stand-in, is collected at an interval
meanwhile, and Dagster's daemon starts ticks by its schedules. The section of the page shows how
long nothing was collected, how long snapshots waited for a tick, and which incidents Tidemark had.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import dagster as dg

import orchestration
from bench import report, standin
from bench.past import CLUSTER, Past
from bench.soak import TIDEMARK, print_line, start_interruptible_programs
from orchestration.instance.dagster_home import prepare
from orchestration.jobs import TICK
from tidemark.embedded import run_services
from tidemark.lab.large import Large
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.lake.landing import landed
from tidemark.lake.tables import alerting, progress, raw
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

LIVE = "live"
LARGE = Large(topics=25, groups=25)
WORKSPACE = Path(orchestration.__file__).parent / "workspace.yaml"


@dataclass(frozen=True)
class Period:
    """A part of the run.

    Attributes:
        name: of the row in the page.
        start: its first instant.
        end: the instant after its last.
    """

    name: str
    start: datetime
    end: datetime

    def has(self, instant: datetime) -> bool:
        """Whether an instant lies in it."""
        return self.start <= instant < self.end


def main() -> None:
    """Run it, print each step, and write the section of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--groups", type=int, default=250, help="of the past; 64 queues each")
    parser.add_argument("--every", default="10s", help="interval of collection")
    parser.add_argument("--calm", type=float, default=5, help="minutes of ticks before and after")
    options = parser.parse_args()
    start_interruptible_programs()
    start = floor_hour(datetime.now(UTC)) - (options.hours + 1) * HOUR
    past = Past(start=start, topics=options.groups, groups=options.groups)
    with tempfile.TemporaryDirectory() as folder:
        home = Home.of(Path(folder) / "home")
        home.make()
        lake = Lake(home)
        os.environ.pop("DAGSTER_HOME", None)
        prepare(home)
        print_line(f"putting {options.hours} h of {past.group_queues:,} group queues")
        for hour in range(options.hours):
            past.put(lake, 60 * hour, 60 * (hour + 1))
        loaded = lake.read(raw.SNAPSHOTS, columns=("snapshot_id", "observed_at", "cluster"))
        lake.append(progress.SNAPSHOTS, loaded.to_pylist())  # so that no tick catches up with it
        run_services.up(Settings(home=home))
        try:
            with _at_work(home, options.every):
                periods = _periods(home, start, options.hours, 60 * options.calm)
                print_line("ending")
        finally:
            run_services.down(home)
        text = _section(lake, periods, past.group_queues * 60 * options.hours, options.every)
    print_line(text)
    report.write_section("beside", text)


@contextmanager
def _at_work(home: Home, every: str) -> Iterator[None]:
    """Collect a stand-in and start ticks, until the context closes."""
    with standin.serve(LARGE, 2) as namesrv, ExitStack() as stack:
        environment = os.environ | {
            "TIDEMARK_HOME": str(home.path),
            "TIDEMARK_NAMESRV": namesrv,
            "TIDEMARK_CLUSTER": LIVE,
            "TIDEMARK_SCHEDULE": "on",
            "PYTHONWARNINGS": "ignore",
        }
        collect = [str(TIDEMARK), "collect", "--every", every]
        daemon = [str(TIDEMARK.with_name("dagster-daemon")), "run", "-w", str(WORKSPACE)]
        for command in (collect, daemon):
            stack.enter_context(_running(command, home, environment))
        yield


@contextmanager
def _running(command: Sequence[str], home: Home, environment: dict[str, str]) -> Iterator[None]:
    with (home.path / f"{Path(command[0]).name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=WORKSPACE.parent, env=environment, stdout=log, stderr=log
        )
    try:
        yield
        if process.poll() is not None:
            raise SystemExit(f"{command[0]} ended with {process.returncode}")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(120)


def _periods(home: Home, start: datetime, hours: int, calm: float) -> list[Period]:
    """Run ticks alone, then beside a backfill, then alone again."""
    moments = [datetime.now(UTC)]

    def passed(text: str) -> None:
        moments.append(datetime.now(UTC))
        print_line(f"{text}: {(moments[-1] - moments[-2]).total_seconds():.0f} s")

    time.sleep(calm)
    passed("ticks alone")
    span = ["--from", start.isoformat(), "--to", (start + hours * HOUR).isoformat()]
    done = subprocess.run(
        [str(TIDEMARK), "recompute", *span],
        env=os.environ | {"TIDEMARK_HOME": str(home.path)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"recompute ended with {done.returncode}: {done.stderr[-500:]}")
    passed(f"{hours} h computed again")
    time.sleep(calm)
    passed("ticks alone again")
    names = ("before", f"while {hours} h are computed again", "after")
    return [Period(name, *span) for name, span in zip(names, pairwise(moments), strict=True)]


def _section(lake: Lake, periods: Sequence[Period], rows: int, every: str) -> str:
    observed = sorted(item.observed_at for item in landed(lake.home) if item.cluster == LIVE)
    with dg.DagsterInstance.get() as instance:
        ticks = sorted(
            datetime.fromtimestamp(record.end_time, UTC)
            for record in instance.get_run_records(dg.RunsFilter(job_name=TICK.name))
            if record.end_time and record.dagster_run.status is dg.DagsterRunStatus.SUCCESS
        )
        failed = [
            record.dagster_run.job_name
            for record in instance.get_run_records(
                dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])
            )
            # A run that ended after the last period was ended with the daemon and did not fail.
            if record.end_time and record.end_time < periods[-1].end.timestamp()
        ]
    lines = []
    for period in periods:
        seconds = (period.end - period.start).total_seconds()
        lines.append(
            [
                period.name,
                f"{seconds:.0f}",
                sum(map(period.has, observed)),
                f"{_longest(observed, period):.1f}",
                sum(map(period.has, ticks)),
                f"{_longest(ticks, period):.0f}",
            ]
        )
    head = ["", "s", "snapshots", "longest gap, s", "ticks", "longest between two, s"]
    while_computed = (periods[1].end - periods[1].start).total_seconds()
    return (
        "## A backfill beside collection and ticks\n\n"
        f"{rows:,} rows of `progress.queues` computed again in {while_computed:.0f} s "
        f"({while_computed / rows * 1e6:.0f} µs a row on the clock), a cluster collected every "
        f"{every} and ticks every minute meanwhile; {report.machine()}. Made by "
        "`python -m bench.beside`.\n\n"
        f"{report.table(head, lines)}\n\n"
        f"Runs that failed: {', '.join(failed) or 'none'}. Incidents that are not about a group: "
        f"{_incidents(lake)}."
    )


def _longest(instants: Sequence[datetime], period: Period) -> float:
    """Return the longest span in seconds from one instant to the next that touches a period."""
    spans = [
        (after - before).total_seconds()
        for before, after in pairwise(instants)
        if before < period.end and after > period.start
    ]
    return max(spans, default=float("nan"))


def _incidents(lake: Lake) -> str:
    rows = lake.read(alerting.INCIDENTS, columns=("rule", "subject")).to_pylist()
    # Nobody collects the made-up cluster any more, and that is reported.
    own = [row for row in rows if "/" not in row["subject"] and row["subject"] != CLUSTER]
    return ", ".join(f"{row['rule']} of {row['subject']}" for row in own) or "none"


if __name__ == "__main__":
    sys.exit(main())
