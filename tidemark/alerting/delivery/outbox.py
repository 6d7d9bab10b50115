"""The outbox: delivers each transition of each incident on each channel at least once.

``alerting.incidents`` has the transitions, ``alerting.notifications`` the deliveries. The
difference is due, as `tidemark.alerting.delivery.stages` decides. A message is sent first and
recorded afterwards, so a process that is killed at any moment repeats at most the message that it
had not recorded, and loses none.
"""

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic

from msgspec.structs import replace as replaced

from tidemark.alerting.delivery.channels import Channel, ChannelError
from tidemark.alerting.delivery.messages import Notification, page_of, severity_order
from tidemark.alerting.delivery.notification_log import (
    ChannelIncident,
    Entry,
    Key,
    Marks,
    NotificationLog,
    OpenNotifications,
    read_marks,
    write_marks,
)
from tidemark.alerting.delivery.receivers import FirstNotifications, routes_of
from tidemark.alerting.delivery.silences import Mute
from tidemark.alerting.delivery.stages import (
    LATE_AFTER,
    LONGEST_RETRY_PAUSE,
    Candidate,
    Due,
    Stages,
    attempted,
    waits,
)
from tidemark.alerting.incidents.incident import FIRING, Incident
from tidemark.alerting.incidents.repository import find, from_rows
from tidemark.alerting.rules.routing import Routing
from tidemark.host.leases import NOTIFIER, Lease
from tidemark.lake.catalog import Lake
from tidemark.lake.schema import all_of, any_of, not_before, one_of
from tidemark.lake.tables.alerting import INCIDENTS, NOTIFICATIONS
from tidemark.model.incidents import NotificationStatus
from tidemark.settings.owners import Owners

REACH_BACK = timedelta(days=30)
"""Time before now whose resolved incidents a new channel gets, as one summary."""

MOST_SECONDS_PER_CHANNEL = 15.0
"""Seconds after which a channel with many messages gives way to other channels."""

EVERYWHERE = Routing()
"""Routing without routes: every incident goes to every channel of the environment."""

LOG = logging.getLogger("tidemark.notifications")


NOBODY = Owners()
"""The owners of a deployment in which no group has one."""


