"""A PostgreSQL that takes TLS only, with a certificate of an authority of its own."""

from pathlib import Path

import pytest

from tests.deployment.conftest import MINUTES, START
from tests.support.cluster_history import computed, put
from tests.support.homes import run
from tests.support.servers import postgresql_server
from tidemark.host.leases import RUN
from tidemark.lab.config import write_certificates
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.settings.home import Home
from tidemark.settings.sections import CatalogSettings

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


def variables(uri: str, folder: Path) -> dict[str, str]:
    """The environment of a command whose tables are in that database."""
    return {
        "TIDEMARK_CATALOG_TYPE": "sql",
        "TIDEMARK_CATALOG_URI": uri,
        "TIDEMARK_WAREHOUSE": f"file://{folder / 'warehouse'}",
    }


def test_python_spark_and_leases_verify_the_server(database, certificates, tmp_path):
    home = Home.of(tmp_path / "home")
    home.make()
    uri = f"{database}?sslmode=verify-full&sslrootcert={certificates / 'ca.pem'}"
    put(home, START, MINUTES[:2])
    done = run(home, ("tick", "--no-collect"), 600, **variables(uri, tmp_path))
    assert done.returncode == 0, done.stderr
    catalog = CatalogSettings(type="sql", uri=uri, warehouse=f"file://{tmp_path / 'warehouse'}")
    lake = Lake(home, CatalogConfig.of(home, catalog))
    assert computed(lake)["progress.queues"]
    with lake.shared.leases.acquire(RUN, 10):
        assert not list(home.path.glob("*.lock")), "leases are those of the database"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("sslmode=verify-full&sslrootcert={others}/ca.pem", "SSL error"),
        ("sslmode=disable", "no encryption"),
    ],
    ids=["another authority", "no TLS"],
)
def test_what_is_refused_is_one_line(database, tmp_path, options, reason):
    write_certificates(tmp_path / "others")
    uri = f"{database}?{options.format(others=tmp_path / 'others')}"
    home = Home.of(tmp_path / "home")
    done = run(home, ("show", "raw.snapshots"), 60, **variables(uri, tmp_path))
    assert done.returncode == 1 and reason in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and "Traceback" not in done.stderr
