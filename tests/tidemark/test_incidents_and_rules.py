"""`tidemark incidents` and `tidemark rules`, as people use them."""

import json
from datetime import UTC, datetime, timedelta

import jsonschema
import pytest

from alerting.delivery.silences import silences
from alerting.incidents.incident import Incident, Transition
from alerting.incidents.repository import current_incidents, find, save
from alerting.rules.files import DEFAULT_RULES
from lake.catalog import Lake
from tests.tidemark.conftest import answer
from tidemark.commands.rules import by_rule

NOW = datetime.now(UTC)


def incident(name: str, state: str = "FIRING", severity: str = "warning") -> Incident:
    return Incident(
        incident_id=name,
        rule="lag-high",
        subject=f"lab/{name}/orders",
        severity=severity,
        state=state,
        opened_at=NOW - timedelta(minutes=9),
        cluster="lab",
        kind="lag",
        threshold=10.0,
        observed_at=NOW,
        last_true_at=NOW,
        fired_at=NOW,
        resolved_at=NOW if state == "RESOLVED" else None,
        last_value=50.0,
        peak_value=90.0,
        evidence=json.dumps({"row": {"cluster": "lab", "consumer_group": name, "topic": "orders"}}),
        transitions=(Transition("FIRING", NOW),),
    )


@pytest.fixture
def home(lake: Lake):
    save(
        lake,
        [],
        [incident("aaa1"), incident("aab2", severity="critical"), incident("old3", "RESOLVED")],
    )
    return lake.home


def test_incidents_are_listed_shown_taken_on_and_silenced(home, lake):
    rows = json.loads(answer(home, "incidents", "list", "--format", "json"))
    assert [row["incident_id"] for row in rows] == ["aab2", "aaa1"], "the worst first"
    everything = json.loads(answer(home, "incidents", "list", "--all", "--format", "json"))
    assert {row["incident_id"] for row in everything} == {"aaa1", "aab2", "old3"}
    assert "lab/aaa1/orders" in answer(home, "incidents", "show", "aaa")

    assert "acknowledged by eve" in answer(home, "incidents", "ack", "aab", "--author", "eve")
    (mine,) = find(lake, ["aab2"])
    assert (mine.state, mine.acknowledged_by) == ("ACKNOWLEDGED", "eve")
    assert len(current_incidents(lake, NOW).incidents) == 3

    silence = ["silence", "--for", "2h", "--group", "aa*", "--author", "eve", "--comment", "why"]
    silence_id = answer(home, "incidents", *silence).split()[0]
    rows = json.loads(answer(home, "incidents", "list", "--format", "json"))
    assert all(row["muted"].startswith("silenced by eve until") for row in rows)
    (listed,) = json.loads(answer(home, "incidents", "silences", "--format", "json"))
    assert (listed["silence_id"], listed["match"]) == (silence_id, "consumer_group=aa*")
    answer(home, "incidents", "silence", "--for", "1h", "--broker", "broker-b", "--broker", "c*")
    broker = json.loads(answer(home, "incidents", "silences", "--format", "json"))[0]
    assert broker["match"] == "broker=broker-b|c*"
    answer(home, "incidents", "unsilence", broker["silence_id"])
    answer(home, "incidents", "unsilence", silence_id)
    assert json.loads(answer(home, "incidents", "silences", "--format", "json")) == []


def test_what_nothing_ends_any_more_is_closed_by_hand(home, lake):
    assert answer(home, "incidents", "close", "aa", code=1)
    done = answer(home, "incidents", "close", "aab", "--author", "eve")
    assert done == "aab2 lag-high lab/aab2/orders: closed\n"
    (over,) = find(lake, ["aab2"])
    assert [each.transition for each in over.transitions] == ["FIRING", "RESOLVED"]
    assert (over.state, over.details["closed"]) == ("RESOLVED", "by eve")
    assert [
        each.incident_id for each in current_incidents(lake, NOW).incidents if each.is_open
    ] == ["aaa1"]
    assert "Closed: by eve" in answer(home, "incidents", "show", "aab2")


def test_who_acts_and_why_is_recorded(home, lake):
    why = "the deploy is rolled back"
    answer(home, "incidents", "ack", "aaa", "--author", "eve", "--reason", why)
    (taken,) = find(lake, ["aaa1"])
    assert (taken.acknowledged_by, taken.acknowledge_reason) == ("eve", why)
    assert f"Acknowledged by: eve: {why}" in answer(home, "incidents", "show", "aaa")
    answer(home, "incidents", "resolve", "aaa", "--author", "bob", "--reason", "it is gone")
    (over,) = find(lake, ["aaa1"])
    assert (over.state, over.resolved_by, over.resolve_reason) == ("RESOLVED", "bob", "it is gone")
    assert "Closed: by bob: it is gone" in answer(home, "incidents", "show", "aaa")


