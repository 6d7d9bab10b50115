"""Evaluations of rules at minutes, and the alerts that are true there."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemark.alerting.incidents.incident import Alert, Evaluation

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


SUBJECT = "lab/billing/orders"


def minute(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


def true_alert(
    at: float, value: float | None = 150.0, rule: str = "lag", subject: str = SUBJECT, **row: Any
) -> Alert:
    cluster, *rest = subject.split("/")
    names = dict(zip(("consumer_group", "topic"), rest, strict=False))
    evidence = {
        "observations": [{"snapshot_id": f"s{at:g}"}],
        "row": {"cluster": cluster, **names, **row},
    }
    return Alert(
        observed_at=minute(at),
        rule=rule,
        severity="warning",
        subject=subject,
        value=value,
        threshold=100.0,
        evidence=json.dumps(evidence),
    )


def evaluated(
    number: float,
    *truths: Alert,
    untrue: Iterable[tuple[str, str]] = (),
    cluster: str = "lab",
) -> Evaluation:
    return Evaluation(
        observed_at=minute(number), cluster=cluster, alerts=truths, untrue=frozenset(untrue)
    )
