"""The text of a digest: incidents that opened, are still open, and resolved, each in one line."""

from collections import Counter
from collections.abc import Mapping, Sequence

from alerting.delivery.messages import (
    MOST_IN_FULL,
    Notification,
    by_severity,
    first_short_enough,
    instant,
    observed,
    reopened,
    severity_order,
)
from alerting.incidents.incident import Incident
from settings.yaml_documents import one_line

OPENED, STILL_OPEN, RESOLVED = "opened", "still open", "resolved"


def digest_title(notifications: Sequence[Notification]) -> str:
    """Return how many incidents opened, are still open and resolved."""
    counts = [f"{len(each)} {name}" for name, each in _sections(notifications).items() if each]
    return f"Tidemark digest: {', '.join(counts)}"


def digest_body(notifications: Sequence[Notification], room: int | None = None) -> str:
    """Return the incidents by section, and the commands that show more.

    Args:
        notifications: the notifications of the digest.
        room: bytes that the text may take; where they are too few, each section shows fewer
            incidents.
    """
    sections = _sections(notifications)
    return first_short_enough(
        (_body(sections, number) for number in range(MOST_IN_FULL, -1, -1)), room
    )


def _body(sections: Mapping[str, Sequence[Incident]], most: int) -> str:
    texts = [_section(name, each, most) for name, each in sections.items() if each]
    texts.append(
        "Open incidents: tidemark incidents list\n"
        "All incidents: tidemark incidents list --all\n"
        "Details: tidemark incidents show ID"
    )
    return "\n\n".join(texts)


def _sections(notifications: Sequence[Notification]) -> dict[str, list[Incident]]:
    """Return the incidents by their last state: the worst first, then the oldest."""
    last = {each.incident.incident_id: each for each in notifications}
    sections: dict[str, list[Incident]] = {OPENED: [], STILL_OPEN: [], RESOLVED: []}
    for each in last.values():
        name = RESOLVED if each.state == "RESOLVED" else STILL_OPEN if each.repeat else OPENED
        sections[name].append(each.incident)
    for incidents in sections.values():
        incidents.sort(key=lambda each: (severity_order(each.severity), each.opened_at))
    return sections


def _section(name: str, incidents: Sequence[Incident], most: int) -> str:
    rules = Counter(each.rule for each in incidents).most_common()
    lines = [
        f"{name.capitalize()}: {len(incidents)} ({', '.join(by_severity(incidents))})",
        f"By rule: {', '.join(f'{count} {rule}' for rule, count in rules)}",
        *(incident_line(each) for each in incidents[:most]),
    ]
    if len(incidents) > most:
        lines.append(f"and {len(incidents) - most} more")
    return "\n".join(lines)


def incident_line(incident: Incident) -> str:
    """Return an incident in one line: rule, subject, times, numbers, runbook and id."""
    resolved_at = incident.resolved_at
    runbook = incident.details.get("runbook")
    until = f" until {instant(resolved_at)}" if resolved_at else ""
    parts = (
        f"[{incident.severity}] {incident.rule}: {incident.subject}",
        f"since {instant(incident.opened_at)}{until}",
        reopened(incident) if incident.reopened else "",
        "" if resolved_at else observed(incident),
        f"acknowledged by {incident.acknowledged_by}" if incident.acknowledged_by else "",
        f"runbook: {runbook}" if runbook else "",
        f"id {incident.incident_id}",
    )
    return one_line("; ".join(part for part in parts if part))