def test_maintenance_is_planned_ahead(home, lake):
    start = (NOW + timedelta(days=1)).replace(microsecond=0)
    window = ["silence", "--from", start.isoformat(), "--for", "2h", "--severity", "crit*"]
    line = answer(home, "incidents", *window, "--author", "eve", "--comment", "upgrade")
    assert f"from {start:%Y-%m-%d %H:%M:%S} UTC until" in line
    (listed,) = json.loads(answer(home, "incidents", "silences", "--format", "json"))
    assert (listed["state"], listed["match"]) == ("PLANNED", "severity=crit*")
    (planned,) = silences(lake.home)
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
        (("silence", "--for", "soon", "--rule", "x"), 2, "a duration is wanted"),
    ],
)
def test_bad_use_is_one_line(home, arguments, code, line):
    assert line in " ".join(answer(home, "incidents", *arguments, code=code).split())


def test_a_replay_is_summed_up_by_rule():
    def row(
        rule: str, subject: str, *, fired: bool = True, over: bool = False, by: str = ""
    ) -> dict:
        return {
            "rule": rule,
            "subject": subject,
            "fired_at": NOW if fired else None,
            "resolved_at": NOW if over else None,
            "suppressed_by": by or None,
        }

    rows = [
        row("broker-down", "lab/a"),
        row("lag-high", "lab/g/t", over=True),
        row("lag-high", "lab/g/t", by="abc"),
        row("lag-high", "lab/h/t", fired=False),
    ]
    counts = [tuple(each.values()) for each in by_rule(rows)]
    assert list(by_rule(rows)[0])[1:] == ["fired", "subjects", "resolved", "pending", "inhibited"]
    assert counts == [("lag-high", 2, 2, 1, 1, 1), ("broker-down", 1, 1, 0, 0, 0)]


def test_a_replay_names_the_rules_that_it_skips(home):
    arguments = ["rules", "test", str(DEFAULT_RULES), "--from", "2026-11-19", "--to", "2026-11-20"]
    printed = answer(home, *arguments).splitlines()[-1]
    left_out = ["collection-late", "data-quality", "runs-failing"]
    assert printed == f"not replayed, as they need the clock: {', '.join(left_out)}"
    assert json.loads(answer(home, *arguments, "--format", "json")) == []


def test_mistakes_in_rules_have_their_line(home, tmp_path):
    good = answer(home, "rules", "check")
    assert good.endswith("rules, no mistake\n")
    file = tmp_path / "mine.yaml"
    file.write_text("rules:\n  - name: a\n    kind: lag\n    threshold: many\n")
    printed = answer(home, "rules", "check", str(file), code=1)
    assert printed == f"{file}:4: rules[0].threshold: should be a valid number, not 'many'\n"
    jsonschema.Draft202012Validator.check_schema(json.loads(answer(home, "rules", "schema")))


def test_the_way_of_an_incident_is_shown(home, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("""\
receivers: [{name: pager}, {name: lead}]
routes:
- match: {severity: critical, labels: {team: "pay*"}}
  receiver: pager
  group_by: [cluster]
  escalate_after: 15m
  escalate_to: lead
- match: {consumer_group: aab2}
  receiver: lead
""")
    arguments = ["rules", "route", str(file), "--format", "json"]
    (way,) = json.loads(
        answer(
            home,
            *arguments,
            "--labels",
            "severity=critical,cluster=lab",
            "--labels",
            "team=payroll",
        )
    )
    assert (way["receiver"], way["group"], way["route"]) == ("pager", "cluster=lab", "routes[0]")
    assert (way["escalate_after"], way["escalate_to"]) == (900, "lead")
    (way,) = json.loads(answer(home, *arguments, "--incident", "aab"))
    assert (way["receiver"], way["route"]) == ("lead", "routes[1]")
    (way,) = json.loads(answer(home, *arguments, "--incident", "aaa"))
    assert (way["receiver"], way["route"]) == ("default", "routes")
    everywhere = "no routes: it goes to TIDEMARK_NOTIFY_URLS, at once\n"
    assert answer(home, "rules", "route", "--labels", "severity=info") == everywhere
    assert "name an incident" in answer(home, *arguments, code=2)
    assert "NAME=VALUE" in answer(home, *arguments, "--labels", "severity", code=2)
    assert "no incident" in answer(home, *arguments, "--incident", "zzz", code=1)
