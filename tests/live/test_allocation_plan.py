"""`tidemark plan`: planned owners, on snapshots to check by eye and on a real cluster."""

import json
from dataclasses import replace

import pytest

from tests.support.homes import run
from tests.support.planned_groups import snapshot
from tidemark.live.allocation_plan import PlanError, Wish, plan
from tidemark.rocketmq.records import (
    ClientQueue,
    Subscription,
)
from tidemark.settings.home import Home


def owners(planned, name="expected_client_id"):
    return [row[name] for row in planned["queues"]]


def test_one_more_client_takes_from_the_others():
    planned = plan(snapshot("10.0.0.1", "10.0.0.2"), Wish(consumer_group="billing", clients=3))
    assert planned["clients"] == ["10.0.0.1", "10.0.0.2", "new-1"]
    assert [(row["broker"], row["queue_id"]) for row in planned["queues"]] == [
        *(("broker-a", number) for number in range(4)),
        *(("broker-b", number) for number in range(2)),
    ]
    one, two, new = planned["clients"]
    assert owners(planned, "actual_client_id") == [one, one, one, two, two, two]
    assert owners(planned) == [one, one, two, two, new, new]
    assert owners(planned, "moves") == [False, False, True, False, True, True]
    assert (planned["strategy"], planned["strategy_source"]) == ("AVG", "assumed")
    assert (planned["actual_source"], planned["idle_clients"]) == ("computed", [])


def test_reports_of_members_win_over_computed_owners():
    taken = snapshot("10.0.0.1", "10.0.0.2", strategy="AVG_BY_CIRCLE")
    taken.client_queues = [
        ClientQueue(
            consumer_group="billing",
            client_id="10.0.0.2",
            topic="orders",
            broker="broker-a",
            queue_id=0,
            commit_offset=5,
        ),
        ClientQueue(
            consumer_group="billing",
            client_id="10.0.0.2",
            topic="orders",
            broker="broker-a",
            queue_id=1,
            commit_offset=5,
            dropped=True,
        ),
    ]
    planned = plan(taken, Wish(consumer_group="billing", clients=2))
    one, two = planned["clients"]
    assert (planned["strategy"], planned["strategy_source"]) == ("AVG_BY_CIRCLE", "reported")
    assert owners(planned) == [one, two, one, two, one, two]
    assert owners(planned, "actual_client_id") == [two, None, None, None, None, None]
    assert owners(planned, "moves") == [True, None, None, None, None, None]
    assert planned["actual_source"] == "reported"


def test_too_many_clients_idle_and_more_queues_help():
    taken = snapshot("10.0.0.1")
    planned = plan(taken, Wish(consumer_group="billing", clients=8))
    assert [row["client_id"] for row in planned["idle_clients"]] == ["new-6", "new-7"]
    assert {row["reason"] for row in planned["idle_clients"]} == {"MORE_CLIENTS_THAN_QUEUES"}
    planned = plan(taken, Wish(consumer_group="billing", clients=8, queues=4))
    assert planned["idle_clients"] == []
    assert owners(planned, "moves").count(None) == 2, "two queues are not there yet"


def test_queues_are_allocated_one_topic_at_a_time():
    taken = snapshot("10.0.0.1")
    orders = [topic for topic in taken.topics if topic.topic == "orders"]
    taken.topics += [replace(topic, topic="refunds", read_queues=2) for topic in orders]
    (member,) = taken.clients
    member.subscriptions = [
        *member.subscriptions,
        Subscription(topic="refunds", expression_type="TAG", expression="*", tags=[]),
    ]
    planned = plan(taken, Wish(consumer_group="billing", clients=8))
    assert len(planned["queues"]) == 10
    assert {row["client_id"]: row["reason"] for row in planned["idle_clients"]} == {
        "new-6": "MORE_CLIENTS_THAN_QUEUES",
        "new-7": "MORE_CLIENTS_THAN_QUEUES",
    }


