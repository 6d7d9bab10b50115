"""A PostgreSQL that takes TLS only, with a certificate of an authority of its own."""

from pathlib import Path

import pytest

from lab.security import write_certificates
from lake.catalog import Lake
from lake.catalog_config import CatalogConfig
from lake.leases import RUN
from settings.catalog import CatalogSettings
from settings.home import Home
from tests.deployment.conftest import MINUTES, START
from tests.support.cluster_history import computed, put
from tests.support.homes import run
from tests.support.servers import postgresql_server

pytestmark = [pytest.mark.spark, pytest.mark.deployment]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    write_certificates(folder)
    return folder


@pytest.fixture(scope="module")
def database(tmp_path_factory, certificates):
    with postgresql_server(tmp_path_factory.mktemp("postgresql"), certificates) as (uri, _):
        yield uri


def verified(database: str, authority: Path) -> str:
    return f"{database}?sslmode=verify-full&sslrootcert={authority}"


def catalog_at(uri: str, folder: Path) -> CatalogSettings:
    return CatalogSettings("sql", uri, f"file://{folder / 'warehouse'}")


def test_python_spark_and_leases_verify_the_server(database, certificates, tmp_path):
    home = Home.of(tmp_path / "home")
    home.make()
    catalog = catalog_at(verified(database, certificates / "ca.pem"), tmp_path)
    lake = Lake(home, CatalogConfig.of(home, catalog))
    put(home, START, MINUTES[:2])
    done = run(
        home,
        ("tick", "--no-collect"),
        600,
        TIDEMARK_CATALOG_TYPE=catalog.type,
        TIDEMARK_CATALOG_URI=catalog.uri,
        TIDEMARK_WAREHOUSE=catalog.warehouse,
    )
    assert done.returncode == 0, done.stderr
    assert computed(lake)["progress.queues"]
    with lake.shared.leases.acquire(RUN, 10):
        assert not list(home.path.glob("*.lock")), "leases are those of the database"


def test_a_server_of_another_authority_is_refused_in_one_line(database, tmp_path):
    write_certificates(tmp_path / "others")
    uri = verified(database, tmp_path / "others" / "ca.pem")
    done = run(
        Home.of(tmp_path / "home"),
        ("show", "raw.snapshots"),
        60,
        TIDEMARK_CATALOG_TYPE="sql",
        TIDEMARK_CATALOG_URI=uri,
        TIDEMARK_WAREHOUSE=f"file://{tmp_path / 'warehouse'}",
    )
    assert done.returncode == 1 and "SSL error" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and "Traceback" not in done.stderr


def test_a_connection_without_tls_is_refused_in_one_line(database, tmp_path):
    done = run(
        Home.of(tmp_path / "home"),
        ("show", "raw.snapshots"),
        60,
        TIDEMARK_CATALOG_TYPE="sql",
        TIDEMARK_CATALOG_URI=f"{database}?sslmode=disable",
        TIDEMARK_WAREHOUSE=f"file://{tmp_path / 'warehouse'}",
    )
    assert done.returncode == 1 and "no encryption" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and "Traceback" not in done.stderr
