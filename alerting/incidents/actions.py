"""What people do with incidents: find, acknowledge and resolve them, from any surface.

The command line and the board call these functions, so both record who did it and why, and respond
a wrong use with the same line.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from msgspec.structs import replace
from pyiceberg.expressions import StartsWith

from alerting.incidents.incident import Incident
from alerting.incidents.life_cycle import acknowledged, closed
from alerting.incidents.repository import from_rows, incidents_lease, save
from lake.catalog import Lake
from lake.tables.alerting import INCIDENTS

Clock = Callable[[], datetime]


def _now() -> datetime:
    return datetime.now(UTC)


class IncidentError(ValueError):
    """An incident does not exist, or its state does not allow the action; one line."""


class NoSuchIncidentError(IncidentError):
    """No incident, or more than one, has an id that starts so."""


def one_incident(lake: Lake, incident_id: str) -> Incident:
    """Return the incident whose id is this or starts so.

    Raises:
        NoSuchIncidentError: none or more than one does.
    """
    where = StartsWith("incident_id", incident_id)  # pyright: ignore
    found = from_rows(lake.read(INCIDENTS, where))
    if len(found) != 1:
        what = "no incident" if not found else f"{len(found)} incidents"
        raise NoSuchIncidentError(
            f"{what} with id {incident_id!r}: `tidemark incidents list --all`"
        )
    return found[0]


def acknowledge(
    lake: Lake, incident_id: str, author: str, reason: str = "", clock: Clock = _now
) -> Incident:
    """Acknowledge a firing incident; who already did so is replaced.

    Args:
        lake: the tables.
        incident_id: its id, or the first characters of it.
        author: who acknowledges it.
        reason: why, in words; may be empty.
        clock: returns the present.

    Returns:
        The incident afterwards.

    Raises:
        IncidentError: there is no such incident, or it does not fire.
        LeaseError: see `incidents_lease`.
    """
    with incidents_lease(lake):
        incident = one_incident(lake, incident_id)
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

    An incident that never fired is removed, as nobody was notified of it.

    Args:
        lake: the tables.
        incident_id: its id, or the first characters of it.
        author: who resolves it.
        reason: why, in words; may be empty.
        clock: returns the present.

    Returns:
        The incident afterwards, with state ``RESOLVED``.

    Raises:
        IncidentError: there is no such incident, or it is resolved already.
        LeaseError: see `incidents_lease`.
    """
    with incidents_lease(lake):
        incident = one_incident(lake, incident_id)
        if not incident.is_open:
            raise IncidentError(f"incident {incident.incident_id} is {incident.state} already")
        words = f"by {author}: {reason}" if reason else f"by {author}"
        after = closed(incident, clock(), words, author, reason)
        save(lake, [incident], [after] if after else [])
    return after or replace(incident, state="RESOLVED")
