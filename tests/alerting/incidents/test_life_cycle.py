"""The life of incidents, replayed: the mistakes that people complain about in other monitors.

Two simplifications would look right and break: ending an incident at the first observation that is
not true (it would flap), and taking no observation for a good one (a stopped collector would end
every incident).
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import accumulate
from typing import Any

import pytest

from tests.support.evaluated_minutes import NOON, SUBJECT, evaluated, minute, true_alert
from tidemark.alerting.incidents.incident import Alert, Evaluation, Incident
from tidemark.alerting.incidents.life_cycle import REOPEN_WITHIN, acknowledged, advance
from tidemark.alerting.rules.base import BaseRule
from tidemark.alerting.rules.files import DEFAULT_RULES, load_rules


@pytest.fixture
def rules(tmp_path) -> dict[str, BaseRule]:
    file = tmp_path / "rules.yaml"
    file.write_text(
        """\
rules:
  - {name: lag, kind: lag, threshold: 100, for: 3, clear_for: 5}
  - {name: lasting, kind: lag, threshold: 100, for: 10m, clear_for: 5m}
  - {name: down, kind: broker_down, clear_for: 2}
  - {name: incomplete, kind: collection_incomplete, for: 1, clear_for: 2}
  - {name: soon, kind: soon_lost, threshold: 2h}
  - {name: full, kind: disk, threshold: 0.85, for: 1}
  - {name: unknown, kind: column, column: queues_unknown, above: 0, for: 1}
  - {name: rewound, kind: rewound, for: 1}
  - {name: dead, kind: dlq_growth, for: 1}
  - {name: differing, kind: inconsistent_subscription, for: 1}
  - {name: idle, kind: idle_clients, for: 1}
  - {name: late, kind: collection_late}
  - {name: failing, kind: run_failed}
  - name: over
    kind: lag
    threshold: 100
    overrides:
      - {match: {topic: "orders"}, for: 1, clear_for: 1}
      - {match: {topic: "batch*"}, enabled: false}
