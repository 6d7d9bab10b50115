"""From consumers that die to the person on call, and back: real brokers, real HTTP and SMTP."""

import time

import dagster as dg
import pytest

from alerting.rule_files import DEFAULT_RULES
from assets.resources import LakeResource, RulesResource
from lab.cluster import LabCluster
from lab.layout import free_port_base
from lake.landing import land
from lake.tables.alerting import INCIDENTS
from orchestration.sensors import notify
from rocketmq.collector import collect_snapshot
from rocketmq.target import ClusterTarget
from tests.alerting.servers import mailbox, serve

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

NAME = "alerted"
SUBJECT = f"{NAME}/g-slow/lab_orders"
CLEAR_FOR = 5
"""Observations at which `nobody-online` has to be untrue to be over."""


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


def look(home, cluster):
    """One snapshot, landed."""
    taken = collect_snapshot(ClusterTarget((cluster.namesrv,), name=NAME))
    assert taken.status == "COMPLETE"
    land(home, taken)
    return taken


def lag(taken):
    """How far g-slow is behind."""
    ends = {(row.broker, row.topic, row.queue_id): row.max_offset for row in taken.queue_offsets}
    return sum(
        (ends[row.broker, row.topic, row.queue_id] or 0) - (row.consumer_offset or 0)
        for row in taken.consumer_offsets
        if (row.consumer_group, row.topic) == ("g-slow", "lab_orders")
    )


def tell(warm):
    """The sensor that tells, once."""
    resources = {
        "lake": LakeResource(home=str(warm.home.path)),
        "alert_rules": RulesResource(path=str(DEFAULT_RULES)),
    }
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_sensor_context(instance=instance, resources=resources) as context,
    ):
        notify(context)


def told(hook, mails, state):
    """How often the webhook and the mailbox heard that nobody of g-slow is online, or is again."""
    line = f"[critical] {state} nobody-online: {SUBJECT}"
    posted = sum(line in message["message"] for message in hook.received)
    parts = [part for mail in mails for part in mail.walk() if not part.is_multipart()]
    return posted, sum(line in part.get_payload(decode=True).decode() for part in parts)


def incident(warm):
    (found,) = [
        row
        for row in warm.lake.read(INCIDENTS).to_pylist()
        if (row["rule"], row["subject"]) == ("nobody-online", SUBJECT)
    ]
    return found


def test_consumers_die_and_come_back(warm_home, steady, monkeypatch):
    deadline = time.monotonic() + 60
    while lag(collect_snapshot(ClusterTarget((steady.namesrv,)))) < 50:
        assert time.monotonic() < deadline, "g-slow keeps up"
        time.sleep(2)
    with serve() as hook, mailbox() as (address, mails):
        monkeypatch.setenv("TIDEMARK_NOTIFY_URLS", f"{hook.url} {address}")
        look(warm_home.home, steady)
        steady.stop_workload()
        for _ in range(2):
            look(warm_home.home, steady)
            warm_home.tick()
            tell(warm_home)
        assert incident(warm_home)["state"] == "FIRING"
        assert told(hook, mails, "FIRING") == (1, 1)

        steady.start_workload("steady")
        back = [look(warm_home.home, steady) for _ in range(CLEAR_FOR)]
        warm_home.tick()
        tell(warm_home)
        tell(warm_home)
        ended = incident(warm_home)
        assert ended["state"] == "RESOLVED"
        assert ended["resolved_at"] == back[-1].observed_at, "not before it was so for long enough"
        assert told(hook, mails, "FIRING") == (1, 1)
        assert told(hook, mails, "RESOLVED") == (1, 1)
