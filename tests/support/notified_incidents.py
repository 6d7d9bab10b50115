"""An incident at noon, entries of its notifications, and the rows of deliveries."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from tidemark.alerting.delivery.messages import Notification
from tidemark.alerting.delivery.notification_log import Entry
from tidemark.alerting.incidents.incident import Incident, Transition, incident_id
from tidemark.lake.catalog import Lake
from tidemark.lake.tables.alerting import NOTIFICATIONS
from tidemark.model.incidents import TransitionName

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def minute(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


def incident(
    *states: tuple[str, float], group: str = "billing", severity: str = "critical", **other: Any
) -> Incident:
    """An incident with these transitions at these minutes."""
    subject = f"lab/{group}/orders"
    evidence = {
        "description": "The group is late.",
        "runbook": "https://wiki/lag",
        "row": {
            "cluster": "lab",
            "consumer_group": group,
            "topic": "orders",
            "queues": 8,
            "queues_unknown": 2,
            "max_queue_lag": 1490,
            "worst_broker": "broker-b",
            "worst_queue_id": 3,
            "delay_ms": 61_000,
        },
    }
    opened = minute(states[0][1] - 2)
    is_resolved = states[-1][0].startswith("RESOLVED")
    made = Incident(
        incident_id=incident_id("lag", subject, opened),
        rule="lag",
        subject=subject,
        severity=severity,
        state="RESOLVED" if is_resolved else "FIRING",
        opened_at=opened,
        cluster="lab",
        kind="lag",
        threshold=1000.0,
        observed_at=minute(states[-1][1]),
        last_true_at=minute(states[0][1]),
        fired_at=minute(states[0][1]),
        resolved_at=minute(states[-1][1]) if is_resolved else None,
        last_value=1500.0,
        peak_value=2500.0,
        observations=3,
        labels={"team": "billing"},
        snapshot_ids=("s0", "s1"),
        evidence=json.dumps(evidence),
        transitions=tuple(
            Transition(TransitionName(state), minute(number)) for state, number in states
        ),
    )
    return replace(made, **other)


FIRING, RESOLVED = incident(("FIRING", 0)), incident(("FIRING", 0), ("RESOLVED", 9))


def entry(transition: str, at: float, **other: Any) -> Entry:
    return Entry(
        incident_id=FIRING.incident_id,
        transition=TransitionName(transition),
        channel="hook",
        transition_at=minute(at),
        **other,
    )


DONE = {"status": "DELIVERED", "attempts": 1, "delivered_at": minute(1)}


def notification(one: Incident, number: int = 0) -> Notification:
    return Notification(incident=one, transition=one.transitions[number])


def clock(number: float) -> Callable[[], datetime]:
    return lambda: minute(number)


def rows(lake: Lake) -> dict[tuple[str, str], dict[str, Any]]:
    result = lake.read(NOTIFICATIONS).to_pylist()
    keyed = {(row["channel"], row["transition"]): row for row in result}
    assert len({(row["incident_id"], *key) for key, row in keyed.items()}) == len(keyed)
    return keyed
