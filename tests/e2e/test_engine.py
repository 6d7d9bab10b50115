"""The warm engine is an accelerator, never a condition."""

import os
import signal
import subprocess
import time
from datetime import UTC, datetime

import pytest

from tests.support.cluster_history import Minute, put, rows
from tests.support.homes import TIDEMARK, environment, newest_check, run
from tidemark.embedded import run_services
from tidemark.lake.catalog import Lake
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

pytestmark = [pytest.mark.spark, pytest.mark.kills]


def test_a_killed_engine_fails_its_tick_in_one_line(tmp_path):
    """The next tick starts its own Spark, which gives the same results as the engine so far."""
    home = Home.of(tmp_path / "home")
    lake, engine = Lake(home), run_services.up(Settings(home=home))
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    put(home, start, [Minute(at=0, impossible=True)])
    process = subprocess.Popen(
        [str(TIDEMARK), "tick", "--no-collect"],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while not (validated := rows(lake, "quality.results")):  # the engine is at work
            assert process.poll() is None, process.communicate()
            time.sleep(0.2)
        os.kill(engine.pid, signal.SIGKILL)
        _, printed = process.communicate(timeout=400)
    finally:
        process.kill()
        run_services.down(home)
    lines = [line for line in printed.splitlines() if line.startswith("tidemark: ")]
    assert process.returncode == 1 and len(lines) == 1 and "Traceback" not in printed, printed

    done = run(home, ["tick", "--no-collect"])
    assert done.returncode == 0, done.stderr
    assert len(rows(lake, "progress.snapshots")) == 1
    engines = runs_of(validated)
    own = runs_of(row for row in rows(lake, "quality.results") if row not in validated)
    assert own.items() >= engines.items()
    assert {key for key, (success, _, _) in engines.items() if success is False} == {
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
    (landed,) = {row["snapshot_id"] for row in rows(lake, "progress.snapshots")}
    key = {"snapshot_id": landed, "topic": "orders"}
    queues, consumers = (
        newest_check(home, "raw", name)[1].metadata["sample"].value
        for name in ("queue_offsets", "consumer_offsets")
    )
    assert queues["min_offset_le_max_offset"] == [
        {**key, "broker": "broker-a", "queue_id": 0, "min_offset": 0, "max_offset": -1}
    ]
    assert consumers["consumer_offset_ge_0"] == [
        {**key, "broker": "broker-b", "queue_id": 2, "consumer_offset": -7}
        | {"consumer_group": "g-slow", "client_id": None}
    ]
    unsound = {**key, "broker": "broker-a", "queue_id": 0, "client_id": None}
    groups = ["TOOLS_CONSUMER", "g-broadcast", "g-fast", "g-gone", "g-hung", "g-slow"]
    sample = consumers["queue_row_sound"]
    assert len({row["consumer_group"] for row in sample}) == len(sample) == 5
    assert all(row in [unsound | {"consumer_group": group} for group in groups] for row in sample)
    computed = rows(lake, "progress.queues", consumer_group="g-slow", topic="orders")
    valid = {("broker-a", 1), ("broker-a", 2), ("broker-b", 0)}
    assert {(row["broker"], row["queue_id"]) for row in computed} == valid


def runs_of(results):
    """Return each validation result without its run and instant."""
    return {
        (row["table"], row["expectation"]): (row["success"], row["elements"], row["unexpected"])
        for row in results
    }
