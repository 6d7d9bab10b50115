"""Inhibitions of rule files: a source that fires keeps its targets from being notified."""

import json
from pathlib import Path

from msgspec.structs import replace

from tests.support.notified_incidents import incident, minute
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.incidents.inhibition import apply_inhibition
from tidemark.alerting.rules.files import DEFAULT_RULES, read_rule_set, ready_made_inhibitions
from tidemark.alerting.rules.model import Inhibition

RULES = {rule.name: rule for rule in read_rule_set(DEFAULT_RULES).rules}


def firing(rule: str, at: float = 0, topic: str = "orders", group: str = "g", **other) -> Incident:
    """An incident of a ready-made rule."""
    row = {"cluster": "lab", "consumer_group": group, "topic": topic}
    made = incident(
        ("FIRING", at),
        group=group,
        severity=RULES[rule].severity,
        rule=rule,
        kind=RULES[rule].kind,
        subject=f"lab/{group}/{topic}",
        evidence=json.dumps({"row": row}),
    )
    return replace(made, **{"incident_id": f"{rule} {group} {topic}"} | other)


def inhibited(*incidents: Incident, by: tuple[Inhibition, ...] | None = None) -> dict[str, str]:
    """The rule of each inhibited incident, and of the one that inhibits it."""
    chosen = ready_made_inhibitions() if by is None else by
    inhibition = apply_inhibition(incidents, chosen)
    return {
        item.rule: item.suppressed_by.split()[0]
        for item in inhibition
        if item.suppressed_by is not None
    }


def declared(tmp_path: Path, text: str) -> tuple[Inhibition, ...]:
    file = tmp_path / "rules.yaml"
    file.write_text(f"rules: []\ninhibit:\n{text}")
    rule_set = read_rule_set(file)
    assert rule_set.mistakes == ()
    return rule_set.inhibitions


def test_lag_very_high_inhibits_lag_high_of_its_subject():
    high, very = firing("lag-high"), firing("lag-very-high", 30)
    assert inhibited(high, very) == {"lag-high": "lag-very-high"}
    assert inhibited(high, firing("lag-very-high", topic="other")) == {}
    assert inhibited(high, replace(very, state="PENDING")) == {}
    assert inhibited(high, replace(very, state="ACKNOWLEDGED")) == {"lag-high": "lag-very-high"}


def test_one_trouble_of_a_group_is_one_page():
    """A group without members: eight rules are true of it, one notifies."""
    amounts = ("lag-high", "lag-very-high", "delay-high", "ready-delay-high", "falling-behind")
    rules = (*amounts, "throughput-dropped")
    all_of_it = [firing("nobody-online", 5, topic="t2"), *map(firing, rules), firing("stalled")]
    texts = inhibited(*all_of_it)
    assert texts == dict.fromkeys([*rules, "stalled"], "nobody-online")
    for reason in ("stalled", "blocked", "queues-unowned", "queues-contested"):
        stuck = [firing(reason, 9), *map(firing, amounts)]
        assert inhibited(*stuck) == dict.fromkeys(amounts, reason)


def test_messages_that_wait_for_a_client_are_one_page():
    """Messages without a client are part of the unfinished ones, and with POP all of them."""
    waits, late = firing("ready-delay-high"), firing("delay-high", 5)
    assert inhibited(waits, late) == {"delay-high": "ready-delay-high"}
    assert inhibited(waits, late, firing("lag-high", 7)) == {
        "delay-high": "lag-high",
        "ready-delay-high": "lag-high",
    }
    assert inhibited(waits, replace(late, severity="critical")) == {}


def test_less_severe_incidents_never_inhibit_loss():
    lost = [firing("nobody-online"), firing("messages-lost"), firing("messages-soon-lost")]
    assert inhibited(*lost) == {}
    late = replace(firing("delay-high"), severity="critical")
    assert inhibited(firing("lag-high"), late) == {}
    assert inhibited(firing("lag-high"), firing("delay-high")) == {"delay-high": "lag-high"}


def test_what_a_broker_hides_is_declared_too():
    (hidden, *_) = ready_made_inhibitions()
    assert hidden.only == "hidden"


def test_source_target_and_equal_are_alertmanagers(tmp_path):
    by = declared(
        tmp_path,
        "- {source: {severity: critical}, target: {severity: [warning, critical]}, "
        "equal: [consumer_group]}\n",
    )
    critical, other = firing("lag-very-high"), firing("stalled")
    assert inhibited(critical, other, by=by) == {}, "both are sources and targets"
    assert inhibited(critical, firing("lag-high"), by=by) == {"lag-high": "lag-very-high"}
    assert inhibited(critical, firing("lag-high", group="h"), by=by) == {}
    no_label = declared(
        tmp_path, "- {source: {rule: stalled}, target: {rule: l*}, equal: [team]}\n"
    )
    assert inhibited(other, firing("lag-high"), by=no_label) == {"lag-high": "stalled"}
    labelled = replace(firing("lag-high"), labels={"team": "pay"})
    unlabelled = replace(other, labels={})
    assert inhibited(unlabelled, labelled, by=no_label) == {}


def test_somebody_is_notified_whatever_is_declared(tmp_path):
    by = declared(
        tmp_path,
        "- {source: {rule: lag-high}, target: {rule: stalled}}\n"
        "- {source: {rule: stalled}, target: {rule: lag-high}}\n"
        "- {source: {rule: delay-high}, target: {rule: delay-high}}\n",
    )
    texts = inhibited(firing("lag-high"), firing("stalled"), firing("delay-high"), by=by)
    assert texts == {"stalled": "lag-high"}


def test_resolved_incidents_and_empty_declarations_inhibit_nothing(tmp_path):
    assert inhibited(firing("lag-high"), firing("lag-very-high"), by=()) == {}
    file = tmp_path / "rules.yaml"
    file.write_text("rules: []\ninhibit: []\n")
    assert read_rule_set(file).inhibitions == ()
    file.write_text("rules: []\n")
    assert read_rule_set(file).inhibitions == ready_made_inhibitions()
    (muted, _) = apply_inhibition([firing("lag-high"), very := firing("lag-very-high")])
    over = replace(very, state="RESOLVED", resolved_at=minute(9))
    assert inhibited(muted, over) == {}


def test_labels_come_from_the_subject_by_overrides(tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text("""\
rules:
- name: late
  kind: delay
  threshold: 5m
  labels: {team: platform, tier: two}
  overrides:
  - match: {consumer_group: "pay-*"}
    labels: {team: pay}
""")
    (rule,) = read_rule_set(file).rules
    assert [dict(applied_rule.labels) for applied_rule in rule.applied_rules()] == [
        {"team": "pay", "tier": "two"},
        {"team": "platform", "tier": "two"},
    ]
