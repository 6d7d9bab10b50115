"""Cost of the board's pages, by default at 16,000 group queues with 30 days of history.

``python -m bench.pages [--home FOLDER] [--days 30] [--groups 250] [--queues 8] [--pollers 20]``
writes a made-up home (or takes one that it wrote before), copies its past as a board that runs
does, starts `tidemark serve` on it and fetches every page. Processor time shows what a page costs,
whatever else the machine does. ``--groups 5000 --queues 1 --every 15`` is 20,000 groups on topics;
a snapshot a minute of so many would fill 40 GB.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psutil

from bench import report
from bench.made_up import CLUSTER, MadeUp, now
from bench.soak import TIDEMARK
from tidemark.board.data_files import DataFiles
from tidemark.board.group_history import ChangeCopies, GroupCopies
from tidemark.board.store import Store
from tidemark.lab.layout import free_port_base
from tidemark.lake.catalog import Lake
from tidemark.settings.home import Home

ROUNDS = 5
USUAL_GROUPS = 250
POLL_SECONDS = 10.0
"""Pages refresh with ticks, once a minute: pollers request six times as often."""


def main() -> None:
    """Run the benchmark, print its table and write it to the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_history_options(parser)
    parser.add_argument("--pollers", type=int, default=20, help="that fetch pages for a minute")
    options = parser.parse_args()
    with history(options) as (home, made_up):
        copied = _copied(home)
        with served(home) as (address, process, started):
            start = ("start, until the first page", f"{_cpu(process):.2f} s", f"{started:.2f} s")
            rows = [start, copied]
            rows += _pages(address, process, home, made_up)
            rows += _polled(address, process, options.pollers, made_up)
            memory = process.memory_info().rss / 2**20
            rows.append(("memory of the server", "", f"{memory:.0f} MiB"))
    is_usual = options.groups == USUAL_GROUPS
    about = f"{made_up.group_queues:,} group queues, {options.days:g} days"
    snapshots = f"{1440 * options.days / options.every:,.0f} snapshots"
    text = "\n\n".join(
        [
            "## Pages" if is_usual else f"## Pages of {made_up.groups * 4:,} groups on topics",
            f"`python -m bench.pages`: {about}, {snapshots} of groups and at most a day of queues.",
            f"{report.machine()}. Seconds of CPU on the server, and on the clock: median.",
            report.table(("what", "CPU", "clock, size"), rows),
        ]
    )
    sys.stdout.write(text + "\n")
    report.write_section("pages" if is_usual else "pages of many groups", text)


