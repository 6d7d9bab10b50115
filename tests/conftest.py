"""What every test may ask for: one Spark session and one real cluster per run of the tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lab.cluster import LabCluster
from lab.layout import free_port_base
from lake.catalog import CatalogConfig, Lake
from lake.home import Home
from spark import engine
from spark.session import SparkResource, session_config

# The Sparks of the tests live for minutes: what the second compiler gains later never pays there.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs brokers comes last, and what shares the session's after what boots its own.

    Until a cluster is needed it takes no processor time from the tests before.
    """
    items.sort(
        key=lambda item: (
            item.get_closest_marker("cluster") is not None,
            "cluster" in getattr(item, "fixturenames", ()),
        )
    )


@pytest.fixture(scope="session")
def session_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The home whose catalog the session's Spark knows."""
    return Home.of(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def spark(session_home: Home) -> Iterator[SparkSession]:
    """An engine on the session's home, as ticks use it: it resolves a plan once, when it runs.

    A Spark of this process would resolve it anew at every step of building it, which took longer
    than all else in these tests.
    """
    catalog = CatalogConfig.of(session_home)
    started = engine.up(session_home, catalog)
    config = session_config(catalog, remote=started.remote)
    session = SparkResource(spark_config=config).session_for(snapshots=1)
    yield session
    session.stop()
    engine.down(session_home)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake of the test's own, without Spark."""
    return Lake(Home.of(tmp_path / "home"))


def boot(home: Path, version: str, workload: str | None = None) -> Iterator[LabCluster]:
    """A cluster of two masters for as long as the caller needs it."""
    cluster = LabCluster.up(home, version=version, port_base=free_port_base())
    try:
        if workload:
            cluster.start_workload(workload)
        yield cluster
    finally:
        cluster.down(graceful=False)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """RocketMQ 5.3.3 with two masters and every group of the workload."""
    yield from boot(tmp_path_factory.mktemp("lab"), "5.3.3", "all")
