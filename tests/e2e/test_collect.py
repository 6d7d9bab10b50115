"""`tidemark collect --every` on real brokers: an unreachable one costs only its own rows."""

import os
import signal
import subprocess

import pytest

from tests.support.homes import TIDEMARK, environment
from tidemark.lab import cluster as lab_cluster
from tidemark.lake.landing import landed
from tidemark.lake.loading import read_landed
from tidemark.settings.home import Home

pytestmark = pytest.mark.cluster


@pytest.fixture
def collecting(tmp_path, cluster):
    """Collect every three seconds into a home: a busy machine cuts no snapshot short."""
    home = Home.of(tmp_path / "home")
    process = subprocess.Popen(
        [str(TIDEMARK), "collect", "--every", "3s", "--namesrv", cluster.namesrv],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process, home
    process.kill()
    process.wait()


def lines_until(process, status):
    """Return the lines it prints up to the first snapshot of that status, at most 60."""
    lines = []
    while not lines or (lines[-1].split()[2] != status and len(lines) < 60):
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr.read()
    return lines


@pytest.mark.faults
def test_it_goes_on_while_a_broker_is_unreachable(collecting, cluster):
    process, home = collecting
    printed = lines_until(process, "COMPLETE")
    lab_cluster.stop(cluster, "broker-b")
    try:
        printed += lines_until(process, "PARTIAL")
    finally:
        lab_cluster.resume(cluster, "broker-b")
    printed += lines_until(process, "COMPLETE")
    os.kill(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert all("took too long" in line for line in err.splitlines()), err
    printed += out.splitlines()
    tables = [read_landed(item) for item in sorted(landed(home))]
    headers = [table["raw.snapshots"].to_pylist()[0] for table in tables]
    assert [header["status"] for header in headers] == [line.split()[2] for line in printed]
    for header, table in zip(headers, tables, strict=True):
        brokers = set(table["raw.queue_offsets"]["broker"].to_pylist())
        assert "broker-a" in brokers
        if header["status"] == "COMPLETE":
            assert "broker-b" in brokers