def test_fewer_clients_and_another_strategy():
    planned = plan(
        snapshot("10.0.0.1", "10.0.0.2"),
        Wish(consumer_group="billing", clients=1, strategy="CONSISTENT_HASH"),
    )
    assert planned["clients"] == ["10.0.0.1"] == sorted(set(owners(planned)))
    assert planned["strategy_source"] == "given"
    assert owners(planned, "moves") == [False] * 3 + [True] * 3


def test_an_offline_group_is_planned_by_its_progress():
    planned = plan(snapshot(), Wish(consumer_group="billing", clients=2))
    assert planned["clients"] == ["new-1", "new-2"]
    assert {row["topic"] for row in planned["queues"]} == {"orders"}
    assert planned["actual_source"] is None and set(owners(planned, "moves")) == {None}


@pytest.mark.parametrize(
    ("taken", "wish", "expected"),
    [
        (
            snapshot(),
            Wish(consumer_group="nobody", clients=2),
            "no member of nobody is online .* groups: billing",
        ),
        (
            snapshot("a", model="BROADCASTING"),
            Wish(consumer_group="billing", clients=2),
            "billing is broadcasting",
        ),
        (
            snapshot("a", model="LITE_SELECTIVE"),
            Wish(consumer_group="billing", clients=2),
            "billing consumes lite topics",
        ),
        (
            snapshot("a"),
            Wish(consumer_group="billing", clients=2, strategy="FAIR"),
            "no allocation strategy 'FAIR': known are",
        ),
        (
            snapshot("a"),
            Wish(consumer_group="billing", clients=2, strategy="MACHINE_ROOM"),
            "MACHINE_ROOM needs rooms",
        ),
        (
            snapshot("a"),
            Wish(consumer_group="billing", clients=2, strategy="CONFIG"),
            "CONFIG gives each client",
        ),
        (
            snapshot("a", strategy="OurOwn"),
            Wish(consumer_group="billing", clients=2),
            "no allocation strategy 'OurOwn'",
        ),
    ],
)
def test_what_cannot_be_planned_is_an_error(taken, wish, expected):
    with pytest.raises(PlanError, match=expected):
        plan(taken, wish)


@pytest.mark.parametrize("arguments", [["--clients", "0"], ["--clients", "2", "--queues", "0"], []])
def test_bad_usage(tmp_path, arguments):
    done = run(Home.of(tmp_path), ["plan", "--group", "g", "--namesrv", "h:1", *arguments])
    assert done.returncode == 2 and "Traceback" not in done.stderr


@pytest.mark.cluster
def test_a_real_group_is_planned(cluster, tmp_path):
    """g-idle has ten clients on eight queues."""
    command = ["plan", "--group", "g-idle", "--namesrv", cluster.namesrv, "--clients"]
    done = run(Home.of(tmp_path), [*command, "8", "--format", "json"])
    assert done.returncode == 0, done.stderr
    planned = json.loads(done.stdout)
    assert len(planned["clients_now"]) == 10 and len(planned["queues"]) == 8
    assert planned["idle_clients"] == [] and owners(planned, "moves") == [False] * 8
    shown = run(Home.of(tmp_path), [*command, "10"])
    assert "2 clients would idle: MORE_CLIENTS_THAN_QUEUES" in shown.stdout
    assert "8 queues, 0 would move" in shown.stdout
    lost = run(Home.of(tmp_path), ["plan", "--group", "x", "--clients", "1", *command[3:5]])
    assert lost.returncode == 1 and "no member of x is online" in lost.stderr


def test_nobody_owns_queues_whose_messages_are_popped():
    taken = snapshot("10.0.0.1", "10.0.0.2")
    for client in taken.clients:
        client.consume_type = "CONSUME_POP"
    with pytest.raises(PlanError, match="billing pops its messages"):
        plan(taken, Wish(consumer_group="billing", clients=3))
