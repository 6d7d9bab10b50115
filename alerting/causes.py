"""What explains what: the incident that others follow from is told, and they are not."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from alerting.kinds import BROKERS, KINDS

if TYPE_CHECKING:
    from alerting.incidents import Incident

BROKER_KINDS = frozenset(name for name, kind in KINDS.items() if kind.source == BROKERS)

_UNREADABLE, _SILENT_BROKER, _NO_CAUSE = range(3)


def explained(incidents: Iterable["Incident"]) -> list["Incident"]:
    """The incidents, each with the one that explains it in ``suppressed_by``, or none.

    A cluster that could not be read at all explains what was concluded from that; a silent broker
    explains that snapshots are incomplete, and one whose offsets would be read what rests on them.
    Only what is open, and began no later, explains.
    """
    found = list(incidents)
    causes: dict[str | None, list[Incident]] = {}
    strong = [each for each in found if each.is_open and _rank(each) < _NO_CAUSE]
    for each in sorted(strong, key=lambda each: (_rank(each), each.opened_at, each.incident_id)):
        causes.setdefault(each.cluster, []).append(each)
    return [
        replace(each, suppressed_by=cause)
        if each.is_open
        and (cause := _cause(each, causes.get(each.cluster, ()))) != each.suppressed_by
        else each
        for each in found
    ]


def _rank(incident: "Incident") -> int:
    """How strong a cause it is."""
    if incident.kind == "collection_incomplete" and incident.row.get("status") == "FAILED":
        return _UNREADABLE
    return _SILENT_BROKER if incident.kind == "broker_down" else _NO_CAUSE


def _cause(incident: "Incident", causes: Sequence["Incident"]) -> str | None:
    for cause in causes:
        weaker = _rank(cause) < _rank(incident)
        if weaker and incident.opened_at >= cause.opened_at and _explains(cause, incident):
            return cause.incident_id
    return None


def _explains(cause: "Incident", incident: "Incident") -> bool:
    if _rank(cause) == _UNREADABLE or incident.kind == "collection_incomplete":
        return True
    if incident.kind in BROKER_KINDS:
        return cause.subject == incident.subject
    return _is_read(cause, incident) and _rests_on(cause, incident)


def _is_read(cause: "Incident", incident: "Incident") -> bool:
    """Whether the silent address is the one whose offsets the incident is about: the master.

    What a slave has is old and nobody asks for it. Where the offsets are known at the very look at
    which the master was silent, a slave acts for it, and what they say is so.
    """
    broker, broker_id = cause.row.get("broker"), cause.row.get("broker_id")
    stood_in_for = (
        broker_id == 0
        and incident.row.get("worst_broker") == broker
        and incident.last_true_at == cause.last_true_at
    )
    return not broker_id and not stood_in_for


def _rests_on(cause: "Incident", incident: "Incident") -> bool:
    """Whether a group's incident is about the silent broker's queues, or about not knowing them.

    What is known of other brokers' queues is so whatever the silent one would add. Only where no
    queue is known, or any column may be looked at, it can be the unknown that made the rule true;
    and members that share fewer queues than there are.
    """
    row, kind = incident.row, KINDS[incident.kind]
    if kind.certain:
        return False
    of_the_unknown = not kind.waiting or incident.kind == "column" or not row.get("worst_broker")
    if row.get("queues_unknown") and of_the_unknown:
        return True
    return cause.row.get("broker") == row.get("worst_broker")
