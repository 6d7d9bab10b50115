"""PostgreSQL, a bucket and a Spark cluster in place of the home: the same rows."""

import os
from dataclasses import dataclass, replace

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from tests.deployment.conftest import HALVES, START
from tests.support.cluster_history import computed, put
from tests.support.deployments import catalog_in, variables_of
from tests.support.homes import declare_objectives, run
from tests.support.servers import PASSWORD, Bucket, create_database, driver_uri
from tests.support.spark_cluster import Standalone, executor_settings
from tidemark.cli.checks import check_catalog
from tidemark.host.failures import DamagedError
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.clocks import HOUR
from tidemark.settings.home import Home

pytestmark = [pytest.mark.spark, pytest.mark.deployment]


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A home whose tables and landing lie on servers, with an engine whose executors do too.

    Attributes:
        environment: the variables that configure it.
        bucket: where the files of the tables are.
    """

    home: Home
    lake: Lake
    environment: dict[str, str]
    bucket: Bucket

    def run(self, *arguments: str):
        return run(self.home, arguments, 900, **self.environment)


@pytest.fixture(scope="module")
def lake(tmp_path_factory, database: str, store: Bucket) -> Lake:
    """Tables in PostgreSQL whose files, as the landing, are in a bucket."""
    home = Home.of(tmp_path_factory.mktemp("deployment") / "home")
    home.path.mkdir()
    declare_objectives(home.path)
    return Lake(home, CatalogConfig.of(home, catalog_in(database, store, "backends/")))


@pytest.fixture(scope="module")
def deployment(lake: Lake, database: str, store: Bucket, cluster: Standalone):
    environment = variables_of(catalog_in(database, store, "backends/"), store) | {
        "TIDEMARK_SPARK_MASTER": cluster.master,
        "TIDEMARK_DRIVER_HOST": "127.0.0.1",
        "SPARK_CONF_DIR": str(executor_settings(lake.home.path.parent / "conf")),
    }
    made = Deployment(home=lake.home, lake=lake, environment=environment, bucket=store)
    try:
        yield made
    finally:
        made.run("engine", "down")


@pytest.fixture(scope="module")
def ticked(deployment):
    """The deployment after two ticks on the engine of its own."""
    up = deployment.run("engine", "up")
    assert up.returncode == 0, up.stderr
    for minutes in HALVES:
        put(deployment.lake.landing, START, minutes)
        done = deployment.run("tick", "--no-collect")
        assert done.returncode == 0, done.stderr
    return deployment


def test_rows_are_those_of_a_home_without_servers(ticked, embedded_rows):
    mapping = computed(ticked.lake)
    assert mapping.keys() == embedded_rows.keys()
    for table, rows in embedded_rows.items():
        assert mapping[table] == rows, table


def test_no_file_of_a_table_or_a_snapshot_lies_in_the_home(ticked):
    assert not ticked.home.catalog.exists()
    assert not ticked.home.warehouse.exists()
    assert not ticked.home.landing.exists()
    assert any(ticked.bucket.folder.rglob("*.parquet"))


def test_every_worker_computed(ticked, cluster):
    assert cluster.tasks("tidemark-engine").keys() == {"worker-0", "worker-1"}
    assert min(cluster.tasks("tidemark-engine").values()) > 0


def test_a_backfill_gives_the_same_rows(ticked):
    before = computed(ticked.lake)
    done = ticked.run("recompute", "--from", START.isoformat(), "--to", (START + HOUR).isoformat())
    assert done.returncode == 0, done.stderr
    assert computed(ticked.lake) == before


def test_secrets_are_written_to_the_password_file_only(ticked):
    secrets = (
        PASSWORD.encode(),
        b"p%3Ass%5Cword",
        ticked.bucket.credentials["AWS_SECRET_ACCESS_KEY"].encode(),
    )
    files = [path for path in ticked.home.path.rglob("*") if path.is_file()]
    assert len(files) > 20
    for path in files:
        content = path.read_bytes()
        assert not any(secret in content for secret in secrets), path
    for name in ("pgpass", "engine.json"):
        assert oct((ticked.home.engine / name).stat().st_mode)[-3:] == "600"


def test_a_password_file_of_the_operator_serves(lake, tmp_path, monkeypatch):
    config, url = lake.config, make_url(lake.config.python["uri"])
    file = tmp_path / "pgpass"
    file.touch(mode=0o600)
    file.write_text(f"{config.password}\n")
    monkeypatch.setenv("PGPASSFILE", str(file))
    bare = f"{url.drivername}://{url.username}@{url.host}:{url.port}/{url.database}"
    python = {**config.python, "uri": bare}
    assert Lake(lake.home, replace(config, python=python)).catalog.list_namespaces()


WRONG_DATABASES = {
    "password": ("nobody", "password authentication failed"),
    "host": (None, "refused"),
}


@pytest.mark.parametrize("what", WRONG_DATABASES)
def test_a_database_that_refuses_is_one_line(lake, what):
    password, reason = WRONG_DATABASES[what]
    url = make_url(lake.config.python["uri"])
    wrong = url.set(password=password) if password else url.set(port=1)
    python = {**lake.config.python, "uri": wrong.render_as_string(hide_password=False)}
    refusing = Lake(lake.home, replace(lake.config, python=python))
    with pytest.raises(DamagedError, match=f"{reason}.*mend TIDEMARK_CATALOG_URI") as refused:
        _ = refusing.catalog
    assert "nobody" not in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"warehouse": "s3://nowhere/x"}, "create the bucket"),
        ({"s3.endpoint": "http://127.0.0.1:1"}, "check the object store"),
    ],
)
def test_a_warehouse_that_refuses_is_one_line(lake, database, wrong, advice):
    uri = driver_uri(create_database(database, advice)).render_as_string(hide_password=False)
    python = {**lake.config.python, "uri": uri, **wrong}
    refusing = Lake(lake.home, replace(lake.config, python=python))
    with pytest.raises(DamagedError, match=advice):
        check_catalog(refusing)


def test_a_key_that_may_not_delete_is_one_line(lake, monkeypatch):
    def refuse(*_):
        raise OSError("AWS Error ACCESS_DENIED during DeleteObject operation: Access Denied")

    monkeypatch.setattr(PyArrowFileIO, "delete", refuse)
    with pytest.raises(DamagedError, match=r"ACCESS_DENIED.*; check the object store"):
        check_catalog(lake)


@pytest.mark.parametrize("denied", ["default_transaction_read_only%3Don", "role%3Dnobody"])
def test_a_database_that_denies_is_named(lake, database, denied):
    """A standby, a user without rights."""
    with create_engine(driver_uri(database)).begin() as connection:
        connection.execute(text("drop role if exists nobody"))
        connection.execute(text("create role nobody"))
    uri = f"{driver_uri(database).render_as_string(hide_password=False)}?options=-c{denied}"
    denying = Lake(lake.home, replace(lake.config, python={**lake.config.python, "uri": uri}))
    with pytest.raises(DamagedError, match=r"check PostgreSQL|mend TIDEMARK_CATALOG_URI"):
        check_catalog(denying)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (
            {"TIDEMARK_CATALOG_TYPE": "glue"},
            "TIDEMARK_CATALOG_TYPE is 'glue': it takes sql or rest",
        ),
        ({"TIDEMARK_SPARK_JARS": "/nowhere"}, "TIDEMARK_SPARK_JARS: /nowhere/iceberg-spark"),
    ],
)
def test_a_wrong_setting_is_one_line(deployment, tmp_path, wrong, line):
    home = Home.of(tmp_path / "home")
    home.path.mkdir()
    done = run(home, ["engine", "up"], 300, **deployment.environment | wrong)
    assert done.returncode == 1
    assert line in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and PASSWORD not in done.stderr
    assert "marked-lake-secret" not in done.stderr + done.stdout
    assert os.linesep not in done.stderr.strip()
