"""Errors of commands: one line, the right exit code, soon, and no traceback."""

import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.homes import run
from tidemark.cli import main as cli
from tidemark.lab import child_processes, layout
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import free_port_base
from tidemark.lake.catalog import Lake
from tidemark.lake.landing import landed
from tidemark.settings.home import Home

pytestmark = pytest.mark.slow

SECONDS = 15


@pytest.fixture
def home(tmp_path):
    return Home.of(tmp_path / "home")


def refused(home, arguments, code, **settings):
    """The one line that a command prints before it gives up."""
    started = time.monotonic()
    done = run(home, arguments, timeout=60, **settings)
    seconds = time.monotonic() - started
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    if code == 1:
        assert len(lines) == 1, done.stderr
    # A tick imports Dagster first: seconds that depend on the machine more than on us.
    assert arguments[0] == "tick" or seconds < SECONDS
    return " ".join(lines)


# Addresses at which no cluster is


@contextmanager
def server(payload):
    """A TCP server that is not RocketMQ: it only sends `payload` to each client."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = []

        def serve():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                taken.append(connection)
                if payload:
                    try:
                        connection.recv(65536)
                        connection.sendall(payload)
                        connection.close()
                    except OSError:
                        pass

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            for connection in taken:
                connection.close()


@contextmanager
def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    yield f"127.0.0.1:{port}"


@contextmanager
def wrong_host():
    yield "no-such-host.invalid:9876"


@contextmanager
def http_server():
    page = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with server(page) as address:
        yield address


@contextmanager
def unresponsive_server():
    with server(b"") as address:
        yield address


NOWHERE = {
    "wrong host": wrong_host,
    "closed port": closed_port,
    "http": http_server,
    "silent": unresponsive_server,
}


@pytest.mark.parametrize("command", ["lag", "snapshot", "tick"])
@pytest.mark.parametrize("place", NOWHERE.values(), ids=NOWHERE)
def test_an_address_without_a_cluster_is_one_line(home, place, command):
    with place() as address:
        line = refused(home, [command, "--namesrv", address], 1)
    assert address in line
    assert list(landed(home)) == [], "nothing is known of a cluster that was never reached"


@pytest.fixture(scope="module")
def empty_cluster(tmp_path_factory):
    """A name server that no broker registers with."""
    cluster = LabCluster.up(tmp_path_factory.mktemp("empty"), brokers=1, port_base=free_port_base())
    try:
        broker = cluster.process(cluster.brokers[0].name)
        assert broker is not None
        # With notice, so that it unregisters.
        child_processes.stop([broker], graceful_seconds=60)
        yield cluster
    finally:
        cluster.down(graceful=False)


@pytest.mark.cluster
@pytest.mark.parametrize("command", ["lag", "snapshot", "tick"])
def test_an_empty_cluster_is_one_line(home, empty_cluster, command):
    line = refused(home, [command, "--namesrv", empty_cluster.namesrv], 1)
    assert empty_cluster.namesrv in line and "no broker" in line
    assert empty_cluster.node(layout.NAMESRV).address == empty_cluster.namesrv


def test_a_failed_snapshot_names_what_to_do(home):
    with closed_port() as address:
        assert f"tidemark doctor --namesrv {address}" in refused(
            home, ["lag", "--namesrv", address], 1
        )


def test_doctor_names_a_wrong_channel_without_its_secret(home):
    settings = {"TIDEMARK_DIGEST_EVERY": "soon", "TIDEMARK_NOTIFY_URLS": "nosuch://s3cret"}
    done = run(home, ["doctor"], timeout=60, **settings)
    lines = sorted(line for line in done.stdout.splitlines() if " notices " in line)
    assert lines[0].startswith("FAIL  notices  TIDEMARK_DIGEST_EVERY: a duration is wanted")
    assert lines[1].startswith("FAIL  notices  TIDEMARK_NOTIFY_URLS, address 1: apprise cannot use")
    assert "s3cret" not in done.stdout + done.stderr
    assert done.returncode == 1


def test_doctor_names_wrong_files_of_brought_suites(home):
    folder = home.path / "expectations"
    folder.mkdir(parents=True)
    (folder / "progress.group.json").write_text("{}")
    (folder / "raw.topics.py").write_text("1 / 0\n")
    for number in range(4):
        (folder / f"{'long-name-' * 12}{number}.json").write_text("{}")
    done = run(home, ["doctor"], timeout=120)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAIL  suites   ")]
    assert len(lines) == 6, "each mistake is one line, and none is cut off"
    assert any("progress.group.json: no table 'progress.group'" in line for line in lines)
    assert lines[-1].startswith(f"FAIL  suites   {folder / 'raw.topics.py'}:1: raises ZeroDivis")
    assert not any(line.endswith("...") for line in lines)
    assert done.returncode == 1


def test_debug_shows_the_traceback(home):
    with closed_port() as address:
        done = run(home, ["--debug", "lag", "--namesrv", address], timeout=60)
    assert done.returncode == 1
    assert "Traceback" in done.stderr


# Bad usage

USAGE = {
    "no such table": (["show", "nosuch"], "progress.groups"),
    "no such command": (["shwo"], "shwo"),
    "no such option": (["lag", "--bogus"], "--bogus"),
    "no such format": (["lag", "--namesrv", "127.0.0.1:1", "--format", "xml"], "xml"),
    "lag of nothing": (["lag"], "--namesrv"),
    "snapshot of nothing": (["snapshot"], "--namesrv"),
    "a group for nothing": (["snapshot", "--group", "g"], "--deep"),
    "no clients for nothing": (["snapshot", "--no-clients"], "--deep"),
    "tick of nothing": (["tick"], "--namesrv"),
    "no port": (["lag", "--namesrv", "localhost"], "HOST:PORT"),
    "no number": (["lag", "--namesrv", "localhost:http"], "HOST:PORT"),
    "port too large": (["lag", "--namesrv", "localhost:70000"], "HOST:PORT"),
    "no instant": (["recompute", "--from", "x", "--to", "y"], "ISO 8601"),
    "no end": (["recompute", "--from", "x"], "--to"),
    "ends before it starts": (
        ["recompute", "--from", "2026-11-19T08:00Z", "--to", "2026-11-19T07:00Z"],
        "is not after",
    ),
    "before all history": (
        ["recompute", "--from", "2001-01-01", "--to", "2001-01-02"],
        "TIDEMARK_HISTORY_DAYS",
    ),
    "in the future": (["recompute", "--from", "2999-01-01", "--to", "2999-01-02"], "future"),
    "no seconds": (["lag", "--watch", "--every", "nan"], "--every nan"),
    "no end of seconds": (["lag", "--watch", "--every", "inf"], "--every inf"),
    "no such port": (["demo", "--port", "70000"], "--port"),
    "limit below zero": (["show", "raw.topics", "--limit", "-1"], "limit"),
}


@pytest.mark.parametrize("arguments, named", USAGE.values(), ids=USAGE)
def test_bad_usage_exits_2_and_names_what_is_wrong(home, arguments, named):
    assert named in refused(home, arguments, 2)


@pytest.mark.parametrize("where", ["nonsense", "lag >", "lag = 'many'"])
def test_a_condition_that_is_no_sql_is_one_line(home, where):
    Lake(home).append(
        *_one_snapshot(),
    )
    assert where in refused(home, ["show", "raw.snapshots", "--where", where], 1)


def _one_snapshot():
    from datetime import UTC, datetime

    from tidemark.lake.tables import raw

    return raw.SNAPSHOTS, [
        {"snapshot_id": "x", "cluster": "lab", "observed_at": datetime.now(UTC), "status": "FAILED"}
    ]


def test_an_empty_table_is_an_empty_response(home):
    home.path.mkdir()
    done = run(home, ["show", "progress.groups", "--format", "json"], timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")


def test_a_home_that_cannot_be_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    line = refused(Home.of(tmp_path / "file"), ["show", "progress.groups"], 1)
    assert str(tmp_path / "file") in line


def test_a_reader_that_goes_away_is_no_error(home):
    home.path.mkdir()
    command = f"{Path(sys.executable).with_name('tidemark')} --help | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_named_whatever_a_library_reports(home, monkeypatch, capsys):
    """A tick ended with: OperationalError: (sqlite3.OperationalError) disk I/O error."""

    def fail(**_: str) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    home.make()
    monkeypatch.setenv("TIDEMARK_HOME", str(home.path))
    monkeypatch.setattr(cli, "app", fail)
    lines = []
    for free in (10 * 2**30, 4096):
        usage = shutil.disk_usage(home.path)._replace(free=free)
        with monkeypatch.context() as patch:
            patch.setattr("tidemark.cli.invocation.shutil.disk_usage", lambda _, usage=usage: usage)
            with pytest.raises(SystemExit):
                cli.main()
        lines.append(capsys.readouterr().err.strip())
    assert lines[0] == "tidemark: OperationalError: disk I/O error"
    assert lines[1].startswith(f"{lines[0]}; the disk of {home.path} is full: make room")
