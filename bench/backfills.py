"""Processor time of hours computed again within a backfill, and where it goes.

``python -m bench.backfills [--before CHECKOUT] [--groups 250] [--warm 2] [--hours 4] [--rounds
1]``. CHECKOUT is one of an earlier version with a ``.venv`` of its own. Each computes the
same made-up past (`bench.past`) in an engine of its own that has computed ``--warm`` hours, in
turns. The processor time is that of all processes; that of the engine is divided by its threads.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench import report
from bench.costs import CLOCK, ROOT, ROWS_OF_GROUP, Side, side
from bench.soak import print_line
from tidemark.lake.clocks import HOUR, floor_hour

THREADS = {
    "C1 CompilerThre": "Java's compilers",
    "C2 CompilerThre": "Java's compilers",
    "GC Thread": "Java's collector",
    "VM Thread": "Java's collector",
    "Executor task": "tasks",
    "SparkConnectExe": "queries: analysis and planning",
    "grpc-default-ex": "queries: analysis and planning",
}
"""Beginnings of the names of an engine's threads, to what they do."""

OTHER_THREADS = "the engine's other threads"
OTHERS = "the runs' Python"


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Processor time of an hour.

    Attributes:
        total: seconds of all processes.
        parts: seconds by what took them; they add up to the total.
    """

    total: float
    parts: Mapping[str, float]


def main() -> None:
    """Measure, print each round, and write the section of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--groups", type=int, default=250, help="64 queues each")
    parser.add_argument("--warm", type=int, default=2, help="hours computed before")
    parser.add_argument("--hours", type=int, default=4, help="hours of a measured backfill")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    checkouts = {"now": ROOT}
    if options.before:
        checkouts = {"before": options.before.absolute(), **checkouts}
    hours = options.warm + options.hours * options.rounds
    start = floor_hour(datetime.now(UTC)) - (hours + 1) * HOUR
    spent: dict[str, list[Spent]] = {name: [] for name in checkouts}
    with ExitStack() as stack:
        sides = {
            name: stack.enter_context(side(path, start, options.groups))
            for name, path in checkouts.items()
        }
        for item in sides.values():
            for hour in range(hours):
                item.put(60 * hour, 60 * (hour + 1))
            item.tidemark("engine", "up")
        for name, item in sides.items():
            warm = _again(item, 0, options.warm)
            print_line(f"{name}, {options.warm} h that warm it: {warm.total:.1f} s of CPU an hour")
        for number in range(options.rounds):
            first = options.warm + number * options.hours
            for name, item in sides.items():
                spent[name].append(_again(item, first, options.hours))
                print_line(f"{name}, round {number + 1}: {spent[name][-1].total:.1f} s an hour")
    text = _section(spent, options.groups, options.hours)
    print_line(text)
    report.write_section("backfills", text)


def _again(item: Side, first: int, hours: int) -> Spent:
    """Compute hours from the one of that number on again; return the cost of one."""
    instants = (item.start + first * HOUR, item.start + (first + hours) * HOUR)
    engine = json.loads((item.home / "engine" / "engine.json").read_text())["pid"]
    threads, process = _of_threads(engine), _of_process(engine)
    arguments = ("--from", instants[0].isoformat(), "--to", instants[1].isoformat())
    total = item.tidemark("recompute", *arguments).cpu
    of_engine = _of_process(engine) - process
    after = _of_threads(engine)
    parts = {name: max(after[name] - threads[name], 0.0) for name in after}
    # Threads that ended meanwhile are counted among the others.
    parts[OTHER_THREADS] = of_engine - sum(parts.values()) + parts.get(OTHER_THREADS, 0.0)
    parts[OTHERS] = total - of_engine
    return Spent(
        total=total / hours, parts={name: seconds / hours for name, seconds in parts.items()}
    )


def _of_process(pid: int) -> float:
    return _seconds(Path(f"/proc/{pid}/stat"))


def _of_threads(pid: int) -> dict[str, float]:
    """Return the processor time of a process so far by what its threads do."""
    parts: dict[str, float] = defaultdict(float)
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it may have ended
            name = (thread / "comm").read_text().strip()
            known = [part for begin, part in THREADS.items() if name.startswith(begin)]
            parts[known[0] if known else OTHER_THREADS] += _seconds(thread / "stat")
    return parts


def _seconds(stat: Path) -> float:
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK


def _section(spent: Mapping[str, Sequence[Spent]], groups: int, hours: int) -> str:
    totals = [
        ["an hour again", *(report.spread([it.total for it in of], ".1f") for of in spent.values())]
    ]
    names = dict.fromkeys(name for of in spent.values() for it in of for name in it.parts)
    totals += [
        [
            name,
            *(
                report.spread([it.parts.get(name, 0.0) for it in of], ".1f")
                for of in spent.values()
            ),
        ]
        for name in names
    ]
    return (
        "## Hours of a backfill\n\n"
        f"Processor time of each hour of {groups * ROWS_OF_GROUP:,} group queues in a backfill of "
        f"{hours} hours by a warm engine; {report.machine()}. Made by `python -m bench.backfills`."
        f"\n\n{report.table(['CPU, s', *spent], totals)}"
    )


if __name__ == "__main__":
    main()
