"""Channels of receivers: how they are opened, and the route by which each gets an incident.

Channels are the log, the addresses of the environment, and the receivers of rule files. A route may
escalate an incident to another receiver.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from tidemark.alerting.delivery.channels import AppriseChannel, Channel, ChannelError, LogChannel
from tidemark.alerting.delivery.http_channels import AlertmanagerChannel, WebhookChannel
from tidemark.alerting.delivery.messages import Notification
from tidemark.alerting.delivery.notification_log import Entry, Key
from tidemark.alerting.delivery.pagers import no_page_for
from tidemark.alerting.delivery.templates import Words
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.rules.routing import DEFAULT_RECEIVER, Node, Receiver, Routing, WebhookTarget
from tidemark.model.incidents import IncidentState
from tidemark.settings.basics import expanded
from tidemark.settings.sections import NotificationSettings
from tidemark.settings.times import seconds

URLS, DIGEST_URLS, DIGEST_EVERY = (
    "TIDEMARK_NOTIFY_URLS",
    "TIDEMARK_DIGEST_URLS",
    "TIDEMARK_DIGEST_EVERY",
)
"""The variables of `NotificationSettings`, as mistakes name them."""

_BETWEEN = re.compile(r"\s(?=[\w.+-]+://)")
"""Separator of two addresses in one text. apprise takes the second for a path of the first."""

DAY = timedelta(days=1)
SHORTEST = timedelta(minutes=1)


def open_channels(
    settings: NotificationSettings,
    receivers: Sequence[Receiver] = (),
    environ: Mapping[str, str] | None = None,
) -> tuple[list[Channel], list[str]]:
    """Open the log, and a channel for each address of the environment and of the receivers.

    Args:
        settings: addresses of notifications and digests.
        receivers: receivers of the rule files.
        environ: the environment, whose variables addresses may name; None = of this process.

    Returns:
        The channels, and a line for each wrong setting, which stops no other channel. A line names
        an address by its position and not its text. Digests with a wrong ``TIDEMARK_DIGEST_EVERY``
        go out once a day.
    """
    channels: list[Channel] = [LogChannel()]
    mistakes: list[str] = []
    every = DAY
    try:
        every = _every(settings.digest_every)
    except ValueError as error:
        mistakes.append(f"{DIGEST_EVERY}: {error}; until then digests go out once a day")
    addresses = ((URLS, settings.urls, None), (DIGEST_URLS, settings.digest_urls, every))
    for variable, urls, pause in addresses:
        for position, url in enumerate(dict.fromkeys(urls.split()), start=1):
            try:
                channels.append(AppriseChannel(url, pause))
            except ChannelError as error:
                mistakes.append(f"{variable}, address {position}: {error}")
    for receiver in receivers:
        receiver_channels, wrong = _of_receiver(receiver, environ)
        channels += receiver_channels
        mistakes += wrong
    for channel in channels:
        channel.board_url = settings.board_url
    return channels, mistakes


def _of_receiver(
    receiver: Receiver, environ: Mapping[str, str] | None
) -> tuple[list[Channel], list[str]]:
    """Open the channels of a receiver; a line names an address by its position and not its text."""
    name = receiver.name
    words = Words(receiver.language, receiver.title, receiver.body)

    def alertmanager(url: str) -> Channel:
        return AlertmanagerChannel(expanded(url, environ), name)

    def webhook(target: WebhookTarget) -> Channel:
        secret = expanded(target.secret, environ) if target.secret else None
        return WebhookChannel(expanded(target.url, environ), secret, name)

    openers: list[tuple[str, Callable[[], Channel]]] = []
    mistakes: list[str] = []
    for at, text in enumerate(receiver.urls):
        try:
            urls = [part.strip() for part in _BETWEEN.split(expanded(text, environ).strip())]
        except ValueError as error:
            mistakes.append(f"receiver {name}, urls[{at}]: {error}")
        else:
            service = partial(AppriseChannel, receiver=name, words=words)
            openers += [(f"urls[{at}]", partial(service, url)) for url in urls]
    for at, url in enumerate(receiver.alertmanager):
        openers.append((f"alertmanager[{at}]", partial(alertmanager, url)))
    for at, target in enumerate(receiver.webhook):
        openers.append((f"webhook[{at}]", partial(webhook, target)))
    channels: dict[str, Channel] = {}
    for place, opener in openers:
        try:
            channel = opener()
        except (ChannelError, ValueError) as error:
            mistakes.append(f"receiver {name}, {place}: {error}")
        else:
            channels.setdefault(channel.name, channel)
    return list(channels.values()), mistakes


def _every(text: str) -> timedelta:
    every = timedelta(seconds=seconds(text))
    if every < SHORTEST:
        raise ValueError(f"a duration of at least 1m is wanted, not {text!r}")
    return every


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
