"""Computed rows of a real cluster, compared with the files of its brokers."""

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.homes import run
from tidemark.lake.landing import land
from tidemark.lake.tables import progress, raw
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.deep.deep_snapshot import DeepOptions
from tidemark.rocketmq.files.store_folder import BrokerStore
from tidemark.rocketmq.snapshot.target import ClusterTarget

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

NAME = "truth"
SNAPSHOTS_TAKEN, SECONDS = 9, 4.0

BUILT_FOR = {
    ("g-fast", "lab_orders"): {"OK", "CATCHING_UP", "IDLE"},
    ("g-two", "lab_two"): {"OK", "CATCHING_UP", "IDLE"},
    ("g-orderly", "lab_ordered"): {"OK", "CATCHING_UP", "IDLE"},
    ("g-stuck", "lab_orders"): {"BLOCKED"},
    ("g-hung", "lab_hung"): {"BLOCKED"},
    ("g-gone", "lab_orders"): {"STOPPED"},
}
"""Health that groups of the workload must have; others depend on the load of the machine."""


def wait_until_stuck(target):
    """Wait until g-stuck, just started, commits the same twice with more messages to consume."""

    def standing():
        return {
            (row.broker, row.queue_id): row.consumer_offset
            for row in collect_snapshot(target).consumer_offsets
            if (row.consumer_group, row.topic) == ("g-stuck", "lab_orders")
            and row.consumer_offset is not None
            and (row.pull_offset or 0) > row.consumer_offset + 1
        }

    until, before = time.monotonic() + 240, standing()
    while True:
        time.sleep(2 * SECONDS)
        now = standing()
        if before.items() & now.items():
            return
        assert time.monotonic() < until, "g-stuck is not stuck"
        before = now


@pytest.fixture(scope="module")
def rows(warm_home, cluster):
    """Rows of a cluster that was seen nine times in 36 s, the last time deeply, by table."""
    target = ClusterTarget(name_servers=(cluster.namesrv,), name=NAME)
    wait_until_stuck(target)
    for left in reversed(range(SNAPSHOTS_TAKEN)):
        deep = None if left else DeepOptions()
        land(warm_home.home, collect_snapshot(replace(target, deep=deep)))
        time.sleep(SECONDS if left else 0)
    # Health counts observations that are as far apart as rates need them.
    done = run(warm_home.home, ["tick", "--no-collect"], TIDEMARK_RATE_SECONDS="2")
    assert done.returncode == 0, done.stderr
    return {
        table: [row for row in warm_home.lake.read(table).to_pylist() if row["cluster"] == NAME]
        for table in (raw.SNAPSHOTS, progress.QUEUES, progress.GROUPS, progress.ASSIGNMENTS)
    }


@pytest.fixture(scope="module")
def stores(cluster):
    """The files of each broker, by its name."""
    with ExitStack() as opened:
        yield {
            broker.broker: opened.enter_context(
                BrokerStore(cluster.folder(broker.broker) / "store")
            )
            for broker in cluster.brokers
        }


def newest(rows, table):
    last = max(row["observed_at"] for row in rows[raw.SNAPSHOTS])
    return [row for row in rows[table] if row["observed_at"] == last]


def test_groups_do_as_they_were_built_to(rows):
    mapping = {(row["consumer_group"], row["topic"]): row for row in newest(rows, progress.GROUPS)}
    for key, healths in BUILT_FOR.items():
        assert mapping[key]["health"] in healths, mapping[key]["health_reason"]


def test_flow_control_is_named_as_what_holds_a_slow_group_back(rows):
    (slow,) = [
        row
        for row in newest(rows, progress.GROUPS)
        if (row["consumer_group"], row["topic"]) == ("g-slow", "lab_orders")
    ]
    assert 0 < slow["queues_flow_controlled"] <= slow["queues"]
    assert "flow control holds back the pulls of broker-a/" in slow["health_reason"]
    assert " of 10 messages in the cache of 127.0.0.1@g-slow-0" in slow["health_reason"]


def test_delay_is_the_age_of_the_first_stored_message(rows, stores):
    """Within its error and the time a snapshot took, whose start is recorded as its instant."""
    snapshots = sorted(rows[raw.SNAPSHOTS], key=lambda snapshot: snapshot["observed_at"])
    slack = max(snapshot["duration_ms"] for snapshot in snapshots[:-1])
    compared = Counter()
    for row in rows[progress.QUEUES]:
        if not row["readable_lag"] or row["delay_ms"] is None or row["offset_store"] != "broker":
            continue
        first = max(row["consumer_offset"], row["min_offset"])
        stored = stores[row["broker"]].stored_at(row["topic"], row["queue_id"], first)
        age = (row["observed_at"] - stored) / timedelta(milliseconds=1)
        if row["delay_source"] == "at_least":
            assert age >= row["delay_ms"] - slack, row
        else:
            assert abs(age - row["delay_ms"]) <= row["delay_error_ms"] + slack, row
        compared[row["delay_source"]] += 1
    assert min(compared[name] for name in ("exact", "interpolated", "at_least")) > 10, compared


def test_the_interval_of_filtered_lag_contains_the_truth(rows, stores):
    """g-filter subscribes to tag A, whose hash is its code."""
    mine = [row for row in newest(rows, progress.QUEUES) if row["consumer_group"] == "g-filter"]
    waiting = 0
    for row in mine:
        start = max(row["consumer_offset"] or 0, row["min_offset"])
        store = stores[row["broker"]]
        tags = store.queue_tags(
            row["broker"], row["topic"], row["queue_id"], start, row["max_offset"]
        )
        waiting += sum(tag.tags_code == ord("A") for tag in tags)
    (group,) = [
        row
        for row in newest(rows, progress.GROUPS)
        if (row["consumer_group"], row["topic"]) == ("g-filter", "lab_orders")
    ]
    assert group["match_method"] == "tag_sample"
    assert group["filtered_lag_low"] <= waiting <= group["filtered_lag_high"], group


def test_queues_are_owned_by_whom_the_strategy_gives_them(rows):
    mine = newest(rows, progress.ASSIGNMENTS)
    assert {row["strategy"] for row in mine} >= {"AVG"}
    for row in mine:
        assert row["state"] == "OK", row
        assert row["actual_client_id"] == row["expected_client_id"] is not None, row
    assert len({row["consumer_group"] for row in mine}) > 8
