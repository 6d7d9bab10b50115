"""Processor time and memory of a whole deployment on one machine while it runs, by process.

``python -m bench.resident [--before CHECKOUT] [--minutes 30] [--groups 25 250]`` runs the engine,
Dagster and the board on stand-in brokers, with a tick a minute and nobody watching. CHECKOUT is one
of an earlier version with a ``.venv`` of its own; its deployment runs after this tree's. The first
minutes, in which the engine compiles, are reported for themselves. ``--idle`` leaves out engine and
schedules: what is left is what runs beside ticks.
"""

import argparse
import os
import signal
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench import report, standin
from bench.costs import ROOT
from bench.soak import print_line, start_interruptible_programs
from tidemark.lab.large import Large
from tidemark.lab.layout import free_port_base

SAMPLE_SECONDS = 0.5
"""Processor time of a process after its last sample is lost."""

MEMORY_SECONDS = 15.0

FIRST_MINUTES = 5.0
"""Minutes after the start that are reported for themselves."""

PARTS = {
    "engine": ("java",),
    "board": (" serve",),
    "daemon": ("dagster-daemon", "dagster._daemon"),
    "web server": ("webserver",),
    "code server": ("api grpc", "code-server"),
    "supervisor": ("tidemark dev", "dagster dev"),
}
"""Part of a deployment to what its command contains; all others are ``runs``."""


NAMES = {"code-server": "api grpc", "dagster-daemon": "dagster-daemon", "webserver": "webserver"}
"""Name of a process that was forked to a text in the command of one that was not."""


@dataclass(kw_only=True)
class Use:
    """The use of a period by the parts of a deployment.

    Attributes:
        minutes: the length of the period.
        cpu: seconds of processor time by part.
        memory: bytes by part, the largest sample; what processes share is divided among them.
        together: bytes of all parts, the largest sample; parts are largest at different moments.
    """

    minutes: float
    cpu: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    together: int = 0


class Meter:
    """Samples all processes whose environment names a home."""

    def __init__(self, home: Path) -> None:
        self._home = str(home)
        self._part: dict[psutil.Process, str | None] = {}
        self._cpu: dict[psutil.Process, float] = {}
        self._memory: dict[str, int] = defaultdict(int)
        self._together = 0
        self._memory_at = 0.0

    def measure(self, minutes: float) -> Use:
        """Return the use of the next minutes."""
        self._sample()
        before = dict(self._cpu)
        self._memory.clear()
        self._together = 0
        until = time.monotonic() + minutes * 60
        while time.monotonic() < until:
            time.sleep(SAMPLE_SECONDS)
            self._sample()
        cpu: dict[str, float] = defaultdict(float)
        for process, seconds in self._cpu.items():
            cpu[self._part[process] or ""] += seconds - before.get(process, 0.0)
        return Use(minutes=minutes, cpu=cpu, memory=dict(self._memory), together=self._together)

    def _sample(self) -> None:
        weigh = time.monotonic() - self._memory_at >= MEMORY_SECONDS
        memory: dict[str, int] = defaultdict(int)
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process not in self._part:
                    self._part[process] = self._part_of(process)
                if not (part := self._part[process]):
                    continue
                times = process.cpu_times()
                self._cpu[process] = times.user + times.system
                if weigh:
                    memory[part] += process.memory_full_info().pss
        if weigh:
            self._memory_at = time.monotonic()
            self._together = max(self._together, sum(memory.values()))
            for part, size in memory.items():
                self._memory[part] = max(self._memory[part], size)

    def _part_of(self, process: psutil.Process) -> str | None:
        if process.environ().get("TIDEMARK_HOME") != self._home:
            return None
        # A process that `tidemark dev` forked has its command line, and a name of its own.
        command = " ".join([*process.cmdline(), NAMES.get(process.name(), "")])
        for part, texts in PARTS.items():
            if any(text in command for text in texts):
                return part
        return "runs"


