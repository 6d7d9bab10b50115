"""What people are told of an incident."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from alerting.incidents import Incident, Transition
from alerting.kinds import KINDS
from lake.documents import one_line

SEVERITIES = ("critical", "warning", "info")
"""Worst first."""

MOST_IN_FULL = 20
"""Incidents of one message that are told in full; of more, only how many."""


@dataclass(frozen=True)
class Notice:
    """One transition of one incident, as it is told.

    Attributes:
        incident: as it is now.
        transition: what became of it.
        again: whether it was told before and is told once more because it still stands.
    """

    incident: Incident
    transition: Transition
    again: bool = False

    @property
    def state(self) -> str:
        """``FIRING`` | ``RESOLVED``."""
        return self.transition.transition.split("_")[0]

    @property
    def is_past(self) -> bool:
        """Whether something became of the incident since."""
        return self.transition is not self.incident.transitions[-1]

    @property
    def line(self) -> str:
        """It in one line."""
        incident = self.incident
        return f"[{incident.severity}] {self.state} {incident.rule}: {incident.subject}"


def title(notices: Sequence[Notice]) -> str:
    """One line for a subject or a heading: the notice, or how many of which kind."""
    if len(notices) == 1:
        return notices[0].line
    parts = by_severity(each.incident for each in notices if each.state == "FIRING")
    over = sum(each.state == "RESOLVED" for each in notices)
    return f"Tidemark: {', '.join([*parts, *([f'{over} resolved'] if over else [])])}"


def by_severity(incidents: Iterable[Incident]) -> list[str]:
    """How many there are of each severity, worst first: ``2 critical``, ``1 info``."""
    found = Counter(each.severity for each in incidents)
    return [f"{found[severity]} {severity}" for severity in SEVERITIES if found[severity]]


def worst(notices: Sequence[Notice]) -> str | None:
    """The worst severity of what fires; None when all is over."""
    found = [each.incident.severity for each in notices if each.state == "FIRING"]
    return min(found, key=severity_order) if found else None


def body(notices: Sequence[Notice], room: int | None = None) -> str:
    """The notices, worst first and what is over last, so many as one can read.

    Args:
        notices: to tell.
        room: bytes there are for it. Where they are too few, those at the end are told in a line,
            and fewer of them; at least it is told how many there are.
    """
    ordered = sorted(
        notices,
        key=lambda each: (
            each.state == "RESOLVED",
            severity_order(each.incident.severity),
            each.incident.subject,
        ),
    )[:MOST_IN_FULL]
    texts = [text(each) for each in ordered]

    def made(in_full: int, shown: int) -> str:
        parts = texts[:in_full]
        if shown > in_full:
            parts.append("\n".join(each.line for each in ordered[in_full:shown]))
        if len(notices) > shown:
            parts.append(f"and {len(notices) - shown} more: tidemark incidents list")
        return "\n\n".join(parts)

    shown = len(ordered)
    sizes = [(number, shown) for number in range(shown, 0, -1)]
    sizes += [(0, number) for number in range(shown, -1, -1)]
    return first_that_fits((made(*size) for size in sizes), room)


def first_that_fits(texts: Iterable[str], room: int | None) -> str:
    """The first of some texts that is no longer than so many bytes; else the last."""
    found = ""
    for found in texts:
        if room is None or len(found.encode()) <= room:
            break
    return found


def text(notice: Notice) -> str:
    """What, since when, how bad, why likely, on what evidence, what next."""
    incident = notice.incident
    told = incident.details
    firing, hint = notice.state == "FIRING", KINDS[incident.kind].hint
    likely = _cause(incident)
    lines = (
        notice.line,
        told.get("description"),
        f"Found: {found(incident)}",
        _when(notice),
        f"Worst: {amount(incident.peak_value, _unit(incident))}"
        if incident.peak_value != incident.last_value
        else "",
        f"Likely: {likely}" if likely and firing else "",
        f"Next: {hint}" if hint and firing else "",
        f"Evidence: {', '.join(_few(incident.snapshot_ids))}" if incident.snapshot_ids else "",
        f"Closed: {told['closed']}" if told.get("closed") and notice.state == "RESOLVED" else "",
        f"Labels: {', '.join(f'{name}={value}' for name, value in incident.labels.items())}"
        if incident.labels
        else "",
        f"Look: tidemark incidents show {incident.incident_id}",
        f"Do: {told['runbook']}" if told.get("runbook") else "",
    )
    return "\n".join(one_line(line) for line in lines if line)


def found(incident: Incident) -> str:
    """The numbers in words; what is not known is left out."""
    row, unit = incident.row, _unit(incident)
    words = incident.details.get("words") or KINDS[incident.kind].words
    parts = [words.format(value=amount(incident.last_value, unit))]
    if "{value}" in words and incident.threshold:
        parts[0] += f" (limit {amount(incident.threshold, unit)})"
    if row.get("status"):
        parts.append(f"the snapshot is {row['status']}")
    waiting = KINDS[incident.kind].waiting
    if waiting and row.get("worst_broker"):
        queue = f"{row['worst_broker']} queue {row['worst_queue_id']}"
        parts.append(f"most on {queue}: {row['max_queue_lag']:,}")
    if waiting and row.get("delay_ms") is not None and incident.kind != "delay":
        parts.append(f"the oldest for {amount(row['delay_ms'] / 1000, 'seconds')}")
    if row.get("queues_unknown"):
        parts.append(f"{row['queues_unknown']} of {row['queues']} queues not known, at least that")
    return ", ".join(parts)


def _cause(incident: Incident) -> str:
    """Why it is so, as far as the row tells."""
    kind = KINDS[incident.kind]
    found = incident.row.get("health_reason" if kind.waiting else kind.cause)
    return ", ".join(found) if isinstance(found, list) else found or ""


def amount(value: float | None, unit: str) -> str:
    """A number with its unit; ``?`` when it is not known."""
    if value is None:
        return "?"
    if unit == "seconds":
        return str(timedelta(seconds=round(value)))
    if unit == "share":
        return f"{value:.0%}"
    number = f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"
    return f"{number} {unit}".strip()


def _when(notice: Notice) -> str:
    incident = notice.incident
    opened = instant(incident.opened_at)
    if notice.state == "RESOLVED":
        return f"Over: {instant(notice.transition.at)}, since {opened}"
    again = f", back for the {incident.reopened}. time" if incident.reopened else ""
    return f"Since: {opened}, still so at {instant(incident.last_true_at)}{again}"


def instant(at: datetime) -> str:
    """An instant as people read it."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def as_json(notice: Notice) -> dict[str, Any]:
    """A notice for programs."""
    incident = notice.incident
    return {
        "event": "alert",
        "state": notice.state,
        "incident_id": incident.incident_id,
        "transition": notice.transition.transition,
        "at": notice.transition.at.isoformat(),
        "rule": incident.rule,
        "severity": incident.severity,
        "subject": incident.subject,
        "value": incident.last_value,
        "peak_value": incident.peak_value,
        "threshold": incident.threshold,
        "since": incident.opened_at.isoformat(),
        "snapshot_ids": list(incident.snapshot_ids),
        "description": incident.details.get("description", ""),
        "runbook": incident.details.get("runbook"),
        "labels": dict(incident.labels),
    }


def severity_order(severity: str) -> int:
    """Worst first."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else 0


def _unit(incident: Incident) -> str:
    return KINDS[incident.kind].unit


def _few(names: Sequence[str]) -> list[str]:
    """The first and the last of them."""
    return list(names) if len(names) <= 3 else [*names[:2], "...", names[-1]]
