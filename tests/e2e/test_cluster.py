"""Ticks on real brokers, compared with the responses to an independent script."""

import json
import time

import pytest

from tests.conftest import boot
from tests.support.homes import newest_check, run
from tests.support.offset_requests import offsets_one_by_one
from tidemark.cli.output import to_json
from tidemark.lab import cluster as lab_cluster
from tidemark.lab.workloads import GROUPS
from tidemark.lake.catalog import Lake
from tidemark.lake.landing import land, landed
from tidemark.lake.query import select
from tidemark.lake.tables import TABLES
from tidemark.live.broker_times import remove_skew
from tidemark.live.lag import group_rows
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget

SHARED = "shared"
"""Configured name of the session's cluster, so that tests share one memory of its brokers."""

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


@pytest.fixture(scope="module")
def home(warm_home):
    return warm_home.home


@pytest.fixture(scope="module")
def oldest_version(tmp_path_factory):
    yield from boot(tmp_path_factory.mktemp("oldest"), "4.9.7", "all")


def tick(home, cluster, name):
    return run(home, ["tick"], TIDEMARK_NAMESRV=cluster.namesrv, TIDEMARK_CLUSTER=name)


def shown(home, table, where):
    rows = select(Lake(home), TABLES[table], where, limit=10_000).to_pylist()
    return json.loads(to_json(rows))


def newest(home, name, table):
    """Rows of a table that the newest landed snapshot of a cluster gave."""
    last = max(item for item in landed(home) if item.cluster == name)
    return last, shown(home, table, f"snapshot_id = '{last.snapshot_id}'")


def stop_producing(cluster):
    """Stops the producers: from here on no queue grows, and commits only advance."""
    cluster.stop_producers()
    time.sleep(10)  # clients commit every 5 s


def check_lag(home, cluster, name):
    """A tick on a cluster without producers equals what its brokers report before and after it.

    A slow group still works off its backlog meanwhile, so its commit lies between the two; where
    they are equal, the lag is exact.
    """
    snapshot = collect_snapshot(ClusterTarget(name_servers=(cluster.namesrv,)))
    keys = [
        (row.broker, row.consumer_group, row.topic, row.queue_id)
        for row in snapshot.consumer_offsets
        if row.offset_store == "broker"
    ]
    before = offsets_one_by_one(cluster, keys)
    done = tick(home, cluster, name)
    assert done.returncode == 0, done.stderr
    after = offsets_one_by_one(cluster, keys)
    last, queues = newest(home, name, "progress.queues")
    command = ["show", "progress.groups", "--format", "json"]
    done = run(home, [*command, "--where", f"snapshot_id = '{last.snapshot_id}'"])
    groups = json.loads(done.stdout)
    assert {row["consumer_group"] for row in groups} == set(GROUPS)
    stored = [row for row in queues if row["offset_store"] == "broker"]
    exact = 0
    for row in stored:
        key = row["broker"], row["consumer_group"], row["topic"], row["queue_id"]
        (first, maximum), (second, _) = before[key], after[key]
        if not row["topic"].startswith("%RETRY%"):  # fed by consumers, not by producers
            assert row["max_offset"] == maximum, row
        if row["consumer_offset"] is None:
            # Before 5.0 a broker reports 0 for a queue that never committed.
            assert first in ((None, 0) if cluster.version.startswith("4") else (None,)), row
            assert row["lag"] is None
        else:
            assert (first or 0) <= row["consumer_offset"] <= second, row
            assert row["lag"] == row["max_offset"] - row["consumer_offset"]
            exact += first == second
    assert exact > 20
    for group in groups:
        mine = [
            row["lag"]
            for row in stored
            if (row["consumer_group"], row["topic"]) == (group["consumer_group"], group["topic"])
            and row["lag"] is not None
        ]
        if group["message_model"] != "BROADCASTING":
            assert group["lag"] == (sum(mine) if mine else None), group
    check_hung(groups)
    return last, queues, groups


def check_hung(groups):
    (hung,) = [row for row in groups if row["topic"] == "lab_hung"]
    assert hung["consumer_group"] == "g-hung"
    assert hung["lag"] is None and hung["lag_upper"] > 0
    assert hung["queues_never_committed"] == hung["queues"] > 0
    assert hung["online"] is True


def test_lag_equals_what_brokers_report(home, cluster):
    stop_producing(cluster)
    try:
        _until_only_the_stuck_queue_lags(cluster)
        taken = collect_snapshot(ClusterTarget(name_servers=(cluster.namesrv,), name="twice"))
        land(home, taken)
        last, queues, groups = check_lag(home, cluster, SHARED)
        _stuck(queues)
        _broadcast(groups)
        _hung_is_raw(home, last)
        _same_as_lag(home, cluster, taken)
    finally:
        cluster.start_producers()


