"""Hours that are partitions: those that can be computed."""

from datetime import UTC, datetime, timedelta

from assets.metadata import key_of
from assets.partitions import STARTS_WITHIN, computable_since, first_hour, partition_key
from orchestration.definitions import build
from tests.support.cluster_history import Minute, put
from tidemark.lake.clocks import HOUR, ceil_hour, floor_hour
from tidemark.lake.landing import folders
from tidemark.lake.loading import load
from tidemark.lake.retention import remember_raw_since
from tidemark.lake.tables import progress
from tidemark.settings.environment import Settings

MINUTE = (Minute(at=0),)


def test_hours_before_the_first_observation_are_no_partitions(lake):
    now = floor_hour(datetime.now(UTC))
    assert _partitions(lake)[-1] == partition_key(now)
    assert _partitions(lake)[0] == partition_key(datetime.now(UTC) - STARTS_WITHIN)
    put(lake.home, now - HOUR, MINUTE)
    load(lake)
    assert _partitions(lake) == [partition_key(now - HOUR), partition_key(now)]
    # History that lands later is computed too; what was observed later changes nothing.
    put(lake.home, now - 3 * HOUR, MINUTE)
    put(lake.home, now - HOUR + timedelta(minutes=1), MINUTE)
    load(lake)
    assert _partitions(lake)[0] == partition_key(now - 3 * HOUR)


def test_rows_of_a_program_without_a_record_count(lake):
    now = floor_hour(datetime.now(UTC))
    put(lake.home, now - 2 * HOUR, MINUTE)
    load(lake)
    lake.shared.state.remove("observed_since.json")
    assert _partitions(lake)[0] == partition_key(now - 2 * HOUR), "it has landed"
    for item in folders(lake.landing):
        lake.landing.remove(item.path)
    put(lake.home, now - HOUR, MINUTE)
    load(lake)
    assert _partitions(lake)[0] == partition_key(now - 2 * HOUR)


def test_landed_history_can_be_computed_until_its_raw_rows_are_removed(lake):
    state = lake.shared.state
    put(lake.home, first_hour(40), MINUTE)
    load(lake)
    assert computable_since(state, lake.landing, 30) == first_hour(30)
    removed = datetime.now(UTC) - timedelta(days=7, minutes=1)
    remember_raw_since(state, removed)
    assert computable_since(state, lake.landing, 30) == ceil_hour(removed)
    assert computable_since(state, lake.landing, 3) == first_hour(3)


def test_partitions_are_the_hours_that_can_be_computed(lake):
    now = floor_hour(datetime.now(UTC))
    put(lake.home, first_hour(40), MINUTE)
    load(lake)
    assert _partitions(lake) == [partition_key(now - hours * HOUR) for hours in range(72, -1, -1)]
    remember_raw_since(lake.shared.state, now - 2 * HOUR)
    assert _partitions(lake) == [partition_key(now - hours * HOUR) for hours in (2, 1, 0)]


def _partitions(lake):
    graph = build(Settings(home=lake.home, history_days=3)).resolve_asset_graph()
    return graph.get(key_of(progress.QUEUES)).partitions_def.get_partition_keys()