"""
    )
    return {rule.name: rule for rule in load_rules(file)}


def seen(lags: Sequence[float | None], rule: str = "lag", start: int = 0) -> list[Evaluation]:
    """An observation a minute of one subject whose limit is 100; None is not known."""
    return [
        evaluated(number)
        if lag is None
        else evaluated(number, true_alert(number, lag, rule))
        if lag > 100
        else evaluated(number, untrue=[(rule, SUBJECT)])
        for number, lag in enumerate(lags, start)
    ]


def lived(evaluations: Sequence[Evaluation], rules: dict[str, Any]) -> Incident | None:
    """The one incident of these evaluations, the same by ticks and all at once."""
    at_once = advance((), evaluations, rules)
    ticked = list(accumulate(evaluations, lambda old, one: advance(old, [one], rules), initial=[]))
    assert ticked[-1] == at_once
    # A run that was killed after it wrote does all of it again.
    assert advance(at_once, evaluations, rules) == at_once
    assert len(at_once) <= 1
    return at_once[0] if at_once else None


def notified(incident: Incident | None) -> list[tuple[str, float]]:
    transitions = incident.transitions if incident else ()
    return [
        (transition.transition, (transition.at - NOON).total_seconds() / 60)
        for transition in transitions
    ]


def test_an_incident_is_pending_until_its_duration_has_passed(rules):
    assert lived(seen([50]), rules) is None
    pending = lived(seen([50, 150, 160]), rules)
    assert pending and pending.state == "PENDING" and pending.transitions == ()
    firing = lived(seen([50, 150, 160, 140]), rules)
    assert firing and firing.state == "FIRING"
    assert (firing.opened_at, firing.fired_at) == (minute(1), minute(3))
    assert (firing.last_value, firing.peak_value, firing.observations) == (140, 160, 3)
    assert firing.snapshot_ids == ("s1", "s2", "s3")
    assert notified(firing) == [("FIRING", 3)]


def test_what_was_not_so_for_long_enough_never_was(rules):
    assert lived(seen([150, 150, 50]), rules) is None
    restarted = lived(seen([150, 150, 50, 150, 150]), rules)
    assert restarted and restarted.opened_at == minute(3)


def test_an_incident_resolves_after_its_resolve_duration(rules):
    standing = lived(seen([150] * 3 + [50] * 4), rules)
    assert standing and standing.state == "FIRING"
    over = lived(seen([150] * 3 + [50] * 5), rules)
    assert over and over.state == "RESOLVED"
    assert (over.resolved_at, notified(over)) == (minute(7), [("FIRING", 2), ("RESOLVED", 7)])
    assert lived(seen([150] * 3 + [50] * 9), rules).transitions == over.transitions


def test_what_is_not_known_neither_fires_nor_ends_anything(rules):
    assert notified(lived(seen([150, None, 150, None, None]), rules)) == []
    assert notified(lived(seen([150, None, 150, None, 150]), rules)) == [("FIRING", 4)]
    standing = lived(seen([150] * 3 + [50] * 4 + [None] * 60), rules)
    assert standing and standing.state == "FIRING"
    assert notified(lived(seen([150] * 3 + [50] * 4 + [None] * 60 + [50]), rules))[1:] == [
        ("RESOLVED", 67)
    ]


def test_a_duration_counts_from_first_to_last_observation(rules):
    assert notified(lived(seen([150] * 10, "lasting"), rules)) == []
    assert notified(lived(seen([150] * 11, "lasting"), rules)) == [("FIRING", 10)]
    over = lived(seen([150] * 11 + [50] * 6, "lasting"), rules)
    assert notified(over) == [("FIRING", 10), ("RESOLVED", 16)]


@pytest.mark.parametrize("rule", ["queues-unowned", "queues-contested", "clients-idle"])
def test_two_snapshots_within_one_rebalance_are_no_page(rule):
    ready_made = {
        lag_rule.name: lag_rule for lag_rule in load_rules(DEFAULT_RULES / "default.yaml")
    }
    close = [evaluated(number, true_alert(number, 1, rule)) for number in (0, 1 / 6, 1 / 3)]
    assert advance((), close, ready_made)[0].state == "PENDING"
    assert (
        advance((), [*close, evaluated(1, true_alert(1, 1, rule))], ready_made)[0].state == "FIRING"
    )


@pytest.mark.parametrize("period", [2, 3, 4, 6, 10, 16, 20])
def test_a_lag_around_its_limit_is_one_incident(rules, period):
    high = period - period // 2
    lags = [150 if number % period < high else 50 for number in range(60)]
    incidents = advance((), seen(lags), rules)
    if high < 3:
        assert incidents == [] or notified(incidents[0]) == []
        return
    assert len(incidents) == 1
    assert len(incidents[0].transitions) <= 5, "each time it comes back it takes longer to be over"


def test_a_soon_recurrence_reopens_the_same_incident(rules):
    lags = [150] * 3 + [50] * 5 + [150] * 3 + [50] * 9
    back = lived(seen(lags), rules)
    assert back and (back.state, back.reopened, back.opened_at) == ("FIRING", 1, minute(0))
    assert notified(back) == [("FIRING", 2), ("RESOLVED", 7), ("FIRING_2", 10)]
    assert back.resolved_at is None
    over = lived(seen([*lags, 50]), rules)
    assert notified(over)[3:] == [("RESOLVED_2", 20)]


def test_what_comes_back_late_is_another_one(rules):
    first = seen([150] * 3 + [50] * 5)
    later = int(REOPEN_WITHIN / timedelta(minutes=1)) + 9
    incidents = advance((), [*first, *seen([150] * 3, start=later)], rules)
    assert [notified(incident) for incident in incidents] == [
        [("FIRING", 2), ("RESOLVED", 7)],
        [("FIRING", later + 2)],
    ]
    assert incidents[0].incident_id != incidents[1].incident_id


def test_a_recurrence_counts_from_its_first_observation(rules):
    """It began within the hour, so the hour's end neither splits nor delays it."""
    first, later = seen([150] * 3 + [50] * 5), int(REOPEN_WITHIN / timedelta(minutes=1)) + 6
    lags = [None] * (later - 8) + [150] * 3
    back = lived([*first, *seen(lags, start=8)], rules)
    assert notified(back) == [("FIRING", 2), ("RESOLVED", 7), ("FIRING_2", later + 2)]
    untrue = lived([*first, *seen([*lags[:-1], 50], start=8)], rules)
    assert notified(untrue) == notified(back)[:2]


def test_a_long_recurrence_is_one_incident(tmp_path):
    file = tmp_path / "long.yaml"
    file.write_text("rules: [{name: lag, kind: lag, threshold: 100, for: 2h, clear_for: 1}]")
    long = {rule.name: rule for rule in load_rules(file)}
    incidents = advance((), seen([150] * 121 + [50] + [150] * 121), long)
    assert [notified(incident) for incident in incidents] == [
        [("FIRING", 120), ("RESOLVED", 121), ("FIRING_2", 242)]
    ]


