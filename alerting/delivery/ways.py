"""The route by which a channel gets an incident, and the time when a group's messages are due.

Without routes, and on channels of no receiver such as the log and digests, every notification is
due at once, and only digests repeat it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from msgspec.structs import replace as replaced

from alerting.delivery.channels import Channel
from alerting.delivery.due import (
    Due,
    Entry,
    Key,
    MuteReason,
    Refusal,
    never_refused,
    new_entry,
)
from alerting.delivery.messages import Notification
from alerting.delivery.pagers import no_page_for
from alerting.incidents.incident import Incident
from alerting.rules.routes import DEFAULT_RECEIVER
from alerting.rules.routing import Node, Routing

Group = tuple[str, ...]


@dataclass(frozen=True)
class Ways:
    """The ways by which one channel gets incidents.

    Attributes:
        nodes: the route of each incident by its id; None = at once, ungrouped.
        keys: the group of each incident that a route puts into one.
        escalated: ids of the incidents that it gets by escalation, without an acknowledgement.
        grouped: whether routes decide when messages are due.
        refusals: why the channel opens nothing for a notification.
    """

    nodes: Mapping[str, Node | None]
    keys: Mapping[str, Group] = field(default_factory=dict)
    escalated: frozenset[str] = frozenset()
    grouped: bool = False
    refusals: Refusal = never_refused

    def refusal(self, notification: Notification) -> str | None:
        """Return why the channel opens nothing for a firing notification."""
        incident_id = notification.incident.incident_id
        if incident_id not in self.nodes:
            return "no route leads here any more"
        if incident_id in self.escalated and notification.is_superseded:
            return "over before it was escalated"
        return self.refusals(notification)

    def repeats(self, incident: Incident) -> bool:
        """Return whether routes repeat an incident: one leads here, and it is not acknowledged."""
        node = self.nodes.get(incident.incident_id)
        return node is not None and incident.state == "FIRING"

    def muted_by(self, mute_reason: MuteReason, now: datetime) -> MuteReason:
        """Return the reasons to mute an incident, those of its route included."""

        def why(incident: Incident) -> str | None:
            node = self.nodes.get(incident.incident_id)
            return mute_reason(incident) or (node.mute_reason(now) if node else None)

        return why


@dataclass(frozen=True)
class FirstNotifications:
    """Instants at which receivers were first notified of the present firing of incidents.

    Attributes:
        channels: the open channels.
        entries: the earlier entries of each channel, by its name.
    """

    channels: Sequence[Channel]
    entries: Mapping[str, Mapping[Key, Entry]]

    def of(self, receiver: str, incident: Incident) -> datetime | None:
        """Return when a receiver was first notified; None where it has not been.

        It is the instant of the firing where no channel of the receiver can be reached, or none
        takes the incident, as pagers take no info: the next receiver must not wait for one.
        """
        transition = incident.transitions[-1]
        key = incident.incident_id, transition.transition
        notification = Notification(incident, transition)
        names = [
            each.name
            for each in self.channels
            if each.receiver == receiver and not (each.pages and no_page_for(notification))
        ]
        found = [entry for name in names if (entry := self.entries.get(name, {}).get(key))]
        delivered = [each.first_at for each in found if each.status == "DELIVERED"]
        if instants := [each for each in delivered if each is not None]:
            return min(instants)
        if not names or any(each.attempts for each in found):
            return transition.at
        return None


def ways_of(
    channel: Channel,
    routing: Routing,
    incidents: Iterable[Incident],
    now: datetime,
    refusals: Refusal,
    firsts: FirstNotifications,
) -> Ways:
    """Return the ways by which a channel gets incidents, without those that it does not get.

    Args:
        channel: the channel.
        routing: the routes of incidents.
        incidents: the incidents.
        now: the present, which decides about escalations.
        refusals: why the channel opens nothing for a notification.
        firsts: when receivers were first notified.
    """
    receiver = getattr(channel, "receiver", None)
    everything = receiver is None or routing.broadcasts
    if everything or not routing.root:
        gets = everything or receiver == DEFAULT_RECEIVER
        found = {each.incident_id: None for each in incidents} if gets else {}
        return Ways(found, refusals=refusals)
    nodes: dict[str, Node | None] = {}
    keys: dict[str, Group] = {}
    escalated: set[str] = set()
    for incident in incidents:
        routes = routing.routes(incident.match_labels)
        node = next((each for each in routes if each.receiver == receiver), None)
        if node is None:
            node = next(
                (
                    _escalation(each)
                    for each in routes
                    if _escalates(each, receiver, incident, now, firsts)
                ),
                None,
            )
            if node is None:
                continue
            escalated.add(incident.incident_id)
        nodes[incident.incident_id] = node
        keys[incident.incident_id] = node.group_key(incident.match_labels)
    return Ways(nodes, keys, frozenset(escalated), grouped=True, refusals=refusals)


def _escalation(node: Node) -> Node:
    """Return a route as the receiver of its escalation gets it."""
    return replace(node, place=f"{node.place} escalated", group_wait=0.0)


def _escalates(
    node: Node,
    receiver: str | None,
    incident: Incident,
    now: datetime,
    firsts: FirstNotifications,
) -> bool:
    """Return whether an incident escalates to a receiver, as it was not acknowledged in time.

    The time counts from the first notification, before which no person could have acknowledged.
    """
    if node.escalate_after is None or node.escalate_to != receiver:
        return False
    if incident.state != "FIRING" or not incident.transitions:
        return False
    first = firsts.of(node.receiver, incident)
    return first is not None and now - first >= timedelta(seconds=node.escalate_after)


def unheld(entries: Mapping[Key, Entry]) -> dict[Key, Entry]:
    """Return entries without the instants that their groups gave them, which are computed again."""
    return {
        key: replaced(entry, next_attempt_at=None)
        if entry.status == "PENDING" and not entry.attempts
        else entry
        for key, entry in entries.items()
    }


@dataclass(frozen=True)
class Ready:
    """Notifications of a channel that are due now, and entries that wait for their group.

    Attributes:
        groups: the notifications of each group.
        waiting: entries of notifications that wait for their group.
    """

    groups: Sequence[Sequence[Notification]]
    waiting: Sequence[Entry] = ()


def ready(
    ways: Ways, todo: Due, channel: Channel, entries: Mapping[Key, Entry], now: datetime
) -> Ready:
    """Return the notifications that are due now by group, and entries of the waiting rest.

    The first message of a group is due `group_wait` after its first transition, every later one
    `group_interval` after the previous one. A group ends when all its incidents were notified as
    resolved.

    Args:
        ways: how the channel gets incidents.
        todo: notifications that are due without regard to groups.
        channel: the channel.
        entries: the earlier entries of the channel.
        now: the present.
    """
    if not ways.grouped:
        # Without routes only digests repeat.
        return Ready([[each for each in todo.notifications if channel.every or not each.repeat]])
    notified = _last_notified(ways, entries)
    groups: dict[Group, list[Notification]] = {}
    at_once: list[Notification] = []
    for each in todo.notifications:
        if each.repeat and not ways.repeats(each.incident):
            continue
        node = ways.nodes.get(each.incident.incident_id)
        if node is None or each.late:
            at_once.append(each)
        else:
            groups.setdefault(ways.keys[each.incident.incident_id], []).append(each)
    due: list[Sequence[Notification]] = [at_once] if at_once else []
    postponed: list[Entry] = []
    for key, notifications in groups.items():
        node = ways.nodes[notifications[0].incident.incident_id]
        assert node
        at = _due_at(node, notifications, notified.get(key), now)
        if now >= at:
            due.append(notifications)
        else:
            first_time = (each for each in notifications if not each.repeat)
            postponed += [_waiting(each, channel.name, entries, at) for each in first_time]
    return Ready(
        due,
        [each for each in postponed if entries.get((each.incident_id, each.transition)) != each],
    )


def _due_at(
    node: Node, notifications: Sequence[Notification], last: datetime | None, now: datetime
) -> datetime:
    """Return when the next message of a group is due.

    An instant too far ahead was set before the clock was set back, and no message waits for it.

    Args:
        node: the route of the group.
        notifications: the notifications of the message.
        last: when the group was notified last; None = never.
        now: the present.
    """
    if last is not None:
        return now if last > now else last + timedelta(seconds=node.group_interval)
    first = min(each.transition.at for each in notifications)
    wait = timedelta(seconds=node.group_wait)
    return now if first - now > wait else first + wait


def _waiting(
    notification: Notification, channel: str, entries: Mapping[Key, Entry], at: datetime
) -> Entry:
    key = notification.incident.incident_id, notification.transition.transition
    entry = entries.get(key) or new_entry(notification, channel)
    return replaced(entry, next_attempt_at=at, last_error=None)


def _last_notified(ways: Ways, entries: Mapping[Key, Entry]) -> dict[Group, datetime]:
    """Return when each group that is not over was last notified."""
    last: dict[str, Entry] = {}
    at: dict[str, datetime] = {}
    for entry in entries.values():
        if entry.delivered_at is None or entry.status != "DELIVERED":
            continue
        name = entry.incident_id
        at[name] = max(at.get(name, entry.delivered_at), entry.delivered_at)
        newest = last.get(name)
        if not entry.transition.startswith("ACKNOWLEDGED") and (
            newest is None or entry.transition_at >= newest.transition_at
        ):
            last[name] = entry
    found: dict[Group, datetime] = {}
    live: set[Group] = set()
    for name, key in ways.keys.items():
        if name not in at:
            continue
        found[key] = max(found.get(key, at[name]), at[name])
        if name in last and last[name].transition.startswith("FIRING"):
            live.add(key)
    return {key: instant for key, instant in found.items() if key in live}
