"""Processor time of ticks and backfills from an engine's start on, against another checkout's.

``make bench-costs ARGS="--before PATH"`` or ``python -m bench.costs [--before PATH] [--groups 25
250] [--ticks 10] [--hours 1]``. PATH is a checkout of an earlier version with a ``.venv`` of its
own. Both compute the same made-up past (`bench.past`), in turns, because machines drift. Processor
time is that of all processes: the command, the fork server with the runs it forked, and the engine.
So other load on the machine counts little; wall time shows it.

``--foresight`` compares this checkout with itself: before without objectives and without the rules
that use objectives and baselines, now with these rules and two objectives of every group.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean

import dagster as dg
import yaml

from bench import report
from tidemark.alerting.rules.files import DEFAULT_RULES

ROOT = Path(__file__).parent.parent
CLOCK = os.sysconf("SC_CLK_TCK")
WARM_TICKS = 2
"""Ticks after which shares of a tick are measured."""

SHARES = {
    "Validation": ("validate_",),
    "Objectives and baselines": ("progress__objectives", "progress__baselines"),
}
"""Beginnings of the names of steps, whose shares of a tick are measured."""

OBJECTIVES = """
objectives:
- {name: on-time, match: {consumer_group: "*"}, delay: 30s, target: 99.5%, window: 30d}
- {name: short, match: {consumer_group: "*"}, lag: 10000, target: 99%, window: 7d}
"""

RULES = "rules.yaml"

Files = Iterable[tuple[str, str]]
"""Names and texts of files in a home."""

FORESEEING = ("burn_rate", "unusual")
"""Kinds of rules that read objectives and baselines."""

ROWS_OF_GROUP = 64
"""Group queues of a group of `bench.past.Past`: four topics of eight queues on two brokers."""

PUT = """
import sys
from datetime import datetime
from pathlib import Path
from bench.past import Past
try:
    from tidemark.lake.catalog import Lake
    from tidemark.settings.home import Home
except ImportError:
    from lake.catalog import Lake
    from settings.home import Home
start, home, groups, first, last = sys.argv[1:]
past = Past(start=datetime.fromisoformat(start), topics=int(groups), groups=int(groups))
lake = Lake(Home.of(Path(home)))
past.put(lake, int(first), int(last))
try:
    from tidemark.lake.retention import remember_observed_since
    remember_observed_since(lake, past.instant(int(first)))
except ImportError:
    pass  # versions without the record take the hours that tables have
"""
"""Puts minutes into the raw tables of a home; each checkout does it with its own code."""


THREADS = {
    "C1 CompilerThre": "Java's compilers",
    "C2 CompilerThre": "Java's compilers",
    "GC Thread": "Java's collector",
    "VM Thread": "Java's collector",
    "Executor task": "tasks",
}
"""Beginnings of the names of an engine's threads, to what they do."""

OTHER_THREADS = "queries: analysis and planning"
"""The work of the other threads. Spark has one for each query, which ends with it."""