def test_ids_follow_from_rule_subject_and_opening(rules):
    first, second = (advance((), seen([50] * shift + [150] * 4), rules)[0] for shift in (0, 1))
    again = advance((), seen([150] * 9), rules)[0]
    assert first.incident_id == again.incident_id != second.incident_id


def test_the_past_changes_nothing(rules):
    standing = advance((), seen([150] * 10), rules)
    assert advance(standing, seen([50] * 10), rules) == standing
    assert advance(standing, seen([None, 900, 900]), rules) == standing


def test_somebody_takes_it_on(rules):
    (firing,) = advance((), seen([150] * 3), rules)
    mine = acknowledged(firing, "eve", minute(3))
    (standing,) = advance([mine], seen([150], start=4), rules)
    assert (standing.state, standing.acknowledged_by) == ("ACKNOWLEDGED", "eve")
    (over,) = advance([standing], seen([50] * 5, start=5), rules)
    assert notified(over) == [("FIRING", 2), ("RESOLVED", 9)]
    with pytest.raises(ValueError, match="is RESOLVED, not FIRING"):
        acknowledged(over, "eve", minute(10))


def test_below_a_limit_the_worst_is_the_least(rules):
    truths = [
        evaluated(n, true_alert(n, value, "soon")) for n, value in enumerate([900.0, 100.0, 500.0])
    ]
    (incident,) = advance((), truths, rules)
    assert (incident.last_value, incident.peak_value) == (500, 100)


def test_a_removed_rule_resolves_its_incidents(rules):
    (firing,) = advance((), seen([150] * 3), rules)
    del rules["lag"]
    # A rule that cannot be read is not one that is gone.
    assert advance([firing], [evaluated(3)], rules, all_rules=False) == [firing]
    (over,) = advance([firing], [evaluated(3)], rules)
    assert (over.state, over.resolved_at) == ("RESOLVED", minute(3))


def test_an_incident_is_of_the_kind_that_its_rule_has_now(rules):
    """Its delay was notified as messages, with the peak of the lag."""
    (firing,) = advance((), seen([150] * 3), rules)
    edited = rules | {"lag": rules["soon"].model_copy(update={"name": "lag"})}
    (after,) = advance([firing], [evaluated(3, true_alert(3, 90.0))], edited)
    assert (after.incident_id, after.kind, after.peak_value) == (
        firing.incident_id,
        "soon_lost",
        90,
    )


@pytest.mark.parametrize(
    ("before", "after"), [("late", "lag"), ("late", "failing"), ("lag", "late"), ("lag", "soon")]
)
def test_a_rule_of_another_kind_resolves_incidents_it_does_not_evaluate(rules, before, after):
    """Nothing evaluated the subject any more, so it fired for ever."""
    cluster = None if before == "late" else "lab"
    alerts = [true_alert(n, rule=before, subject=SUBJECT) for n in range(3)]
    evaluations = [
        Evaluation(observed_at=alert.observed_at, cluster=cluster, alerts=(alert,))
        for alert in alerts
    ]
    (firing,) = advance((), evaluations, rules)
    assert firing.state == "FIRING"
    edited = rules | {before: rules[after].model_copy(update={"name": before})}
    (over,) = advance(
        [firing], [Evaluation(observed_at=minute(3), cluster=cluster, alerts=())], edited
    )
    assert (over.state, over.resolved_at) == ("RESOLVED", minute(3))


def test_an_override_counts_for_what_fits_it(rules):
    (fired,) = advance((), [evaluated(0, true_alert(0, rule="over"))], rules)
    assert fired.state == "FIRING"
    (pending,) = advance(
        (), [evaluated(0, true_alert(0, rule="over", subject="lab/billing/other"))], rules
    )
    assert pending.state == "PENDING"
    assert (
        advance(
            (), [evaluated(0, true_alert(0, rule="over", subject="lab/billing/batch-1"))], rules
        )
        == []
    )


def test_labels_are_those_of_the_rule_when_it_fires(rules):
    """An edited rule changes nothing while an incident fires: its receiver waits for the end."""

    def of(team: str) -> dict[str, BaseRule]:
        return {"lag": rules["lag"].model_copy(update={"labels": {"team": team}})}

    pending = advance((), seen([150]), of("a"))
    firing = advance(pending, seen([150, 150], start=1), of("b"))
    assert firing[0].labels == {"team": "b"}
    over = advance(firing, seen([150, *[50] * 5], start=3), of("c"))
    assert (over[0].state, over[0].labels) == ("RESOLVED", {"team": "b"})
    back = advance(over, seen([150] * 3, start=9), of("d"))
    assert (back[0].reopened, back[0].labels) == (1, {"team": "d"})


