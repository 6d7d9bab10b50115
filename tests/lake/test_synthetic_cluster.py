"""The snapshots of the synthetic cluster fill every table and load as real ones do."""

from datetime import UTC, datetime

from tests.support.synthetic_cluster import SyntheticCluster
from tidemark.lake.landing import land, landed
from tidemark.lake.loading import load, read_landed
from tidemark.lake.tables import raw

START = datetime(2026, 1, 1, tzinfo=UTC)
NEVER_SYNTHETIC = {raw.CONSUME_STATS.name, raw.BROKER_METRICS.name, raw.TOPIC_METRICS.name}
"""Tables that only the hourly audit reads, or that only clusters with ``broker_metrics`` fill."""


def test_they_fill_every_table_of_a_tick(lake):
    cluster = SyntheticCluster(START, topics=4, groups=4)
    for number in (0, 1):
        land(lake.home, cluster.snapshot(number))
    filled = {name for item in landed(lake.home) for name in read_landed(item)}
    assert filled == {table.name for table in raw.ALL} - NEVER_SYNTHETIC
    assert len(load(lake).snapshots) == 2


def test_offsets_advance_and_stay_within_the_queue():
    cluster = SyntheticCluster(START, topics=4, groups=4)
    before, after = (cluster.snapshot(number) for number in (0, 1))
    ends = {(row.broker, row.topic, row.queue_id): row.max_offset for row in after.queue_offsets}
    for earlier, later in zip(before.consumer_offsets, after.consumer_offsets, strict=True):
        assert earlier.consumer_offset < later.consumer_offset <= later.pull_offset
        assert later.pull_offset <= ends[later.broker, later.topic, later.queue_id]
