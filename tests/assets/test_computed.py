"""A run of some tables leaves the new snapshots to a run of all tables."""

import dagster as dg
import pytest

from assets import alerting as assets_alerting
from assets.alerting import ADVANCED_BY
from assets.metadata import key_of
from assets.partitions import range_tags
from assets.progress import COMPUTED
from assets.run import recorded_tables
from orchestration.definitions import build
from orchestration.jobs import RECOMPUTE, TICK
from tests.support.loaded_snapshots import at, load, mark_computed, name, snapshot
from tidemark.lake.clocks import Window
from tidemark.lake.tables import alerting, progress, quality, raw
from tidemark.planning.history import computed_ids, pending_window
from tidemark.settings.environment import Settings

HOUR = Window(at(0), at(60))


def materialized(lake, *tables):
    """Materialize single tables of an hour; return the warnings and the metadata of the last."""
    job = build(Settings(home=lake.home)).resolve_job_def(RECOMPUTE.name)
    keys = frozenset(map(key_of, tables))
    job = job.get_subset(asset_selection=keys, asset_check_selection=set())
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance, tags=range_tags(HOUR))
        assert done.success
        logged = [entry.user_message for entry in instance.all_logs(done.run_id)]
    (made,) = done.asset_materializations_for_node(key_of(tables[-1]).to_python_identifier())
    return [line for line in logged if "tick" in line], made.metadata


def test_a_mark_alone_leaves_snapshots_pending(lake):
    load(lake, snapshot(1), snapshot(2))
    mark_computed(lake, 1)
    warnings, metadata = materialized(lake, progress.SNAPSHOTS)
    assert computed_ids(lake, HOUR) == {name(1)}
    assert pending_window(lake, at(0)) is not None
    assert metadata["dagster/row_count"].value == 1
    assert metadata["pending"].value == 1
    assert len(warnings) == 1
    assert warnings[0].startswith("1 snapshots stay pending") and "progress.groups" in warnings[0]


def test_nothing_is_warned_of_when_all_is_computed(lake):
    load(lake, snapshot(1))
    mark_computed(lake, 1)
    assert materialized(lake, progress.SNAPSHOTS)[0] == []


def test_incidents_alone_are_not_advanced(lake, monkeypatch):
    load(lake, snapshot(1))
    monkeypatch.setattr(assets_alerting, "advance_by", lambda *_, **__: pytest.fail("advanced"))
    warnings, _ = materialized(lake, alerting.INCIDENTS)
    assert len(warnings) == 1
    assert "1 new snapshots" in warnings[0] and "alerting.alerts" in warnings[0]


@pytest.mark.parametrize("job", [TICK, RECOMPUTE])
def test_jobs_compute_all_that_a_mark_needs(lake, job):
    resolved = build(Settings(home=lake.home)).resolve_job_def(job.name)
    made = resolved.asset_layer.executable_asset_keys
    assert {key_of(table) for table in (*COMPUTED, *ADVANCED_BY)} <= set(made)


def test_incidents_come_after_all_that_advances_them(lake):
    graph = build(Settings(home=lake.home)).resolve_job_def(TICK.name).asset_layer.asset_graph
    for table, needed in ((alerting.INCIDENTS, ADVANCED_BY), (progress.SNAPSHOTS, COMPUTED)):
        before = graph.get_ancestor_asset_keys(key_of(table))
        assert {key_of(table) for table in needed} <= before, table.name
        of_raw = {key_of(table) for table in raw.ALL}
        tables = {key for key in before if len(key.path) > 1}
        assert tables - of_raw <= {key_of(table) for table in needed} | {key_of(table)}, table.name


def test_a_run_lacks_what_dagster_has_not_recorded_of_it(lake):
    load(lake, snapshot(1))
    job = build(Settings(home=lake.home)).resolve_job_def(RECOMPUTE.name)
    keys = frozenset(map(key_of, (quality.RESULTS, progress.SNAPSHOTS)))
    job = job.get_subset(asset_selection=keys, asset_check_selection=set())
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance, tags=range_tags(HOUR))
        recorded = recorded_tables(instance, done.run_id)
        assert recorded == {"quality.results", "progress.snapshots"}
        assert recorded_tables(instance, "another run") == set()
