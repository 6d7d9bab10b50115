"""Dagster's storage in PostgreSQL, by the instance file that is deployed."""

import shutil

import pytest

from tests.support.homes import ROOT
from tests.support.servers import create_database, driver_uri
from tidemark.cli.checks import check_dagster
from tidemark.cli.invocation import CommandError
from tidemark.settings.environment import Settings

pytestmark = pytest.mark.deployment


@pytest.fixture
def settings(database, tmp_path, monkeypatch):
    """Settings of a host whose Dagster keeps its runs in the database."""
    folder = tmp_path / "dagster"
    folder.mkdir()
    shutil.copy(ROOT / "deploy" / "dagster" / "dagster.yaml", folder)
    address = driver_uri(create_database(database, tmp_path.name))
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_PG_URL", address.render_as_string(hide_password=False))
    return Settings.read()


def test_a_run_is_written_read_and_deleted(settings, tmp_path):
    assert check_dagster(settings) == f"PostgresRunStorage, {tmp_path / 'dagster'}"
    assert not settings.home.dagster.exists()


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("postgresql+psycopg2://lake:s3cret@127.0.0.1:1/x", "or the variables that it names"),
        ("postgresql://lake:s3cret@127.0.0.1:1/x", "begin the address with postgresql[+]psycopg2"),
        (None, "DAGSTER_PG_URL is not set"),
    ],
)
def test_a_wrong_address_is_one_line(settings, monkeypatch, address, line):
    monkeypatch.delenv("DAGSTER_PG_URL")
    if address:
        monkeypatch.setenv("DAGSTER_PG_URL", address)
    with pytest.raises(CommandError, match=line) as refused:
        check_dagster(settings)
    assert "s3cret" not in str(refused.value) and "\n" not in str(refused.value)
