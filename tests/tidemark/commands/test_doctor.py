"""Each wrong setting is one line of the doctor; with right ones nothing is left behind."""

import socket

import pytest

from settings.home import Home
from tests.support.homes import run
from tests.support.servers import object_store, postgresql
from tidemark import backend_checks
from tidemark.errors import CommandError

pytestmark = pytest.mark.slow


def failed(home: Home, **settings: str) -> list[str]:
    """Return the lines of the checks that failed."""
    done = run(home, ["doctor"], timeout=120, **settings)
    assert "Traceback" not in done.stdout + done.stderr
    assert "s3cret" not in done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert done.returncode == bool(lines)
    return lines


@pytest.fixture
def home(tmp_path):
    return Home.of(tmp_path / "home")


def test_a_new_home_passes_and_keeps_nothing_of_the_checks(home):
    assert failed(home) == []
    assert not list(home.path.glob("*doctor*"))


@pytest.mark.parametrize(
    ("name", "value"), [("RAW_DAYS", "seven"), ("CATALOG_TYPE", "s4"), ("SPARK_MASTER", "x://y")]
)
def test_a_wrong_setting_is_reported_once(home, name, value):
    (line,) = failed(home, **{f"TIDEMARK_{name}": value})
    assert line.startswith("FAIL  settings") and f"TIDEMARK_{name}" in line


def test_a_home_that_is_a_file_names_what_to_do(home):
    home.path.write_text("")
    (line,) = failed(home)
    assert line.startswith("FAIL  home") and "name another folder with TIDEMARK_HOME" in line


def test_a_disk_without_room_is_reported(home, monkeypatch):
    monkeypatch.setattr(backend_checks, "LEAST_FREE", 1 << 80)
    with pytest.raises(CommandError, match="make room, or lower TIDEMARK_RAW_DAYS"):
        backend_checks.check_home(home)


def test_silences_that_cannot_be_read_are_reported(home):
    home.make()
    (home.path / "silences.json").write_text("[{]")
    (line,) = failed(home)
    assert line.startswith("FAIL  state    silences.json: cannot be read")


def test_storage_of_dagster_that_is_away_is_one_line(home, tmp_path):
    """Dagster printed each of its attempts, and in the end only that there were many."""
    config = tmp_path / "dagster.yaml"
    config.write_text("storage: {postgres: {postgres_url: {env: DAGSTER_PG_URL}}}")
    uri = "postgresql+psycopg2://u:s3cret@127.0.0.1:1/x"
    settings = {"DAGSTER_HOME": str(tmp_path), "DAGSTER_PG_URL": uri}
    done = run(home, ["doctor"], timeout=120, **settings)
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("FAIL")]
    assert line.startswith("FAIL  dagster") and "Connection refused" in line
    assert f"mend {config}" in line and "s3cret" not in line
    assert done.stderr == ""


@pytest.mark.deployment
def test_a_wrong_database_of_leases_is_reported(home, tmp_path):
    with postgresql(tmp_path / "database") as uri, object_store(tmp_path / "store") as bucket:
        settings = bucket.credentials | {
            "TIDEMARK_CATALOG_TYPE": "sql",
            "TIDEMARK_CATALOG_URI": uri,
            "TIDEMARK_WAREHOUSE": "s3://lake/warehouse",
            "TIDEMARK_LANDING": "s3://lake/landing",
            "TIDEMARK_S3_ENDPOINT": bucket.endpoint,
            "TIDEMARK_S3_PATH_STYLE": "on",
        }
        assert failed(home, **settings) == []
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        wrong = f"postgresql://lake:s3cret@127.0.0.1:{port}/iceberg"
        (line,) = failed(home, **settings, TIDEMARK_STATE_URI=wrong)
        assert line.startswith("FAIL  state    leases cannot be had: PostgreSQL at 127.0.0.1")
        assert "or mend TIDEMARK_STATE_URI" in line
