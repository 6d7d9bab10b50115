"""Inhibition: which open incident explains another, so that only the first one is notified."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from alerting.incidents.incident import Incident
from alerting.rules.kinds import BROKERS, KINDS

BROKER_KINDS = frozenset(name for name, kind in KINDS.items() if kind.source == BROKERS)

_UNREADABLE_CLUSTER, _UNREACHABLE_BROKER, _NEVER_INHIBITS = range(3)
"""Ranks of incidents: one inhibits only incidents of a later rank."""


def apply_inhibition(incidents: Iterable[Incident]) -> list[Incident]:
    """Return the incidents with ``suppressed_by`` set to the incident that inhibits each, or None.

    An unreadable cluster inhibits all other incidents of the cluster. An unreachable broker
    inhibits incomplete snapshots and incidents that rest on its offsets. Only an open incident that
    opened no later inhibits another.
    """
    all_incidents = list(incidents)
    inhibiting: dict[str | None, list[Incident]] = {}
    ranked = [each for each in all_incidents if each.is_open and _rank(each) < _NEVER_INHIBITS]
    for each in sorted(ranked, key=lambda each: (_rank(each), each.opened_at, each.incident_id)):
        inhibiting.setdefault(each.cluster, []).append(each)
    return [
        replace(each, suppressed_by=inhibitor)
        if each.is_open
        and (inhibitor := _inhibitor(each, inhibiting.get(each.cluster, ()))) != each.suppressed_by
        else each
        for each in all_incidents
    ]


def _rank(incident: Incident) -> int:
    if incident.kind == "collection_incomplete" and incident.row.get("status") == "FAILED":
        return _UNREADABLE_CLUSTER
    return _UNREACHABLE_BROKER if incident.kind == "broker_down" else _NEVER_INHIBITS


def _inhibitor(incident: Incident, candidates: Sequence[Incident]) -> str | None:
    for candidate in candidates:
        ranks_before = _rank(candidate) < _rank(incident)
        opened_before = incident.opened_at >= candidate.opened_at
        if ranks_before and opened_before and _inhibits(candidate, incident):
            return candidate.incident_id
    return None


def _inhibits(candidate: Incident, incident: Incident) -> bool:
    if _rank(candidate) == _UNREADABLE_CLUSTER or incident.kind == "collection_incomplete":
        return True
    if incident.kind in BROKER_KINDS:
        return candidate.subject == incident.subject
    return _hides_offsets(candidate, incident) and _rests_on(candidate, incident)


def _hides_offsets(unreachable: Incident, incident: Incident) -> bool:
    """Return whether the unreachable address is the master whose offsets the incident needs.

    Offsets are never read from a slave while its master responds. Where the offsets are known at
    the observation at which the master was unreachable, a slave served them, and they are valid.
    """
    broker, broker_id = unreachable.row.get("broker"), unreachable.row.get("broker_id")
    served_by_slave = (
        broker_id == 0
        and incident.row.get("worst_broker") == broker
        and incident.last_true_at == unreachable.last_true_at
    )
    return not broker_id and not served_by_slave


def _rests_on(unreachable: Incident, incident: Incident) -> bool:
    """Return whether a group's incident follows from the queues of the unreachable broker.

    Known queues of other brokers stay as they are, whatever the unreachable broker would report.
    Its unknown queues can be the reason in three cases: no queue is known, the rule compares any
    column, or the members share fewer queues than there are.
    """
    row, kind = incident.row, KINDS[incident.kind]
    if kind.certain:
        return False
    may_be_unknown = (
        not kind.about_backlog or incident.kind == "column" or not row.get("worst_broker")
    )
    if row.get("queues_unknown") and may_be_unknown:
        return True
    return unreachable.row.get("broker") == row.get("worst_broker")
