"""Each wrong setting is one line of the doctor; with right ones nothing is left behind."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.support.homes import run
from tests.support.servers import object_store, postgresql
from tidemark.cli import checks
from tidemark.cli.checks import check_clock
from tidemark.cli.invocation import CommandError
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.settings.home import Home
from tidemark.settings.sections import CatalogSettings, ObjectStore

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
    monkeypatch.setattr(checks, "LEAST_FREE", 1 << 80)
    with pytest.raises(CommandError, match="make room, or lower TIDEMARK_RAW_DAYS"):
        checks.check_home(home)


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
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert line.startswith("FAIL  dagster") and "Connection refused" in line
    assert f"mend {config}" in line and "s3cret" not in line
    assert done.stderr == ""


@contextmanager
def serving(ahead: timedelta) -> Iterator[str]:
    """The address of a server whose clock is so far ahead."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(403)
            self.end_headers()

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(time.time() + ahead.total_seconds())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def reached(home: Home, address: str) -> CatalogConfig:
    """A catalog whose files are in an object store."""
    store = ObjectStore(address, path_style=True)
    return CatalogConfig.of(
        home,
        CatalogSettings(type="rest", uri="http://127.0.0.1:1", warehouse="s3://lake", store=store),
    )


@pytest.mark.parametrize(("minutes", "side"), [(3, "behind"), (-3, "ahead of")])
def test_a_clock_that_is_minutes_off_is_reported(home, minutes, side):
    with serving(timedelta(minutes=minutes)) as address:
        with pytest.raises(CommandError) as error:
            check_clock(reached(home, address))
        assert str(error.value) == (
            f"the clock of this host is 3 min {side} that of {address}: synchronize it, snapshots "
            "have its time"
        )


def test_a_clock_that_agrees_names_with_whom(home):
    with serving(timedelta(0)) as address:
        assert check_clock(reached(home, address)) == f"within a minute of {address}"


def test_without_another_clock_nothing_is_compared(home):
    assert check_clock(CatalogConfig.of(home)) == "not compared: no server of the settings has one"
    away = reached(home, "http://127.0.0.1:1")
    assert check_clock(away).startswith("not compared")


def test_the_clock_of_the_database_counts(home, monkeypatch):
    monkeypatch.setattr(checks, "server_time", lambda uri: datetime.now(UTC) + timedelta(minutes=5))
    config = CatalogConfig.of(
        home, CatalogSettings(type="sql", uri="postgresql://me@db/ice", warehouse="file:///w")
    )
    with pytest.raises(CommandError, match="is 5 min behind that of PostgreSQL at db:5432/ice"):
        check_clock(config)


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
        clock = check_clock(
            CatalogConfig.of(home, CatalogSettings(type="sql", uri=uri, warehouse="file:///w"))
        )
        assert clock.startswith("within a minute of PostgreSQL at 127.0.0.1")
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        wrong = f"postgresql://lake:s3cret@127.0.0.1:{port}/iceberg"
        (line,) = failed(home, **settings, TIDEMARK_STATE_URI=wrong)
        assert line.startswith("FAIL  state    leases cannot be had: PostgreSQL at 127.0.0.1")
        assert "or mend TIDEMARK_STATE_URI" in line


def test_clusters_are_checked_side_by_side(home):
    """One without its account hid all others, and those that do not respond took their turns."""
    home.make()
    entries = ["  acl: {access_key_env: NOT_SET, secret_key_env: NOT_SET}", "", ""]
    with socket.create_server(("127.0.0.1", 0)) as hole:
        address = f"127.0.0.1:{hole.getsockname()[1]}"
        text = "clusters:\n"
        for number, more in enumerate(entries):
            text += f"- name: c{number}\n  namesrv: {address}\n{more}\n"
        (home.path / "clusters.yaml").write_text(text)
        (line,) = failed(home)
    assert line.startswith("FAIL  brokers  c0: ")
    assert "access_key_env: this environment variable is not set" in line
    assert "c1 FAILED: " in line and "c2 FAILED: " in line
