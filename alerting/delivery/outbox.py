"""The outbox: delivers each transition of each incident on each channel at least once.

``alerting.incidents`` has the transitions, ``alerting.notifications`` the deliveries. The
difference is due, as `alerting.delivery.due` decides. A message is sent first and recorded
afterwards, so a process that is killed at any moment repeats at most the message that it had not
recorded, and loses none.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic

from msgspec.structs import replace

from alerting.delivery.candidates import candidates, concerns, entries_by_channel
from alerting.delivery.channels import Channel, ChannelError
from alerting.delivery.due import (
    FIRST_RETRY_PAUSE,
    LONGEST_RETRY_PAUSE,
    Entry,
    Key,
    MuteReason,
    never_muted,
    new_entry,
)
from alerting.delivery.marks import read_marks, write_marks
from alerting.delivery.messages import Notification, severity_order
from alerting.delivery.open_notifications import OpenNotifications
from alerting.delivery.plans import Plan, plan_of
from alerting.delivery.records import Records
from alerting.delivery.ways import FirstNotifications
from alerting.rules.routing import Routing
from lake.catalog import Lake
from lake.leases import NOTIFIER, Lease

MOST_SECONDS_PER_CHANNEL = 15.0
"""Seconds after which a channel with many messages gives way to other channels."""

EVERYWHERE = Routing()
"""Routing without routes: every incident goes to every channel of the environment."""

LOG = logging.getLogger("tidemark.notifications")


def retry_pause(attempts: int) -> timedelta:
    """Return how long to wait after a number of failed attempts."""
    return min(FIRST_RETRY_PAUSE * 2 ** min(attempts - 1, 10), LONGEST_RETRY_PAUSE)


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
                (each.incident.incident_id, each.transition.transition)
                for notifications in self.delivered.values()
                for each in notifications
            }
        )


def deliver(
    lake: Lake,
    channels: Sequence[Channel],
    mute_reason: MuteReason = never_muted,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    open_notifications: OpenNotifications | None = None,
    routing: Routing = EVERYWHERE,
) -> Delivery:
    """Deliver all due notifications on every channel, and record each message before the next.

    A channel that fails is logged and retried later; it does not delay the others. Only one process
    delivers at a time; the others return at once.

    Args:
        lake: the tables.
        channels: the channels.
        mute_reason: why an incident must not be notified now.
        clock: returns the present.
        open_notifications: kept by a caller that delivers repeatedly, which saves reading
            ``alerting.notifications`` as a whole; None: read it.
        routing: which channels get an incident, and when; without routes, all at once.

    Raises:
        LeaseError: leases cannot be had, or this process lost its own.
    """
    lease = lake.shared.leases.attempt(NOTIFIER) if channels else None
    if lease is None:
        return Delivery()
    with lease:
        remembered = open_notifications or OpenNotifications()
        return _deliver(lake, channels, mute_reason, clock, remembered, routing, lease)


def _deliver(
    lake: Lake,
    channels: Sequence[Channel],
    mute_reason: MuteReason,
    clock: Callable[[], datetime],
    open_notifications: OpenNotifications,
    routing: Routing,
    lease: Lease,
) -> Delivery:
    began = clock()
    marks = read_marks(lake.shared.state, began)
    longest = max(each.every or LONGEST_RETRY_PAUSE for each in channels)
    names = {each.name for each in channels}
    incidents = candidates(lake, names, open_notifications.pairs(lake), marks, began, longest)
    if not incidents:
        return Delivery()
    entries = entries_by_channel(lake, incidents)
    firsts = FirstNotifications(channels, entries)
    every = (entry for of_channel in entries.values() for entry in of_channel.values())
    records = Records(lake, open_notifications, every)
    delivery = Delivery()
    for channel in channels:
        lease.confirm()
        mine = entries.get(channel.name, {})
        known = {incident_id for incident_id, _ in mine}
        mark, now = marks.get(channel.name), clock()
        concerned = [each for each in incidents if concerns(each, known, mark, now)]
        plan = plan_of(channel, concerned, mine, routing, mute_reason, clock, firsts)
        delivery |= _deliver_on(plan, records, clock)
        delivery |= _refresh(plan)
    # Everything has an entry by now, so the next delivery need not reach back as far.
    # Rows from before a clock was set back may lie in the future, where no mark may be.
    newest = max(
        (min(each.written_at, began) for each in incidents if each.written_at), default=None
    )
    if newest and any(marks.get(name) != newest for name in names):
        write_marks(lake.shared.state, marks | dict.fromkeys(names, newest))
    return delivery


def _deliver_on(plan: Plan, records: Records, clock: Callable[[], datetime]) -> Delivery:
    """Send due notifications on one channel until it fails; the rest is recorded as pending."""
    channel, entries = plan.channel, plan.entries
    changed = list(plan.changed)
    delivered: list[Notification] = []
    left = {_key(each): each for each in plan.notifications}
    error: str | None = None
    for message in _messages(channel, plan.groups):
        error = _send(channel, [_documented(each, records) for each in message])
        changed += [_attempted(each, plan, clock(), error) for each in message]
        records.write(changed)
        changed = []
        for each in message:
            left.pop(_key(each))
        if error:
            break
        delivered += message
    unsent = [new_entry(each, channel.name) for key, each in left.items() if key not in entries]
    records.write([*changed, *unsent])
    return Delivery(
        {channel.name: tuple(delivered)} if delivered else {},
        {channel.name: error} if error else {},
    )


def _refresh(plan: Plan) -> Delivery:
    """Repeat firing incidents to a service that expects repeats."""
    refresh = getattr(plan.channel, "refresh", None)
    if refresh is None:
        return Delivery()
    try:
        refresh(plan.firing)
    except Exception as error:
        return Delivery(failed={plan.channel.name: _reason(error)})
    return Delivery()


def _reason(error: Exception) -> str:
    """Return in one line why a channel failed.

    Whatever a channel raises, the others get their notifications. Only the text of a `ChannelError`
    is known to hold no secret.
    """
    return str(error) if isinstance(error, ChannelError) else f"failed: {type(error).__name__}"


def _key(notification: Notification) -> Key:
    return notification.incident.incident_id, notification.transition.transition


def _documented(notification: Notification, records: Records) -> Notification:
    """Return a notification with the earlier records about its incident."""
    return dataclasses.replace(notification, records=records.of(notification.incident))


def _messages(
    channel: Channel, groups: Sequence[Sequence[Notification]]
) -> Iterator[Sequence[Notification]]:
    """Yield the notifications of each message, the most severe first.

    When the time is over, the rest is due at the next delivery. Incidents that resolved too long
    ago to act on form one summary.
    """
    if channel.one_by_one:
        messages = [[each] for group in groups for each in group]
    else:
        messages = [part for group in groups for part in _prompt_and_late(channel, group)]
    until = monotonic() + MOST_SECONDS_PER_CHANNEL
    for message in sorted(messages, key=_worst_of):
        if monotonic() > until:
            break
        yield message


def _worst_of(message: Sequence[Notification]) -> int:
    return min(severity_order(each.incident.severity) for each in message)


def _prompt_and_late(
    channel: Channel, group: Sequence[Notification]
) -> Iterator[Sequence[Notification]]:
    summed = channel.every is None
    prompt = [each for each in group if not (summed and each.late)]
    late = [each for each in group if summed and each.late]
    yield from filter(None, (prompt, late))


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


def _attempted(notification: Notification, plan: Plan, now: datetime, error: str | None) -> Entry:
    """Return the entry of a notification after an attempt to send it."""
    entry = plan.entries.get(_key(notification)) or new_entry(notification, plan.channel.name)
    attempts = entry.attempts + 1
    if error:
        next_attempt_at = now + retry_pause(attempts)
        return replace(entry, attempts=attempts, last_error=error, next_attempt_at=next_attempt_at)
    return replace(
        entry,
        status="DELIVERED",
        attempts=attempts,
        delivered_at=now,
        first_delivered_at=entry.first_at or now,
        repeats=notification.repeat,
        last_error=None,
        next_attempt_at=plan.repeat_at(notification, now),
    )
