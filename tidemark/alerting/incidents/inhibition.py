"""Inhibition: which open incident inhibits another, so that only the first one is notified."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.rules.base import IncidentMatch
from tidemark.alerting.rules.kinds import BROKERS, KINDS, PIPELINE
from tidemark.alerting.rules.model import Inhibition
from tidemark.model.snapshots import SnapshotStatus

BROKER_KINDS = frozenset(name for name, kind in KINDS.items() if kind.source == BROKERS)

_UNREADABLE_CLUSTER, _UNREACHABLE_BROKER, _NEVER_INHIBITS = range(3)
"""Ranks of incidents: one inhibits only incidents of a later rank."""


HIDDEN = (
    Inhibition(
        source=IncidentMatch(kind=("broker_down", "collection_incomplete")),
        target=IncidentMatch(),
        equal=("cluster",),
        only="hidden",
    ),
)
"""Built-in inhibition: an unreachable broker or unreadable cluster inhibits what it hides."""


def apply_inhibition(
    incidents: Iterable[Incident], inhibitions: Sequence[Inhibition] = HIDDEN
) -> list[Incident]:
    """Return the incidents with ``suppressed_by`` set to the incident that inhibits each, or None.

    An inhibition may be limited to hidden incidents. Then an unreadable cluster inhibits all other
    incidents of the cluster except those about Tidemark itself. An unreachable broker inhibits
    incidents about incomplete snapshots, and incidents that depend on its offsets. The source must
    be open and must have opened, or last reopened, no later than the target. All other inhibitions
    are Alertmanager's: a firing source, and equal labels. No incident inhibits another by which it
    is inhibited itself, so one of them is always notified.
    """
    all_incidents = list(incidents)
    sources: dict[str, str] = {}
    for inhibition in inhibitions:
        inhibit = _hidden if inhibition.only == "hidden" else _declared
        for target, source in inhibit(inhibition, all_incidents):
            if target not in sources and target not in _chain(source, sources):
                sources[target] = source
    return [
        replace(incident, suppressed_by=sources.get(incident.incident_id))
        if incident.is_open and sources.get(incident.incident_id) != incident.suppressed_by
        else incident
        for incident in all_incidents
    ]


def _chain(incident_id: str, sources: Mapping[str, str]) -> Iterator[str]:
    """Yield an incident, the one that inhibits it, the one that inhibits that, ..."""
    current: str | None = incident_id
    while current:
        yield current
        current = sources.get(current)


Pairs = Iterator[tuple[str, str]]
"""Ids of an inhibited incident and of one that inhibits it."""


def _hidden(inhibition: Inhibition, incidents: Sequence[Incident]) -> Pairs:
    inhibiting: dict[str | None, list[Incident]] = {}
    ranked = [
        incident
        for incident in incidents
        if incident.is_open
        and _rank(incident) < _NEVER_INHIBITS
        and inhibition.source.matches(incident.match_labels)
    ]
    for incident in sorted(
        ranked, key=lambda incident: (_rank(incident), incident.opened_at, incident.incident_id)
    ):
        inhibiting.setdefault(incident.cluster, []).append(incident)
    if not inhibiting:
        return
    for incident in incidents:
        candidates = inhibiting.get(incident.cluster, ())
        if incident.is_open and candidates and inhibition.target.matches(incident.match_labels):
            inhibitor = _inhibitor(incident, candidates)
            if inhibitor:
                yield incident.incident_id, inhibitor


def _declared(inhibition: Inhibition, incidents: Sequence[Incident]) -> Pairs:
    def equal(incident: Incident) -> tuple[str, ...]:
        return tuple(incident.match_labels.get(name, "") for name in inhibition.equal)

    sources: dict[tuple[str, ...], list[Incident]] = {}
    firing = [incident for incident in incidents if incident.is_firing]
    for candidate in sorted(
        firing, key=lambda incident: (incident.opened_at, incident.incident_id)
    ):
        if inhibition.source.matches(candidate.match_labels):
            sources.setdefault(equal(candidate), []).append(candidate)
    if not sources:
        return
    for candidate in incidents:
        labels = candidate.match_labels
        if not candidate.is_open or not inhibition.target.matches(labels):
            continue
        is_both = inhibition.source.matches(labels)
        for source in sources.get(equal(candidate), ()):
            # As in Alertmanager, two incidents that are both source and target do not meet.
            if not (is_both and inhibition.target.matches(source.match_labels)):
                yield candidate.incident_id, source.incident_id


def _rank(incident: Incident) -> int:
    has_failed = incident.row.get("status") == SnapshotStatus.FAILED
    if incident.kind == "collection_incomplete" and has_failed:
        return _UNREADABLE_CLUSTER
    return _UNREACHABLE_BROKER if incident.kind == "broker_down" else _NEVER_INHIBITS


def _inhibitor(incident: Incident, candidates: Sequence[Incident]) -> str | None:
    for candidate in candidates:
        ranks_before = _rank(candidate) < _rank(incident)
        began_before = incident.began_at >= candidate.began_at
        if ranks_before and began_before and _inhibits(candidate, incident):
            return candidate.incident_id
    return None


def _inhibits(candidate: Incident, incident: Incident) -> bool:
    if KINDS[incident.kind].source == PIPELINE:
        return False
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
