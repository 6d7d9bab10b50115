"""A home with incidents, for the commands that show them and act on them."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tidemark.alerting.incidents.incident import Incident, Transition
from tidemark.alerting.incidents.repository import save
from tidemark.lake.catalog import Lake
from tidemark.model.incidents import TransitionName

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
        transitions=(Transition(TransitionName("FIRING"), NOW),),
    )


@pytest.fixture
def home_with_incidents(lake: Lake):
    save(
        lake,
        [],
        [incident("aaa1"), incident("aab2", severity="critical"), incident("old3", "RESOLVED")],
    )
    return lake.home
