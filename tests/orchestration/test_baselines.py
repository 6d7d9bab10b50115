"""The first tick of an hour computes its baselines, others and recomputations give the same."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.cluster_history import CLUSTER, Minute, put, rows
from tests.support.homes import run, warmed
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.lake.tables import progress
from tidemark.settings.home import Home

pytestmark = [pytest.mark.spark, pytest.mark.kills]


def observed(at: datetime, week: int) -> dict[str, object]:
    return {
        **{"snapshot_id": f"{at:%Y%m%dT%H%M%S}000Z-{CLUSTER}", "observed_at": at},
        **{"cluster": CLUSTER, "consumer_group": "billing", "topic": "orders", "complete": True},
        **{"lag": 10 * week, "delay_ms": 1_000 * week},
    }


def test_baselines_are_computed_once_an_hour_and_again_by_a_recomputation(tmp_path, spark_engine):
    start = floor_hour(datetime.now(UTC)) - 3 * HOUR
    home = Home.of(tmp_path / "home")
    with warmed(home, spark_engine) as warm:
        former = [
            observed(start - timedelta(days=7 * week) + timedelta(minutes=minute), week)
            for week in (1, 2, 3)
            for minute in range(30)
        ]
        warm.lake.append(progress.GROUPS, former)
        put(home, start, [Minute(at=5, deep=False)])
        warm.tick()
        (row,) = computed = rows(warm.lake, progress.BASELINES.name)
        assert (row["hour"], row["weeks"]) == (start, 3)
        assert (row["delay_ms_low"], row["delay_ms_high"], row["lag_median"]) == (2_000, 2_000, 20)
        versions = len(warm.lake.table(progress.BASELINES.name).snapshots())
        put(home, start, [Minute(at=6, deep=False)])
        warm.tick()
        warm.lake.table(progress.BASELINES.name).refresh()
        assert len(warm.lake.table(progress.BASELINES.name).snapshots()) == versions
        hours = [f"{at:%Y-%m-%dT%H:%MZ}" for at in (start, start + HOUR)]
        done = run(home, ["recompute", "--from", hours[0], "--to", hours[1]])
        assert done.returncode == 0, done.stderr
        assert rows(warm.lake, progress.BASELINES.name) == computed
