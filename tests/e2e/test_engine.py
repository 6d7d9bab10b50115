"""The warm engine is an accelerator, never a condition."""

import os
import signal
import subprocess
import time
from datetime import UTC, datetime

import dagster as dg
import pytest

from lake.catalog import Lake
from lake.home import Home
from orchestration import warm
from tests.e2e.conftest import TIDEMARK, environment, run
from tests.history import Minute, put, rows

pytestmark = [pytest.mark.spark, pytest.mark.kills]


def test_an_engine_killed_in_a_tick_fails_that_tick_with_one_line(tmp_path):
    """The next one has a Spark of its own, which says the same as far as the engine had come."""
    home = Home.of(tmp_path / "home")
    lake, engine = Lake(home), warm.up(home)
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    put(home, start, [Minute(0, impossible=True)])
    process = subprocess.Popen(
        [str(TIDEMARK), "tick", "--no-collect"],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while not (judged := rows(lake, "quality.results")):  # the engine is at work
            assert process.poll() is None, process.communicate()
            time.sleep(0.2)
        os.kill(engine.pid, signal.SIGKILL)
        _, told = process.communicate(timeout=120)
    finally:
        process.kill()
        warm.down(home)
    lines = [line for line in told.splitlines() if line.startswith("tidemark: ")]
    assert process.returncode == 1 and len(lines) == 1 and "Traceback" not in told, told

    done = run(home, ["tick", "--no-collect"])
    assert done.returncode == 0, done.stderr
    assert len(rows(lake, "progress.snapshots")) == 1
    engines = told_by(judged)
    own = told_by(row for row in rows(lake, "quality.results") if row not in judged)
    assert own.items() >= engines.items()
    assert {key for key, (success, _, _) in engines.items() if not success} == {
        ("raw.queue_offsets", "max_offset_ge_0"),
        ("raw.queue_offsets", "min_offset_le_max_offset"),
        ("raw.queue_offsets", "key_unique"),
        ("raw.consumer_offsets", "consumer_offset_ge_0"),
        ("raw.consumer_offsets", "queue_row_sound"),
    }
    assert {(row["table"], row["reason"]) for row in rows(lake, "quality.quarantine")} == {
        ("raw.queue_offsets", "max_offset_ge_0, min_offset_le_max_offset"),
        ("raw.queue_offsets", "key_unique"),
        ("raw.consumer_offsets", "consumer_offset_ge_0"),
        ("raw.consumer_offsets", "queue_row_sound"),
    }
    (sample,) = samples(home, "raw", "queue_offsets")["min_offset_le_max_offset"]
    assert (sample["broker"], sample["queue_id"]) == ("broker-a", 0)
    assert sample["min_offset"] > sample["max_offset"]


def samples(home, *table):
    """The rows that the check of a table's suite showed last, by rule."""
    with dg.DagsterInstance.from_config(str(home.dagster)) as instance:
        (newest,) = instance.get_runs(limit=1)
        events = [each.dagster_event for each in instance.all_logs(newest.run_id)]
    judged = [
        event.asset_check_evaluation_data
        for event in events
        if event and event.event_type_value == "ASSET_CHECK_EVALUATION"
    ]
    (mine,) = [each for each in judged if tuple(each.asset_key.path) == table]
    return mine.metadata["sample"].value


def told_by(verdicts):
    """What each expectation said, without who asked and when."""
    return {
        (row["table"], row["expectation"]): (row["success"], row["elements"], row["unexpected"])
        for row in verdicts
    }
