"""Processor time of hours computed again within a backfill, and where it goes.

``python -m bench.backfills [--before CHECKOUT] [--groups 250] [--warm 2] [--hours 4] [--rounds
1]``. CHECKOUT is one of an earlier version with a ``.venv`` of its own. Each computes the
same made-up past (`bench.past`) in an engine of its own that has computed ``--warm`` hours, in
turns. The processor time is that of all processes; that of the engine is divided by its threads.
"""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from bench import report
from bench.costs import ROOT, ROWS_OF_GROUP, Cost, Side, side
from bench.soak import print_line
from tidemark.lake.clocks import HOUR, floor_hour


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
    spent: dict[str, list[Cost]] = {name: [] for name in checkouts}
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
            print_line(f"{name}, {options.warm} h that warm it: {warm.cpu:.1f} s of CPU an hour")
        for number in range(options.rounds):
            first = options.warm + number * options.hours
            for name, item in sides.items():
                spent[name].append(_again(item, first, options.hours))
                print_line(f"{name}, round {number + 1}: {spent[name][-1].cpu:.1f} s an hour")
    text = _section(spent, options.groups, options.hours)
    print_line(text)
    report.write_section("backfills", text)


def _again(item: Side, first: int, hours: int) -> Cost:
    """Compute hours from the one of that number on again; return the cost of one."""
    instants = (item.start + first * HOUR, item.start + (first + hours) * HOUR)
    arguments = ("--from", instants[0].isoformat(), "--to", instants[1].isoformat())
    cost = item.tidemark("recompute", *arguments)
    parts = {name: seconds / hours for name, seconds in cost.parts.items()}
    return Cost(wall=cost.wall / hours, cpu=cost.cpu / hours, parts=parts)


def _section(spent: Mapping[str, Sequence[Cost]], groups: int, hours: int) -> str:
    totals = [
        ["an hour again", *(report.spread([it.cpu for it in of], ".1f") for of in spent.values())]
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
