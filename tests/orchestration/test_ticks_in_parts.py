"""Ticks after a long pause compute in parts, with the same rows as one tick would."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from tests.support.cluster_history import PAST, computed, put
from tests.support.homes import ROOT, environment, warmed
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.lake.tables import alerting
from tidemark.settings.home import Home

pytestmark = [pytest.mark.spark, pytest.mark.kills]

TICK = """
from tidemark.planning import history
history.PART_ROWS = 1
from orchestration import in_process
from tidemark.settings.environment import Settings
in_process.tick(Settings.read(), collect=False, complain=print)
"""
"""A tick whose parts are single hours."""

WAITING = "snapshots wait for the next ticks"


def tables(lake):
    incidents = lake.read(alerting.INCIDENTS).drop_columns("written_at").to_pylist()
    return computed(lake) | {"incidents": sorted(incidents, key=lambda row: row["incident_id"])}


def test_three_ticks_compute_three_hours_as_one_does(tmp_path, spark_engine):
    start = floor_hour(datetime.now(UTC)) - 8 * HOUR
    whole, parted = Home.of(tmp_path / "whole"), Home.of(tmp_path / "parted")
    for home in (whole, parted):
        home.make()
        put(home, start, PAST)
    with warmed(whole, spark_engine) as warm:
        warm.tick()
        expected = tables(warm.lake)
    assert expected["progress.queues"] and expected["incidents"]
    with warmed(parted, spark_engine) as warm:
        printed = [_tick(parted) for _ in range(3)]
        mapping = tables(warm.lake)
    assert [WAITING in text for text in printed] == [True, True, False]
    for name, rows in expected.items():
        assert mapping[name] == rows, name


def _tick(home):
    command = [sys.executable, "-c", TICK]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(home), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr
