"""Burn rates judge a snapshot by what was known before it, whichever run computes it."""

from datetime import UTC, datetime

import pytest

from tests.support.cluster_history import Minute, computed, put
from tests.support.homes import run, warmed
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.lake.tables import alerting, progress
from tidemark.settings.home import Home

pytestmark = [pytest.mark.spark, pytest.mark.kills]

HISTORY = [Minute(at=at, deep=False) for at in range(25, 65)]
"""Forty minutes around a whole hour; some groups are late in all of them."""


def test_one_tick_three_ticks_and_a_recomputation_find_the_same_alerts(tmp_path, spark_engine):
    start = floor_hour(datetime.now(UTC)) - 4 * HOUR
    whole, parted = Home.of(tmp_path / "whole"), Home.of(tmp_path / "parted")
    with warmed(whole, spark_engine) as warm:
        put(whole, start, HISTORY)
        warm.tick()
        expected = computed(warm.lake)
    burning = [
        row for row in expected[alerting.ALERTS.name] if row["rule"] == "budget-burning-fast"
    ]
    # Half of the minutes of an hour are known after thirty of them.
    first = min(row["observed_at"] for row in burning)
    assert (first - start).total_seconds() // 60 == 25 + 30
    with warmed(parted, spark_engine) as warm:
        for part in (HISTORY[:17], HISTORY[17:36], HISTORY[36:]):
            put(parted, start, part)
            warm.tick()
        for name in (progress.OBJECTIVES.name, alerting.ALERTS.name):
            assert computed(warm.lake)[name] == expected[name], name
        hours = [f"{at:%Y-%m-%dT%H:%MZ}" for at in (start, start + 2 * HOUR)]
        done = run(parted, ["recompute", "--from", hours[0], "--to", hours[1]])
        assert done.returncode == 0, done.stderr
        for name in (progress.OBJECTIVES.name, alerting.ALERTS.name):
            assert computed(warm.lake)[name] == expected[name], name
