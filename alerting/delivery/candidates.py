"""Selection of the incidents that a delivery reads and that a channel has to consider."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from alerting.delivery.due import LATE_AFTER, Entry, waits
from alerting.delivery.marks import Marks
from alerting.delivery.open_notifications import ChannelIncident
from alerting.incidents.incident import FIRING, Incident
from alerting.incidents.repository import find, from_rows
from lake.catalog import Lake
from lake.conditions import all_of, any_of, not_before, one_of
from lake.tables.alerting import INCIDENTS, NOTIFICATIONS
from lake.typed_rows import typed_rows

REACH_BACK = timedelta(days=30)
"""Time before now whose resolved incidents a new channel gets, as one summary."""


def candidates(
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
    A resolution can be found long after it happened, when a backlog is computed.

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
    found = {each.incident_id: each for each in read}
    pending = all_of(one_of("status", ["PENDING"]), one_of("channel", channels))
    columns = ("incident_id", "next_attempt_at")
    # Old incidents are expensive to find, so only those whose attempt is due are read.
    others = {
        row["incident_id"]
        for row in lake.read(NOTIFICATIONS, pending, columns=columns).to_pylist()
        if not waits(row["next_attempt_at"], now, now + longest)
    }
    others |= {incident_id for channel, incident_id in notified if channel in channels}
    found |= {each.incident_id: each for each in find(lake, others - found.keys())}
    return [each for each in found.values() if each.transitions]


def concerns(
    incident: Incident,
    known: Collection[str],
    mark: datetime | None,
    now: datetime,
) -> bool:
    """Return whether a channel has to consider an incident.

    Args:
        incident: one of `candidates`.
        known: ids of the incidents with an entry of the channel.
        mark: how far the channel has been notified; None when it is new.
        now: the present.
    """
    if incident.is_open or incident.incident_id in known or incident.resolved_at is None:
        return True
    if now - incident.resolved_at <= (LATE_AFTER if mark else REACH_BACK):
        return True
    return bool(mark and incident.written_at and incident.written_at >= mark)


def entries_by_channel(
    lake: Lake, incidents: Sequence[Incident]
) -> dict[str, dict[tuple[str, str], Entry]]:
    """Return the recorded entries of the incidents' transitions, by channel."""
    first = min(each.transitions[0].at for each in incidents)
    since = not_before("transition_at", first)
    by_channel: dict[str, dict[tuple[str, str], Entry]] = {}
    for entry in typed_rows(lake.read(NOTIFICATIONS, since), Entry):
        by_channel.setdefault(entry.channel, {})[entry.incident_id, entry.transition] = entry
    return by_channel