OTHERS = "the runs' Python"
PARTS = (*dict.fromkeys(THREADS.values()), OTHER_THREADS, OTHERS)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of one command in wall time and processor time.

    Attributes:
        wall: seconds on the clock.
        cpu: seconds of processor time of all processes.
        parts: the same by what took them: kinds of the engine's threads, and `OTHERS`.
    """

    wall: float
    cpu: float
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Side:
    """A checkout at work on a home of its own.

    Attributes:
        checkout: its folder.
        home: its home.
        start: the first minute of the past.
        groups: of the past.
        variables: settings of its processes, besides the home.
    """

    checkout: Path
    home: Path
    start: datetime
    groups: int
    variables: Mapping[str, str] = field(default_factory=dict)

    def put(self, first: int, last: int) -> None:
        """Put the minutes from `first` to before `last`."""
        arguments = [self.start.isoformat(), str(self.home), self.groups, first, last]
        self._run([self._bin("python"), "-c", PUT, *map(str, arguments)])

    def tidemark(self, *arguments: str) -> Cost:
        """Run the command and return its cost."""
        return self._cost("tidemark", arguments)

    def dagster(self, *arguments: str) -> Cost:
        """Run Dagster's command and return its cost."""
        return self._cost("dagster", arguments)

    def _cost(self, program: str, arguments: Sequence[str]) -> Cost:
        before, threads, children = self._services(), self._threads(), _of_children()
        started = time.perf_counter()
        self._run([self._bin(program), *arguments])
        wall = time.perf_counter() - started
        services = sum(
            spent - before.get(pid, 0.0) for pid, spent in self._services().items()
        )  # a service that the command has started begins at 0
        cpu = services + _of_children() - children
        # A thread that has ended since is missing, so its part may have less than before.
        parts = {
            name: max(spent - threads.get(name, 0.0), 0.0)
            for name, spent in self._threads().items()
        }
        return Cost(wall=wall, cpu=cpu, parts={**parts, OTHERS: cpu - sum(parts.values())})

    def peer(self, *hours: str) -> Cost:
        """Let DuckDB compute queues and groups of these hours, and return the cost."""
        before, started = _of_children(), time.perf_counter()
        self._run([self._bin("python"), "-m", "bench.peer", str(self.home), *hours])
        return Cost(wall=time.perf_counter() - started, cpu=_of_children() - before)

    def shares(self, ticks: int) -> dict[str, float]:
        """Return by name of `SHARES` the share of these steps in the time of the newest ticks."""
        spent = dict.fromkeys(SHARES, 0.0)
        whole = 0.0
        with dg.DagsterInstance.from_config(str(self.home / "dagster")) as instance:
            for run in instance.get_runs(limit=ticks):
                for step in instance.get_run_step_stats(run.run_id):
                    if step.start_time and step.end_time:
                        whole += step.end_time - step.start_time
                        for name, begins in SHARES.items():
                            if step.step_key.startswith(begins):
                                spent[name] += step.end_time - step.start_time
        return {name: seconds / whole for name, seconds in spent.items()}

    def _services(self) -> dict[int, float]:
        """Return the processor time so far of each process that outlives commands."""
        services = {}
        for state in [*self.home.glob("*/*.json"), *self.home.glob("*.json")]:
            try:
                pid = json.loads(state.read_text())["pid"]
                # It counts with the children that it has waited for.
                services[pid] = _seconds(Path(f"/proc/{pid}/stat"), last=15)
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return services

    def _threads(self) -> dict[str, float]:
        """Return the processor time of the engine so far by what its threads do."""
        parts: dict[str, float] = defaultdict(float)
        with suppress(OSError, ValueError):  # it may not run
            pid = json.loads((self.home / "engine" / "engine.json").read_text())["pid"]
            whole = _seconds(Path(f"/proc/{pid}/stat"))
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with suppress(OSError):  # it may have ended
                    name = (thread / "comm").read_text().strip()
                    known = [part for begin, part in THREADS.items() if name.startswith(begin)]
                    parts[known[0] if known else OTHER_THREADS] += _seconds(thread / "stat")
            parts[OTHER_THREADS] += whole - sum(parts.values())
        return parts

    def _bin(self, name: str) -> str:
        return str(self.checkout / ".venv" / "bin" / name)

    def _run(self, command: Sequence[str]) -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if "TIDEMARK" not in name},
            "TIDEMARK_HOME": str(self.home),
            "DAGSTER_HOME": str(self.home / "dagster"),
            **self.variables,
        }
        done = subprocess.run(
            command, cwd=self.checkout, env=environment, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise SystemExit(f"{command[:2]} exited {done.returncode}: {done.stderr[-500:]}")


def _seconds(stat: Path, last: int = 13) -> float:
    """Return utime and stime of a ``stat``; with `last` 15 cutime and cstime too."""
    fields = stat.read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:last])) / CLOCK


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _without_foresight() -> str:
    """Return the ready-made rules without those of `FORESEEING`, as a file without inhibitions."""
    documents = [yaml.safe_load(file.read_text()) for file in sorted(DEFAULT_RULES.glob("*.yaml"))]
    rules = [rule for document in documents for rule in document.get("rules", [])]
    return yaml.safe_dump({"rules": [it for it in rules if it["kind"] not in FORESEEING]})


@contextmanager
def side(checkout: Path, start: datetime, groups: int, files: Files = ()) -> Iterator[Side]:
    """Make a home for a checkout to work on, with these files; its engine ends with it."""
    with tempfile.TemporaryDirectory() as folder:
        home, variables = Path(folder), {}
        for name, text in files:
            (home / name).write_text(text)
            if name == RULES:
                variables["TIDEMARK_RULES"] = str(home / name)
        made = Side(checkout=checkout, home=home, start=start, groups=groups, variables=variables)
        try:
            yield made
        finally:
            made.tidemark("engine", "down")


