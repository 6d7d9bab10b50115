"""False firings of rules and missed faults, counted on rows as a tick writes them."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from bench.alarms import verdicts
from bench.alarms.clusters import Span
from bench.alarms.consumers import HEALTHY, Consumer, Mode
from bench.alarms.faults import FAULTS, Fault

START = datetime(2026, 11, 20, 12, tzinfo=UTC)


def minute(number):
    return START + timedelta(minutes=number)


def incident(rule, subject, *transitions, cluster="healthy", **row):
    """One row of `alerting.incidents`; transitions are (name, minute)."""
    row |= {"health": "STALLED", "lag": 7, "health_reason": "queue 3 | stands"}
    return {
        "rule": rule,
        "subject": subject,
        "cluster": cluster,
        "last_value": 7.0,
        "evidence": json.dumps({"kind": rule, "row": row}),
        "transitions": [{"transition": name, "at": minute(at)} for name, at in transitions],
    }


def of_group(rule, group, *transitions, cluster="healthy", topic=""):
    """Such a row about a group, on the topic of its name."""
    subject = f"{cluster}/{group}/{topic or group}"
    return incident(rule, subject, *transitions, cluster=cluster, consumer_group=group)


def dead(name="dead", rules=("nobody-online",)):
    return Fault(consumer=Consumer(name=name, mode=Mode.PUSH), text="dies", rules=rules)


def test_an_incident_that_reopens_fires_twice():
    row = of_group("stalled", "g", ("FIRING", 1), ("RESOLVED", 3), ("FIRING_2", 5))
    first, second = verdicts.firings([row])
    assert (first.group, first.at, first.until) == ("g", minute(1), minute(3))
    assert (second.at, second.until) == (minute(5), None)


def test_an_incident_of_a_broker_is_no_groups():
    """Its subject has three parts, as that of a group has."""
    row = incident("broker-down", "healthy/broker-a/127.0.0.1:1", ("FIRING", 1), broker="broker-a")
    (fired,) = verdicts.firings([row])
    assert fired.group == ""
    assert verdicts.healthy_table([], [fired]).endswith("Tidemark itself | 1 |")


def test_a_pending_incident_has_not_fired():
    assert verdicts.firings([of_group("stalled", "g")]) == []


def test_a_group_that_resolved_after_a_restart_is_still_false():
    """Only incidents about the restart itself may fire; its consumers were healthy."""
    restart = Span(name="restart", start=minute(4), end=minute(5), rules=("broker-down",))
    fired = verdicts.firings(
        [
            incident("broker-down", "healthy/broker-a", ("FIRING", 4), ("RESOLVED", 6)),
            of_group("stalled", "g", ("FIRING", 4), ("RESOLVED", 6)),
            incident("broker-down", "healthy/broker-b", ("FIRING", 12)),
            of_group("stalled", "g", ("FIRING", 4), cluster="sick"),
            incident("runs-failing", "tidemark/tick", ("FIRING", 9), cluster=None),
        ]
    )
    false = verdicts.false_alarms(fired, [restart])
    assert [(firing.rule, firing.subject) for firing in false] == [
        ("stalled", "healthy/g/g"),
        ("runs-failing", "tidemark/tick"),
        ("broker-down", "healthy/broker-b"),
    ]


def test_a_fault_is_named_by_the_first_of_its_rules():
    fired = verdicts.firings(
        [
            of_group("delay-high", "dead", ("FIRING", 3), cluster="sick"),
            of_group("nobody-online", "dead", ("FIRING", 4), cluster="sick", topic="%RETRY%dead"),
            of_group("nobody-online", "other", ("FIRING", 2), cluster="sick"),
        ]
    )
    (verdict,) = verdicts.judge([dead()], {"dead": minute(2)}, fired)
    assert not verdict.missed and verdict.late(verdict.right[0]) == "120"
    assert [firing.rule for firing in verdict.others] == ["delay-high"]


def test_what_resolved_before_the_fault_is_no_alarm_of_it():
    fired = verdicts.firings(
        [
            of_group(
                "nobody-online",
                "dead",
                ("FIRING", 0),
                ("RESOLVED", 1),
                cluster="sick",
            )
        ]
    )
    (verdict,) = verdicts.judge([dead()], {"dead": minute(2)}, fired)
    assert verdict.missed
    table = verdicts.sick_table([verdict], {"nobody-online"})
    assert "**missed**" in table and "no such rule" not in table
    assert "no such rule" in verdicts.sick_table([verdict], {"stalled"})


def test_a_fault_about_a_topic_is_found_by_its_topic():
    fault = dead("unreadable", ("messages-unreadable",))
    fired = verdicts.firings(
        [
            incident(
                "messages-unreadable",
                "sick/unreadable",
                ("FIRING", 3),
                cluster="sick",
                topic="unreadable",
            )
        ]
    )
    (verdict,) = verdicts.judge([fault], {"unreadable": minute(2)}, fired)
    assert not verdict.missed


def test_why_does_not_break_the_table():
    fired = verdicts.firings([of_group("stalled", "g", ("FIRING", 1))])
    (*_, row) = verdicts.false_table(fired, [], START).splitlines()
    assert row.count("|") == 6 and "queue 3 / stands" in row


@pytest.mark.parametrize("declared", [HEALTHY, [fault.consumer for fault in FAULTS]])
def test_every_group_has_a_name_of_its_own(declared):
    names = [consumer.name for consumer in declared]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "version, lacks",
    [
        ("4.9.7", {Mode.POP, Mode.GRPC_PUSH, Mode.GRPC_LITE, Mode.GRPC_PRIORITY}),
        ("5.3.3", {Mode.GRPC_LITE, Mode.GRPC_PRIORITY}),
        ("5.5.1", set()),
    ],
)
def test_a_version_runs_the_modes_it_has(version, lacks):
    modes = {consumer.mode for consumer in HEALTHY if consumer.runs_on(version)}
    assert not modes & lacks
    assert Mode.PUSH in modes
    if not lacks:
        assert modes == set(Mode)
