"""From the start of the demo to the first computed snapshot, against another checkout's.

``python -m bench.demo [--before CHECKOUT] [--rounds 3] [--prepared]``. CHECKOUT is one of an
earlier version with a ``.venv`` of its own. Both boot the same brokers and workload, in turns, with
jars cached and a new home each time. The clock starts with the command, and stops when it reports
its first tick.
"""

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import report
from bench.costs import ROOT
from bench.soak import print_line

FIRST_TICK = "demo: tick 1: success"


def main() -> None:
    """Start the demo in turns, print each time, and write the section of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--prepared", action="store_true", help="jars and brokers are fetched: no uncounted run"
    )
    options = parser.parse_args()
    names = {"now": ROOT} | ({"before": options.before} if options.before else {})
    if not options.prepared:
        for checkout in names.values():
            first_tick(checkout)  # fetches jars and brokers where they are missing
    numbers: dict[str, list[float]] = {name: [] for name in names}
    for number in range(options.rounds):
        turns = list(names.items())
        for name, checkout in turns if number % 2 else reversed(turns):
            numbers[name].append(first_tick(checkout))
            print_line(f"{name}: {numbers[name][-1]:.1f} s")
    report.write_section("demo", _section(numbers))


def first_tick(checkout: Path) -> float:
    """Run a checkout's demo to its first tick; return the seconds until it was reported.

    Raises:
        SystemExit: the demo reported none.
    """
    seconds = None
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        command = [checkout / ".venv" / "bin" / "tidemark", "demo", "--ticks", "1", "--no-ui"]
        with subprocess.Popen(
            command,
            cwd=checkout,
            env=os.environ | {"TIDEMARK_HOME": folder},
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            for line in process.stderr or ():
                if line.startswith(FIRST_TICK):
                    seconds = time.monotonic() - started
    if seconds is None:
        raise SystemExit(f"the demo of {checkout} reported no tick")
    return seconds


def _section(numbers: Mapping[str, Sequence[float]]) -> str:
    rows = [(name, report.spread(seconds, ".1f")) for name, seconds in numbers.items()]
    if "before" in numbers:
        pairs = zip(numbers["now"], numbers["before"], strict=True)
        ratios = report.spread([now / before for now, before in pairs], ".2f")
        rows.append(("now over before, round by round", ratios))
    return (
        "## From the demo's start to its first computed snapshot\n\n"
        "`python -m bench.demo`: two brokers, the workload, jars cached; "
        f"{len(numbers['now'])} rounds in turns, {report.machine()}. "
        "Seconds of the clock: median (least to most).\n\n" + report.table(("", "s"), rows)
    )


if __name__ == "__main__":
    main()
