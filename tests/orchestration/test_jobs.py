"""The run that each minute starts: some run always collects, whatever else is running."""

import shutil
import subprocess
import time
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from filelock import FileLock

from assets.dagster_names import job_tags, process_tags
from assets.partitions import PENDING, partition_key, range_tags
from orchestration.definitions import build
from orchestration.jobs import (
    AUDIT,
    COLLECT,
    MAINTAIN,
    RECOMPUTE,
    TICK,
    TICK_MAY_TAKE,
    every_minute,
    is_at_work,
    last_tick_took,
    meanwhile,
    schedules,
)
from tests.support.homes import TIDEMARK, environment
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.landing import landed
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

HOURS = range_tags(Window(floor_hour(datetime.now(UTC)) - 24 * HOUR, datetime.now(UTC)))
GONE = "clusters:\n- {name: lab, namesrv: 127.0.0.1:1}\n"


@pytest.fixture
def instance(tmp_path, dagster_databases):
    shutil.copytree(dagster_databases, tmp_path, dirs_exist_ok=True)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


def under_way(instance, job, tags=None, status=dg.DagsterRunStatus.STARTED):
    """A run of a living process."""
    name = job if isinstance(job, str) else job.name
    made = dg.JobDefinition(name=name, graph_def=dg.GraphDefinition(name=name))
    run = instance.create_run_for_job(made, tags=job_tags(name) | (tags or {}), status=status)
    instance.add_run_tags(run.run_id, process_tags(run.run_id))
    event = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, name)
    if status == dg.DagsterRunStatus.STARTED:
        instance.report_dagster_event(event, run.run_id)
    return instance.get_run_by_id(run.run_id)


def evaluated(instance, schedule=every_minute, later=1):
    """Return the result of a schedule that many minutes from now."""
    at = datetime.now(UTC) + timedelta(minutes=later)
    with dg.build_schedule_context(instance=instance, scheduled_execution_time=at) as context:
        return schedule(context)


def starts(instance, schedule=every_minute, later=1) -> bool:
    return isinstance(evaluated(instance, schedule, later), dg.RunRequest)


def test_a_tick_collects_by_itself(instance):
    assert starts(instance) and not starts(instance, meanwhile)
    under_way(instance, TICK, PENDING)
    assert not starts(instance, meanwhile, later=-1), "the tick of the same minute was made first"


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED])
@pytest.mark.parametrize("name", ["tick", "collect", "recompute"])
def test_runs_of_other_pipelines_of_that_name_hold_up_nobody(instance, name, status):
    job = dg.JobDefinition(name=name, graph_def=dg.GraphDefinition(name=name))
    instance.create_run_for_job(job, tags=HOURS, status=status)
    assert starts(instance) and not starts(instance, meanwhile)
    (audit_every_hour,) = [
        schedule_definition
        for schedule_definition in schedules(running=True)
        if schedule_definition.job_name == "audit"
    ]
    assert starts(instance, audit_every_hour)


@pytest.mark.parametrize(
    ("job", "tags", "ticks"),
    [
        (TICK, PENDING, False),
        (RECOMPUTE, HOURS, True),
        ("__ASSET_JOB", HOURS, True),
        (MAINTAIN, {}, True),
        (AUDIT, {}, True),
    ],
    ids=["tick", "recompute", "backfill", "maintain", "audit"],
)
def test_minutes_are_collected_while_another_run_works(instance, job, tags, ticks):
    run = under_way(instance, job, tags)
    assert starts(instance) == ticks, "a tick waits for any other run, and not for another tick"
    assert starts(instance, meanwhile)
    assert is_at_work(instance, datetime.now(UTC))
    instance.report_run_failed(run)
    assert starts(instance) and not starts(instance, meanwhile)


def test_one_run_at_a_time_collects_for_ticks(instance):
    under_way(instance, TICK, PENDING)
    under_way(instance, COLLECT, {"dagster/partition": partition_key(datetime.now(UTC))})
    assert not starts(instance, meanwhile)


