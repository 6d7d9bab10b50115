"""A REST catalog that requires a login gets it from PyIceberg and Spark, and nobody sees it."""

import os
import time

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import OAuthError, UnauthorizedError

from tests.support.oauth2_catalog import oauth2_catalog
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.settings.basics import SettingsError
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

VARIABLES = {
    "type": "TIDEMARK_CATALOG_TYPE",
    "uri": "TIDEMARK_CATALOG_URI",
    "credential": "TIDEMARK_CATALOG_CREDENTIAL",
    "token": "TIDEMARK_CATALOG_TOKEN",
    "oauth2_uri": "TIDEMARK_CATALOG_OAUTH2_URI",
    "scope": "TIDEMARK_CATALOG_SCOPE",
}

SECRET = "client:a-secret-of-32-characters-00000"


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """Return the configuration that variables of a REST catalog give."""

    def config(address="http://127.0.0.1:1", **settings):
        for name, value in {"type": "rest", "uri": address, **settings}.items():
            monkeypatch.setenv(VARIABLES[name], value)
        monkeypatch.setenv("TIDEMARK_WAREHOUSE", "s3://lake/warehouse")
        return CatalogConfig.of(Home.of(tmp_path), Settings.read().catalog)

    return config


def namespaces(config):
    return load_catalog("tidemark", **config.python).list_namespaces()


def test_python_logs_in_and_again_when_tokens_are_rotated(configured):
    with oauth2_catalog(SECRET) as server:
        oauth = f"{server.address}/v1/oauth/tokens"
        config = configured(
            server.address, credential=SECRET, oauth2_uri=oauth, scope="PRINCIPAL_ROLE:tidemark"
        )
        catalog = load_catalog("tidemark", **config.python)
        assert catalog.list_namespaces() == [("progress",)]
        assert set(server.scopes) == {"PRINCIPAL_ROLE:tidemark"} and server.refused == []
        server.rotate()
        assert catalog.list_namespaces() == [("progress",)], "by a new token"
        assert len(set(server.refused)) <= 1


def test_without_a_login_nothing_is_read(configured):
    with oauth2_catalog(SECRET) as server:
        with pytest.raises(UnauthorizedError):
            namespaces(configured(server.address))
        assert server.refused
        oauth = f"{server.address}/v1/oauth/tokens"
        with pytest.raises(OAuthError):
            namespaces(configured(server.address, credential="client:wrong", oauth2_uri=oauth))


def test_a_token_opens_the_catalog(configured):
    with oauth2_catalog(token="a-token-of-32-characters-0000000") as server:
        config = configured(server.address, token="a-token-of-32-characters-0000000")
        assert namespaces(config) == [("progress",)]


def test_spark_is_given_names_of_variables_and_no_secret(configured):
    for name, secret in (("credential", SECRET), ("token", "a-token-of-32-characters-0000000")):
        config = configured(**{"credential": "", "token": "", name: secret})
        assert config.spark[name] == f"env:TIDEMARK_CATALOG_{name.upper()}"
        assert secret not in str(config.spark) and secret not in repr(config)


@pytest.mark.parametrize(
    ("settings", "mistake"),
    [
        ({"type": "sql", "uri": "postgresql://u@h/d", "token": "x" * 32}, "TYPE=rest"),
        ({"credential": SECRET, "token": "x" * 32}, "give one of them"),
        ({"credential": SECRET, "oauth2_uri": "ftp://x"}, "TIDEMARK_CATALOG_OAUTH2_URI takes"),
        ({"token": "x" * 32, "scope": "all"}, "need TIDEMARK_CATALOG_CREDENTIAL"),
    ],
)
def test_a_login_that_cannot_work_is_refused_without_being_shown(configured, settings, mistake):
    with pytest.raises(SettingsError, match=mistake) as error:
        configured(**settings)
    assert SECRET not in str(error.value) and "x" * 32 not in str(error.value)


@pytest.mark.spark
def test_iceberg_reads_the_variable_in_sparks_process(spark):
    """A variable that Spark's Java has from its start stands for that of the token."""
    with oauth2_catalog(token=os.environ["PATH"]) as server:
        prefix = "spark.sql.catalog.asked"
        spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        for name, value in {"type": "rest", "uri": server.address, "token": "env:PATH"}.items():
            spark.conf.set(f"{prefix}.{name}", value)
        assert [row[0] for row in spark.sql("SHOW NAMESPACES IN asked").collect()] == ["progress"]
        assert server.refused == []


@pytest.mark.spark
def test_spark_logs_in_again_before_a_token_expires(spark, configured):
    """A server such as Keycloak gives tokens for a credential and exchanges none.

    An engine runs for days, and a token is valid for an hour.
    """
    with oauth2_catalog(SECRET) as server:
        server.seconds = 4
        oauth = f"{server.address}/v1/oauth/tokens"
        config = configured(server.address, credential=SECRET, oauth2_uri=oauth)
        prefix = "spark.sql.catalog.expiring"
        spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        # Spark of these tests has no jars of an object store.
        other = ("io-impl", "s3.", "client.", "warehouse")
        given = {name: it for name, it in config.spark.items() if not name.startswith(other)}
        for name, value in (given | {"credential": SECRET}).items():
            spark.conf.set(f"{prefix}.{name}", value)

        def namespaces() -> list[str]:
            return [row[0] for row in spark.sql("SHOW NAMESPACES IN expiring").collect()]

        assert namespaces() == ["progress"]
        first = set(server.valid)
        time.sleep(2 * server.seconds)
        server.valid -= first
        assert namespaces() == ["progress"]
        assert set(server.grants) == {"client_credentials"}
