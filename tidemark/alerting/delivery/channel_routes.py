"""The route by which a channel gets an incident, and the escalation to another receiver."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidemark.alerting.delivery.channels import Channel
from tidemark.alerting.delivery.messages import Notification
from tidemark.alerting.delivery.notification_log import Entry, Key
from tidemark.alerting.delivery.pagers import no_page_for
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.rules.routing import DEFAULT_RECEIVER, Node, Routing
from tidemark.model.incidents import IncidentState

Group = tuple[str, ...]
"""Route and labels that the incidents of one message share."""


@dataclass(frozen=True, kw_only=True)
class ChannelRoute:
    """The route by which a channel gets an incident.

    Attributes:
        node: the route of the rule files; None = at once, without groups and repeats, as the log
            and digests get all incidents.
        group: the group of the incident, where a route puts it into one.
        is_escalation: whether the channel gets it because no person acknowledged it in time.
    """

    node: Node | None = None
    group: Group | None = None
    is_escalation: bool = False


@dataclass(frozen=True, kw_only=True)
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
        firing = incident.transitions[-1]
        names = [
            channel.name
            for channel in self.channels
            if channel.receiver == receiver
            and not (
                channel.pages and no_page_for(Notification(incident=incident, transition=firing))
            )
        ]
        key = incident.incident_id, firing.transition
        recorded = [self.entries[name][key] for name in names if key in self.entries.get(name, {})]
        instants = [entry.first_at for entry in recorded if entry.is_delivered and entry.first_at]
        if instants:
            return min(instants)
        if not names or any(entry.attempts for entry in recorded):
            return firing.at
        return None


def routes_of(
    channel: Channel,
    routing: Routing,
    incidents: Iterable[Incident],
    now: datetime,
    firsts: FirstNotifications,
) -> dict[str, ChannelRoute]:
    """Return the route of each incident, by its id, without the incidents that no route leads here.

    Args:
        channel: the channel.
        routing: the routes of incidents.
        incidents: the incidents.
        now: the present, which decides about escalations.
        firsts: when receivers were first notified.
    """
    receiver = channel.receiver
    if receiver is None or routing.broadcasts:
        return {incident.incident_id: ChannelRoute() for incident in incidents}
    if not routing.root:
        is_default = receiver == DEFAULT_RECEIVER
        return {one.incident_id: ChannelRoute() for one in incidents if is_default}
    routes = (
        (incident, _route_to(receiver, routing, incident, now, firsts)) for incident in incidents
    )
    return {incident.incident_id: route for incident, route in routes if route}


def _route_to(
    receiver: str,
    routing: Routing,
    incident: Incident,
    now: datetime,
    firsts: FirstNotifications,
) -> ChannelRoute | None:
    labels = incident.match_labels
    nodes = routing.routes(labels)
    for node in nodes:
        if node.receiver == receiver:
            return ChannelRoute(node=node, group=node.group_key(labels))
    for node in nodes:
        if node.escalate_to == receiver and _is_escalated(node, incident, now, firsts):
            node = replace(node, place=f"{node.place} escalated", group_wait=0.0)
            return ChannelRoute(node=node, group=node.group_key(labels), is_escalation=True)
    return None


def _is_escalated(
    node: Node, incident: Incident, now: datetime, firsts: FirstNotifications
) -> bool:
    """Return whether an incident was not acknowledged in time.

    The time counts from the first notification, before which no person could have acknowledged.
    """
    if node.escalate_after is None or incident.state != IncidentState.FIRING:
        return False
    first = firsts.of(node.receiver, incident) if incident.transitions else None
    return first is not None and now - first >= timedelta(seconds=node.escalate_after)