@dataclass(frozen=True)
class Delivery:
    """The result of a delivery.

    Attributes:
        delivered: by channel, the notifications that it accepted.
        failed: by channel, the reason of its failure in one line.
    """

    delivered: Mapping[str, tuple[Notification, ...]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    def __or__(self, other: "Delivery") -> "Delivery":
        """Return both results as one."""
        return Delivery({**self.delivered, **other.delivered}, {**self.failed, **other.failed})

    @property
    def notifications(self) -> int:
        """Number of notifications that at least one channel accepted."""
        return len(
            {
                (one.incident.incident_id, one.transition.transition)
                for notifications in self.delivered.values()
                for one in notifications
            }
        )


def deliver(
    lake: Lake,
    channels: Sequence[Channel],
    mutes: Sequence[Mute] = (),
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    open_notifications: OpenNotifications | None = None,
    routing: Routing = EVERYWHERE,
    owners: Owners = NOBODY,
) -> Delivery:
    """Deliver all due notifications on every channel, and record each message before the next.

    A channel that fails is logged and retried later; it does not delay the others. Only one process
    delivers at a time; the others return at once.

    Args:
        lake: the tables.
        channels: the channels.
        mutes: reasons to mute an incident, in order.
        clock: returns the present.
        open_notifications: kept by a caller that delivers repeatedly, which saves reading
            ``alerting.notifications`` as a whole; None: read it.
        routing: which channels get an incident, and when; without routes, all at once.
        owners: the teams of groups, which are labels of incidents about them.

    Raises:
        LeaseError: leases cannot be had, or this process lost its own.
    """
    lease = lake.shared.leases.attempt(NOTIFIER) if channels else None
    if lease is None:
        return Delivery()
    with lease:
        remembered = open_notifications or OpenNotifications()
        return _deliver(lake, channels, mutes, clock, remembered, routing, owners, lease)


def _deliver(
    lake: Lake,
    channels: Sequence[Channel],
    mutes: Sequence[Mute],
    clock: Callable[[], datetime],
    open_notifications: OpenNotifications,
    routing: Routing,
    owners: Owners,
    lease: Lease,
) -> Delivery:
    began = clock()
    marks = read_marks(lake.shared.state, began)
    longest = max(channel.every or LONGEST_RETRY_PAUSE for channel in channels)
    names = {channel.name for channel in channels}
    incidents = _incidents(lake, names, open_notifications.pairs(lake), marks, began, longest)
    if not incidents:
        return Delivery()
    incidents = [_owned(incident, owners) for incident in incidents]
    log = NotificationLog(lake, incidents, open_notifications)
    firsts = FirstNotifications(channels=channels, entries=log.at_start)
    delivery = Delivery()
    for channel in channels:
        lease.confirm()
        entries = log.at_start.get(channel.name, {})
        known, now = {incident_id for incident_id, _ in entries}, clock()
        concerned = _concerning(incidents, known, marks.get(channel.name), now)
        routes = routes_of(channel, routing, concerned, now, firsts)
        mine = [one for one in concerned if one.incident_id in routes.keys() | known]
        stages = Stages(channel=channel, entries=entries, routes=routes, mutes=mutes)
        delivery |= _send_due(channel, stages.due(mine, now), log, clock)
        delivery |= _refresh(channel, mine, entries)
    # Everything has an entry by now, so the next delivery need not reach back as far.
    # Rows from before a clock was set back may lie in the future, where no mark may be.
    newest = max((min(one.written_at, began) for one in incidents if one.written_at), default=None)
    if newest and any(marks.get(name) != newest for name in names):
        write_marks(lake.shared.state, marks | dict.fromkeys(names, newest))
    return delivery


def _owned(incident: Incident, owners: Owners) -> Incident:
    """Return an incident with the labels of the owner of its group; those of its rule win."""
    columns = {"cluster": incident.cluster, **incident.row}
    owner = owners.of(columns.get("cluster"), columns.get("consumer_group"))
    if owner is None:
        return incident
    return replaced(incident, labels=owner.labels | incident.labels)


def _incidents(
    lake: Lake,
    channels: Collection[str],
    notified: frozenset[ChannelIncident],
    marks: Marks,
    now: datetime,
    longest: timedelta,
) -> list[Incident]:
    """Return the incidents of which a notification may be due on some channel.

    These are the open and the recently resolved ones, those that were written since the channels
    were last sent, those with a pending notification, and those whose firing a channel delivered.
    A resolution can be computed long after it happened, from a backlog.

    Args:
        lake: the tables.
        channels: names of the channels.
        notified: channel and id of each incident whose last delivered notification is firing.
        marks: how far the channels have been notified.
        now: the present.
        longest: time for which an entry may wait; a longer one was set before the clock was put
            back.
    """
    is_new = any(name not in marks for name in channels)
    conditions = [
        one_of("state", FIRING),
        not_before("resolved_at", now - (REACH_BACK if is_new else LATE_AFTER)),
    ]
    known = [marks[name] for name in channels if name in marks]
    if known:
        conditions.append(not_before("written_at", min(known)))
    read = from_rows(lake.read(INCIDENTS, any_of(*conditions)))
    by_id = {incident.incident_id: incident for incident in read}
    pending = all_of(one_of("status", [NotificationStatus.PENDING]), one_of("channel", channels))
    columns = ("incident_id", "next_attempt_at")
    # Old incidents are expensive to find, so only those whose attempt is due are read.
    others = {
        row["incident_id"]
        for row in lake.read(NOTIFICATIONS, pending, columns=columns).to_pylist()
        if not waits(row["next_attempt_at"], now, now + longest)
    }
    others |= {incident_id for channel, incident_id in notified if channel in channels}
    by_id |= {incident.incident_id: incident for incident in find(lake, others - by_id.keys())}
    return [incident for incident in by_id.values() if incident.transitions]


def _concerning(
    incidents: Sequence[Incident],
    known: Collection[str],
    mark: datetime | None,
    now: datetime,
) -> list[Incident]:
    """Return the incidents that a channel has to consider.

    Args:
        incidents: see `_incidents`.
        known: ids of the incidents with an entry of the channel.
        mark: how far the channel has been notified; None when it is new.
        now: the present.
    """
    since = now - (LATE_AFTER if mark else REACH_BACK)
    return [
        one
        for one in incidents
        if one.is_open
        or one.incident_id in known
        or one.resolved_at is None
        or one.resolved_at >= since
        or (mark and one.written_at and one.written_at >= mark)
    ]


def _send_due(
    channel: Channel, due: Due, log: NotificationLog, clock: Callable[[], datetime]
) -> Delivery:
    """Send due notifications on one channel until it fails; the rest is recorded as pending."""
    changed = list(due.changed)
    delivered: list[Notification] = []
    left = {candidate.entry.key: candidate for group in due.groups for candidate in group}
    error: str | None = None
    for message in _messages(channel, due.groups):
        notifications = [candidate.notification for candidate in message]
        error = _send(channel, [_documented(one, channel, log) for one in notifications])
        changed += [attempted(candidate, clock(), error) for candidate in message]
        log.write(changed)
        changed = []
        for candidate in message:
            left.pop(candidate.entry.key)
        if error:
            break
        delivered += notifications
    unsent = [candidate.entry for candidate in left.values() if candidate.recorded is None]
    log.write([*changed, *unsent])
    return Delivery(
        {channel.name: tuple(delivered)} if delivered else {},
        {channel.name: error} if error else {},
    )


def _refresh(
    channel: Channel, incidents: Sequence[Incident], entries: Mapping[Key, Entry]
) -> Delivery:
    """Repeat the incidents that a channel knows to fire to a service that expects repeats."""
    firing = [
        incident
        for incident in incidents
        if incident.is_firing
        and (entry := entries.get((incident.incident_id, incident.transitions[-1].transition)))
        and entry.is_delivered
    ]
    try:
        channel.refresh(firing)
    except Exception as error:
        return Delivery(failed={channel.name: _reason(error)})
    return Delivery()


def _reason(error: Exception) -> str:
    """Return in one line why a channel failed.

    Whatever a channel raises, the others get their notifications. Only the text of a `ChannelError`
    is known to hold no secret.
    """
    return str(error) if isinstance(error, ChannelError) else f"failed: {type(error).__name__}"


def _documented(notification: Notification, channel: Channel, log: NotificationLog) -> Notification:
    """Return a notification with the earlier records about its incident, and its page."""
    incident = notification.incident
    return dataclasses.replace(
        notification,
        records=log.of(incident),
        url=page_of(incident, channel.board_url),
    )


def _messages(
    channel: Channel, groups: Sequence[Sequence[Candidate]]
) -> Iterator[Sequence[Candidate]]:
    """Yield the candidates of each message, the most severe first.

    When the time is over, the rest is due at the next delivery. Incidents that resolved too long
    ago to act on form one summary.
    """
    if channel.one_by_one:
        messages = [[candidate] for group in groups for candidate in group]
    elif channel.every:
        messages = list(groups)
    else:
        messages = [
            part
            for group in groups
            for late in (False, True)
            if (part := [one for one in group if one.notification.late == late])
        ]
    until = monotonic() + MOST_SECONDS_PER_CHANNEL
    for message in sorted(messages, key=_worst_of):
        if monotonic() > until:
            break
        yield message


def _worst_of(message: Sequence[Candidate]) -> int:
    return min(severity_order(candidate.incident.severity) for candidate in message)


def _send(channel: Channel, notifications: Sequence[Notification]) -> str | None:
    """Send one message; return the reason in one line when the channel did not accept it."""
    try:
        channel.send(notifications)
    except Exception as error:
        reason = _reason(error)
        LOG.warning(
            "channel %s did not accept %d notifications: %s",
            channel.name,
            len(notifications),
            reason,
        )
        return reason
    return None
