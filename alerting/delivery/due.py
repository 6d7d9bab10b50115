"""Decision on each notification of a channel: it is due, it waits, or it is never sent.

Transitions of an incident are delivered in order, and its resolution only where its firing was
delivered. A notification that is silenced, inhibited or in quiet hours waits. When the incident
resolves before the notification may be sent, it is never sent. The same holds after each reopening.

Every transition is notified, however late the delivery is. An incident that had resolved for longer
than `LATE_AFTER` before it could be notified is marked as late and goes into a summary.

A channel of digests follows the same rules. A new entry waits for the end of the digest period in
which it was made. An incident that is still open is repeated at the end of each following period.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from alerting.delivery.messages import Notification
from alerting.incidents.incident import Incident

LATE_AFTER = timedelta(hours=1)
"""Time after the resolution of an incident from which it only goes into a summary."""

FIRST_RETRY_PAUSE = timedelta(seconds=15)
LONGEST_RETRY_PAUSE = timedelta(minutes=15)
"""Longest pause between two attempts; the pause doubles with each failure."""

MuteReason = Callable[[Incident], str | None]
"""Returns why an incident must not be notified now, or None when it may be."""


Refusal = Callable[[Notification], str | None]
"""Returns why a channel opens nothing for a notification, or None when it does."""


def never_refused(notification: Notification) -> str | None:
    """Return no reason to refuse, for any notification."""
    return None


def never_muted(incident: Incident) -> str | None:
    """Return no reason to mute, for any incident."""
    return None


class Entry(msgspec.Struct, frozen=True):
    """A row of ``alerting.notifications``; its columns are described there."""

    incident_id: str
    transition: str
    channel: str
    transition_at: datetime
    status: str = "PENDING"
    attempts: int = 0
    delivered_at: datetime | None = None
    last_error: str | None = None
    next_attempt_at: datetime | None = None
    first_delivered_at: datetime | None = None
    repeats: int = 0

    @property
    def first_at(self) -> datetime | None:
        """When the channel first accepted it; rows of older programs have only the last time."""
        return self.first_delivered_at or self.delivered_at


Key = tuple[str, str]
"""(incident id, transition)."""


@dataclass(frozen=True)
class Due:
    """Notifications that a channel has to send now, and entries that change without sending.

    Attributes:
        notifications: to send, in order of time.
        changed: entries to write without sending, as they wait or are not sent.
    """

    notifications: tuple[Notification, ...] = ()
    changed: tuple[Entry, ...] = ()


def due(
    incidents: Iterable[Incident],
    entries: Mapping[Key, Entry],
    channel: str,
    now: datetime,
    mute_reason: MuteReason = never_muted,
    next_digest: datetime | None = None,
    refusal: Refusal = never_refused,
) -> Due:
    """Return the notifications that are due on one channel.

    Args:
        incidents: open incidents, and those that resolved recently.
        entries: the earlier entries of the channel.
        channel: its name.
        now: the present.
        mute_reason: why an incident must not be notified.
        next_digest: when new notifications are sent; None: at once.
        refusal: why the channel opens nothing for a firing notification. While the incident is
            open it waits, as the reason may pass.
    """
    parts = [
        _due_of_incident(
            incident, entries, channel, now, mute_reason(incident), next_digest, refusal
        )
        for incident in incidents
    ]
    notifications = [notification for part in parts for notification in part.notifications]
    notifications.sort(key=lambda each: (each.transition.at, each.incident.incident_id))
    return Due(tuple(notifications), tuple(entry for part in parts for entry in part.changed))


def _due_of_incident(
    incident: Incident,
    entries: Mapping[Key, Entry],
    channel: str,
    now: datetime,
    reason: str | None,
    next_digest: datetime | None,
    refusal: Refusal,
) -> Due:
    """Return the notifications of one incident that are due; see `due`.

    `firing_sent` is whether the channel's last delivered notification reports the incident as
    firing, `firing_notified` the same without those that are due now, `blocked` whether an earlier
    transition still waits.
    """
    notifications: list[Notification] = []
    changed: list[Entry] = []
    firing_sent = firing_notified = blocked = False
    latest = max(next_digest or now, now + LONGEST_RETRY_PAUSE)
    over = incident.resolved_at is not None and now - incident.resolved_at > LATE_AFTER
    for transition in incident.transitions:
        known = entries.get((incident.incident_id, transition.transition))
        notification = Notification(incident, transition, late=over and not firing_notified)
        if known and known.status != "PENDING":
            if known.status == "DELIVERED":
                firing_sent = firing_notified = notification.state == "FIRING"
            if is_repeated(notification) and _is_repeated_now(known, now):
                if reason and next_digest:
                    changed.append(replace(known, next_attempt_at=next_digest))
                elif not reason:
                    notifications.append(
                        Notification(incident, transition, repeat=known.repeats + 1)
                    )
            continue
        entry = known or replace(new_entry(notification, channel), next_attempt_at=next_digest)
        if notification.state == "RESOLVED" and not firing_sent:
            changed.append(_not_sent(entry, "its firing was not notified"))
        elif not firing_sent and known and _was_muted(known) and notification.is_superseded:
            changed.append(_not_sent(entry, f"resolved while {known.last_error}"))
        elif reason and (incident.is_open or firing_sent):
            at = entry.next_attempt_at if waits(entry.next_attempt_at, now, latest) else next_digest
            muted = replace(entry, last_error=reason, next_attempt_at=at)
            if muted != known:
                changed.append(muted)
            break
        elif reason:
            changed.append(_not_sent(entry, f"resolved while {reason}"))
        elif notification.state == "FIRING" and (refused := refusal(notification)):
            if not incident.is_open or notification.is_superseded:
                changed.append(_not_sent(entry, refused))
                continue
            muted = replace(entry, last_error=refused)
            if muted != known:
                changed.append(muted)
            break
        elif blocked or waits(entry.next_attempt_at, now, latest):
            # Later transitions do not overtake this one, and are in the same digest.
            if next_digest and (known is None or _was_muted(known)):
                changed.append(replace(entry, last_error=None))
            firing_sent, blocked = notification.state == "FIRING", True
        else:
            notifications.append(notification)
            firing_sent = notification.state == "FIRING"
    return Due(tuple(notifications), tuple(changed))


def new_entry(notification: Notification, channel: str) -> Entry:
    """Return the entry of a notification that a channel has not attempted yet."""
    transition = notification.transition
    return Entry(notification.incident.incident_id, transition.transition, channel, transition.at)


def is_repeated(notification: Notification) -> bool:
    """Return whether digests repeat it: its incident is open and this is its last transition."""
    return notification.incident.is_open and not notification.is_superseded


def _not_sent(entry: Entry, reason: str) -> Entry:
    return replace(entry, status="WITHHELD", last_error=reason)


def _was_muted(entry: Entry) -> bool:
    """Return whether it waits because it was muted, and was never attempted."""
    return entry.last_error is not None and not entry.attempts


def waits(next_attempt_at: datetime | None, now: datetime, latest: datetime) -> bool:
    """Return whether the next attempt at a notification is later than now.

    Args:
        next_attempt_at: when it is due; None = at once.
        now: the present.
        latest: the last instant that could be set now. A later one was set before the clock was
            set back, and no attempt waits for it.
    """
    return next_attempt_at is not None and now < next_attempt_at <= latest


def _is_repeated_now(entry: Entry, now: datetime) -> bool:
    """Return whether a delivered notification is due again, also after the clock was set back."""
    if entry.next_attempt_at is None:
        return False
    is_ahead = entry.delivered_at is not None and entry.delivered_at > now
    return is_ahead or entry.next_attempt_at <= now
