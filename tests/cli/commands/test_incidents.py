"""`tidemark incidents`, as people use it."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.cli.commands.conftest import incident
from tests.support.commands import output_of
from tidemark.alerting.delivery.silences import silences
from tidemark.alerting.incidents.repository import current_incidents, find, save

NOW = datetime.now(UTC)


@pytest.fixture
def home(home_with_incidents):
    return home_with_incidents


def test_incidents_are_listed_shown_taken_on_and_silenced(home, lake):
    rows = json.loads(output_of(home, "incidents", "list", "--format", "json"))
    assert [row["incident_id"] for row in rows] == ["aab2", "aaa1"], "the worst first"
    everything = json.loads(output_of(home, "incidents", "list", "--all", "--format", "json"))
    assert {row["incident_id"] for row in everything} == {"aaa1", "aab2", "old3"}
    assert "lab/aaa1/orders" in output_of(home, "incidents", "show", "aaa")

    assert "acknowledged by eve" in output_of(home, "incidents", "ack", "aab", "--author", "eve")
    (mine,) = find(lake, ["aab2"])
    assert (mine.state, mine.acknowledged_by) == ("ACKNOWLEDGED", "eve")
    assert len(current_incidents(lake, NOW).incidents) == 3

    silence = ["silence", "--for", "2h", "--group", "aa*", "--author", "eve", "--comment", "why"]
    silence_id = output_of(home, "incidents", *silence).split()[0]
    rows = json.loads(output_of(home, "incidents", "list", "--format", "json"))
    assert all(row["muted"].startswith("silenced by eve until") for row in rows)
    (listed,) = json.loads(output_of(home, "incidents", "silences", "--format", "json"))
    assert (listed["silence_id"], listed["match"]) == (silence_id, "consumer_group=aa*")
    brokers = ("--broker", "broker-b", "--broker", "c*", "--comment", "why")
    output_of(home, "incidents", "silence", "--for", "1h", *brokers)
    broker = json.loads(output_of(home, "incidents", "silences", "--format", "json"))[0]
    assert broker["match"] == "broker=broker-b|c*"
    output_of(home, "incidents", "unsilence", broker["silence_id"])
    why = ("--author", "bob", "--reason", "done early")
    output_of(home, "incidents", "unsilence", silence_id, *why)
    assert json.loads(output_of(home, "incidents", "silences", "--format", "json")) == []
    every = json.loads(output_of(home, "incidents", "silences", "--all", "--format", "json"))
    (ended,) = [row for row in every if row["silence_id"] == silence_id]
    assert [ended[name] for name in ("state", "ended_by", "end_reason")] == [
        "ENDED",
        "bob",
        "done early",
    ]


@pytest.mark.parametrize("state", ["PENDING", "FIRING"])
def test_an_incident_is_shown_with_its_present_state_and_not_the_way_to_itself(lake, state):
    save(lake, [], [incident("one1", state)])
    first, *others = output_of(lake.home, "incidents", "show", "one").splitlines()
    assert first.startswith(f"[warning] {state} ")
    assert not any("incidents show" in line for line in others)


def test_what_nothing_ends_any_more_is_closed_by_hand(home, lake):
    assert output_of(home, "incidents", "close", "aa", code=1)
    done = output_of(home, "incidents", "close", "aab", "--author", "eve")
    assert done == "aab2 lag-high lab/aab2/orders: closed\n"
    (over,) = find(lake, ["aab2"])
    assert [transition.transition for transition in over.transitions] == ["FIRING", "RESOLVED"]
    assert (over.state, over.details["closed"]) == ("RESOLVED", "by eve")
    assert [
        incident.incident_id
        for incident in current_incidents(lake, NOW).incidents
        if incident.is_open
    ] == ["aaa1"]
    assert "Closed: by eve" in output_of(home, "incidents", "show", "aab2")


def test_who_acts_and_why_is_recorded(home, lake):
    why = "the deploy is rolled back"
    output_of(home, "incidents", "ack", "aaa", "--author", "eve", "--reason", why)
    (taken,) = find(lake, ["aaa1"])
    assert (taken.acknowledged_by, taken.acknowledge_reason) == ("eve", why)
    assert f"Acknowledged by: eve: {why}" in output_of(home, "incidents", "show", "aaa")
    output_of(home, "incidents", "resolve", "aaa", "--author", "bob", "--reason", "it is gone")
    (over,) = find(lake, ["aaa1"])
    assert (over.state, over.resolved_by, over.resolve_reason) == ("RESOLVED", "bob", "it is gone")
    assert "Closed: by bob: it is gone" in output_of(home, "incidents", "show", "aaa")


def test_maintenance_is_planned_ahead(home, lake):
    start = (NOW + timedelta(days=1)).replace(microsecond=0)
    berlin = start.astimezone(timezone(timedelta(hours=1)))
    window = ["silence", "--from", berlin.isoformat(), "--for", "2h", "--severity", "crit*"]
    line = output_of(home, "incidents", *window, "--author", "eve", "--comment", "upgrade")
    assert f"from {start:%Y-%m-%d %H:%M:%S} UTC until" in line
    (listed,) = json.loads(output_of(home, "incidents", "silences", "--format", "json"))
    assert (listed["state"], listed["match"]) == ("PLANNED", "severity=crit*")
    (planned,) = silences(lake.shared.state)
    (critical,) = find(lake, ["aab2"])
    covered = [planned.covers(critical, start + timedelta(hours=hours)) for hours in (-1, 0, 1, 2)]
    assert covered == [False, True, True, False]


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (("show", "zzz"), 1, "no incident with id 'zzz'"),
        (("show", "a"), 1, "2 incidents with id 'a'"),
        (("ack", "old3"), 1, "incident old3 is RESOLVED, not FIRING"),
        (("close", "old3"), 1, "incident old3 is RESOLVED already"),
        (("unsilence", "nope"), 1, "no silence 'nope'"),
        (("silence", "--for", "2h"), 2, "name what to silence"),
        (("silence", "--for", "2h", "--rule", "x"), 2, "comment: why it is silenced is wanted"),
        (("silence", "--for", "soon", "--rule", "x"), 2, "a duration is wanted"),
        (
            ("silence", "--from", "9999-12-31", "--for", "2d", "--rule", "x"),
            2,
            "date value out of range",
        ),
    ],
)
def test_bad_use_is_one_line(home, arguments, code, line):
    assert line in " ".join(output_of(home, "incidents", *arguments, code=code).split())


def test_silences_that_cannot_be_read_are_no_bad_use(home):
    (home.path / "silences.json").write_text("{")
    silence = ["silence", "--for", "1h", "--rule", "x", "--comment", "why"]
    for arguments in (silence, ["unsilence", "a"]):
        line = output_of(home, "incidents", *arguments, code=1)
        assert "silences.json: cannot be read" in line and "Usage" not in line


def test_an_empty_id_is_not_the_only_incident(home, lake):
    """A script whose variable is not set must resolve nothing."""
    save(lake, find(lake, ["aab2", "old3"]), [])
    assert "an empty id" in output_of(home, "incidents", "resolve", "", code=1)
    (left,) = find(lake, ["aaa1"])
    assert left.is_open
