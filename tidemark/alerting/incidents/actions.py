"""Actions of people on incidents: find, acknowledge and resolve them.

The command line and the board call these functions, so both record who acted and why, and both
report a wrong use with the same line.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from msgspec.structs import replace
from pyiceberg.expressions import BooleanExpression, StartsWith

from tidemark.alerting.incidents.incident import Incident, IncidentAction
from tidemark.alerting.incidents.life_cycle import acknowledged, closed
from tidemark.alerting.incidents.repository import from_rows, incidents_lease, save
from tidemark.alerting.recorded_actions import Action, record
from tidemark.lake.catalog import Lake
from tidemark.lake.schema import one_of
from tidemark.lake.tables.alerting import INCIDENTS
from tidemark.model.incidents import ActionKind, IncidentState

Clock = Callable[[], datetime]


def _now() -> datetime:
    return datetime.now(UTC)


class IncidentError(ValueError):
    """An incident does not exist, or its state does not allow the action; one line."""


class NoSuchIncidentError(IncidentError):
    """No incident has this id; or none, or more than one, has an id that starts so."""


def one_incident(lake: Lake, start: str) -> Incident:
    """Return the incident whose id is this or starts so, as a person types it.

    Raises:
        NoSuchIncidentError: none or more than one does, or nothing was typed, which every id starts
            with.
    """
    if not start:
        raise NoSuchIncidentError("no incident with an empty id: `tidemark incidents list --all`")
    return _only(lake, StartsWith("incident_id", start), start)  # pyright: ignore


def incident_of(lake: Lake, incident_id: str) -> Incident:
    """Return the incident with an id.

    Raises:
        NoSuchIncidentError: there is none.
    """
    return _only(lake, one_of("incident_id", [incident_id]), incident_id)


def _only(lake: Lake, where: BooleanExpression, wanted: str) -> Incident:
    rows = from_rows(lake.read(INCIDENTS, where))
    if len(rows) != 1:
        what = "no incident" if not rows else f"{len(rows)} incidents"
        raise NoSuchIncidentError(f"{what} with id {wanted!r}: `tidemark incidents list --all`")
    return rows[0]


def acknowledge(
    lake: Lake, incident_id: str, author: str, reason: str = "", clock: Clock = _now
) -> Incident:
    """Acknowledge a firing incident, also in place of an earlier acknowledgement.

    Args:
        lake: the tables.
        incident_id: its id.
        author: the person who acknowledges it.
        reason: the reason in words; may be empty.
        clock: returns the present.

    Returns:
        The incident afterwards.

    Raises:
        IncidentError: there is no such incident, or it does not fire.
        LeaseError: see `incidents_lease`.
    """
    with incidents_lease(lake):
        incident = incident_of(lake, incident_id)
        try:
            after = acknowledged(incident, author, clock(), reason)
        except ValueError as error:
            raise IncidentError(str(error)) from error
        save(lake, [incident], [after])
    return after


def resolve(
    lake: Lake, incident_id: str, author: str, reason: str = "", clock: Clock = _now
) -> Incident:
    """Resolve an open incident by hand; it reopens when its rule is true again.

    An incident that never fired is removed, because it was never notified; the audit trail keeps
    who did it.

    Args:
        lake: the tables.
        incident_id: its id.
        author: the person who resolves it.
        reason: the reason in words; may be empty.
        clock: returns the present.

    Returns:
        The incident afterwards, with state ``RESOLVED``.

    Raises:
        IncidentError: there is no such incident, or it is resolved already.
        LeaseError: see `incidents_lease`.
    """
    with incidents_lease(lake):
        incident = incident_of(lake, incident_id)
        if not incident.is_open:
            raise IncidentError(f"incident {incident.incident_id} is {incident.state} already")
        at = clock()
        words = f"by {author}: {reason}" if reason else f"by {author}"
        after = closed(incident, at, words, author, reason)
        if after is None:
            made = IncidentAction(
                action=ActionKind.RESOLVED, at=at, author=author, reason=reason or None
            )
            record(lake.shared, action_on(incident, made))
        save(lake, [incident], [after] if after else [])
    return after or replace(incident, state=IncidentState.RESOLVED)


def action_on(incident: Incident, made: IncidentAction) -> Action:
    """Return an action on an incident as the audit trail lists it."""
    return Action(
        action=made.action,
        at=made.at,
        author=made.author,
        reason=made.reason,
        target=incident.incident_id,
        subject=f"{incident.rule} {incident.subject}",
        cluster=incident.cluster,
        consumer_group=incident.row.get("consumer_group"),
        topic=incident.row.get("topic"),
    )
