"""Dagster's own daemon, as Tidemark configures it, ends dead runs and runs that take too long."""

import os
import subprocess
import sys
import time
from contextlib import suppress

import dagster as dg
import psutil
import pytest

from assets.dagster_names import LONGEST_TAG, PROCESS_TAG
from orchestration.instance.dagster_home import prepare
from tests.support.homes import TIDEMARK, environment
from tidemark.host.processes import identity
from tidemark.settings.home import Home

pytestmark = pytest.mark.kills

DEAF = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print(flush=True); input()"


@pytest.fixture
def home(tmp_path, monkeypatch):
    # `prepare` sets them for the process.
    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setenv("TIDEMARK_HOME", "")
    made = Home.of(tmp_path / "home")
    prepare(made)
    return made


@pytest.fixture
def daemon(home):
    """Dagster's daemon, without a code location."""
    with (home.dagster / "daemon.log").open("wb") as log:
        process = subprocess.Popen(
            [str(TIDEMARK.with_name("dagster-daemon")), "run", "--empty-workspace"],
            env=environment(home, DAGSTER_HOME=str(home.dagster)),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    yield process
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
    process.kill()
    process.wait()


@pytest.fixture
def deaf():
    """A process that no interrupt ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", DEAF], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def begun(instance, process, longest):
    """The id of a run of another process, which nobody's fork server or code server knows."""
    run = instance.create_run_for_job(
        dg.JobDefinition(name="tick", graph_def=dg.GraphDefinition(name="tick")),
        status=dg.DagsterRunStatus.STARTED,
        tags={LONGEST_TAG: str(longest)},
    )
    instance.add_run_tags(run.run_id, {PROCESS_TAG: f"{process}/{run.run_id}"})
    start = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, run.job_name)
    instance.report_dagster_event(start, run.run_id)
    return run.run_id


def test_the_daemon_ends_dead_and_overdue_runs(home, daemon, deaf):
    pid, _, host = identity().split("/")
    with dg.DagsterInstance.from_config(str(home.dagster)) as instance:
        dead = begun(instance, f"{pid}/1.0/{host}", 3600)
        hanging = begun(instance, identity(deaf.pid), 1)
        mine = begun(instance, identity(os.getpid()), 3600)
        deadline = time.monotonic() + 600
        statuses = {}
        while list(statuses.values()).count(dg.DagsterRunStatus.FAILURE) < 2:
            log = (home.dagster / "daemon.log").read_text()
            assert time.monotonic() < deadline and daemon.poll() is None, log
            time.sleep(0.5)
            runs = (instance.get_run_by_id(value) for value in (dead, hanging, mine))
            statuses = {run.run_id: run.status for run in runs}
        assert statuses[mine] == dg.DagsterRunStatus.STARTED
    assert deaf.wait(60) != 0
