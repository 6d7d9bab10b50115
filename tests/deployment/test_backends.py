"""PostgreSQL and an object store in place of the home: the same rows from the same landings."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from lake.catalog import Lake
from lake.catalog_config import CatalogConfig
from lake.window import HOUR, floor_hour
from settings.catalog import CatalogSettings, ObjectStore
from settings.home import Home
from tests.support.cluster_history import PAST, computed, put
from tests.support.homes import run, warmed
from tests.support.servers import PASSWORD, Bucket, object_store, postgresql

pytestmark = [pytest.mark.spark, pytest.mark.kills]

START = floor_hour(datetime.now(UTC)) - 8 * HOUR
MINUTES = [minute for minute in PAST if not minute.corrupt]


@dataclass(frozen=True)
class Deployment:
    """A home whose tables lie on servers.

    Attributes:
        environment: the variables that say so.
        bucket: where the files of the tables are.
    """

    home: Home
    lake: Lake
    environment: dict[str, str]
    bucket: Bucket

    def run(self, *arguments: str):
        return run(self.home, arguments, 600, **self.environment)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deployment")
    home = Home.of(folder / "home")
    with (
        postgresql(folder / "postgresql") as uri,
        object_store(folder / "store") as bucket,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in bucket.credentials.items():
            patch.setenv(name, value)
        settings = CatalogSettings(
            "sql", uri, "s3://lake/warehouse", ObjectStore(bucket.endpoint, path_style=True)
        )
        environment = bucket.credentials | {
            "TIDEMARK_CATALOG_TYPE": "sql",
            "TIDEMARK_CATALOG_URI": uri,
            "TIDEMARK_WAREHOUSE": settings.warehouse,
            "TIDEMARK_S3_ENDPOINT": bucket.endpoint,
            "TIDEMARK_S3_PATH_STYLE": "on",
        }
        home.path.mkdir()
        lake = Lake(home, CatalogConfig.of(home, settings))
        made = Deployment(home, lake, environment, bucket)
        try:
            yield made
        finally:
            made.run("engine", "down")


@pytest.fixture(scope="module")
def ticked(deployment):
    """The deployment after two ticks on the engine of its own."""
    up = deployment.run("engine", "up")
    assert up.returncode == 0, up.stderr
    for minutes in (MINUTES[:4], MINUTES[4:]):
        put(deployment.home, START, minutes)
        done = deployment.run("tick", "--no-collect")
        assert done.returncode == 0, done.stderr
    return deployment


def test_rows_are_those_of_a_home_without_servers(ticked, tmp_path, spark_engine):
    home = Home.of(tmp_path / "embedded")
    home.path.mkdir()
    with warmed(home, spark_engine) as embedded:
        for minutes in (MINUTES[:4], MINUTES[4:]):
            put(home, START, minutes)
            embedded.tick()
        expected = computed(embedded.lake)
    found = computed(ticked.lake)
    assert found.keys() == expected.keys()
    for table, rows in expected.items():
        assert found[table] == rows, table
    assert expected["progress.queues"]


def test_no_file_of_a_table_lies_in_the_home(ticked):
    assert not ticked.home.catalog.exists()
    assert not ticked.home.warehouse.exists()
    assert any(ticked.bucket.folder.rglob("*.parquet"))


def test_tables_are_compacted_in_the_bucket(ticked):
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
    assert oct((ticked.home.engine / "pgpass").stat().st_mode)[-3:] == "600"


def test_doctor_finds_the_tables(ticked):
    done = ticked.run("doctor")
    assert "catalog" in done.stdout and "tables" in done.stdout


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (
            {"TIDEMARK_CATALOG_TYPE": "glue"},
            "TIDEMARK_CATALOG_TYPE is 'glue': it takes sql or rest",
        ),
        ({"TIDEMARK_CATALOG_URI": "sqlite:///x"}, "TIDEMARK_CATALOG_URI takes postgresql://"),
        ({"TIDEMARK_WAREHOUSE": ""}, "TIDEMARK_WAREHOUSE is not set"),
        (
            {"TIDEMARK_CATALOG_URI": "postgresql://lake@127.0.0.1:1/x"},
            "PostgreSQL at 127.0.0.1:1/x, cannot be used",
        ),
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "ACCESS_DENIED"),
        ({"TIDEMARK_S3_ENDPOINT": "http://127.0.0.1:1"}, "check the object store"),
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