# Inhibitions


def causes(incidents: Iterable[Incident]) -> dict[str, str | None]:
    result = list(incidents)
    names = {incident.incident_id: incident.rule for incident in result}
    return {
        f"{incident.rule} {incident.subject}": names[incident.suppressed_by]
        if incident.suppressed_by
        else None
        for incident in result
    }


BROKER = "lab/broker-b/10.0.0.2:10911"


def down(number: float) -> Alert:
    return true_alert(number, 1.0, "down", BROKER, broker="broker-b", cluster="lab")


def test_an_unreachable_broker_inhibits_what_rests_on_it(rules):
    before = advance((), seen([150] * 3), rules)
    hidden = true_alert(3, rule="lag", subject="lab/a/t", queues_unknown=3)
    on_it = true_alert(3, rule="lag", subject="lab/b/t", worst_broker="broker-b")
    elsewhere = true_alert(3, rule="lag", subject="lab/c/t", worst_broker="broker-a")
    other = true_alert(3, rule="lag", subject="west/a/t", queues_unknown=3)
    partial = true_alert(3, 1.0, "incomplete", "lab", status="PARTIAL")
    one = evaluated(3, down(3), hidden, on_it, elsewhere, partial)
    incidents = advance(before, [one, evaluated(3, other, cluster="west")], rules)
    assert causes(incidents) == {
        f"lag {SUBJECT}": None,
        f"down {BROKER}": None,
        "lag lab/a/t": "down",
        "lag lab/b/t": "down",
        "lag lab/c/t": None,
        "lag west/a/t": None,
        "incomplete lab": "down",
    }
    back = [("down", BROKER), ("incomplete", "lab")]
    after = advance(incidents, [evaluated(n, hidden, untrue=back) for n in (4, 5)], rules)
    assert {incident.suppressed_by for incident in after} == {None}


def unreachable(number: float, broker_id: int) -> Alert:
    address = f"10.0.0.2{broker_id}:10911"
    columns = {"broker": "broker-b", "broker_id": broker_id, "address": address}
    return true_alert(number, 1.0, "down", f"lab/broker-b/{address}", **columns)


def on(number: float, broker: str | None, group: str, rule: str = "lag", **row: Any) -> Alert:
    """A group on whose queues of a broker most messages wait."""
    return true_alert(number, rule=rule, subject=f"lab/{group}/t", worst_broker=broker, **row)


def test_a_reopened_incident_counts_from_its_reopening(rules):
    """A broker that is down again inhibits new incidents, but none that fired before."""
    back = [("down", BROKER)]
    observed = [
        evaluated(0, down(0)),
        *(evaluated(n, untrue=back) for n in (1, 2)),
        evaluated(5, on(5, "broker-b", "a", "unknown"), untrue=back),
        evaluated(6, down(6), on(6, "broker-b", "b", "unknown")),
    ]
    assert causes(advance((), observed, rules)) == {
        f"down {BROKER}": None,
        "unknown lab/a/t": None,
        "unknown lab/b/t": "down",
    }


def test_what_a_broker_hides_now_is_inhibited_also_when_it_reopens(rules):
    resolving = [("unknown", "lab/a/t")]
    observed = [
        evaluated(0, on(0, "broker-b", "a", "unknown")),
        *(evaluated(n, untrue=resolving) for n in range(1, 6)),
        evaluated(9, down(9), on(9, "broker-b", "a", "unknown")),
    ]
    incidents = advance((), observed, rules)
    assert [incident.reopened for incident in incidents] == [1, 0]
    assert causes(incidents) == {"unknown lab/a/t": "down", f"down {BROKER}": None}


def test_an_unreachable_slave_inhibits_only_incomplete_snapshots(rules):
    """Nobody reads a slave's offsets: what is known is so, and its master's disk is its own."""
    master = "lab/broker-b/10.0.0.20:10911"
    disk = {"broker": "broker-b", "broker_id": 0, "address": "10.0.0.20:10911"}
    observed = [
        evaluated(0, unreachable(0, 1), true_alert(0, 1.0, "incomplete", "lab", status="PARTIAL")),
        evaluated(
            140,
            unreachable(140, 1),
            on(140, "broker-b", "a"),
            true_alert(140, 0.9, "full", master, **disk),
        ),
        evaluated(141, on(141, "broker-b", "c"), untrue=[("down", "lab/broker-b/10.0.0.21:10911")]),
    ]
    assert causes(advance((), observed, rules)) == {
        "down lab/broker-b/10.0.0.21:10911": None,
        "incomplete lab": "down",
        "lag lab/a/t": None,
        f"full {master}": None,
        "lag lab/c/t": None,
    }


