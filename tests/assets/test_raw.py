"""A tick loads exactly the snapshots that it then computes."""

from datetime import UTC, datetime, timedelta

import dagster as dg

from assets.metadata import key_of
from assets.partitions import PARTITION, PENDING, partition_key
from orchestration.definitions import build
from orchestration.jobs import TICK
from tests.support.cluster_history import Minute, put
from tests.support.loaded_snapshots import NOON
from tidemark.lake.landing import landed
from tidemark.lake.tables import raw
from tidemark.settings.environment import Settings

TABLES = frozenset(key_of(table) for table in raw.ALL)


def test_a_snapshot_of_last_year_is_not_loaded(lake):
    """No tick would compute it: retention would remove it, and the next tick load it again."""
    for start in (NOON - timedelta(days=365), NOON):
        put(lake.home, start, [Minute(at=0)])
    job = build(Settings(home=lake.home)).resolve_job_def(TICK.name)
    loading = job.get_subset(asset_selection=TABLES, asset_check_selection=set())
    with dg.DagsterInstance.ephemeral() as instance:
        tags = PENDING | {PARTITION: partition_key(NOON)}
        assert loading.execute_in_process(instance=instance, tags=tags).success
    assert lake.read(raw.SNAPSHOTS)["observed_at"].to_pylist() == [NOON]


def test_a_fault_of_many_snapshots_is_one_line_of_each_cluster(lake, capfd):
    """Thousands wait behind a wrong clock, or a collector that writes what nobody reads."""
    put(lake.home, NOON, [Minute(at=minute) for minute in range(3)])
    for item in landed(lake.home):
        (item.path / "snapshots.parquet").write_text("no Parquet")
    put(lake.home, datetime(1970, 1, 1, tzinfo=UTC), [Minute(at=minute) for minute in range(4)])
    job = build(Settings(home=lake.home)).resolve_job_def(TICK.name)
    loading = job.get_subset(asset_selection=TABLES, asset_check_selection=set())
    with dg.DagsterInstance.ephemeral() as instance:
        tags = PENDING | {PARTITION: partition_key(NOON)}
        assert loading.execute_in_process(instance=instance, tags=tags).success
    printed = capfd.readouterr().err
    assert printed.count("is kept out") == printed.count("of a clock that was wrong") == 1
    assert "; so are 2 others of that cluster" in printed
    assert "; so are 3 others of that cluster" in printed
