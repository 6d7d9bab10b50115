"""Runs in processes of their own that stop between check and commit."""

import os
import signal
import subprocess
import sys

from tests.support.homes import ROOT, environment
from tests.support.table_rows import minute, minutes
from tidemark.lake.tables import progress

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
from tests.support.stopped_runs import TABLE, WINDOW, row
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


def refused(process):
    """The one line of a process that continues without a lease and must not commit."""
    os.kill(process.pid, signal.SIGCONT)
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 1, output
    (line,) = output.splitlines()
    return line
