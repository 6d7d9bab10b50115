"""Fixtures of every test: one Spark session and one real cluster per run of the tests."""

import atexit
import gc
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas  # noqa: F401 - before a command in this process leaves it out; Spark needs it
import psutil
import pytest
from sqlalchemy import engine as databases
from sqlalchemy import event

from tidemark.settings.home import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark.session.engine import Engine
    from tests.support.homes import Warm
    from tidemark.lab.cluster import LabCluster
    from tidemark.lake.catalog import Lake

# Fixtures import their modules themselves. The process that only hands out tests then starts a
# second sooner, and every other process starts after it.

# The Sparks of the tests live for minutes: what the second compiler gains later never pays there.
# Without it Java reserves 48 MB for code, which Spark's generated code overflows: a fifth of all
# processor time then went into sweeping code out, and more into compiling it again. A tick
# leaves a GB of garbage: in a heap that starts small, collecting it took a sixteenth of the time.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=480m -XX:+UseSerialGC -Xmn768m",
)


@event.listens_for(databases.Engine, "connect")
def _without_waiting_for_the_disk(connection: Any, _: object) -> None:
    """Databases of tests need not survive a power cut: SQLite waits at every commit for that."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


ENGINE_HOME = "ENGINE_HOME_OF_TESTS"
"""Gives all processes of a test run the home of their one engine."""


SPENT_AT = "BUDGET_OF_TESTS_IS_SPENT_AT"
"""Gives all processes of a test run the instant, in seconds, at which its budget is spent."""

SHARES = {"brokers": 0.4, "runs": 0.4, "kills": 0.4, "cluster": 0.6, "spark": 0.75}
"""The part of a budget of time after which no further test of a group starts, so that the groups
that start first leave some of it to the others."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option of machines that must end a run in time, however slow they are."""
    parser.addoption(
        "--minutes",
        type=float,
        help="skip tests that would start later than this many minutes from now",
    )