def measure(
    checkouts: Sequence[tuple[Path, Files]], groups: int, ticks: int, hours: int
) -> list[tuple[str, list[Cost]]]:
    """Return the cost of each step, checkout by checkout in turns; DuckDB is a step of its own.

    Args:
        checkouts: the checkouts, each with the files of its home.
        groups: of the past.
        ticks: how many.
        hours: whole hours that are computed again after the ticks; 0 for none.
    """
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    start = now - timedelta(hours=max(hours, 1) + 2)
    measured: list[tuple[str, list[Cost]]] = []

    def step(name: str, costs: list[Cost]) -> None:
        measured.append((name, costs))
        figures = ", ".join(f"{cost.cpu:.1f} s of CPU, {cost.wall:.1f} s" for cost in costs)
        sys.stdout.write(f"{groups * ROWS_OF_GROUP:,} group queues, {name}: {figures}\n")
        sys.stdout.flush()

    with ExitStack() as stack:
        sides = [stack.enter_context(side(path, start, groups, files)) for path, files in checkouts]
        step("engine up", [item.tidemark("engine", "up") for item in sides])
        for number in range(ticks):
            for item in sides:
                item.put(number, number + 1)
            costs = [item.tidemark("tick", "--no-collect") for item in sides]
            step(f"tick {number + 1}", costs)
        if ticks > WARM_TICKS:
            for name, share in sides[-1].shares(ticks - WARM_TICKS).items():
                sys.stdout.write(f"{name} took {share:.1%} of the later ticks.\n")
        if hours:
            end = start + timedelta(hours=hours)
            arguments = ("recompute", "--from", start.isoformat(), "--to", end.isoformat())
            for item in sides:
                item.put(ticks, 60 * hours)
            step(f"{hours} h again", [item.tidemark(*arguments) for item in sides])
            step(f"{hours} h, by DuckDB", [sides[-1].peer(*arguments[1:])])
        # Most engines start in a home that shows how large a snapshot is.
        after = max(ticks, 60 * hours)
        for item in sides:
            item.put(after, after + 1)
            item.tidemark("engine", "down")
        step("engine up again", [item.tidemark("engine", "up") for item in sides])
        step("its first tick", [item.tidemark("tick", "--no-collect") for item in sides])
    return measured


def main() -> None:
    """Measure, print each step when it is known, and write the section of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--foresight", action="store_true", help="without it, and with it")
    parser.add_argument("--groups", type=int, nargs="+", default=[25, 250])
    parser.add_argument("--ticks", type=int, default=10)
    parser.add_argument("--hours", type=int, default=1)
    options = parser.parse_args()
    checkouts: list[tuple[Path, Files]] = [(ROOT, ())]
    if options.foresight:
        checkouts = [
            (ROOT, [(RULES, _without_foresight())]),
            (ROOT, [("objectives.yaml", OBJECTIVES)]),
        ]
    elif options.before:
        checkouts.insert(0, (options.before.absolute(), ()))
    is_pair = len(checkouts) > 1
    parts, lines = [], {}
    for groups in options.groups:
        measured = measure(checkouts, groups, options.ticks, options.hours)
        rows = [[name, *_shown(costs, len(checkouts))] for name, costs in measured]
        head = ["", "CPU, s", "wall, s"]
        if is_pair:
            head = ["", "CPU before, s", "CPU now, s", "ratio", "wall before, s", "wall now, s"]
        parts.append(f"{groups * ROWS_OF_GROUP:,} group queues:\n\n{report.table(head, rows)}")
        versions = ["before", "now"] if is_pair else ["now"]
        if options.ticks:
            parts.append(_profile(measured, versions))
        for place, version in enumerate(versions):
            ticks = [costs[place].cpu for name, costs in measured if name.startswith("tick")]
            line = f"{version}, {groups * ROWS_OF_GROUP:,} group queues"
            lines[line] = list(enumerate(ticks, 1))
    title = (
        "## Ticks from the engine's start on\n\n"
        f"Processor time of all processes; {report.machine()}. Made by `make bench-costs`."
    )
    if options.foresight:
        return  # its figures are printed step by step; they are not those of versions
    if options.ticks:
        axes = ("tick since the engine's start", "processor time, s")
        parts.append(report.plot("costs", "Processor time of each tick", axes, lines))
    report.write_section("costs", "\n\n".join([title, *parts]))


def _profile(measured: Sequence[tuple[str, Sequence[Cost]]], versions: Sequence[str]) -> str:
    """Return where the processor time of the first ticks goes, by what takes it."""
    rows = []
    for first, last in ((1, 3), (4, 6), (7, 10), (11, 30), (31, 60)):
        names = [f"tick {number}" for number in range(first, last + 1)]
        of = [costs for name, costs in measured if name in names]
        for place, version in enumerate(versions if of else ()):
            spent = {part: fmean(it[place].parts.get(part, 0.0) for it in of) for part in PARTS}
            whole = fmean(it[place].cpu for it in of)
            ticks = f"{first} to {first + len(of) - 1}, {version}"
            rows.append([ticks, *(f"{seconds:.1f}" for seconds in (whole, *spent.values()))])
    return f"Mean of a tick, s of CPU:\n\n{report.table(['ticks', 'all', *PARTS], rows)}"


def _shown(costs: Sequence[Cost], width: int) -> list[str]:
    cpu, wall = [f"{cost.cpu:.1f}" for cost in costs], [f"{cost.wall:.1f}" for cost in costs]
    if len(costs) < width:
        return ["", *cpu, "", "", *wall]
    if width == 1:
        return [*cpu, *wall]
    return [*cpu, f"{costs[1].cpu / costs[0].cpu:.2f}", *wall]


if __name__ == "__main__":
    main()
