"""A run that is stopped between its check and its commit, while another one has its turn."""

import os
import signal
import subprocess
import sys
from datetime import timedelta

import pytest

from assets.run import write_window
from spark.session.engine import TOKEN
from tests.support.homes import ROOT, environment
from tests.support.lake_copies import copied
from tests.support.table_rows import NOON, frame, minute, minutes
from tidemark.host.leases import RUN
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import progress
from tidemark.settings.home import Home

TABLE = progress.TIMELINE

STOPPED = """
import os, signal, sys
from assets.run import write_window
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.host.failures import one_line
from tidemark.host.leases import RUN
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home
from spark.session.configuration import open_session, session_config
from tests.assets.test_fences import TABLE, WINDOW, row
from tests.support.table_rows import frame

writer, home, remote = sys.argv[1], Home.of(sys.argv[2]), sys.argv[3]
config = CatalogConfig.of(home, Settings.read().catalog)
lake = Lake(home, config)
session = None
if writer == "spark":
    session = open_session(session_config(config, remote=remote))
lease = lake.held = lake.shared.leases.acquire(RUN)
confirm = lease.confirm

def then_stop():
    confirm()
    lease.confirm = confirm
    print("checked", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)

lease.confirm = then_stop
try:
    if session:
        write_window(frame(session, TABLE, [row(1)]), TABLE, WINDOW, lake)
    else:
        lake.append(TABLE, [row(1)])
except Exception as error:
    print(one_line(error), flush=True)
    sys.exit(1)
finally:
    if session:
        session.stop()
print("committed", flush=True)
"""

WINDOW = minutes(-10_100, -10_000)


def row(max_offset):
    return {
        "observed_at": minute(-10_050),
        "cluster": "lab",
        "topic": "orders",
        "queue_id": 0,
        "max_offset": max_offset,
    }


def stopped(lake, writer, remote="", **settings):
    """A process that holds the lease, has made sure of it, and is stopped before its commit."""
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, writer, str(lake.home.path), remote],
        cwd=ROOT,
        env=environment(lake.home, **settings),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "checked\n"
    os.waitpid(process.pid, os.WUNTRACED)
    return process


def taken_over(lake):
    """The lease, as another run gets it after the first one has lost it."""
    (lake.home.path / f"{RUN}.lock").unlink()
    lake.held = lake.shared.leases.acquire(RUN)
    return lake.held


def refused(process):
    """The one line of a process that continues without a lease and must not commit."""
    os.kill(process.pid, signal.SIGCONT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1, output
    (line,) = output.splitlines()
    return line


def test_python_commits_nothing_without_the_lease(lake):
    process = stopped(lake, "python")
    with taken_over(lake):
        lake.append(TABLE, [row(2)])
        assert "the lease 'run' was lost" in refused(process)
    assert [item["max_offset"] for item in lake.read(TABLE).to_pylist()] == [2]


@pytest.mark.spark
@pytest.mark.parametrize("has_rows", [False, True], ids=["an empty window", "a computed one"])
def test_spark_commits_nothing_without_the_lease(tmp_path, empty_lake, spark_engine, has_rows):
    lake = copied(empty_lake, Home.of(tmp_path / "home"))
    if has_rows:
        lake.append(TABLE, [row(0)])
    process = stopped(lake, "spark", spark_engine.remote, **{TOKEN: spark_engine.token})
    other = Lake(lake.home)
    with taken_over(other):
        other.replace(TABLE, WINDOW, [row(2)])
        assert "the lease 'run' was lost" in refused(process)
    assert [item["max_offset"] for item in other.read(TABLE).to_pylist()] == [2]


@pytest.mark.spark
def test_an_engine_that_goes_on_with_a_write_of_a_killed_run_commits_nothing(spark, session_home):
    """Its plan was made on a version that is no longer the newest."""
    lake = Lake(session_home)
    assert lake.catalog
    spark.sql(f"DELETE FROM {TABLE.name} WHERE observed_at < '{NOON - timedelta(days=3)}'")
    other = Lake(session_home)
    versions = lake.ready_for_spark

    def overtaken(table):
        base = versions(table)
        other.append(TABLE, [row(2)])
        return base

    lake.ready_for_spark = overtaken
    with pytest.raises(Exception, match="conflicting files"):
        write_window(frame(spark, TABLE, [row(1)]), TABLE, WINDOW, lake)
    assert [item["max_offset"] for item in other.read(TABLE, WINDOW).to_pylist()] == [2]
