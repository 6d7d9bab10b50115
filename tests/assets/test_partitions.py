"""Hours that are partitions: those that can be computed."""

from datetime import UTC, datetime, timedelta

from assets.metadata import key_of
from assets.partitions import computable_since, first_hour, partition_key
from orchestration.definitions import build
from tidemark.lake.clocks import HOUR, ceil_hour, floor_hour
from tidemark.lake.retention import remember_raw_since
from tidemark.lake.tables import progress
from tidemark.settings.environment import Settings


def test_landed_history_can_be_computed_until_its_raw_rows_are_removed(lake):
    state = lake.shared.state
    assert computable_since(state, 30) == first_hour(30)
    removed = datetime.now(UTC) - timedelta(days=7, minutes=1)
    remember_raw_since(state, removed)
    assert computable_since(state, 30) == ceil_hour(removed)
    assert computable_since(state, 3) == first_hour(3)


def test_partitions_are_the_hours_that_can_be_computed(lake):
    now = floor_hour(datetime.now(UTC))
    assert _partitions(lake) == [partition_key(now - hours * HOUR) for hours in range(72, -1, -1)]
    remember_raw_since(lake.shared.state, now - 2 * HOUR)
    assert _partitions(lake) == [partition_key(now - hours * HOUR) for hours in (2, 1, 0)]


def _partitions(lake):
    graph = build(Settings(home=lake.home, history_days=3)).resolve_asset_graph()
    return graph.get(key_of(progress.QUEUES)).partitions_def.get_partition_keys()
