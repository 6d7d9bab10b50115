"""Processes on several hosts share one PostgreSQL: each right is one process's, and moves on."""

import json
import signal
import socket
import subprocess
import time
from dataclasses import dataclass

import pytest

from tests.support.homes import TIDEMARK, environment, run
from tests.support.servers import postgresql
from tidemark.host.leases import RUN
from tidemark.host.shared import Shared
from tidemark.lake.landing import landed
from tidemark.settings.home import Home

pytestmark = [pytest.mark.slow, pytest.mark.kills]

EVERY = 4.0
CLUSTERS = f"""\
clusters:
- {{name: lab, namesrv: "127.0.0.1:1", every: {EVERY:g}s, deep_every: off}}
"""


@dataclass(frozen=True)
class Host:
    """A home of its own, as each host has one, with what all hosts share."""

    home: Home
    settings: dict[str, str]

    def run(self, *arguments):
        done = run(self.home, arguments, **self.settings)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *arguments):
        return subprocess.Popen(
            [str(TIDEMARK), *arguments],
            env=environment(self.home, **self.settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def snapshots(self):
        return sorted(item.observed_at for item in landed(self.home))


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    with postgresql(tmp_path_factory.mktemp("hosts")) as uri:
        yield uri


@pytest.fixture
def hosts(tmp_path, database):
    entries = []
    for name in ("a", "b"):
        home = Home.of(tmp_path / name)
        home.make()
        (home.path / "clusters.yaml").write_text(CLUSTERS)
        settings = {
            "TIDEMARK_CATALOG_TYPE": "sql",
            "TIDEMARK_CATALOG_URI": database,
            "TIDEMARK_WAREHOUSE": (tmp_path / "warehouse").as_uri(),
            "PYTHONUNBUFFERED": "1",
        }
        entries.append(Host(home, settings))
    return entries


def test_another_host_collects_within_two_intervals_of_a_kill(hosts):
    first, second = hosts
    collecting, standing_by = first.start("collect", "--every", "1m"), None
    try:
        assert collecting.stdout and "lab FAILED" in collecting.stdout.readline()
        standing_by = second.start("collect", "--every", "1m")
        assert standing_by.stdout and standing_by.stderr
        assert standing_by.stderr.readline() == (
            f"lab is collected by process {collecting.pid} on {socket.gethostname()}; standing by\n"
        )
        time.sleep(2 * EVERY)
        assert not second.snapshots()
        collecting.send_signal(signal.SIGKILL)
        assert "lab FAILED" in standing_by.stdout.readline()
        standing_by.terminate()
        assert standing_by.communicate(timeout=30)[1] == "", "it reported it once"
    finally:
        for process in filter(None, (collecting, standing_by)):
            process.kill()
            process.communicate()
    gap = second.snapshots()[0] - first.snapshots()[-1]
    # A busy machine may start a process or wake it late.
    assert gap.total_seconds() < 2 * EVERY + 1
    assert len(first.snapshots()) >= 2


def test_a_single_snapshot_leaves_a_collected_cluster_alone(hosts):
    first, second = hosts
    collecting = first.start("collect", "--every", "1m")
    try:
        assert collecting.stdout and collecting.stdout.readline()
        done = run(second.home, ["collect"], **second.settings)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.startswith(f"lab is collected by process {collecting.pid} on ")
        assert not second.snapshots()
    finally:
        collecting.kill()
        collecting.communicate()


def test_a_tick_waits_for_the_run_of_another_host(hosts, database):
    uri = database.replace("postgresql:", "postgresql+psycopg2:")
    _, second = hosts
    with Shared.of_database(uri, "the database").leases.acquire(RUN):
        tick = second.start("tick", "--no-collect")
        try:
            assert tick.stderr
            lines = iter(tick.stderr.readline, "")
            assert any("waiting for the run of process " in line for line in lines)
            assert tick.poll() is None
        finally:
            tick.kill()
            tick.communicate()


def test_a_silence_of_one_host_holds_on_all(hosts):
    first, second = hosts
    wanted = ("--for", "1h", "--topic", "orders", "--author", "eve", "--comment", "upgrade")
    first.run("incidents", "silence", *wanted)
    (item,) = json.loads(second.run("incidents", "silences", "--format", "json"))
    assert item["author"] == "eve"
    second.run("incidents", "unsilence", item["silence_id"])
    assert json.loads(first.run("incidents", "silences", "--format", "json")) == []
    assert not (first.home.path / "silences.json").exists()
