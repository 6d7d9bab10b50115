"""Acknowledgements of incidents, sent to services that keep alerts of their own."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec.structs import replace

from alerting.delivery.due import LONGEST_RETRY_PAUSE, Due, Entry, Key, new_entry, waits
from alerting.delivery.messages import Notification
from alerting.incidents.incident import Incident, Transition


def due_acknowledgements(
    incidents: Iterable[Incident], entries: Mapping[Key, Entry], channel: str, now: datetime
) -> Due:
    """Return the acknowledgements that are due on a channel.

    Only a channel that delivered the last firing gets an acknowledgement. One that was not sent
    before the incident resolved is never sent, because the resolution follows.

    Args:
        incidents: the incidents.
        entries: the earlier entries of the channel.
        channel: its name.
        now: the present.
    """
    notifications: list[Notification] = []
    changed: list[Entry] = []
    for incident in incidents:
        current = incident.acknowledgement
        for entry in _outdated(incident, current, entries):
            changed.append(
                replace(entry, status="WITHHELD", last_error="resolved before it was notified")
            )
        if current is None or not incident.transitions:
            continue
        firing = entries.get((incident.incident_id, incident.transitions[-1].transition))
        if firing is None or firing.status != "DELIVERED":
            continue
        notification = Notification(incident, current)
        known = entries.get((incident.incident_id, current.transition))
        entry = known or new_entry(notification, channel)
        latest = now + LONGEST_RETRY_PAUSE
        if entry.status == "PENDING" and not waits(entry.next_attempt_at, now, latest):
            notifications.append(notification)
    return Due(tuple(notifications), tuple(changed))


def _outdated(
    incident: Incident, current: Transition | None, entries: Mapping[Key, Entry]
) -> list[Entry]:
    """Return the pending entries of acknowledgements that hold no more."""
    numbers = range(1, incident.reopened + 2)
    names = ("ACKNOWLEDGED" if number == 1 else f"ACKNOWLEDGED_{number}" for number in numbers)
    known = (entries.get((incident.incident_id, name)) for name in names)
    return [
        each
        for each in known
        if each
        and each.status == "PENDING"
        and (not current or each.transition != current.transition)
    ]
