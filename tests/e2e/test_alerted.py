"""From consumers that die to the person on call, and back: real brokers, real HTTP and SMTP."""

import time

import dagster as dg
import pytest

from assets.dagster_names import with_own_keys
from assets.resources import LakeResource, RulesResource
from orchestration.sensors import sensors
from tests.support.notification_servers import mailbox, serve
from tidemark.alerting.rules.files import DEFAULT_RULES
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import free_port_base
from tidemark.lake.landing import land
from tidemark.lake.tables.alerting import INCIDENTS
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.settings.environment import Settings

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

NAME = "alerted"
SUBJECT = f"{NAME}/g-slow/lab_orders"
CLEAR_FOR = 5
"""Observations at which `nobody-online` has to be untrue until its incident resolves."""


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    """One broker and three groups, of which g-slow is always behind."""
    cluster = LabCluster.up(
        tmp_path_factory.mktemp("alerted"), brokers=1, port_base=free_port_base(brokers=1)
    )
    try:
        cluster.start_workload("steady")
        yield cluster
    finally:
        cluster.down(graceful=False)


def land_snapshot(home, cluster):
    """One snapshot, landed."""
    taken = collect_snapshot(ClusterTarget(name_servers=(cluster.namesrv,), name=NAME))
    assert taken.status == "COMPLETE"
    land(home, taken)
    return taken


def lag(taken):
    """How far g-slow is behind."""
    max_offsets = {
        (row.broker, row.topic, row.queue_id): row.max_offset for row in taken.queue_offsets
    }
    return sum(
        (max_offsets[row.broker, row.topic, row.queue_id] or 0) - (row.consumer_offset or 0)
        for row in taken.consumer_offsets
        if (row.consumer_group, row.topic) == ("g-slow", "lab_orders")
    )


def deliver_now(warm):
    """Evaluate the sensor that delivers, once."""
    resources = {
        "lake": LakeResource(home=str(warm.home.path)),
        "alert_rules": RulesResource(path=str(DEFAULT_RULES)),
        "notification_settings": Settings.read().notifications,
    }
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_sensor_context(instance=instance, resources=with_own_keys(resources)) as context,
    ):
        notify, *_ = sensors(running=False)
        notify(context)


def notified(hook, mails, state):
    """Count the notifications of that state of g-slow that webhook and mailbox received."""
    line = f"[critical] {state} nobody-online: {SUBJECT}"
    posted = sum(line in message["message"] for message in hook.received)
    parts = [part for mail in mails for part in mail.walk() if not part.is_multipart()]
    return posted, sum(line in part.get_payload(decode=True).decode() for part in parts)


def incident(warm):
    (item,) = [
        row
        for row in warm.lake.read(INCIDENTS).to_pylist()
        if (row["rule"], row["subject"]) == ("nobody-online", SUBJECT)
    ]
    return item


def test_consumers_die_and_come_back(warm_home, steady, monkeypatch):
    deadline = time.monotonic() + 240
    while lag(collect_snapshot(ClusterTarget(name_servers=(steady.namesrv,)))) < 50:
        assert time.monotonic() < deadline, "g-slow keeps up"
        time.sleep(2)
    with serve() as hook, mailbox() as (address, mails):
        monkeypatch.setenv("TIDEMARK_NOTIFY_URLS", f"{hook.url} {address}")
        land_snapshot(warm_home.home, steady)
        steady.stop_workload()
        # The last commits are progress: only after them is it known that nobody is online.
        land_snapshot(warm_home.home, steady)
        for _ in range(2):
            land_snapshot(warm_home.home, steady)
            warm_home.tick()
            deliver_now(warm_home)
        assert incident(warm_home)["state"] == "FIRING"
        assert notified(hook, mails, "FIRING") == (1, 1)

        steady.start_workload("steady")
        back = [land_snapshot(warm_home.home, steady) for _ in range(CLEAR_FOR)]
        warm_home.tick()
        deliver_now(warm_home)
        deliver_now(warm_home)
        ended = incident(warm_home)
        assert ended["state"] == "RESOLVED"
        assert ended["resolved_at"] == back[-1].observed_at, "not before it was so for long enough"
        assert notified(hook, mails, "FIRING") == (1, 1)
        assert notified(hook, mails, "RESOLVED") == (1, 1)
