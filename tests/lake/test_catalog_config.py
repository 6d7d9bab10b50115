"""Each catalog in the words of PyIceberg and of Spark."""

import socket
import sys
from dataclasses import replace

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from tidemark.host.postgresql import PostgresqlLeases
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.settings.basics import SettingsError
from tidemark.settings.home import Home
from tidemark.settings.sections import CatalogSettings, ObjectStore

HOME = Home.of("/srv/tidemark")
STORE = ObjectStore("http://store:9000", "eu-central-1", path_style=True)


def test_a_password_reaches_python_and_the_password_file_only():
    made = CatalogConfig.of(
        HOME,
        CatalogSettings(
            type="sql", uri="postgresql://me:a%3Ab@db/ice?sslmode=require", warehouse="file:///w"
        ),
    )
    address, _, options = made.python["uri"].partition("?")
    assert address == "postgresql+psycopg2://me:a%3Ab@db/ice"
    assert "sslmode=require" in options.split("&")
    assert made.spark["uri"] == "jdbc:postgresql://db:5432/ice?sslmode=require"
    assert made.spark["jdbc.user"] == "me"
    assert made.password == "db:5432:ice:me:a\\:b"
    assert "a%3Ab" not in repr(made) + str(dict(made.spark))
    assert made.drivers == ("postgresql",)


@pytest.mark.parametrize(
    ("address", "jdbc"),
    [
        ("db/a%2Bb", "jdbc:postgresql://db:5432/a%2Bb"),
        ("db/%E5%BA%93%20%25", "jdbc:postgresql://db:5432/%E5%BA%93%20%25"),
        (
            "db/ice?options=-csearch_path%3Dtm&sslrootcert=/a%20b%26c%2B.pem",
            "jdbc:postgresql://db:5432/ice?options=-csearch_path%3Dtm&sslrootcert=/a%20b%26c%2B.pem",
        ),
    ],
)
def test_spark_opens_the_database_that_python_opens(address, jdbc):
    made = CatalogConfig.of(
        HOME, CatalogSettings(type="sql", uri=f"postgresql://me@{address}", warehouse="file:///w")
    )
    assert made.spark["uri"] == jdbc


def test_without_a_password_the_file_of_the_environment_serves():
    made = CatalogConfig.of(
        HOME, CatalogSettings(type="sql", uri="postgresql://me@db:1/ice", warehouse="file:///w")
    )
    assert made.password is None


def test_a_bucket_is_reached_alike_by_both():
    made = CatalogConfig.of(
        HOME,
        CatalogSettings(type="rest", uri="http://cat:8181", warehouse="s3://lake/w", store=STORE),
    )
    assert made.python == {
        "type": "rest",
        "uri": "http://cat:8181",
        "warehouse": "s3://lake/w",
        "s3.endpoint": "http://store:9000",
        "s3.region": "eu-central-1",
    }
    assert made.spark == {
        "type": "rest",
        "uri": "http://cat:8181",
        "warehouse": "s3://lake/w",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": "eu-central-1",
        "s3.path-style-access": "true",
        "s3.endpoint": "http://store:9000",
    }
    assert made.drivers == ("s3",)


def test_the_home_needs_no_setting():
    made = CatalogConfig.of(HOME)
    assert made.python["uri"].startswith("sqlite:////srv/tidemark/catalog.db")
    assert made.python["warehouse"] == made.spark["warehouse"] == "file:///srv/tidemark/warehouse"
    assert (made.drivers, made.password) == (("sqlite",), None)