LONGEST_SECONDS = 1800
"""A test that takes longer, with its fixtures, hangs: it fails, and the others go on. No test waits
longer for a process of its own."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Raises in a test that hangs."""

    def hangs(*_: object) -> None:
        raise TimeoutError(f"the test has not ended after {LONGEST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(LONGEST_SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(tryfirst=True)  # before fixtures are made
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test when its group's share of the budget of time is spent."""
    budget = item.config.getoption("minutes")
    if budget is not None:
        left = (1 - SHARES.get(_group(item), 1.0)) * budget * 60
        if time.time() > float(os.environ[SPENT_AT]) - left:
            pytest.skip(f"the time for such tests is spent, of {budget:g} minutes")


def pytest_configure(config: pytest.Config) -> None:
    """Makes a place for the engine, before other processes inherit the environment."""
    # A process that a shell starts in the background ignores SIGINT, and one under nohup SIGHUP.
    # Dagster's code then ignores SIGTERM too, as would all processes of the tests: some would wait
    # minutes for their end, others for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if not hasattr(config, "workerinput"):
        os.environ[ENGINE_HOME] = tempfile.mkdtemp(prefix="tidemark-engine-")
        os.environ[SPENT_AT] = str(time.time() + (config.getoption("minutes") or 0) * 60)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the engine when the last process that may have used it has ended."""
    # pytest collects garbage five times after this, to find errors that nobody raised: 3 s of each
    # process, if it visits what modules imported. Unfrozen it ends, or DuckDB reports leaks.
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)
    if not hasattr(config, "workerinput"):
        if any(Path(os.environ[ENGINE_HOME]).iterdir()):
            from spark.session import engine

            engine.down(Home.of(os.environ[ENGINE_HOME]))
        shutil.rmtree(os.environ[ENGINE_HOME], ignore_errors=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out a file whose own mark deselects all of its tests.

    What these files import, and their assertions that are rewritten, took every process of ``make
    unit`` seconds.
    """
    chosen = config.getoption("markexpr")
    if collection_path.suffix != ".py" or not re.fullmatch(r"not \w+( and not \w+)*", chosen):
        return None
    whole = re.search(r"^pytestmark = (\[.*?\]|.*?)$", collection_path.read_text(), re.M | re.S)
    marks = set(re.findall(r"pytest\.mark\.(\w+)", whole[1])) if whole else set()
    return bool(marks & set(re.findall(r"not (\w+)", chosen))) or None


def pytest_collection_finish() -> None:
    """Lets the garbage collector visit what tests make, not what their modules imported.

    Each full collection visited 300,000 imported objects that stay; together they took a tenth of
    all processor time of ``make unit``. By default a collection is due after 700 new objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that share something costly follow each other in one process.

    ``make test`` runs three processes: tests of clusters mostly wait, and Spark computes meanwhile.
    There the longest groups start first; in a single process clusters come last, so that they take
    no processor time from the other tests. What shares the session's cluster follows what boots
    its own, and what breaks a broker of it comes last: clients need minutes to recover.
    """
    first = -1 if hasattr(config, "workerinput") else 1
    for item in items:
        group = _group(item)
        if group:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(
        key=lambda item: (
            first * GROUPS.index(_group(item)),
            "cluster" in getattr(item, "fixturenames", ()),
            item.get_closest_marker("faults") is not None,
        )
    )


GROUPS = ("", "spark", "cluster", "kills", "deployment", "runs", "brokers")
"""From the shortest to the longest: those that share nothing, Spark frames, the cluster of the
session, killed runs, servers of a deployment, whole runs, brokers of their own."""


def _group(item: pytest.Item) -> str:
    if item.get_closest_marker("cluster"):
        return "cluster" if "cluster" in getattr(item, "fixturenames", ()) else "brokers"
    if item.get_closest_marker("deployment"):
        return "deployment"
    if item.get_closest_marker("kills"):
        return "kills"
    if item.get_closest_marker("spark"):
        return "spark" if "spark" in getattr(item, "fixturenames", ()) else "runs"
    return ""


@pytest.fixture(scope="session")
def spark_engine() -> "Engine":
    """The one engine of all test processes, started by whoever needs it first.

    An engine gets its speed from what it did before, whoever needed it: to the tests of one
    process that of others is as good.
    """
    from spark.session import engine
    from tidemark.lake.catalog_config import CatalogConfig
    from tidemark.settings.sections import SparkSettings

    home = Home.of(os.environ[ENGINE_HOME])
    # For three homes at once; with the default of one, it sweeps its memory every minute.
    return engine.up(home, CatalogConfig.of(home), SparkSettings(driver_memory="4g"))


@pytest.fixture(scope="session")
def warm_home(tmp_path_factory: pytest.TempPathFactory, spark_engine: "Engine") -> "Iterator[Warm]":
    """A home with a warm engine, shared: tests keep apart by cluster and hour."""
    from tests.support.homes import warmed

    with warmed(Home.of(tmp_path_factory.mktemp("warm")), spark_engine) as made:
        yield made


@pytest.fixture(scope="session")
def session_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The home whose catalog the session's Spark knows."""
    return Home.of(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def spark(spark_engine: "Engine", session_home: Home) -> "Iterator[SparkSession]":
    """A session on the engine, as ticks use it: it resolves a plan once, when it runs.

    A Spark of this process would resolve it again at every step of building it, which took longer
    than all else in these tests.
    """
    from spark.session.configuration import SparkResource, session_config
    from tidemark.lake.catalog_config import CatalogConfig

    spark_engine.admit()
    config = session_config(CatalogConfig.of(session_home), remote=spark_engine.remote)
    session = SparkResource(spark_config=config).session_for(rows=1)
    yield session
    session.stop()


@pytest.fixture
def child_of_another() -> Iterator[psutil.Process]:
    """A process whose parent is another one, which is busy: ended, it stays behind as a zombie."""
    text = "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{text}; time.sleep(60)"], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        try:
            yield psutil.Process(int(parent.stdout.readline()))
        finally:
            parent.kill()


@pytest.fixture(scope="session")
def empty_lake(tmp_path_factory: pytest.TempPathFactory) -> "Lake":
    """A lake with all its tables and no rows, for copies alone."""
    from tidemark.lake.catalog import Lake

    made = Lake(Home.of(tmp_path_factory.mktemp("empty") / "home"))
    made.catalog  # noqa: B018  makes the tables
    return made


@pytest.fixture
def lake(tmp_path: Path, empty_lake: "Lake") -> "Lake":
    """An empty lake of the test's own, without Spark."""
    from tests.support.lake_copies import copied

    return copied(empty_lake, Home.of(tmp_path / "home"))


def boot(home: Path, version: str, workload: str | None = None) -> "Iterator[LabCluster]":
    """A cluster of two masters for as long as the caller needs it."""
    from tidemark.lab.cluster import LabCluster
    from tidemark.lab.layout import free_port_base

    cluster = LabCluster.up(home, version=version, port_base=free_port_base())
    try:
        if workload:
            cluster.start_workload(workload)
        yield cluster
    finally:
        cluster.down(graceful=False)


RUNNING: "list[LabCluster]" = []
"""The cluster of the session while it runs."""


@pytest.hookimpl(trylast=True)  # after what else the test and its module have to clear up
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stops the session's cluster after its last test: it would work on beside all others."""
    if RUNNING and _group(item) == "cluster" and not (nextitem and _group(nextitem) == "cluster"):
        RUNNING.pop().down(graceful=False)


def chosen_version() -> str:
    """The RocketMQ that clusters of the tests are of."""
    return os.environ.get("TIDEMARK_TEST_VERSION", "5.3.3")


def pull_source_of(version: str) -> str:
    """Where brokers of a version report how far they handed out messages to groups that pull."""
    return "consumer_offset_table" if version == "5.5.0" else "consume_stats"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[LabCluster]":
    """Two masters and every group of the workload, on RocketMQ 5.3.3.

    ``TIDEMARK_TEST_VERSION=4.9.7 make test ARGS="-m cluster"`` holds another version to the same.
    """
    for booted in boot(tmp_path_factory.mktemp("lab"), chosen_version(), "all"):
        RUNNING.append(booted)
        yield booted
