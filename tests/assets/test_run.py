"""A run is planned once, whichever of its steps comes first, and its bodies read by the plan."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from assets import run as assets_run
from assets.partitions import PENDING, partition_key, range_tags
from assets.run import Run, planned
from lake import history, run_plan
from lake.retention import remember_raw_since
from lake.run_plan import plan_run
from lake.window import Window
from orchestration.definitions import build
from orchestration.jobs import TICK
from settings.environment import Settings
from settings.history import DEFAULT_HISTORY
from tests.support.loaded_snapshots import at, load, mark_computed, snapshot


@pytest.fixture
def plans(monkeypatch):
    """The windows that were planned, in order."""
    made = []

    def counted(lake, window, settings):
        made.append(window)
        return plan_run(lake, window, settings)

    monkeypatch.setattr(assets_run, "plan_run", counted)
    return made


def run_of(lake, **tags):
    tags = tags or range_tags(Window(at(0), at(60)))
    return Run(lake, None, DEFAULT_HISTORY, "run", tags)


def test_the_first_step_plans_and_later_steps_share(lake, plans):
    load(lake, snapshot(1))
    run = run_of(lake)
    found = [planned(lambda run: run.plan)(run=run) for _ in range(3)]
    assert plans == [Window(at(0), at(60))]
    assert found[0].snapshot_ids and found[0] is found[1] is found[2]


def test_a_plan_is_made_after_loading(lake):
    run = run_of(lake, **PENDING)
    load(lake, snapshot(1))
    run.make_plan()
    assert [each.observed_at for each in run.plan.snapshots] == [at(1)]


def test_a_body_without_a_plan_is_refused(lake):
    with pytest.raises(RuntimeError, match="no plan yet"):
        _ = run_of(lake).plan


def test_a_body_of_several_results_stays_a_generator(lake):
    @planned
    def body(run, **more):
        yield run.plan.window
        yield more

    assert list(body(run=run_of(lake), health=1)) == [Window(at(0), at(60)), {"health": 1}]


def test_validation_changes_nothing_but_the_suspects(lake):
    load(lake, snapshot(1))
    run = run_of(lake)
    run.make_plan()
    before = run.plan
    run.validated(frozenset({"raw.topics"}))
    assert run.plan == replace(before, suspects=frozenset({"raw.topics"}))


def test_hours_without_raw_rows_are_not_planned(lake):
    load(lake, snapshot(1))
    remember_raw_since(lake.shared.state, at(0) + timedelta(minutes=30))
    with pytest.raises(dg.Failure, match="have been removed"):
        run_of(lake).make_plan()
    run_of(lake, **PENDING).make_plan()


def test_a_whole_tick_reads_no_history_that_is_computed(lake, plans, monkeypatch):
    """Every step of the job runs; with nothing to compute none of them needs Spark."""
    load(lake, snapshot(1), snapshot(2))
    mark_computed(lake, 1, 2)
    read = []
    of_history = history.loaded_snapshots

    def counted(lake, window):
        read.append(window)
        return of_history(lake, window)

    for module in (history, run_plan):
        monkeypatch.setattr(module, "loaded_snapshots", counted)
    monkeypatch.setenv("TIDEMARK_HOME", str(lake.home.path))
    job = build(Settings.read()).resolve_job_def(TICK.name)
    wanted = frozenset(job.asset_layer.executable_asset_keys) - {dg.AssetKey("landing")}
    checks = frozenset(job.asset_layer.asset_graph.asset_check_keys)
    job = job.get_subset(asset_selection=wanted, asset_check_selection=checks)
    with dg.DagsterInstance.ephemeral() as instance:
        now = partition_key(datetime.now(UTC))
        tags = {**PENDING, "dagster/partition": now}
        done = job.execute_in_process(instance=instance, tags=tags)
    assert done.success
    steps = {event.step_key for event in done.get_step_success_events()}
    assert {"raw", "validate_raw", "progress__queues", "members", "alerting__incidents"} <= steps
    (window,) = plans
    assert window.empty
    assert not read, "no hour lacks a computed snapshot"
