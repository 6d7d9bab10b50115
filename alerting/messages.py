"""An alert as it was stored, and what people are told about it."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

SEVERITIES = ("critical", "warning", "info")
"""Worst first."""

MOST_IN_FULL = 20
"""Alerts of one message that are told in full; of more, only how many."""


@dataclass(frozen=True)
class Alert:
    """A row of ``alerting.alerts``, with its evidence understood (see `spark.alerts.evaluate`)."""

    observed_at: datetime
    rule: str
    severity: str
    subject: str
    value: float | None
    threshold: float | None
    evidence: str

    @cached_property
    def _evidence(self) -> dict[str, Any]:
        return json.loads(self.evidence)

    @property
    def kind(self) -> str:
        """Kind of the rule."""
        return self._evidence["kind"]

    @property
    def cluster(self) -> str:
        """Cluster of the subject."""
        return self.row["cluster"]

    @property
    def description(self) -> str:
        """What the rule means, in its own words; empty without any."""
        return self._evidence["description"]

    @property
    def runbook(self) -> str | None:
        """Where it is written what to do."""
        return self._evidence["runbook"]

    @property
    def row(self) -> dict[str, Any]:
        """The columns it is about at its newest observation."""
        return self._evidence["row"]

    @property
    def snapshot_ids(self) -> tuple[str, ...]:
        """The snapshots that made it true, oldest first."""
        return tuple(each["snapshot_id"] for each in self._evidence["observations"])

    @property
    def since(self) -> datetime:
        """The first of the observations that made it true."""
        return datetime.fromisoformat(self._evidence["observations"][0]["observed_at"])

    @property
    def previous_at(self) -> datetime | None:
        """The observation before this one at which it was known whether the rule is true."""
        previous = self._evidence["previous_at"]
        return datetime.fromisoformat(previous) if previous else None


def title(alerts: Sequence[Alert]) -> str:
    """One line for a subject or a heading: the alert, or how many of which severity."""
    if len(alerts) == 1:
        (alert,) = alerts
        return f"[{alert.severity}] {alert.rule}: {alert.subject}"
    count = Counter(alert.severity for alert in alerts)
    parts = [f"{count[severity]} {severity}" for severity in SEVERITIES if count[severity]]
    return f"Tidemark: {', '.join(parts)}"


def body(alerts: Sequence[Alert]) -> str:
    """The alerts in full, worst first, so many as one can read."""
    order = {severity: position for position, severity in enumerate(SEVERITIES)}
    worst = sorted(alerts, key=lambda alert: (order.get(alert.severity, 0), alert.subject))
    texts = [_text(alert) for alert in worst[:MOST_IN_FULL]]
    if len(worst) > MOST_IN_FULL:
        texts.append(
            f"and {len(worst) - MOST_IN_FULL} more: tidemark show alerting.alerts --where "
            f"\"observed_at >= '{min(alert.observed_at for alert in alerts).isoformat()}'\""
        )
    return "\n\n".join(texts)


def _text(alert: Alert) -> str:
    """What, since when, how bad, on what evidence, what next."""
    return "\n".join(
        line
        for line in (
            f"[{alert.severity}] {alert.rule}: {alert.subject}",
            alert.description,
            f"Found: {_found(alert)}",
            f"Since: {_instant(alert.since)}, still so at {_instant(alert.observed_at)}"
            if alert.since != alert.observed_at
            else f"Since: {_instant(alert.since)}",
            f"Evidence: snapshots {', '.join(alert.snapshot_ids)}",
            f"Look: {_look(alert)}",
            f"Do: {alert.runbook}" if alert.runbook else "",
        )
        if line
    )


def _found(alert: Alert) -> str:
    """The numbers in words; what is not known is left out."""
    row = alert.row
    value = f"{alert.value:,.0f}"
    if alert.kind == "broker_down":
        return f"{row['address']} ({row['broker']}, id {row['broker_id']}) did not answer"
    limit = f"(alert above {alert.threshold:,.0f})"
    if alert.kind == "lost":
        return f"{value} messages expired unread {limit}"
    parts = [f"{value} messages wait {limit}"]
    if alert.kind == "nobody_online":
        parts.append("nobody of the group is online")
    if row["worst_broker"] is not None:
        parts.append(
            f"most on {row['worst_broker']} queue {row['worst_queue_id']}: {row['max_queue_lag']:,}"
        )
    if row["delay_ms"] is not None:
        parts.append(f"the oldest for {row['delay_ms'] / 1000:,.0f} s")
    if row["queues_unknown"]:
        parts.append(f"{row['queues_unknown']} of {row['queues']} queues not known, at least that")
    return ", ".join(parts)


def _look(alert: Alert) -> str:
    """The command that shows the rows behind it."""
    row = alert.row
    if alert.kind == "broker_down":
        return f"tidemark show raw.brokers --where \"address = '{row['address']}'\""
    return (
        f"tidemark show progress.queues --where \"snapshot_id = '{alert.snapshot_ids[-1]}' and "
        f"consumer_group = '{row['consumer_group']}' and topic = '{row['topic']}'\""
    )


def _instant(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC"