def test_leases_are_in_the_catalogs_database_or_the_one_named():
    sql = CatalogSettings(type="sql", uri="postgresql://me:a@db/ice", warehouse="file:///w")
    assert CatalogConfig.of(HOME, sql).database == "postgresql+psycopg2://me:a@db/ice"
    rest = CatalogSettings(type="rest", uri="http://cat:8181", warehouse="file:///w")
    assert CatalogConfig.of(HOME, rest).shared is None
    named = replace(rest, state="postgresql://me:a@other/state")
    shared = CatalogConfig.of(HOME, named).shared
    assert shared and isinstance(shared.leases, PostgresqlLeases)
    assert CatalogConfig.of(HOME, replace(sql, state=named.state)).database.endswith("other/state")
    assert "a@" not in repr(CatalogConfig.of(HOME, named)) + repr(named)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (CatalogSettings(state="postgresql://me@db/x"), "TIDEMARK_STATE_URI is set without"),
        (
            CatalogSettings(
                type="rest", uri="http://cat", warehouse="file:///w", state="sqlite:///x"
            ),
            "TIDEMARK_STATE_URI takes postgresql://USER@HOST",
        ),
    ],
)
def test_a_wrong_address_of_state_is_one_line(settings, line):
    with pytest.raises(SettingsError, match=line):
        CatalogConfig.of(HOME, settings)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            CatalogSettings(type="hive", uri="x", warehouse="file:///w"),
            "TIDEMARK_CATALOG_TYPE is 'hive'",
        ),
        (CatalogSettings(type="", uri="x"), "TIDEMARK_CATALOG_URI is set without"),
        (
            CatalogSettings(type="sql", uri="s3cret nonsense", warehouse="file:///w"),
            "takes postgresql://",
        ),
        (
            CatalogSettings(type="sql", uri="postgresql://db/x", warehouse="file:///w"),
            "takes postgresql://",
        ),
        (CatalogSettings(type="rest", uri="db:1", warehouse="file:///w"), "takes http://"),
        (CatalogSettings(type="rest", uri="http://db:1"), "TIDEMARK_WAREHOUSE is not set"),
        (
            CatalogSettings(type="sql", uri="postgresql://u:p@db:s3cret/x", warehouse="file:///w"),
            "takes postgresql:/",
        ),
        (
            CatalogSettings(type="sql", uri="postgresql://u:p@s3cret@db/x", warehouse="file:///w"),
            "takes postgresql:/",
        ),
        (
            CatalogSettings(type="rest", uri="http://u:s3cret@cat", warehouse="file:///w"),
            "leave it out",
        ),
        (CatalogSettings(warehouse="gs://lake/w"), "TIDEMARK_WAREHOUSE takes s3://"),
        (CatalogSettings(warehouse="s3://"), "TIDEMARK_WAREHOUSE takes s3://"),
        (CatalogSettings(warehouse="s3:///lake/w"), "TIDEMARK_WAREHOUSE takes s3://"),
        (
            CatalogSettings(type="sql", uri="postgresql://u@db/x", warehouse="lake/w"),
            "TIDEMARK_WAREHOUSE takes s3://",
        ),
        (CatalogSettings(store=ObjectStore("store:9000")), "TIDEMARK_S3_ENDPOINT takes http://"),
    ],
)
def test_a_mistake_is_named_without_the_address(settings, line):
    with pytest.raises(SettingsError) as raised:
        CatalogConfig.of(HOME, settings)
    assert line in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%20b"])
def test_a_home_that_a_library_would_look_for_elsewhere_is_one_line(tmp_path, name):
    with pytest.raises(SettingsError) as wrong:
        CatalogConfig.of(Home.of(tmp_path / name))
    assert "TIDEMARK_HOME" in str(wrong.value) and name in str(wrong.value)


@pytest.mark.parametrize("name", ["a?b", "a#b"])
def test_a_warehouse_whose_address_is_cut_off_is_one_line(name):
    with pytest.raises(SettingsError, match="TIDEMARK_WAREHOUSE takes a path without"):
        CatalogConfig.of(HOME, CatalogSettings(warehouse=f"file:///srv/{name}"))


def test_a_missing_driver_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    settings = CatalogSettings(type="sql", uri="postgresql://u@db/x", warehouse="s3://lake/x")
    with pytest.raises(SettingsError) as wrong:
        CatalogConfig.of(Home.of(tmp_path), settings)
    assert str(wrong.value) == "PostgreSQL needs its driver: pip install 'tidemark[postgres]'"


def test_a_password_among_the_options_of_an_address_is_refused(tmp_path):
    settings = CatalogSettings(
        type="sql", uri="postgresql://u@db/x?password=s3cret", warehouse="s3://lake/x"
    )
    with pytest.raises(SettingsError) as wrong:
        CatalogConfig.of(Home.of(tmp_path), settings)
    assert "PGPASSFILE" in str(wrong.value) and "s3cret" not in str(wrong.value)


@pytest.mark.slow
def test_a_database_that_never_responds_is_given_up(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as unresponsive:
        port = unresponsive.getsockname()[1]
        settings = CatalogSettings(
            type="sql", uri=f"postgresql://u@127.0.0.1:{port}/x", warehouse="file:///w"
        )
        uri = make_url(CatalogConfig.of(Home.of(tmp_path), settings).python["uri"])
        assert int(str(uri.query["connect_timeout"])) <= 10
        # As long as PostgreSQL's client lets anybody wait at least.
        soon = uri.update_query_dict({"connect_timeout": "2"})
        with pytest.raises(OperationalError, match="timeout expired"):
            create_engine(soon).connect()
