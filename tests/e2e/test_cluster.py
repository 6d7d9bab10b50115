"""Ticks on real brokers, against what the brokers say when an independent script asks them."""

import asyncio
import json
import os
import signal
import time
from datetime import UTC, datetime

import dagster as dg
import pytest

from lab import faults
from lab.workloads import GROUPS
from lake.landing import land, landed
from rocketmq import admin
from rocketmq.client import RemotingClient
from rocketmq.collector import ClusterTarget, collect_snapshot
from spark import engine
from tests.conftest import boot
from tests.e2e.conftest import run, warm
from tests.history import rows
from tidemark.lag import group_rows

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


@pytest.fixture(scope="module")
def home(warm_home):
    return warm_home.home


@pytest.fixture(scope="module", params=["4.9.7", "5.5.0"])
def other_version(request, tmp_path_factory):
    yield from boot(tmp_path_factory.mktemp("other"), request.param, "all")


def tick(home, cluster, name):
    return run(home, ["tick"], TIDEMARK_NAMESRV=cluster.namesrv, TIDEMARK_CLUSTER=name)


def shown(home, table, where):
    done = run(home, ["show", table, "--format", "json", "--where", where, "--limit", "10000"])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def newest(home, name, table):
    """Rows of a table that the newest landed snapshot of a cluster gave."""
    last = max(item for item in landed(home) if item.cluster == name)
    return last, shown(home, table, f"snapshot_id = '{last.snapshot_id}'")


def asked(cluster, queues):
    """Commit (14) and max offset (30) of each queue, asked one by one."""
    addresses = {broker.broker: broker.address for broker in cluster.brokers}

    async def ask():
        async with RemotingClient() as client:
            found = {}
            for row in queues:
                key = row["broker"], row["consumer_group"], row["topic"], row["queue_id"]
                address = addresses[row["broker"]]
                found[key] = (
                    await admin.consumer_offset(client, address, *key[1:]),
                    await admin.max_offset(client, address, row["topic"], row["queue_id"]),
                )
            return found

    return asyncio.run(ask())


def come_to_rest(cluster):
    """Stops the producers and waits until no offset moves any more."""
    cluster.stop_producers()
    target, before = ClusterTarget((cluster.namesrv,)), None
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        look = collect_snapshot(target)
        now = sorted(map(repr, look.consumer_offsets + look.queue_offsets))
        if now == before:
            return
        before = now
        time.sleep(6)  # clients commit every 5 s
    raise AssertionError("offsets still move")


def check_lag_at_rest(home, cluster, name):
    """What a tick says of a cluster at rest is what its brokers say."""
    done = tick(home, cluster, name)
    assert done.returncode == 0, done.stderr
    last, queues = newest(home, name, "progress.queues")
    _, groups = newest(home, name, "progress.groups")
    assert {row["consumer_group"] for row in groups} == set(GROUPS)
    stored = [row for row in queues if row["offset_store"] == "broker"]
    told = asked(cluster, stored)
    compared = 0
    for row in stored:
        committed, maximum = told[
            row["broker"], row["consumer_group"], row["topic"], row["queue_id"]
        ]
        assert row["max_offset"] == maximum, row
        if row["consumer_offset"] is None:
            # Before 5.0 a broker answers 0 for a queue that never committed.
            assert committed in ((None, 0) if cluster.version.startswith("4") else (None,)), row
            assert row["lag"] is None
        else:
            compared += 1
            assert row["lag"] == maximum - committed, row
    assert compared > 20
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


def test_lag_is_what_the_brokers_say(home, cluster):
    come_to_rest(cluster)
    try:
        last, queues, groups = check_lag_at_rest(home, cluster, "rest")
        _stuck(queues)
        _broadcast(groups)
        _hung_is_raw(home, last)
        _same_as_lag(home, cluster)
    finally:
        cluster.start_producers()


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
    found = shown(home, "raw.consumer_offsets", where)
    assert found and {row["consumer_offset"] for row in found} == {None}


def _same_as_lag(home, cluster):
    """`tidemark lag` and Spark reckon the same from one snapshot."""
    taken = collect_snapshot(ClusterTarget((cluster.namesrv,), name="twice"))
    land(home, taken)
    done = run(home, ["tick", "--no-collect"])
    assert done.returncode == 0, done.stderr
    _, groups = newest(home, "twice", "progress.groups")
    spark = {(row["consumer_group"], row["topic"]): row for row in groups}
    plain = {(row["consumer_group"], row["topic"]): row for row in group_rows(taken)}
    assert spark.keys() == plain.keys()
    for key, row in plain.items():
        shared = (row.keys() & spark[key].keys()) - {"observed_at"}
        assert {name: spark[key][name] for name in shared} == {name: row[name] for name in shared}
    command = run(home, ["lag", "--namesrv", cluster.namesrv, "--format", "json"])
    check_hung(json.loads(command.stdout))


def test_other_versions(home, other_version):
    come_to_rest(other_version)
    check_lag_at_rest(home, other_version, f"v{other_version.version}")


def check_silent(home, cluster, name, done):
    """One broker of two is a hole: named, and nothing of it is zero."""
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
    with dg.DagsterInstance.from_config(str(home.dagster)) as instance:
        run_id = instance.get_runs(limit=1)[0].run_id
        checks = [
            event.dagster_event.asset_check_evaluation_data
            for event in instance.all_logs(run_id)
            if event.dagster_event
            and event.dagster_event.event_type_value == "ASSET_CHECK_EVALUATION"
        ]
    (check,) = [item for item in checks if item.check_name == "every_broker_answered"]
    assert check.passed is False and address in str(check.metadata["sample"])
    results = shown(home, "quality.results", f"run_id = '{run_id}'")
    (judged,) = [row for row in results if row["expectation"] == "every_broker_answered"]
    assert judged["success"] is False
    return last


def test_a_killed_broker_is_a_hole_until_it_is_back(home, cluster):
    assert tick(home, cluster, "faults").returncode == 0
    faults.kill(cluster, "broker-b")
    try:
        check_silent(home, cluster, "faults", tick(home, cluster, "faults"))
    finally:
        faults.restart(cluster, "broker-b")
    assert tick(home, cluster, "faults").returncode == 0
    _, (header,) = newest(home, "faults", "raw.snapshots")
    assert header["status"] == "COMPLETE"
    _, queues = newest(home, "faults", "progress.queues")
    assert {row["broker"] for row in queues} == {"broker-a", "broker-b"}


def test_a_broker_that_hangs_is_a_hole(home, cluster):
    faults.stop(cluster, "broker-b")
    try:
        done = tick(home, cluster, "faults")
    finally:
        faults.resume(cluster, "broker-b")
    check_silent(home, cluster, "faults", done)


def test_a_killed_engine_fails_one_tick_at_most(tmp_path):
    """The next one starts a Spark of its own, or finds a new engine."""
    from lake.home import Home
    from tests.history import Minute, put

    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    with warm(Home.of(tmp_path / "home")) as made:
        put(made.home, start, [Minute(0)])
        made.runs.tick()
        found = engine.running(made.home)
        assert found
        os.kill(found.pid, signal.SIGKILL)
        put(made.home, start, [Minute(1)])
        done = run(made.home, ["tick", "--no-collect"])
        if done.returncode:
            assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr
            assert run(made.home, ["tick", "--no-collect"]).returncode == 0
        assert len(rows(made.lake, "progress.snapshots")) == 2