def add_history_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `history` reads."""
    parser.add_argument("--home", default="", help="a folder to keep, or kept before")
    parser.add_argument("--days", type=float, default=30, help="of history")
    parser.add_argument("--groups", type=int, default=USUAL_GROUPS, help="each on four topics")
    parser.add_argument("--queues", type=int, default=8, help="of a topic on each broker")
    parser.add_argument("--every", type=int, default=1, help="minutes from snapshot to snapshot")


@contextmanager
def history(
    options: argparse.Namespace, ago: timedelta = timedelta(0)
) -> Iterator[tuple[Home, MadeUp]]:
    """Write a home with a made-up history that ended some time ago, or take the one kept."""
    with tempfile.TemporaryDirectory(prefix="tidemark-history-") as folder:
        home = Home.of(options.home or folder)
        made_up = MadeUp(
            groups=options.groups,
            topics_per_group=4,
            topics=options.groups,
            queues=options.queues,
            days=options.days,
            queue_days=min(1.1, options.days),
            end=now() - ago,
            every=options.every,
        )
        if not home.catalog.exists():
            made_up.write(Lake(home))
        yield home, made_up


def _copied(home: Home) -> tuple[str, str, str]:
    """Copy the past, as the board does in the background."""
    lake, count, started = Lake(home), 0, time.process_time()
    files = DataFiles(lake)
    for copies in (GroupCopies(lake, files), ChangeCopies(lake, files)):
        while copies.copy_next(now()):
            count += 1
    seconds = time.process_time() - started
    text = f"{seconds / count:.2f} s" if count else ""
    return f"copy an hour, once ({count} copies)", text, ""


def _pages(
    address: str, process: psutil.Process, home: Home, made_up: MadeUp
) -> Iterator[tuple[str, str, str]]:
    newest = Store(Lake(home))
    newest.refresh()
    then = min(newest.newest.at.values()) - timedelta(days=min(0.3, made_up.days / 2))
    group = f"/group?cluster={CLUSTER}&group={made_up.name(0)}&topic={made_up.topic(0)}"
    paths = ["/", "/groups", "/groups?q=billing&sort=-delay_ms", "/incidents", "/topics"]
    paths += [f"/topic?cluster={CLUSTER}&topic={made_up.topic(0)}", "/brokers"]
    paths += ["/events", "/events?hours=720"]
    paths += [f"/broker?cluster={CLUSTER}&broker=broker-a&range={range}" for range in ("6h", "7d")]
    paths += ["/quality", *(f"{group}&range={range}" for range in ("1h", "24h", "7d", "30d"))]
    paths += [f"{group}&range=24h&at={then:%Y-%m-%dT%H:%M:%SZ}", "/metrics"]
    for path in paths:
        cpu, clock, size = [], [], 0
        for _ in range(ROUNDS):
            before, started = _cpu(process), time.perf_counter()
            size = len(fetched(address + path))
            clock.append(time.perf_counter() - started)
            cpu.append(_cpu(process) - before)
        shown = f"{statistics.median(clock):.3f} s, {size / 1000:,.0f} kB"
        yield f"`{path}`", f"{statistics.median(cpu):.3f} s", shown


def _polled(
    address: str, process: psutil.Process, pollers: int, made_up: MadeUp
) -> Iterator[tuple[str, str, str]]:
    """Yield the costs of the server while many clients fetch pages for a minute."""
    if not pollers:
        return
    group = f"/group?cluster={CLUSTER}&group={made_up.name(0)}&topic={made_up.topic(0)}"
    deadline, before = time.monotonic() + 60, _cpu(process)

    def poll(number: int) -> None:
        while time.monotonic() < deadline:
            started = time.monotonic()
            fetched(address + (group if number % 2 else "/"))
            time.sleep(max(0.0, POLL_SECONDS - (time.monotonic() - started)))

    threads = [threading.Thread(target=poll, args=(number,)) for number in range(pollers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cpu = _cpu(process) - before
    share = cpu / 60 / (os.cpu_count() or 1)
    yield (
        f"{pollers} pollers for a minute, a page every {POLL_SECONDS:.0f} s each",
        f"{cpu:.1f} s",
        f"{share:.0%} of the machine; at one page a tick {share * POLL_SECONDS / 60:.1%}",
    )


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def fetched(address: str) -> bytes:
    """Return the page as a browser gets it, or as Prometheus gets the page of metrics."""
    headers = {"Accept": "text/html"} if "/metrics" not in address else {"Accept-Encoding": "gzip"}
    request = urllib.request.Request(address, headers=headers)
    with urllib.request.urlopen(request, timeout=120) as response:
        return response.read()


@contextmanager
def served(home: Home) -> Iterator[tuple[str, psutil.Process, float]]:
    """Serve a home.

    Yields:
        Its address, its process, and seconds until the first page was there.
    """
    port = free_port_base()
    address = f"http://127.0.0.1:{port}"
    environment = {**os.environ, "TIDEMARK_HOME": str(Path(home.path))}
    started = time.monotonic()
    command = [str(TIDEMARK), "serve", "--port", str(port)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None:
                try:
                    fetched(f"{address}/")
                    break
                except OSError:
                    time.sleep(0.05)
            server = psutil.Process(process.pid)
            yield address, server, time.monotonic() - started
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