def test_an_unreachable_master_inhibits_nothing_known_of_others(rules):
    known_elsewhere = on(1, "broker-a", "a", queues_unknown=4)
    of_the_unknown = on(1, "broker-a", "b", "unknown", queues_unknown=4)
    observed = [
        evaluated(0, unreachable(0, 0)),
        evaluated(1, unreachable(1, 0), known_elsewhere, of_the_unknown),
        # The broker is back, with messages that were written meanwhile.
        evaluated(2, on(2, "broker-b", "c"), untrue=[("down", "lab/broker-b/10.0.0.20:10911")]),
    ]
    assert causes(advance((), observed, rules)) == {
        "down lab/broker-b/10.0.0.20:10911": None,
        "lag lab/a/t": None,
        "unknown lab/b/t": "down",
        "lag lab/c/t": "down",
    }


def test_what_holds_without_the_master_is_not_inhibited(rules):
    """Whichever broker most messages wait on; fewer queues to share leave members idle."""
    certain = [on(1, "broker-b", "a", rule) for rule in ("rewound", "dead", "differing")]
    hidden, known = (
        on(1, "broker-a", group, "idle", queues_unknown=n) for group, n in (("b", 4), ("c", 0))
    )
    incidents = advance(
        (),
        [
            evaluated(0, unreachable(0, 0)),
            evaluated(1, unreachable(1, 0), *certain, hidden, known),
        ],
        rules,
    )
    assert causes(incidents) == {
        "down lab/broker-b/10.0.0.20:10911": None,
        **{f"{rule} lab/a/t": None for rule in ("rewound", "dead", "differing")},
        "idle lab/b/t": "down",
        "idle lab/c/t": None,
    }


def test_an_acting_slave_leaves_its_incidents_uninhibited(rules):
    observed = [
        evaluated(0, unreachable(0, 0)),
        evaluated(1, unreachable(1, 0), on(1, "broker-b", "a")),
    ]
    assert causes(advance((), observed, rules))["lag lab/a/t"] is None


def test_an_unreachable_cluster_inhibits_its_unreachable_brokers(rules):
    failed = true_alert(0, 2.0, "incomplete", "lab", status="FAILED")
    assert causes(advance((), [evaluated(0, failed, down(0))], rules)) == {
        "incomplete lab": None,
        f"down {BROKER}": "incomplete",
    }


def test_an_unreadable_cluster_hides_nothing_of_tidemark_itself(rules):
    """Whether snapshots come is known without the cluster, and only they end its incident."""
    failed = true_alert(0, 2.0, "incomplete", "lab", status="FAILED")
    late = Evaluation(
        observed_at=minute(6), cluster=None, alerts=(true_alert(6, 360.0, "late", "lab"),)
    )
    assert causes(advance((), [evaluated(0, failed), late], rules)) == {
        "incomplete lab": None,
        "late lab": None,
    }


def test_a_broker_missing_three_snapshots_is_notified_once(rules):
    evaluations = [
        *(evaluated(n, untrue=[("down", BROKER)]) for n in range(2)),
        *(evaluated(n, down(n)) for n in range(2, 5)),
        *(evaluated(n, untrue=[("down", BROKER)]) for n in range(5, 9)),
    ]
    assert notified(lived(evaluations, rules)) == [("FIRING", 2), ("RESOLVED", 6)]


@pytest.mark.parametrize("by", [2, 60 * 24, 60 * 24 * 365 * 100])
@pytest.mark.parametrize("is_true", [True, False])
def test_a_clock_that_was_ahead_holds_no_incident(rules, by, is_true):
    """The wrong clock changed the incident last, and was then set back."""
    lags = [150] * 3 + [50] * (5 if is_true else 1)
    before = advance((), [*seen(lags[:-1]), *seen(lags[-1:], start=by + 7)], rules)
    now = {"latest": minute(8)}
    following = seen([150 if is_true else 50] * 5, start=8)
    after = before
    for evaluation in following:
        after = advance(after, [evaluation], rules, **now)
    (incident,) = after
    assert incident.state == ("FIRING" if is_true else "RESOLVED")
    assert incident.observed_at == minute(12)
    instants = [transition.at for transition in incident.transitions]
    assert instants == sorted(instants) and instants[-1] <= minute(12)


def test_a_late_evaluation_puts_no_incident_back(rules):
    """Its instants are those of the present; only what comes after now is."""
    before = advance((), seen([150] * 9), rules)
    assert advance(before, seen([50], start=3), rules, latest=minute(8)) == before