def test_a_run_that_collects_keeps_no_tick_waiting(instance):
    under_way(instance, COLLECT, {"dagster/partition": partition_key(datetime.now(UTC))})
    assert starts(instance)
    assert not is_at_work(instance, datetime.now(UTC))


def test_runs_of_other_pipelines_do_not_count(instance):
    made = dg.JobDefinition(name="other", graph_def=dg.GraphDefinition(name="other"))
    instance.create_run_for_job(made, tags=HOURS, status=dg.DagsterRunStatus.STARTED)
    assert starts(instance) and not starts(instance, meanwhile)


def test_hourly_jobs_do_not_wait_for_a_backfill(instance):
    hourly = {
        schedule_definition.name: schedule_definition
        for schedule_definition in schedules(running=False)
    }
    run = under_way(instance, RECOMPUTE, HOURS)
    for job in (MAINTAIN, AUDIT):
        assert not starts(instance, hourly[f"{job.name}_every_hour"])
    instance.report_run_canceled(run)
    for job in (MAINTAIN, AUDIT):
        assert starts(instance, hourly[f"{job.name}_every_hour"])


def test_snapshots_wait_for_a_tick_or_a_living_backfill(instance):
    now = datetime.now(UTC)
    assert not is_at_work(instance, now)
    tick = under_way(instance, TICK, PENDING)
    assert is_at_work(instance, now)
    assert not is_at_work(instance, now + 2 * TICK_MAY_TAKE)
    instance.report_run_failed(tick)
    assert not is_at_work(instance, now), "a tick that ended keeps nothing waiting"
    backfill = under_way(instance, RECOMPUTE, HOURS)
    assert is_at_work(instance, now + 2 * TICK_MAY_TAKE)
    instance.report_run_failed(backfill)
    assert is_at_work(instance, now), "the next tick has not begun yet"
    assert not is_at_work(instance, now + TICK_MAY_TAKE)


def test_a_run_lands_while_another_holds_the_tables(tmp_path, instance):
    home = Home.of(tmp_path)
    (home.path / "clusters.yaml").write_text(GONE)
    job = build(Settings(home=home)).resolve_job_def(COLLECT.name)
    with FileLock(home.path / "run.lock"):
        key = partition_key(datetime.now(UTC))
        done = job.execute_in_process(instance=instance, tags={"dagster/partition": key})
    assert done.success
    assert len(list(landed(home))) == 1


@pytest.mark.kills
def test_a_tick_lands_before_it_waits_for_another_run(tmp_path):
    home = Home.of(tmp_path)
    (home.path / "clusters.yaml").write_text(GONE)
    with FileLock(home.path / "run.lock"):
        tick = subprocess.Popen(
            [str(TIDEMARK), "tick"], env=environment(home), stderr=subprocess.PIPE, text=True
        )
        try:
            deadline = time.monotonic() + 400
            while not list(landed(home)):
                assert tick.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)
            assert tick.poll() is None
        finally:
            tick.kill()
            tick.communicate()


@pytest.mark.parametrize("minutes", [6, 90])
def test_the_length_of_the_last_tick_is_bounded(instance, minutes):
    assert last_tick_took(instance) == timedelta(0)
    run = under_way(instance, TICK, PENDING, dg.DagsterRunStatus.NOT_STARTED)
    begin = datetime.now(UTC).timestamp()
    for kind, at in (
        (dg.DagsterEventType.RUN_START, begin),
        (dg.DagsterEventType.RUN_SUCCESS, begin + 60 * minutes),
    ):
        event = dg.DagsterEvent(kind.value, TICK.name)
        instance.report_dagster_event(event, run.run_id, timestamp=at)
    assert last_tick_took(instance) == min(timedelta(minutes=minutes), TICK_MAY_TAKE)
