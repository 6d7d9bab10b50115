"""Incidents of the past: made by the life cycle itself, then cut at instants."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tidemark.alerting.incidents.incident import Incident, Transition
from tidemark.alerting.incidents.life_cycle import acknowledged, closed
from tidemark.alerting.incidents.repository import notifications_as_of, row_as_of
from tidemark.lake.typed_rows import plain_rows
from tidemark.model.incidents import TransitionName

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


def minute(number: int) -> datetime:
    return NOON + timedelta(minutes=number)


def incident() -> Incident:
    """One that fires at 2, is acknowledged at 5 and resolved by hand at 10."""
    firing = Incident(
        incident_id="0" * 16, rule="lag-high", subject="shop/mailer/orders", severity="warning",
        state="FIRING", opened_at=NOON, kind="lag", observed_at=minute(9), last_true_at=minute(4),
        fired_at=minute(2), last_value=9.0, observations=5, transitions=(
            Transition(TransitionName("FIRING"), minute(2)),
        ),
        evidence=json.dumps({"row": {"consumer_group": "mailer", "lag": 9}, "runbook": "r"}),
    )  # fmt: skip
    after = closed(acknowledged(firing, "ann", minute(5), "mine"), minute(10), "by bob", "bob", "x")
    assert after
    return after


def reopened() -> Incident:
    """The same, which fired again at 15."""
    transitions = (*incident().transitions, Transition(TransitionName("FIRING_2"), minute(15)))
    return replace(incident(), state="FIRING", resolved_at=None, resolved_by=None, reopened=1,
                   acknowledged_at=None, acknowledged_by=None, acknowledge_reason=None,
                   resolve_reason=None, last_true_at=minute(16), observed_at=minute(16),
                   transitions=transitions, evidence='{"row": {"lag": 9}}')  # fmt: skip


@pytest.mark.parametrize(
    ("at", "state", "transitions", "who"),
    [
        (1, "PENDING", 0, (None, None)),
        (4, "FIRING", 1, (None, None)),
        (5, "ACKNOWLEDGED", 1, ("ann", None)),
        (9, "ACKNOWLEDGED", 1, ("ann", None)),
        (10, "RESOLVED", 2, ("ann", "bob")),
    ],
)
def test_the_state_is_that_of_then(at, state, transitions, who):
    (row,) = plain_rows([incident()])
    then = row_as_of(row, minute(at))
    assert (then["state"], len(then["transitions"])) == (state, transitions)
    assert (then["acknowledged_by"], then["resolved_by"]) == who
    assert (then["acknowledge_reason"], then["resolve_reason"]) == (
        "mine" if who[0] else None,
        "x" if who[1] else None,
    )
    assert ("closed" in json.loads(then["evidence"])) == (state == "RESOLVED")
    assert then.keys() == row.keys()


def test_nothing_is_cut_at_the_end():
    for item in (incident(), reopened()):
        (row,) = plain_rows([item])
        now = row_as_of(row, minute(60))
        assert json.loads(now.pop("evidence")) == json.loads(row.pop("evidence"))
        lists = {name: list(row[name]) for name in ("transitions", "actions")}
        assert now == row | lists


@pytest.mark.parametrize(
    ("at", "state", "count"), [(4, "FIRING", 0), (12, "RESOLVED", 0), (15, "FIRING", 1)]
)
def test_a_reopened_incident_was_resolved_between(at, state, count):
    (row,) = plain_rows([reopened()])
    then = row_as_of(row, minute(at))
    assert (then["state"], then["reopened"]) == (state, count)
    assert then["resolved_at"] == (minute(10) if state == "RESOLVED" else None)
    assert then["fired_at"] == minute(2)


def test_numbers_of_later_are_unknown():
    (row,) = plain_rows([incident()])
    assert row_as_of(row, minute(4))["last_value"] == 9.0
    then = row_as_of(row, minute(3))
    assert then["last_value"] is None and then["observations"] is None
    assert json.loads(then["evidence"]) == {"row": {"consumer_group": "mailer"}, "runbook": "r"}


def test_notifications_of_later_are_left_out():
    sent = {"transition": "FIRING", "transition_at": minute(2), "status": "DELIVERED",
            "delivered_at": minute(6), "attempts": 3, "last_error": "refused"}  # fmt: skip
    later = sent | {"transition": "RESOLVED", "transition_at": minute(10)}
    assert notifications_as_of([sent, later], minute(7)) == [sent]
    (waiting,) = notifications_as_of([sent, later], minute(5))
    assert (waiting["status"], waiting["delivered_at"]) == ("PENDING", None)
