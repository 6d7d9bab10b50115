"""A run is planned once, whichever of its steps comes first, and its bodies read by the plan."""

from dataclasses import FrozenInstanceError, fields
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from assets import run as assets_run
from assets.metadata import key_of
from assets.partitions import PENDING, partition_key, range_tags
from assets.run import Run
from orchestration.definitions import build
from orchestration.jobs import TICK
from tests.support.loaded_snapshots import at, load, mark_computed, name, snapshot
from tidemark.lake.clocks import Window
from tidemark.lake.retention import remember_raw_since
from tidemark.lake.tables import progress, quality
from tidemark.planning import history, run_plan
from tidemark.planning.run_plan import ALL_RAW, Validation, plan_run
from tidemark.settings.environment import Settings
from tidemark.settings.sections import DEFAULT_HISTORY

QUARANTINED = {
    "table": "raw.queue_offsets",
    "reason": "key_unique",
    "row": '{"broker": "broker-a", "topic": "orders"}',
    "snapshot_id": "s",
}


@pytest.fixture
def plans(monkeypatch):
    """The windows that were planned, in order."""
    made = []

    def counted(lake, window, settings):
        made.append(window)
        return plan_run(lake, window, settings)

    monkeypatch.setattr(assets_run, "plan_run", counted)
    return made


def run_of(lake, *recorded, **tags):
    """A run of which Dagster has recorded some tables."""
    return Run(
        lake=lake,
        run_id="run",
        tags=tags or range_tags(Window(at(0), at(60))),
        settings=DEFAULT_HISTORY,
        spark=None,
        alone=lambda: None,
        recorded=lambda: frozenset(table.name for table in recorded),
    )


def test_a_plan_is_made_once_from_what_is_stored(lake, plans):
    load(lake, snapshot(1))
    run = run_of(lake)
    first = run.plan
    load(lake, snapshot(2))
    assert plans == [Window(at(0), at(60))]
    assert run.plan is first
    assert [loaded.observed_at for loaded in first.snapshots] == [at(1)]


def test_a_tick_plans_what_was_loaded_before(lake):
    run = run_of(lake, **PENDING)
    load(lake, snapshot(1))
    assert [loaded_snapshot.observed_at for loaded_snapshot in run.plan.snapshots] == [at(1)]


def test_every_process_of_a_run_makes_the_same_plan(lake):
    """Nothing that a run writes before its last step changes the plan."""
    load(lake, snapshot(1), snapshot(2), snapshot(3))
    mark_computed(lake, 1)
    first = run_of(lake, **PENDING).plan
    row = {"snapshot_id": name(2), "observed_at": at(2), "cluster": "lab"}
    lake.append(progress.GROUPS, [row | {"consumer_group": "g", "topic": "orders"}])
    lake.append(quality.QUARANTINE, [QUARANTINED | {"observed_at": at(2)}])
    assert run_of(lake, **PENDING).plan == first


@pytest.mark.parametrize("attribute", [*(field.name for field in fields(Run)), "since", "reader"])
def test_no_step_can_change_a_run(lake, attribute):
    with pytest.raises((FrozenInstanceError, AttributeError)):
        setattr(run_of(lake), attribute, None)


def test_steps_after_the_quarantine_search_its_tables_only(lake):
    load(lake, snapshot(1))
    lake.append(quality.QUARANTINE, [QUARANTINED | {"observed_at": at(1)}])
    assert run_of(lake, quality.QUARANTINE).validation == Validation(
        suspects=frozenset({"raw.queue_offsets"}),
        hidden={"s": frozenset({("broker-a", "orders")})},
    )


def test_an_asset_alone_trusts_no_quarantine_of_another_run(lake):
    load(lake, snapshot(1))
    lake.append(quality.QUARANTINE, [QUARANTINED | {"observed_at": at(1)}])
    alone = run_of(lake).validation
    assert alone.suspects == ALL_RAW
    assert alone.hidden == {"s": frozenset({("broker-a", "orders")})}


def test_hours_without_raw_rows_are_not_planned(lake):
    load(lake, snapshot(1))
    remember_raw_since(lake.shared.state, at(0) + timedelta(minutes=30))
    with pytest.raises(dg.Failure, match="have been removed"):
        _ = run_of(lake).plan
    assert run_of(lake, **PENDING).plan.snapshots


def test_everything_that_reads_valid_rows_comes_after_the_quarantine(lake):
    """Validation's outcome is read from the quarantine of the run."""
    graph = build(Settings(home=lake.home)).resolve_job_def(TICK.name).asset_layer.asset_graph
    for table in progress.ALL:
        before = graph.get_ancestor_asset_keys(key_of(table))
        assert key_of(quality.QUARANTINE) in before, table.name


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
