"""A stopped run whose lease PostgreSQL has given to another one, as after a cut of the network."""

import pytest
from sqlalchemy import create_engine, text

from tests.support.servers import driver_uri, postgresql
from tests.support.stopped_runs import TABLE, refused, row, stopped
from tidemark.host.leases import RUN
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.settings.home import Home
from tidemark.settings.sections import CatalogSettings

pytestmark = [pytest.mark.slow, pytest.mark.deployment]


@pytest.mark.parametrize("writer", ["python", pytest.param("spark", marks=pytest.mark.spark)])
def test_the_catalog_takes_no_commit_of_a_run_without_the_lease(tmp_path, writer):
    with postgresql(tmp_path / "server") as uri:
        warehouse = (tmp_path / "warehouse").as_uri()
        home = Home.of(tmp_path / "home")
        lake = Lake(
            home, CatalogConfig.of(home, CatalogSettings(type="sql", uri=uri, warehouse=warehouse))
        )
        assert lake.catalog
        process = stopped(
            lake,
            writer,
            TIDEMARK_CATALOG_TYPE="sql",
            TIDEMARK_CATALOG_URI=uri,
            TIDEMARK_WAREHOUSE=warehouse,
        )
        assert lake.shared.leases.attempt(RUN) is None
        end_session_of_lease(uri)
        lake.held = lake.shared.leases.acquire(RUN, 30)
        with lake.held:
            lake.append(TABLE, [row(2)])
            assert "the lease 'run' was lost with the connection" in refused(process)
        assert [item["max_offset"] for item in lake.read(TABLE).to_pylist()] == [2]


def end_session_of_lease(uri):
    engine = create_engine(driver_uri(uri))
    with engine.connect() as connection:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        assert list(connection.execute(text(ended)).scalars()) == [True]
    engine.dispose()
