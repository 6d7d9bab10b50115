"""Ticks of many group queues on a standalone Spark cluster, beside those of one local engine.

``python -m bench.standalone [--groups 2970] [--ticks 3]``. The cluster is a master, two workers
and executors that share no disk: tables are in PostgreSQL and an object store, each started here.
The local engine has its tables in its home. Both get the same made-up past (`bench.past`).
"""

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from bench import report
from bench.past import Past
from bench.soak import print_line
from spark.session.configuration import partitions
from tests.support.deployments import catalog_in, variables_of
from tests.support.homes import run
from tests.support.servers import object_store, postgresql
from tests.support.spark_cluster import executor_settings, standalone
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.lake.tables import progress, raw
from tidemark.settings.home import Home

SLOTS = 2
"""Executors of the cluster, with one core each. The local engine has all cores of the machine."""

PROGRAMS = ("java", "python", "python3", "python3.11", "tidemark")


@dataclass(frozen=True)
class Side:
    """A deployment that computes.

    Attributes:
        name: of its column.
        lake: its tables.
        settings: its variables.
    """

    name: str
    lake: Lake
    settings: Mapping[str, str]

    def tidemark(self, *arguments: str) -> tuple[float, float]:
        """Run the command to its end.

        Returns:
            Seconds on the clock, and of processor time.
        """
        before, started = _cpu(), time.monotonic()
        done = run(self.lake.home, arguments, 1800, **self.settings)
        if done.returncode:
            raise SystemExit(f"{self.name}: {arguments} ended so: {done.stderr[-800:]}")
        return time.monotonic() - started, _cpu() - before

    def rows(self) -> int:
        """How many rows of progress there are."""
        return sum(self.lake.rows_by_hour(progress.QUEUES).values())


def _cpu() -> float:
    """Processor time so far of Java and Python, of all that began after this program.

    By the time of their start, because engines, fork servers and executors descend from nobody who
    lives on. So nothing else should start meanwhile.
    """
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    total, since = spent.ru_utime + spent.ru_stime, psutil.Process().create_time()
    for process in psutil.process_iter(["name"]):
        with suppress(psutil.Error):
            if process.info["name"] in PROGRAMS and process.create_time() > since:
                times = process.cpu_times()
                total += times.user + times.system
    return total


@contextmanager
def _clustered(folder: Path) -> Iterator[Side]:
    with ExitStack() as stack:
        uri = stack.enter_context(postgresql(folder / "postgresql"))
        bucket = stack.enter_context(object_store(folder / "store"))
        cluster = stack.enter_context(standalone(folder / "spark", bucket.credentials))
        os.environ.update(bucket.credentials)  # PyIceberg reads them there
        home = Home.of(folder / "clustered")
        home.make()
        catalog = catalog_in(uri, bucket)
        settings = variables_of(catalog, bucket) | {
            "TIDEMARK_SPARK_MASTER": cluster.master,
            "TIDEMARK_DRIVER_HOST": "127.0.0.1",
            "SPARK_CONF_DIR": str(executor_settings(folder / "conf")),
        }
        lake = Lake(home, CatalogConfig.of(home, catalog))
        side = Side("two workers", lake, settings)
        try:
            yield side
        finally:
            side.tidemark("engine", "down")


@contextmanager
def _local(folder: Path) -> Iterator[Side]:
    home = Home.of(folder / "local")
    home.make()
    side = Side("local engine", Lake(home), {})
    try:
        yield side
    finally:
        side.tidemark("engine", "down")


def main() -> None:
    """Tick in turns, print each step, and write the section of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=2970, help="64 group queues each")
    parser.add_argument("--ticks", type=int, default=3)
    options = parser.parse_args()
    start = floor_hour(datetime.now(UTC)) - 2 * HOUR
    past = Past(start=start, topics=options.groups, groups=options.groups)
    rows: list[list[str]] = []
    kinds: tuple[Callable[[Path], object], ...] = (_local, _clustered)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        sides = [stack.enter_context(kind(Path(name))) for kind in kinds]

        def step(what: str, *arguments: str) -> None:
            costs = [side.tidemark(*arguments) for side in sides]
            rows.append([what, *(f"{value:.1f}" for cost in costs for value in cost)])
            print_line(" | ".join(rows[-1]))

        step("engine up", "engine", "up")
        for minute in range(options.ticks):
            for side in sides:
                past.put(side.lake, minute, minute + 1)
            step(f"tick {minute + 1}", "tick", "--no-collect")
        counts = {side.rows() for side in sides}
        read = sum(sides[0].lake.rows_by_hour(raw.CONSUMER_OFFSETS).values()) // options.ticks
    if counts != {past.group_queues * options.ticks}:
        raise SystemExit(f"rows of progress differ: {counts}")
    head = ["", *(f"{side.name}, {unit}" for side in sides for unit in ("s", "CPU s"))]
    text = (
        f"## {past.group_queues:,} group queues on a Spark cluster\n\n"
        "Two workers with an executor of one core each, tables in PostgreSQL and an object store, "
        f"beside one local engine with tables in its home; in turns, all on {report.machine()}. "
        f"A window of {read:,} consumer offsets is cut into {partitions(read, SLOTS)} partitions "
        f"there. Both hold the same number of rows. Made by `python -m bench.standalone`.\n\n"
        f"{report.table(head, rows)}"
    )
    print_line(text)
    report.write_section("standalone", text)


if __name__ == "__main__":
    main()
