"""Dagster's daemon runs Tidemark in the project of somebody else, beside that project's assets."""

from datetime import UTC, datetime

import dagster as dg
import pytest

from assets.dagster_names import PREFIX
from assets.partitions import partition_key
from tests.support.cluster_history import PAST, put, rows
from tests.support.dagster_processes import (
    ended_backfill,
    has_pages,
    process,
    start_schedule,
    until,
)
from tests.support.homes import warmed
from tests.support.servers import free_port
from tests.support.strange_project import MODULE, PROJECT, project_environment
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.settings.home import Home

pytestmark = [pytest.mark.spark, pytest.mark.deployment, pytest.mark.kills]

START = floor_hour(datetime.now(UTC)) - 3 * HOUR
HOURS = [partition_key(START), partition_key(START + HOUR)]
ASSETS = ("progress/queues", "progress/groups", "slow_customers")

INSTANCE = """\
# Of the project, and of nobody else.
concurrency:
  pools: {granularity: op, default_limit: 1}
telemetry: {enabled: false}
"""
TICKS = dg.RunsFilter(job_name=f"{PREFIX}tick", statuses=[dg.DagsterRunStatus.SUCCESS])


def test_a_backfill_computes_hours_of_both(tmp_path, spark_engine):
    """A schedule is switched on in Dagster's pages, then one backfill is of assets of both."""
    home, log, port = Home.of(tmp_path / "home"), tmp_path / "dev.log", free_port()
    home.make()
    home.dagster.mkdir(parents=True)
    (home.dagster / "dagster.yaml").write_text(INSTANCE)
    put(home, START, [minute for minute in PAST if minute.at < 66])
    dev = ["dagster", "dev", "-m", MODULE, "-d", str(PROJECT), "-h", "127.0.0.1", "-p", str(port)]
    with (
        warmed(home, spark_engine) as warm,
        process(dev, log, project_environment(home)) as server,
        dg.DagsterInstance.from_config(str(home.dagster)) as instance,
    ):
        until(lambda: has_pages(port), {server: log})
        start_schedule(port, f"{PREFIX}every_minute", MODULE)
        until(lambda: instance.get_runs(TICKS), {server: log})
        before = rows(warm.lake, "progress.groups")
        backfill = ended_backfill(
            instance,
            port,
            {server: log},
            assets=ASSETS,
            partitions=HOURS,
        )
        assert backfill.status.value == "COMPLETED_SUCCESS", log.read_text()[-3000:]
        runs = instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": backfill.backfill_id}))
        computed = {key: hours_of(instance, key, runs) for key in ASSETS}
        after = rows(warm.lake, "progress.groups")
    assert {run.status for run in runs} == {dg.DagsterRunStatus.SUCCESS}
    assert computed == {key: set(HOURS) for key in ASSETS}
    assert {partition_key(row["observed_at"]) for row in before} == set(HOURS)
    assert len(after) == len(before)
    assert (home.dagster / "dagster.yaml").read_text() == INSTANCE


def hours_of(instance, key, runs):
    """Return the hours of an asset that some of the runs materialized."""
    wanted = dg.AssetRecordsFilter(dg.AssetKey(key.split("/")), asset_partitions=HOURS)
    records = instance.fetch_materializations(wanted, limit=100).records
    return {it.partition_key for it in records if it.run_id in {run.run_id for run in runs}}
