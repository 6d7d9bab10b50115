"""The snapshots that an engine warms itself on fill every table and load as real ones do."""

from datetime import UTC, datetime

import pytest

from tidemark.embedded.run_services import usual_rows
from tidemark.embedded.warm_up_ticks import SyntheticCluster
from tidemark.lake.landing import land, landed
from tidemark.lake.loading import load, read_landed
from tidemark.lake.tables import raw

START = datetime(2026, 1, 1, tzinfo=UTC)
NEVER_SYNTHETIC = {raw.CONSUME_STATS.name, raw.BROKER_METRICS.name, raw.TOPIC_METRICS.name}
"""Tables that only the hourly audit reads, or that only clusters with ``broker_metrics`` fill."""


def test_they_fill_every_table_of_a_tick(lake):
    cluster = SyntheticCluster.with_rows(START, 0)
    for number in (0, 1):
        land(lake.home, cluster.snapshot(number))
    filled = {name for item in landed(lake.home) for name in read_landed(item)}
    assert filled == {table.name for table in raw.ALL} - NEVER_SYNTHETIC
    assert len(load(lake).snapshots) == 2


@pytest.mark.parametrize("rows", [1, 5_001, 20_000])
def test_they_are_as_large_as_the_real_ones(rows):
    made = SyntheticCluster.with_rows(START, rows).snapshot(0)
    assert rows <= len(made.consumer_offsets) <= max(300, 1.5 * rows)


def test_offsets_advance_and_stay_within_the_queue():
    cluster = SyntheticCluster.with_rows(START, 0)
    before, after = (cluster.snapshot(number) for number in (0, 1))
    ends = {(row.broker, row.topic, row.queue_id): row.max_offset for row in after.queue_offsets}
    for earlier, later in zip(before.consumer_offsets, after.consumer_offsets, strict=True):
        assert earlier.consumer_offset < later.consumer_offset <= later.pull_offset
        assert later.pull_offset <= ends[later.broker, later.topic, later.queue_id]


def test_an_engine_is_warmed_on_rows_of_the_usual_number(lake):
    assert usual_rows(lake) == 0
    snapshots = [SyntheticCluster.with_rows(START, 0).snapshot(number) for number in (0, 1)]
    for snapshot in snapshots:
        land(lake.home, snapshot)
    load(lake)
    rows = [len(snapshot.queue_offsets) + len(snapshot.consumer_offsets) for snapshot in snapshots]
    assert usual_rows(lake) == sum(rows) // 2
