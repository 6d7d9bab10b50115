"""Plan of one delivery on one channel: messages to send, entries to write without sending."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from alerting.delivery.acknowledgements import due_acknowledgements
from alerting.delivery.channels import Channel
from alerting.delivery.due import (
    Due,
    Entry,
    Key,
    MuteReason,
    due,
    is_repeated,
    never_refused,
)
from alerting.delivery.messages import Notification
from alerting.delivery.pagers import no_page_for
from alerting.delivery.ways import FirstNotifications, Ways, ready, unheld, ways_of
from alerting.incidents.incident import Incident
from alerting.rules.routing import Routing

A_MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
"""Digest periods count from here, so days start at midnight UTC and weeks on Monday."""


def next_digest(channel: Channel, now: datetime) -> datetime | None:
    """Return the end of the present digest period; None for a channel without digests."""
    if channel.every is None:
        return None
    return now + channel.every - (now - A_MONDAY) % channel.every


@dataclass(frozen=True)
class Plan:
    """Messages that a channel has to send now, and entries that change without sending.

    Attributes:
        channel: the channel.
        groups: the notifications of each group, which may share a message.
        changed: entries to write without sending, as they wait or are not sent.
        entries: the earlier entries of the channel.
        firing: the open incidents whose firing the channel has delivered.
        ways: how the channel gets incidents.
    """

    channel: Channel
    groups: Sequence[Sequence[Notification]]
    changed: Sequence[Entry]
    entries: Mapping[Key, Entry]
    firing: Sequence[Incident]
    ways: Ways

    @property
    def notifications(self) -> list[Notification]:
        """The notifications of all groups, in one list."""
        return [each for group in self.groups for each in group]

    def repeat_at(self, notification: Notification, now: datetime) -> datetime | None:
        """Return when a delivered notification is repeated; None = never."""
        if not is_repeated(notification):
            return None
        node = self.ways.nodes.get(notification.incident.incident_id)
        if node is None:
            return next_digest(self.channel, now)
        if notification.incident.state != "FIRING":
            return None
        return now + timedelta(seconds=node.repeat_interval)


def plan_of(
    channel: Channel,
    incidents: Sequence[Incident],
    entries: Mapping[Key, Entry],
    routing: Routing,
    mute_reason: MuteReason,
    clock: Callable[[], datetime],
    firsts: FirstNotifications,
) -> Plan:
    """Return the plan of a delivery on a channel now.

    Args:
        channel: the channel.
        incidents: the incidents that the channel has to consider.
        entries: the earlier entries of the channel.
        routing: the routes of incidents.
        mute_reason: why an incident must not be notified.
        clock: returns the present.
        firsts: when receivers were first notified, from which escalations count.
    """
    now = clock()
    known = {incident_id for incident_id, _ in entries}
    refusals = no_page_for if channel.pages else never_refused
    ways = ways_of(channel, routing, incidents, now, refusals, firsts)
    mine = [
        each for each in incidents if each.incident_id in ways.nodes or each.incident_id in known
    ]
    todo = due(
        mine,
        entries if channel.every else unheld(entries),
        channel.name,
        now,
        ways.muted_by(mute_reason, now),
        next_digest(channel, now),
        ways.refusal,
    )
    timed = ready(ways, todo, channel, entries, now)
    acknowledgements = (
        due_acknowledgements(mine, entries, channel.name, now)
        if getattr(channel, "acknowledges", False)
        else Due()
    )
    groups = [*timed.groups, acknowledgements.notifications]
    return Plan(
        channel=channel,
        groups=[each for each in groups if each],
        changed=[*todo.changed, *timed.waiting, *acknowledgements.changed],
        entries=entries,
        firing=[each for each in mine if _knows_that_it_fires(each, entries)],
        ways=ways,
    )


def _knows_that_it_fires(incident: Incident, entries: Mapping[Key, Entry]) -> bool:
    if not (incident.is_firing and incident.transitions):
        return False
    entry = entries.get((incident.incident_id, incident.transitions[-1].transition))
    return entry is not None and entry.status == "DELIVERED"
