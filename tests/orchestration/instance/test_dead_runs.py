"""A run whose process was killed must not hold up the ticks that follow."""

import subprocess
import sys

import dagster as dg
import psutil
import pytest

from orchestration.definitions import build
from orchestration.instance.dead_runs import PROCESS_TAG, end_dead_runs, process_tag
from orchestration.jobs import TICK, every_minute
from settings.environment import Settings


@pytest.fixture
def instance(tmp_path):
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


@pytest.fixture
def killed():
    """The tag of a process that was killed."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    tag = {PROCESS_TAG: f"{process.pid}/{psutil.Process(process.pid).create_time()}"}
    process.kill()
    process.communicate()
    return tag


def started(instance, tags):
    job = build(Settings()).resolve_job_def(TICK.name)
    run = instance.create_run_for_job(job, tags=tags, status=dg.DagsterRunStatus.STARTED)
    return run.run_id


def status(instance, run_id):
    return instance.get_run_by_id(run_id).status


def evaluate(instance):
    return every_minute(dg.build_schedule_context(instance=instance))


def test_a_run_of_a_killed_process_is_ended(instance, killed):
    run_id = started(instance, killed)
    assert end_dead_runs(instance) == [run_id]
    assert status(instance, run_id) == dg.DagsterRunStatus.FAILURE
    assert end_dead_runs(instance) == []


def test_runs_of_living_processes_and_of_the_daemon_are_left_alone(instance):
    mine, daemons = started(instance, process_tag()), started(instance, {})
    assert end_dead_runs(instance) == []
    assert status(instance, mine) == status(instance, daemons) == dg.DagsterRunStatus.STARTED


def test_a_process_that_has_taken_over_the_id_is_another(instance):
    (pid, _) = process_tag()[PROCESS_TAG].split("/")
    run_id = started(instance, {PROCESS_TAG: f"{pid}/1.0"})
    assert end_dead_runs(instance) == [run_id]


def test_a_clock_step_of_a_second_ends_no_live_run(instance):
    pid, started_at = process_tag()[PROCESS_TAG].split("/")
    started(instance, {PROCESS_TAG: f"{pid}/{float(started_at) + 1}"})
    assert end_dead_runs(instance) == []


def test_no_tick_starts_while_one_is_under_way(instance):
    run_id = started(instance, process_tag())
    skipped = evaluate(instance)
    assert isinstance(skipped, dg.SkipReason)
    assert run_id in (skipped.skip_message or "")


def test_a_killed_tick_is_followed_by_the_next(instance, killed):
    run_id = started(instance, killed)
    assert isinstance(evaluate(instance), dg.RunRequest)
    assert status(instance, run_id) == dg.DagsterRunStatus.FAILURE
