"""Processes that start together on an empty database: one makes the tables, all use them."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from tests.support.servers import postgresql
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.tables import TABLES
from tidemark.settings.home import Home
from tidemark.settings.sections import CatalogSettings

pytestmark = pytest.mark.slow

STARTS = 6


@pytest.fixture
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("starts")
    with postgresql(folder / "server") as uri:
        yield CatalogSettings(type="sql", uri=uri, warehouse=(folder / "warehouse").as_uri())


def test_processes_that_start_together_find_all_tables(settings, tmp_path):
    together = Barrier(STARTS)

    def start(number: int) -> int:
        home = Home.of(tmp_path / str(number))
        lake = Lake(home, CatalogConfig.of(home, settings))
        together.wait()
        return sum(lake.catalog.table_exists(name) for name in TABLES)

    with ThreadPoolExecutor(STARTS) as pool:
        assert [*pool.map(start, range(STARTS))] == [len(TABLES)] * STARTS