def _until_only_the_stuck_queue_lags(cluster, seconds=60):
    """The other queues of g-stuck are read to their end and committed, however busy the machine."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        taken = collect_snapshot(ClusterTarget(name_servers=(cluster.namesrv,)))
        max_offsets = {
            (row.broker, row.queue_id): row.max_offset
            for row in taken.queue_offsets
            if row.topic == "lab_orders"
        }
        lagging = [
            row
            for row in taken.consumer_offsets
            if (row.consumer_group, row.topic) == ("g-stuck", "lab_orders")
            and row.consumer_offset != max_offsets[row.broker, row.queue_id]
        ]
        if len(lagging) == 1:
            return
        time.sleep(1)
    pytest.fail(f"{len(lagging)} queues of g-stuck lag {seconds} s after the last message")


def _stuck(queues):
    """One queue stands at its first message; all that came after is handed out, not confirmed."""
    mine = [row for row in queues if row["consumer_group"] == "g-stuck"]
    mine = [row for row in mine if row["topic"] == "lab_orders"]
    (stuck,) = [row for row in mine if row["lag"]]
    assert stuck["consumer_offset"] == 0
    assert stuck["inflight"] == stuck["pull_offset"] > 1
    assert stuck["lag"] == stuck["max_offset"] == stuck["inflight"] + stuck["available"]


def _broadcast(groups):
    mine = [row for row in groups if row["consumer_group"] == "g-broadcast"]
    assert {row["message_model"] for row in mine} == {"BROADCASTING"}
    assert sum(row["lag"] or 0 for row in mine) == 0


def _hung_is_raw(home, last):
    where = f"snapshot_id = '{last.snapshot_id}' AND topic = 'lab_hung'"
    result = shown(home, "raw.consumer_offsets", where)
    assert result and {row["consumer_offset"] for row in result} == {None}


def _same_as_lag(home, cluster, taken):
    """`tidemark lag` and Spark reckon the same from one snapshot, which a tick has computed."""
    remove_skew(taken)
    _, groups = newest(home, "twice", "progress.groups")
    spark = {(row["consumer_group"], row["topic"]): row for row in groups}
    plain = {(row["consumer_group"], row["topic"]): row for row in group_rows(taken)}
    assert spark.keys() == plain.keys()
    for key, row in plain.items():
        shared = (row.keys() & spark[key].keys()) - {"observed_at"}
        assert {name: spark[key][name] for name in shared} == {name: row[name] for name in shared}
    command = run(home, ["lag", "--namesrv", cluster.namesrv, "--format", "json"])
    check_hung(json.loads(command.stdout))


def test_the_oldest_version(home, oldest_version):
    stop_producing(oldest_version)
    check_lag(home, oldest_version, f"v{oldest_version.version}")


def check_unreachable(home, cluster, name, done):
    """One broker of two is unreachable: it is named, and nothing of it is zero."""
    address = next(b.address for b in cluster.brokers if b.broker == "broker-b")
    assert done.returncode == 0, done.stderr
    assert "PARTIAL" in done.stderr and address in done.stderr
    last, queues = newest(home, name, "progress.queues")
    assert queues and {row["broker"] for row in queues} == {"broker-a"}
    _, (header,) = newest(home, name, "raw.snapshots")
    assert (header["status"], header["brokers_answered"]) == ("PARTIAL", 1)
    _, groups = newest(home, name, "progress.groups")
    (two,) = [
        row for row in groups if (row["consumer_group"], row["topic"]) == ("g-two", "lab_two")
    ]
    assert two["queues_unknown"] > 0 and two["complete"] is False
    alerts = shown(home, "alerting.alerts", f"observed_at = '{header['observed_at']}'")
    down = [row["subject"] for row in alerts if row["rule"] == "broker-down"]
    assert len(down) == 1 and "broker-b" in down[0]
    run_id, check = newest_check(home, "raw", "snapshots")
    assert check.passed is False
    assert "every_broker_answered" in check.metadata["failed_expectations"].value
    assert address in str(check.metadata["sample"])
    results = shown(home, "quality.results", f"run_id = '{run_id}'")
    (broken,) = [row for row in results if row["expectation"] == "every_broker_answered"]
    assert broken["success"] is False
    return last


def be_seen(home, cluster):
    """A broker has to be seen before it can be missed; another test may have seen to that."""
    if SHARED not in {item.cluster for item in landed(home)}:
        assert tick(home, cluster, SHARED).returncode == 0


@pytest.mark.faults
def test_a_killed_broker_is_unreachable_until_it_is_back(home, cluster):
    be_seen(home, cluster)
    lab_cluster.kill(cluster, "broker-b")
    try:
        check_unreachable(home, cluster, SHARED, tick(home, cluster, SHARED))
        _lag_remembers_it(home, cluster)
    finally:
        lab_cluster.restart(cluster, "broker-b")
    assert tick(home, cluster, SHARED).returncode == 0
    _, (header,) = newest(home, SHARED, "raw.snapshots")
    assert header["status"] == "COMPLETE"
    _, queues = newest(home, SHARED, "progress.queues")
    assert {row["broker"] for row in queues} == {"broker-a", "broker-b"}


def _lag_remembers_it(home, cluster):
    """The name server has forgotten the broker: only the memory of earlier ticks misses it."""
    address = cluster.node("broker-b").address
    here = {"TIDEMARK_NAMESRV": cluster.namesrv, "TIDEMARK_CLUSTER": SHARED}
    done = run(home, ["lag", "--format", "json"], **here)
    assert done.returncode == 0 and f"PARTIAL: {address}" in done.stderr
    groups = json.loads(done.stdout)
    assert groups and {row["complete"] for row in groups} == {False}
    doctor = run(home, ["doctor"], **here)
    assert doctor.returncode == 1 and f"PARTIAL: {address}" in doctor.stdout


@pytest.mark.faults
def test_a_hanging_broker_is_unreachable(home, cluster):
    be_seen(home, cluster)
    lab_cluster.stop(cluster, "broker-b")
    try:
        done = tick(home, cluster, SHARED)
    finally:
        lab_cluster.resume(cluster, "broker-b")
    check_unreachable(home, cluster, SHARED, done)