@contextmanager
def deployment(
    checkout: Path, namesrv: str, folder: Path, *, is_idle: bool = False
) -> Iterator[Path]:
    """Run all that a machine needs, or what runs beside ticks; gives the home."""
    home = folder / "home"
    home.mkdir()
    (home / "dagster").mkdir()
    programs = checkout / ".venv" / "bin"
    environment = {
        **{name: text for name, text in os.environ.items() if "TIDEMARK" not in name},
        "TIDEMARK_HOME": str(home),
        "DAGSTER_HOME": str(home / "dagster"),
        "TIDEMARK_NAMESRV": namesrv,
        "TIDEMARK_SCHEDULE": "off" if is_idle else "on",
        "DAGSTER_DISABLE_TELEMETRY": "true",
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    serves, pages = ("serve", "--port", str(free_port_base())), str(free_port_base())
    dev = [str(programs / "tidemark"), "dev", "--port", pages]
    if not (checkout / "tidemark" / "cli" / "commands" / "dev.py").exists():
        dev = [str(programs / "dagster"), "dev", "-w", "workspace.yaml", "-p", pages]
    up = [str(programs / "tidemark"), "engine", "up"]
    if is_idle:
        workspace = ("-w", str(checkout / "workspace.yaml"))
        up = [str(programs / "dagster"), "sensor", "start", "--start-all", *workspace]
    subprocess.run(up, cwd=checkout, env=environment, check=True, capture_output=True)
    with (folder / "log").open("wb") as log:
        running = [
            subprocess.Popen(command, cwd=checkout, env=environment, stdout=log, stderr=log)
            for command in (dev, [str(programs / "tidemark"), *serves])
        ]
        try:
            yield home
        finally:
            for process in running:
                process.send_signal(signal.SIGINT)
            for process in running:
                process.wait(60)
            down = [str(programs / "tidemark"), "engine", "down"]
            subprocess.run(down, cwd=checkout, env=environment, capture_output=True)


def ticks(home: Path) -> int:
    """Return how many snapshots were computed."""
    return sum(
        1 for _ in (home / "warehouse" / "progress" / "snapshots" / "data").rglob("*.parquet")
    )


def measured(checkout: Path, groups: int, minutes: float, *, is_idle: bool) -> list[Use]:
    """Return the use of the first minutes, and of those after them."""
    large = Large(topics=groups, queues=8, groups=groups, topics_per_group=8)
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-resident-") as folder,
        standin.serve(large, brokers=1) as namesrv,
        deployment(checkout, namesrv, Path(folder), is_idle=is_idle) as home,
    ):
        meter = Meter(home)
        first = min(FIRST_MINUTES, minutes / 2)
        uses = [meter.measure(first), meter.measure(minutes - first)]
        print_line(f"{groups * 64:,} group queues: {ticks(home)} files of computed snapshots")
        return uses


def _shown(use: Use, part: str) -> str:
    return f"{use.cpu.get(part, 0) / use.minutes:.1f} s, {use.memory.get(part, 0) / 2**20:,.0f} MiB"


def main() -> None:
    """Measure, print the tables and write them to the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--groups", type=int, nargs="+", default=[25, 250])
    parser.add_argument("--idle", action="store_true", help="without engine and schedules")
    options = parser.parse_args()
    start_interruptible_programs()
    sides = {"now": ROOT}
    if options.before:
        sides["before"] = options.before.resolve()
    section, title, what = "resident", "A deployment that runs", "a tick a minute"
    if options.idle:
        section, title, what = "resident idle", "What runs beside ticks", "no engine and no tick"
    texts = [
        f"## {title}",
        f"`python -m bench.resident{' --idle' * options.idle} --before CHECKOUT`: processor time a "
        f"minute and memory of all processes on one machine, {what}, nobody watching. "
        f"{report.machine()}.",
    ]
    for groups in options.groups:
        uses = {
            name: measured(path, groups, options.minutes, is_idle=options.idle)
            for name, path in sides.items()
        }
        columns = [
            (f"{name}, {'first' if first else 'later'} {use.minutes:.0f} min", use)
            for name, both in uses.items()
            for first, use in zip((True, False), both, strict=True)
        ]
        rows = [[part, *(_shown(use, part) for _, use in columns)] for part in [*PARTS, "runs"]]
        whole = [
            f"{sum(use.cpu.values()) / use.minutes:.1f} s, {use.together / 2**20:,.0f} MiB"
            for _, use in columns
        ]
        table = report.table(["part", *(name for name, _ in columns)], [*rows, ["all", *whole]])
        texts += [f"{groups * 64:,} group queues:", table]
        print_line(table)
    report.write_section(section, "\n\n".join(texts))


if __name__ == "__main__":
    main()
