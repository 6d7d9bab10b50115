"""Events, changes of health and transitions of incidents in one list, the newest first."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemark.alerting.annotations import UnreadableAnnotationsError
from tidemark.board.views.view import View
from tidemark.lake.clocks import Window
from tidemark.model.incidents import IncidentState

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the timeline.

    Attributes:
        at: when it was observed.
        kind: ``event``, ``health``, ``incident`` or ``note``.
        title: kind of the event, rule of the incident, or text of the annotation.
        state: the new state of health or of the incident.
        was: the state of health before.
        messages: of all queues of an event; None where one is unknown.
        queues: how many had the event.
        cause: of an event, or the author of an annotation.
        dated: whether its day is shown.
    """

    at: datetime
    kind: str
    title: str = ""
    state: str = ""
    was: str = ""
    severity: str = ""
    incident_id: str = ""
    subject: str = ""
    cluster: str | None = None
    group: str | None = None
    topic: str | None = None
    broker: str | None = None
    messages: int | None = None
    queues: int = 0
    cause: str = ""
    dated: bool = False


def of_events(rows: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Return an entry for each instant, kind, group and topic, of however many queues."""
    together: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        broker = None if row["topic"] else row["broker"]
        key = (row["observed_at"], row["kind"], row["cluster"], row["consumer_group"],
               row["topic"], broker)  # fmt: skip
        together[key].append(row)
    return [
        Entry(
            at=at,
            kind="event",
            title=kind,
            cluster=cluster,
            group=group,
            topic=topic,
            broker=broker,
            messages=_sum(row["messages"] for row in value),
            queues=len(value),
            cause=value[0]["likely_cause"] or "",
        )
        for (at, kind, cluster, group, topic, broker), value in together.items()
    ]


def of_health(changes: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Return an entry for each change of a group's health."""
    return [
        Entry(
            at=row["observed_at"],
            kind="health",
            state=row["health"],
            was=row["was"],
            cluster=row["cluster"],
            group=row["consumer_group"],
            topic=row["topic"],
        )
        for row in changes
    ]


def of_incidents(rows: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Return an entry for each transition of each incident, acknowledgements included."""
    incidents = []
    for row in rows:
        about = row["row"]
        for step in steps(row):
            incidents.append(
                Entry(
                    at=step["at"],
                    kind="incident",
                    title=row["rule"],
                    state=step["transition"].partition("_")[0],
                    severity=row["severity"],
                    incident_id=row["incident_id"],
                    subject=row["subject"],
                    cluster=row["cluster"],
                    group=about.get("consumer_group"),
                    topic=about.get("topic"),
                    broker=None if about.get("consumer_group") else about.get("broker"),
                )
            )
    return incidents


def of_notes(view: View, subject: Mapping[str, str] | None = None) -> list[Entry]:
    """Return an entry for each annotation; none where they cannot be read.

    Args:
        view: the annotations that the person sees.
        subject: only those about it; None for all.
    """
    try:
        notes = view.annotations()
    # A page without notes is better than none.
    except UnreadableAnnotationsError as error:
        _log.warning("%s", error)
        return []
    return [
        Entry(at=note.at, kind="note", title=note.text, cause=note.author)
        for note in notes
        if subject is None or note.is_about(subject)
    ]


def steps(incident: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the transitions of an incident in order of time, with who acknowledged it and why."""
    transitions: list[dict[str, Any]] = [
        dict(transition) | {"who": None, "why": None}
        for transition in incident["transitions"] or ()
    ]
    if incident["acknowledged_at"] is not None:
        transitions.append(
            {"transition": IncidentState.ACKNOWLEDGED, "at": incident["acknowledged_at"]}
            | {"who": incident["acknowledged_by"], "why": incident.get("acknowledge_reason")}
        )
    if incident.get("resolved_by"):
        for transition in transitions:
            if (
                transition["transition"].startswith(IncidentState.RESOLVED)
                and transition["at"] == incident["resolved_at"]
            ):
                transition |= {
                    "who": incident["resolved_by"],
                    "why": incident.get("resolve_reason"),
                }
    return sorted(transitions, key=lambda transition: transition["at"])


def happened(
    window: Window,
    *,
    events: Iterable[Mapping[str, Any]],
    changes: Iterable[Mapping[str, Any]],
    incidents: Iterable[Mapping[str, Any]],
    notes: Iterable[Entry],
) -> list[Entry]:
    """Return everything that happened in a window, the newest first.

    Args:
        window: the window.
        events: rows of ``progress.events``.
        changes: changes of health.
        incidents: incidents with their transitions.
        notes: annotations, see `of_notes`.
    """
    entries = [*of_events(events), *of_health(changes), *of_incidents(incidents), *notes]
    return within(entries, window)


def within(entries: Iterable[Entry], window: Window) -> list[Entry]:
    """Return the entries of a window, the newest first."""
    result = [entry for entry in entries if entry.at in window]
    return sorted(result, key=lambda entry: entry.at, reverse=True)


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)
