"""Servers that the tests of deployments share: each is started once, and really."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.support.cluster_history import PAST, computed, put
from tests.support.homes import warmed
from tests.support.servers import Bucket, object_store, postgresql
from tests.support.spark_cluster import Standalone, standalone
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.settings.home import Home

START = floor_hour(datetime.now(UTC)) - 8 * HOUR
MINUTES = [minute for minute in PAST if not minute.corrupt]
HALVES = (MINUTES[:4], MINUTES[4:])
"""Snapshots that have landed before each of two ticks."""


@pytest.fixture(scope="session")
def database(tmp_path_factory) -> Iterator[str]:
    """The address of a PostgreSQL database, with its password."""
    with postgresql(tmp_path_factory.mktemp("postgresql") / "server") as uri:
        yield uri


@pytest.fixture(scope="session")
def store(tmp_path_factory) -> Iterator[Bucket]:
    """A bucket whose key is in the environment of these tests."""
    with (
        object_store(tmp_path_factory.mktemp("store")) as bucket,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in bucket.credentials.items():
            patch.setenv(name, value)
        yield bucket


@pytest.fixture(scope="session")
def cluster(tmp_path_factory, store) -> Iterator[Standalone]:
    """A Spark cluster of two workers, which share nothing but the bucket."""
    with standalone(tmp_path_factory.mktemp("spark") / "cluster", store.credentials) as made:
        yield made


@pytest.fixture(scope="session")
def embedded_rows(tmp_path_factory, spark_engine):
    """Rows by table that a home without servers computes from the same landing."""
    home = Home.of(tmp_path_factory.mktemp("embedded"))
    with warmed(home, spark_engine) as embedded:
        for minutes in HALVES:
            put(home, START, minutes)
            embedded.tick()
        rows = computed(embedded.lake)
    assert rows["progress.queues"]
    return rows
