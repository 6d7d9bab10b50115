"""A run whose process was killed, or that hangs, must not hold up the ticks that follow."""

import subprocess
import sys
import time

import dagster as dg
import pytest

from assets.dagster_names import LONGEST_TAG, PROCESS_TAG, job_tags
from orchestration.definitions import build
from orchestration.instance import runs
from orchestration.instance.runs import end_dead_runs
from orchestration.jobs import TICK, every_minute
from tidemark.host.processes import identity
from tidemark.settings.environment import Settings

DEAF = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print(flush=True); input()"
"""A program that no interrupt ends."""

pytestmark = pytest.mark.slow


@pytest.fixture
def instance(tmp_path):
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


@pytest.fixture
def process():
    """A process that waits."""
    with _waiting("print(flush=True); input()") as started_process:
        yield started_process


@pytest.fixture
def deaf():
    """A process that waits and that no interrupt ends."""
    with _waiting(DEAF) as started_process:
        yield started_process


def _waiting(program):
    started_process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert started_process.stdout
    started_process.stdout.readline()
    return started_process


@pytest.fixture
def killed(process):
    """The identity of a process that was killed."""
    name = identity(process.pid)
    process.kill()
    process.wait()
    return name


def started(instance, process=None, status=dg.DagsterRunStatus.STARTED, **tags):
    """The id of a run under way, of a process with that identity."""
    job = build(Settings()).resolve_job_def(TICK.name)
    run = instance.create_run_for_job(job, tags=job_tags(TICK.name) | tags, status=status)
    if process:
        instance.add_run_tags(run.run_id, {PROCESS_TAG: f"{process}/{run.run_id}"})
    return run.run_id


def status(instance, run_id):
    return instance.get_run_by_id(run_id).status


def evaluate(instance):
    return every_minute(dg.build_schedule_context(instance=instance))


UNDER_WAY = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]


@pytest.mark.parametrize("under_way", UNDER_WAY)
def test_a_run_of_a_killed_process_is_ended(instance, killed, under_way):
    run_id = started(instance, killed, under_way)
    assert end_dead_runs(instance) == [run_id]
    assert status(instance, run_id) == dg.DagsterRunStatus.FAILURE
    assert end_dead_runs(instance) == []


def test_a_run_that_was_terminated_and_killed_is_canceled(instance, killed):
    run_id = started(instance, killed, dg.DagsterRunStatus.CANCELING)
    assert end_dead_runs(instance) == [run_id]
    assert status(instance, run_id) == dg.DagsterRunStatus.CANCELED


def test_runs_of_live_and_unknown_processes_go_on(instance):
    mine, unknown = started(instance, identity()), started(instance)
    assert end_dead_runs(instance) == []
    assert status(instance, mine) == status(instance, unknown) == dg.DagsterRunStatus.STARTED


def test_a_process_with_a_reused_id_is_another(instance):
    pid, _, host = identity().split("/")
    run_id = started(instance, f"{pid}/1.0/{host}")
    assert end_dead_runs(instance) == [run_id]


def test_a_clock_step_ends_no_live_run(instance):
    pid, started_at, host = identity().split("/")
    started(instance, f"{pid}/{float(started_at) + 1}/{host}")
    assert end_dead_runs(instance) == []


def test_a_process_of_another_host_is_unknown(instance):
    pid, _, host = identity().split("/")
    run_id = started(instance, f"{pid}/1.0/not-{host}")
    assert end_dead_runs(instance) == []
    assert status(instance, run_id) == dg.DagsterRunStatus.STARTED


def test_a_retried_run_differs_from_its_dead_parent(instance, killed):
    tags = {PROCESS_TAG: f"{killed}/the-run-before"}
    run_id = started(instance, **tags)
    assert end_dead_runs(instance) == []
    assert status(instance, run_id) == dg.DagsterRunStatus.STARTED


def test_a_run_is_ended_after_its_longest_time(instance, process):
    in_time = started(instance, identity(), **{LONGEST_TAG: "3600"})
    run_id = started(instance, identity(process.pid), **{LONGEST_TAG: "0"})
    for value in (in_time, run_id):
        _begin(instance, value)
    assert end_dead_runs(instance) == [run_id]
    assert process.wait(30) != 0
    assert status(instance, run_id) == dg.DagsterRunStatus.FAILURE
    assert status(instance, in_time) == dg.DagsterRunStatus.STARTED


def test_a_run_that_no_interrupt_ends_is_killed(instance, deaf, monkeypatch):
    monkeypatch.setattr(runs, "KILL_SECONDS", 0.2)
    run_id = started(instance, identity(deaf.pid), **{LONGEST_TAG: "0"})
    _begin(instance, run_id)
    assert end_dead_runs(instance) == [run_id]
    assert deaf.wait(30) != 0
    assert status(instance, run_id) == dg.DagsterRunStatus.FAILURE


def _begin(instance, run_id):
    """Record that a run has begun, as Dagster does."""
    run = instance.get_run_by_id(run_id)
    event = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, run.job_name)
    instance.report_dagster_event(event, run_id)
    time.sleep(0.01)


def test_no_tick_starts_while_one_is_under_way(instance):
    run_id = started(instance, identity())
    skipped = evaluate(instance)
    assert isinstance(skipped, dg.SkipReason)
    assert run_id in (skipped.skip_message or "")


def test_a_killed_tick_is_followed_by_the_next(instance, killed):
    run_id = started(instance, killed)
    assert isinstance(evaluate(instance), dg.RunRequest)
    assert status(instance, run_id) == dg.DagsterRunStatus.FAILURE
