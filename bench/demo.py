"""From the start of the demo to its first numbers, against another checkout's.

``python -m bench.demo [--before CHECKOUT] [--rounds 3] [--prepared]``. CHECKOUT is one of an
earlier version with a ``.venv`` of its own. Both boot the same brokers and workload, in turns, with
jars cached and a new home each time. The clock starts with the command. It is read when Chromium,
which loads the page of groups every two seconds, shows the lag of a group, and when the command
reports its first tick. The demo is interrupted once both are known: 0.2.0 shows no number before
its second tick, and its open pages do not refresh.
"""

import argparse
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from bench import report
from bench.costs import ROOT
from bench.soak import print_line, start_interruptible_programs
from tidemark.lab.layout import free_port_base

FIRST_TICK = "demo: tick 1: success"

NUMBER = "table.data tbody tr td.num:not(.unknown)"
"""A number in a list of groups, live or computed."""

SECONDS = 900
"""Longest time for the first number."""

RELOAD_SECONDS = 2

Seconds = tuple[float, float]
"""Until the first number on the board, and until the first tick."""


def main() -> None:
    """Start the demo in turns, print each time, and write the section of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--prepared", action="store_true", help="jars and brokers are fetched: no uncounted run"
    )
    options = parser.parse_args()
    start_interruptible_programs()
    names = {"now": ROOT} | ({"before": options.before} if options.before else {})
    if not options.prepared:
        for checkout in names.values():
            first_numbers(checkout)  # fetches jars and brokers where they are missing
    numbers: dict[str, list[Seconds]] = {name: [] for name in names}
    for number in range(options.rounds):
        turns = list(names.items())
        for name, checkout in turns if number % 2 else reversed(turns):
            numbers[name].append(first_numbers(checkout))
            number_at, tick_at = numbers[name][-1]
            print_line(f"{name}: number on the board {number_at:.1f} s, tick {tick_at:.1f} s")
    report.write_section("demo", _section(numbers))


def first_numbers(checkout: Path) -> Seconds:
    """Run a checkout's demo until both first numbers are known; return the seconds until each.

    Raises:
        SystemExit: the demo reported no tick, or its board showed no number.
    """
    tick_at = None
    base = free_port_base()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        started = time.monotonic()
        command = [checkout / ".venv" / "bin" / "tidemark", "demo", "--no-ui"]
        with (
            ThreadPoolExecutor(1) as pool,
            subprocess.Popen(
                [*command, "--board-port", str(base)],
                cwd=checkout,
                env=os.environ | {"TIDEMARK_HOME": folder},
                stderr=subprocess.PIPE,
                text=True,
            ) as process,
        ):
            shown = pool.submit(_first_number, f"http://127.0.0.1:{base}/groups", started)
            for line in process.stderr or ():
                if line.startswith(FIRST_TICK):
                    tick_at = time.monotonic() - started
                    wait([shown])  # its error is raised below
                    process.send_signal(signal.SIGINT)
    if tick_at is None:
        raise SystemExit(f"the demo of {checkout} reported no tick")
    return shown.result(), tick_at


def _first_number(page_address: str, started: float) -> float:
    """Return when a browser shows the first number of the board."""
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        while time.monotonic() - started < SECONDS:
            try:
                page.goto(page_address)
                page.wait_for_selector(NUMBER, timeout=RELOAD_SECONDS * 1000)
            except Error:
                time.sleep(0.5)  # the board does not listen yet, or shows no number yet
            else:
                return time.monotonic() - started
    raise SystemExit(f"the board at {page_address} showed no number within {SECONDS} s")


def _section(numbers: Mapping[str, Sequence[Seconds]]) -> str:
    rows = [
        (name, *(report.spread(seconds, ".1f") for seconds in zip(*pairs, strict=True)))
        for name, pairs in numbers.items()
    ]
    if "before" in numbers:
        both = list(zip(numbers["now"], numbers["before"], strict=True))
        ratios = [
            report.spread([now[part] / before[part] for now, before in both], ".2f")
            for part in (0, 1)
        ]
        rows.append(("now over before, round by round", *ratios))
    return (
        "## From the demo's start to its first numbers\n\n"
        "`python -m bench.demo`: two brokers, the workload, jars cached; "
        f"{len(numbers['now'])} rounds in turns, {report.machine()}. "
        "Seconds of the clock: median (least to most).\n\n"
        + report.table(("", "number on the board, s", "first tick, s"), rows)
    )


if __name__ == "__main__":
    main()
