"""What a digest says: what opened, what still stands, what is over; an incident once, in a line."""

from collections import Counter
from collections.abc import Mapping, Sequence

from alerting.incidents import Incident
from alerting.messages import (
    MOST_IN_FULL,
    Notice,
    by_severity,
    first_that_fits,
    found,
    instant,
    severity_order,
)
from lake.documents import one_line

OPENED, STANDING, OVER = "opened", "still open", "resolved"


def digest_title(notices: Sequence[Notice]) -> str:
    """How many opened, still stand and are over."""
    counts = [f"{len(each)} {name}" for name, each in _sections(notices).items() if each]
    return f"Tidemark digest: {', '.join(counts)}"


def digest_body(notices: Sequence[Notice], room: int | None = None) -> str:
    """The incidents by what became of them, so many of each as one can read, and what to ask.

    Args:
        notices: to tell.
        room: bytes there are for it; where they are too few, less of each is told.
    """
    sections = _sections(notices)
    return first_that_fits(
        (_body(sections, number) for number in range(MOST_IN_FULL, -1, -1)), room
    )


def _body(sections: Mapping[str, Sequence[Incident]], most: int) -> str:
    texts = [_section(name, each, most) for name, each in sections.items() if each]
    texts.append(
        "All that is open: tidemark incidents list\n"
        "All there were: tidemark incidents list --all\n"
        "One in full: tidemark incidents show ID"
    )
    return "\n\n".join(texts)


def _sections(notices: Sequence[Notice]) -> dict[str, list[Incident]]:
    """The incidents by what became of each in the end: worst first, then the oldest."""
    last = {each.incident.incident_id: each for each in notices}
    sections: dict[str, list[Incident]] = {OPENED: [], STANDING: [], OVER: []}
    for each in last.values():
        name = OVER if each.state == "RESOLVED" else STANDING if each.again else OPENED
        sections[name].append(each.incident)
    for incidents in sections.values():
        incidents.sort(key=lambda each: (severity_order(each.severity), each.opened_at))
    return sections


def _section(name: str, incidents: Sequence[Incident], most: int) -> str:
    rules = Counter(each.rule for each in incidents).most_common()
    lines = [
        f"{name.capitalize()}: {len(incidents)} ({', '.join(by_severity(incidents))})",
        f"By rule: {', '.join(f'{count} {rule}' for rule, count in rules)}",
        *(_line(each) for each in incidents[:most]),
    ]
    if len(incidents) > most:
        lines.append(f"and {len(incidents) - most} more")
    return "\n".join(lines)


def _line(incident: Incident) -> str:
    """What, since when, how bad, what to do, and its id to ask for more."""
    over = incident.resolved_at
    runbook = incident.details.get("runbook")
    parts = (
        f"[{incident.severity}] {incident.rule}: {incident.subject}",
        f"since {instant(incident.opened_at)}" + (f" until {instant(over)}" if over else ""),
        f"back for the {incident.reopened}. time" if incident.reopened else "",
        "" if over else found(incident),
        f"taken on by {incident.acknowledged_by}" if incident.acknowledged_by else "",
        f"do: {runbook}" if runbook else "",
        f"id {incident.incident_id}",
    )
    return one_line("; ".join(part for part in parts if part))
