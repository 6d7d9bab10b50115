"""Parts of a deployment fail while it collects and ticks: no row is lost or doubled.

The parts are really started, each with a home or a folder of its own: a collector, ticks,
PostgreSQL, a bucket, a Connect server on a standalone Spark. Whatever fails, at most three ticks
compute all that has landed. The last test compares every row with those of a home without servers.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from bench import standin
from spark.session.configuration import password_file
from spark.session.packages import packages_of
from tests.support.cluster_history import COMPUTED, rows
from tests.support.deployments import catalog_in, variables_of
from tests.support.homes import TIDEMARK, declare_objectives, environment, run, warmed
from tests.support.jars import jars
from tests.support.servers import Server, free_port, object_store_server, postgresql_server
from tests.support.spark_cluster import connect_server
from tidemark.lab.large import Large
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.landing import landed
from tidemark.lake.tables.progress import SNAPSHOTS
from tidemark.settings.home import Home

pytestmark = [pytest.mark.spark, pytest.mark.deployment]

TOKEN = "token-of-the-faults"
EVERY = 5.0
LARGE = Large(topics=2, queues=2, groups=2, topics_per_group=2)
REFUSES_SECONDS = float(os.environ.get("REFUSES_SECONDS", "20"))
"""How long the bucket refuses."""

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


@dataclass(kw_only=True)
class Deployment:
    """The parts.

    Attributes:
        folder: with the homes and the logs.
        settings: the variables of all hosts.
        lake: reads the tables.
        bucket_folder: where the object store has the landing.
        collecting: the collector that runs.
    """

    folder: Path
    settings: dict[str, str]
    lake: Lake
    bucket_folder: Path
    database: Server
    store: Server
    connect: "Connect"
    collecting: subprocess.Popen[bytes] | None = None
    logs: list[Path] = field(default_factory=list)

    def home(self, name: str) -> Home:
        home = Home.of(self.folder / name)
        home.make()
        return home

    def collect(self, name: str = "collector", **other: str) -> None:
        """Start a collector on a host, after the one that runs has ended."""
        self.end_collector()
        self.logs.append(self.folder / f"{len(self.logs)}-{name}.log")
        with self.logs[-1].open("wb") as log:
            self.collecting = subprocess.Popen(
                [str(TIDEMARK), "collect", "--every", f"{EVERY:g}s"],
                env=environment(self.home(name), **self.settings | other),
                stdout=log,
                stderr=log,
            )

    def end_collector(self, number: int = signal.SIGTERM) -> None:
        if self.collecting:
            self.collecting.send_signal(number)
            self.collecting.wait(60)
            self.collecting = None

    def warnings(self) -> list[str]:
        """Lines of the newest collector's output, without those about snapshots."""
        lines = self.logs[-1].read_text().splitlines()
        return [line for line in lines if " COMPLETE " not in line and ": left out " not in line]

    def tick(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(TIDEMARK), "tick", "--no-collect"],
            env=environment(self.home("ticks"), **self.settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def landed(self) -> list[str]:
        return [item.snapshot_id for item in sorted(landed(self.lake.landing))]

    def until_landed(self, more: int) -> None:
        wanted, deadline = len(self.landed()) + more, time.monotonic() + 400
        while len(self.landed()) < wanted:
            assert time.monotonic() < deadline, self.logs[-1].read_text()
            time.sleep(0.5)

    def recovers(self, ticks: int = 3) -> None:
        """At most so many ticks compute once each snapshot that has landed."""
        self.until_landed(1)
        before, printed = self.landed(), []
        for _ in range(ticks):
            done = run(self.home("ticks"), ["tick", "--no-collect"], **self.settings)
            printed.append(done.stderr)
            if not done.returncode:
                counts = Counter(row["snapshot_id"] for row in rows_of(self.lake)[SNAPSHOTS.name])
                if counts.keys() >= set(before):
                    assert set(counts.values()) == {1}
                    return
        raise AssertionError("\n".join(printed))


class Connect:
    """A Connect server that is started again as a platform does."""

    def __init__(self, folder: Path, properties: dict[str, str], needed: dict[str, str]) -> None:
        self._folder, self._properties, self._needed = folder, properties, needed
        self._port, self._stack, self._starts = free_port(), ExitStack(), 0
        self.remote = f"sc://localhost:{self._port}"

    def start(self) -> None:
        self._starts += 1
        server = connect_server(
            self._folder / str(self._starts), self._properties, self._needed, TOKEN, self._port
        )
        self._stack.enter_context(server)

    def kill(self) -> None:
        """Kill the server, and its driver with it."""
        for process in self._processes(str(self._folder)):
            process.kill()

    def kill_executor(self) -> None:
        # Servers of other modules have ended, and their executors with them.
        process, *_ = self._processes("CoarseGrainedExecutorBackend")
        process.kill()

    def end(self) -> None:
        self._stack.close()

    def _processes(self, name: str) -> list[psutil.Process]:
        """Return the processes whose command line contains the name."""
        processes = []
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # one that has ended has no command line
                if name in " ".join(process.cmdline()):
                    processes.append(process)
        return processes


def rows_of(lake: Lake) -> dict[str, list[dict]]:
    tables = [table for table in (*COMPUTED, SNAPSHOTS) if "cluster" in table.column_names]
    return {table.name: rows(lake, table.name, cluster="lab") for table in tables}


@pytest.fixture(scope="module")
def parts(tmp_path_factory, cluster) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("faults")
    with (
        postgresql_server(folder / "postgresql") as (uri, database),
        object_store_server(folder / "store") as (bucket, store),
        standin.serve(LARGE, brokers=2) as namesrv,
    ):
        clusters = folder / "clusters.yaml"
        clusters.write_text(f"clusters:\n- {{name: lab, namesrv: '{namesrv}', deep_every: off}}\n")
        catalog = catalog_in(uri, bucket)
        settings = variables_of(catalog, bucket) | {
            "TIDEMARK_CLUSTERS": str(clusters),
            "TIDEMARK_OBJECTIVES": str(declare_objectives(folder)),
            "PYTHONUNBUFFERED": "1",
        }
        home = Home.of(folder / "server")
        config = CatalogConfig.of(home, catalog)
        lake = Lake(Home.of(folder / "reader"), config)
        connect = connect_of(folder, settings, cluster.master, password_file(home, config))
        settings |= {
            "TIDEMARK_SPARK_REMOTE": connect.remote,
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": TOKEN,
        }
        made = Deployment(
            folder=folder,
            settings=settings,
            lake=lake,
            bucket_folder=bucket.folder / "landing",
            database=database,
            store=store,
            connect=connect,
        )
        try:
            assert lake.catalog
            connect.start()
            made.collect()
            made.recovers()
            yield made
        finally:
            made.end_collector(signal.SIGKILL)
            connect.end()


def connect_of(folder: Path, settings: dict[str, str], master: str, password: dict) -> Connect:
    printed = run(
        Home.of(folder / "server"),
        ["engine", "properties"],
        **settings,
        TIDEMARK_SPARK_MASTER=master,
        TIDEMARK_DRIVER_HOST="127.0.0.1",
        TIDEMARK_DRIVER_MEMORY="1g",
        TIDEMARK_SPARK_JARS=str(
            jars("spark-s3-postgresql-1.12.0", *packages_of(["s3", "postgresql"]))
        ),
    )
    assert printed.returncode == 0, printed.stderr
    properties = dict(line.split(" ", 1) for line in printed.stdout.splitlines())
    keys = {name: value for name, value in settings.items() if name.startswith("AWS_")}
    needed = keys | password | {"PYSPARK_PYTHON": sys.executable}
    return Connect(folder / "connect", properties, needed)


def failed_in_one_line(done: subprocess.Popen[str]) -> str:
    """The line of a tick that a fault ended; '' where it went through."""
    output, line = done.communicate(timeout=400)
    assert "Traceback" not in output + line, line
    if not done.returncode:
        return ""
    assert len(line.strip().splitlines()) == 1, line
    return line


def test_postgresql_is_restarted_in_a_tick(parts):
    tick = parts.tick()
    time.sleep(6)
    parts.database.stop()
    without = parts.tick()
    parts.until_landed(2)
    assert "PostgreSQL at 127.0.0.1" in failed_in_one_line(without)
    parts.database.start()
    line = failed_in_one_line(tick)
    parts.recovers()
    assert not line or "PostgreSQL" in line, line
    assert len(parts.warnings()) <= 1, parts.warnings()


def test_the_bucket_refuses_for_a_while(parts):
    started = time.monotonic()
    parts.store.stop()
    assert "check the object store" in failed_in_one_line(parts.tick())
    time.sleep(max(0, REFUSES_SECONDS - (time.monotonic() - started)))
    parts.store.start()
    parts.recovers()
    refused, *landed_again = [line for line in parts.warnings() if "landed" in line]
    assert "could not be landed in s3://lake/landing" in refused
    # Many land in several intervals, a line each.
    assert landed_again
    assert all("snapshots that waited have landed" in line for line in landed_again)
    items = sorted(item.observed_at for item in landed(parts.lake.landing))
    gaps = [(after - before).total_seconds() for before, after in pairwise(items)]
    # A refused request takes two seconds, and a busy machine may wake the collector late.
    assert max(gaps) < 3 * EVERY, gaps


def test_an_executor_is_killed_in_a_tick(parts):
    tick = parts.tick()
    time.sleep(6)
    parts.connect.kill_executor()
    failed_in_one_line(tick)
    parts.recovers()


def test_the_connect_server_is_killed_in_a_tick(parts):
    tick = parts.tick()
    time.sleep(6)
    parts.connect.kill()
    tick.wait(400)
    parts.connect.start()
    line = failed_in_one_line(tick)
    parts.recovers()
    port = parts.connect.remote.rpartition(":")[2]
    assert not line or ("Spark Connect server" in line and port in line), line


def test_another_host_goes_on_when_the_collecting_one_is_killed(parts):
    parts.end_collector(signal.SIGKILL)
    parts.collect("another")
    parts.recovers()
    assert parts.warnings() == []


@pytest.mark.skipif(not FAKETIME.exists(), reason="no faketime here: apt-get install libfaketime")
def test_the_clock_of_the_collecting_host_is_off(parts):
    """Almost two minutes ahead, then right: its snapshots lie after those that follow.

    They wait until their time has come.
    """
    parts.collect(
        "ahead", LD_PRELOAD=str(FAKETIME), FAKETIME="+110s", FAKETIME_DONT_FAKE_MONOTONIC="1"
    )
    parts.recovers(ticks=30)
    (line,) = parts.warnings()
    assert "lab: the clock of this host is 2 min ahead of those of all brokers (2)" in line
    parts.collect()
    # The last ones ahead are almost two minutes away; fast ticks are many until then.
    parts.recovers(ticks=30)
    assert parts.warnings() == []


def test_rows_are_those_of_a_home_without_faults(parts, spark_engine, tmp_path):
    parts.end_collector()
    done = run(parts.home("ticks"), ["tick", "--no-collect"], **parts.settings)
    assert done.returncode == 0, done.stderr
    mapping = rows_of(parts.lake)
    home = Home.of(tmp_path / "home")
    shutil.copytree(parts.bucket_folder, home.landing)
    with warmed(home, spark_engine) as embedded:
        embedded.tick()
        expected = rows_of(embedded.lake)
    assert len(expected[SNAPSHOTS.name]) == len(parts.landed()) > 10
    for table, of_table in expected.items():
        assert mapping[table] == of_table, table
