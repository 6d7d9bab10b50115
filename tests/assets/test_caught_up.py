"""Dagster shows the hours that were computed, and those that can be."""

import dagster as dg
import pytest

from assets.metadata import key_of
from assets.partitions import PARTITION, PENDING, partition_key, range_tags
from assets.run import Run
from orchestration.definitions import build
from orchestration.jobs import RECOMPUTE, TICK
from tests.support.loaded_snapshots import at, load, snapshot
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress, raw
from tidemark.settings.environment import Settings

TABLES = (raw.TOPICS, progress.SNAPSHOTS)
"""Tables that a run of these tests computes, as they need no Spark."""


@pytest.fixture(autouse=True)
def _all_computed(monkeypatch):
    """Let runs pass for whole ones."""
    monkeypatch.setattr(Run, "lacks", lambda self, tables: [])


def ran(lake, job, tags):
    """Where Dagster sees each of the tables computed."""
    resolved = build(Settings(home=lake.home)).resolve_job_def(job.name)
    made = frozenset(resolved.asset_layer.executable_asset_keys)
    wanted = made & {key_of(table) for table in (*raw.ALL, progress.SNAPSHOTS)}
    resolved = resolved.get_subset(asset_selection=wanted, asset_check_selection=set())
    with dg.DagsterInstance.ephemeral() as instance:
        assert resolved.execute_in_process(instance=instance, tags=tags).success
        return {
            table.name: sorted(instance.get_materialized_partitions(key_of(table)))
            for table in TABLES
            if key_of(table) in wanted
        }


def keys(*minutes):
    return [partition_key(at(minute)) for minute in minutes]


def test_only_hours_that_a_tick_caught_up_are_computed(lake):
    load(lake, snapshot(1), snapshot(2), snapshot(65), snapshot(181))
    texts = ran(lake, TICK, PENDING | {PARTITION: partition_key(at(181))})
    assert texts == {table.name: keys(0, 60, 180) for table in TABLES}


def test_a_usual_tick_computes_its_own_hour(lake):
    load(lake, snapshot(1))
    texts = ran(lake, TICK, PENDING | {PARTITION: partition_key(at(1))})
    assert texts == {table.name: keys(0) for table in TABLES}


def test_a_recomputation_has_computed_its_hours(lake):
    load(lake, snapshot(1), snapshot(65), snapshot(181))
    hours = range_tags(Window(at(0), at(120)))
    assert ran(lake, RECOMPUTE, hours) == {progress.SNAPSHOTS.name: keys(0, 60)}
