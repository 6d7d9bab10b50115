"""`tidemark rules`, as people use it."""

import json
from datetime import UTC, datetime

import jsonschema
import pytest

from tests.support.commands import output_of
from tidemark.alerting.rules.files import DEFAULT_RULES
from tidemark.cli.commands.rules import SchemaOf, by_rule

NOW = datetime.now(UTC)


@pytest.fixture
def home(home_with_incidents):
    return home_with_incidents


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
    counts = [tuple(row.values()) for row in by_rule(rows)]
    assert list(by_rule(rows)[0])[1:] == ["fired", "subjects", "resolved", "pending", "inhibited"]
    assert counts == [("lag-high", 2, 2, 1, 1, 1), ("broker-down", 1, 1, 0, 0, 0)]


def test_a_replay_names_the_rules_that_it_skips(home):
    arguments = ["rules", "test", str(DEFAULT_RULES), "--from", "2026-11-19", "--to", "2026-11-20"]
    printed = output_of(home, *arguments).splitlines()[-1]
    left_out = ["collection-late", "data-quality", "runs-failing"]
    assert printed == f"not replayed, as they need the clock: {', '.join(left_out)}"
    assert json.loads(output_of(home, *arguments, "--format", "json")) == []


def test_mistakes_in_rules_have_their_line(home, tmp_path):
    good = output_of(home, "rules", "check")
    assert good.endswith("rules, no mistake\n")
    file = tmp_path / "mine.yaml"
    file.write_text("rules:\n  - name: a\n    kind: lag\n    threshold: many\n")
    printed = output_of(home, "rules", "check", str(file), code=1)
    assert printed == f"{file}:4: rules[0].threshold: should be a valid number, not 'many'\n"
    jsonschema.Draft202012Validator.check_schema(json.loads(output_of(home, "rules", "schema")))


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
        output_of(
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
    (way,) = json.loads(output_of(home, *arguments, "--incident", "aab"))
    assert (way["receiver"], way["route"]) == ("lead", "routes[1]")
    (way,) = json.loads(output_of(home, *arguments, "--incident", "aaa"))
    assert (way["receiver"], way["route"]) == ("default", "routes")
    everywhere = "no routes: it goes to TIDEMARK_NOTIFY_URLS, at once\n"
    assert output_of(home, "rules", "route", "--labels", "severity=info") == everywhere
    assert "name an incident" in output_of(home, *arguments, code=2)
    assert "NAME=VALUE" in output_of(home, *arguments, "--labels", "severity", code=2)
    assert "no incident" in output_of(home, *arguments, "--incident", "zzz", code=1)


def test_the_way_depends_on_the_team_of_the_group(home, tmp_path):
    """As in a delivery: a label of the rule wins."""
    file, owners = tmp_path / "mine.yaml", home.path / "owners.yaml"
    file.write_text("""\
receivers: [{name: pager}]
routes:
- match: {labels: {team: orders}}
  receiver: pager
""")
    owners.write_text("owners: [{match: {consumer_group: 'aab*'}, team: orders}]\n")

    def receiver(*named: str) -> str:
        arguments = ["rules", "route", str(file), *named, "--format", "json"]
        return json.loads(output_of(home, *arguments))[0]["receiver"]

    assert receiver("--incident", "aab") == "pager"
    assert receiver("--incident", "aaa") == "default"
    assert receiver("--labels", "cluster=lab,consumer_group=aab9") == "pager"
    assert receiver("--labels", "cluster=lab,consumer_group=aab9,team=other") == "default"


FILES = {
    SchemaOf.RULES: (
        {"rules": [{"name": "a", "kind": "lag", "threshold": 5}]},
        {"rules": [{"name": "a", "kind": "lag", "threshold": "many"}]},
    ),
    SchemaOf.OBJECTIVES: (
        {"objectives": [dict(name="a", match={}, delay="30s", target="99.5%", window="30d")]},
        {"objectives": [dict(name="a b", match={}, delay="30s", target=0.99, window="30d")]},
    ),
    SchemaOf.OWNERS: (
        {"owners": [{"match": {"consumer_group": "orders-*"}, "team": "orders"}]},
        {"owners": [{"match": {"topic": "orders"}, "team": "orders"}]},
    ),
}
"""By file one that is right and one that is wrong."""


@pytest.mark.parametrize("of", SchemaOf)
def test_editors_get_the_schema_of_each_file(home, of):
    schema = json.loads(output_of(home, "rules", "schema", "--of", of.value))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    right, wrong = FILES[of]
    assert validator.is_valid(right)
    assert not validator.is_valid(wrong)
    assert not validator.is_valid(right | {"others": []})
