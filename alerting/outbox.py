"""The outbox: telling every transition of every incident on every channel, at least once.

``alerting.incidents`` says what is to be told (its transitions), ``alerting.notifications`` what
was. What is missing there is due; a message is sent, then written down. So whoever is killed at
whatever moment repeats at most the one message it had not written down yet, and forgets none.

Transitions of an incident are told in their order, and its end only where its beginning was told.
What somebody silenced, what another incident explains and what falls into quiet hours waits: when
it is over before it may be told, nobody ever hears of it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta

from filelock import FileLock, Timeout

from alerting.channels import Channel, ChannelError
from alerting.incidents import Incident
from alerting.messages import Notice
from alerting.store import find, of_rows
from lake.catalog import Lake, any_of, not_before, one_of
from lake.tables.alerting import INCIDENTS, NOTIFICATIONS

LOOK_BACK = timedelta(hours=1)
"""What was over for longer before anybody looked is history, and told to nobody."""

FIRST_PAUSE = timedelta(seconds=15)
LONGEST_PAUSE = timedelta(minutes=15)
"""Between two attempts, doubled each time."""

LOG = logging.getLogger("tidemark.notifications")

Withheld = Callable[[Incident], str | None]
"""Why an incident must not be told now, None when it may."""


@dataclass(frozen=True)
class Entry:
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


Key = tuple[str, str]
"""(incident id, transition)."""


@dataclass(frozen=True)
class Due:
    """What a channel is to be told now, and what is to be written down without telling.

    Attributes:
        notices: what to tell, in order of time.
        noted: entries that changed: held back, or over before they could be told.
    """

    notices: tuple[Notice, ...] = ()
    noted: tuple[Entry, ...] = ()


def due(
    incidents: Iterable[Incident],
    entries: Mapping[Key, Entry],
    channel: str,
    now: datetime,
    withheld: Withheld = lambda incident: None,
) -> Due:
    """What is due on one channel.

    Args:
        incidents: open ones and those over lately.
        entries: of this channel.
        channel: its name.
        now: the present.
        withheld: why an incident must not be told.
    """
    notices: list[Notice] = []
    noted: list[Entry] = []
    for incident in incidents:
        reason = withheld(incident)
        told = False
        for transition in incident.transitions:
            known = entries.get((incident.incident_id, transition.transition))
            if known and known.status != "PENDING":
                told = known.status == "DELIVERED"
                continue
            notice = Notice(incident, transition)
            entry = known or Entry(
                incident.incident_id, transition.transition, channel, transition.at
            )
            if notice.state == "RESOLVED" and not told:
                noted.append(replace(entry, status="WITHHELD", last_error="its start was not told"))
            elif known is None and not incident.is_open and now - transition.at > LOOK_BACK:
                noted.append(replace(entry, status="WITHHELD", last_error="history when met"))
            elif reason and (incident.is_open or told):
                if entry.last_error != reason:
                    noted.append(replace(entry, last_error=reason))
                break
            elif reason:
                noted.append(replace(entry, status="WITHHELD", last_error=f"over while {reason}"))
            elif entry.next_attempt_at and entry.next_attempt_at > now:
                break
            else:
                notices.append(notice)
                told = True
    notices.sort(key=lambda each: (each.transition.at, each.incident.incident_id))
    return Due(tuple(notices), tuple(noted))


def pause(attempts: int) -> timedelta:
    """How long to wait after so many failed attempts."""
    return min(FIRST_PAUSE * 2 ** min(attempts - 1, 10), LONGEST_PAUSE)


@dataclass(frozen=True)
class Delivery:
    """What was told.

    Attributes:
        delivered: notices that each channel took.
        failed: names of channels that did not, each with the reason in one line.
    """

    delivered: Mapping[str, tuple[Notice, ...]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def notices(self) -> int:
        """Notices that at least one channel took."""
        return len(
            {
                (each.incident.incident_id, each.transition.transition)
                for notices in self.delivered.values()
                for each in notices
            }
        )


def deliver(
    lake: Lake,
    channels: Sequence[Channel],
    withheld: Withheld = lambda incident: None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Delivery:
    """Tells every channel what is due, and writes down what it took before the next one's turn.

    A channel that fails is logged and tried again later; it holds up no other one. Only one
    process delivers at a time: where another one is at it, there is nothing to do.
    """
    lake.home.path.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lake.home.path / "notifier.lock", timeout=0):
            return _deliver(lake, channels, withheld, clock)
    except Timeout:
        return Delivery()


def _deliver(
    lake: Lake, channels: Sequence[Channel], withheld: Withheld, clock: Callable[[], datetime]
) -> Delivery:
    incidents = _to_tell(lake, clock())
    if not incidents:
        return Delivery()
    entries = _entries(lake, incidents)
    delivered: dict[str, tuple[Notice, ...]] = {}
    failed: dict[str, str] = {}
    for channel in channels:
        mine = entries.get(channel.name, {})
        asked = due(incidents, mine, channel.name, clock(), withheld)
        changed = list(asked.noted)
        if asked.notices:
            error = _send(channel, asked.notices)
            if error:
                failed[channel.name] = error
            else:
                delivered[channel.name] = asked.notices
            changed += [
                _tried(notice, mine, channel.name, clock(), error) for notice in asked.notices
            ]
        lake.gather(NOTIFICATIONS, [asdict(entry) for entry in changed])
    return Delivery(delivered, failed)


def _send(channel: Channel, notices: Sequence[Notice]) -> str | None:
    """Sends one message; the reason in one line when it was not taken."""
    try:
        channel.send(notices)
    except ChannelError as error:
        LOG.warning("channel %s: %d notices not told: %s", channel.name, len(notices), error)
        return str(error)
    return None


def _tried(
    notice: Notice, entries: Mapping[Key, Entry], channel: str, now: datetime, error: str | None
) -> Entry:
    incident_id, transition = notice.incident.incident_id, notice.transition
    fresh = Entry(incident_id, transition.transition, channel, transition.at)
    entry = entries.get((incident_id, transition.transition), fresh)
    attempts = entry.attempts + 1
    if error:
        later = now + pause(attempts)
        return replace(entry, attempts=attempts, last_error=error, next_attempt_at=later)
    return replace(
        entry,
        status="DELIVERED",
        attempts=attempts,
        delivered_at=now,
        last_error=None,
        next_attempt_at=None,
    )


def _to_tell(lake: Lake, now: datetime) -> list[Incident]:
    """The incidents that something may be due of: open, over lately, or still waiting."""
    firing = one_of("state", ["FIRING", "ACKNOWLEDGED"])
    where = any_of(firing, not_before("resolved_at", now - LOOK_BACK))
    rows = lake.read(INCIDENTS, where).to_pylist()
    found = {each.incident_id: each for each in of_rows(rows)}
    pending = lake.read(NOTIFICATIONS, one_of("status", ["PENDING"]), columns=("incident_id",))
    waiting = set(pending["incident_id"].to_pylist()) - found.keys()
    found |= {each.incident_id: each for each in find(lake, waiting)}
    return [each for each in found.values() if each.transitions]


_NAMES = tuple(each.name for each in fields(Entry))


def _entries(lake: Lake, incidents: Sequence[Incident]) -> dict[str, dict[Key, Entry]]:
    """What was written down of the transitions of incidents, by channel."""
    first = min(each.transitions[0].at for each in incidents)
    since = not_before("transition_at", first)
    found: dict[str, dict[Key, Entry]] = {}
    for row in lake.read(NOTIFICATIONS, since, columns=_NAMES).to_pylist():
        entry = Entry(**row)
        found.setdefault(entry.channel, {})[entry.incident_id, entry.transition] = entry
    return found


def entries_of(lake: Lake, incident: Incident) -> list[dict[str, object]]:
    """What was written down of one incident, in order."""
    rows = lake.read(NOTIFICATIONS, one_of("incident_id", [incident.incident_id])).to_pylist()
    return sorted(rows, key=lambda row: (row["transition_at"], row["channel"]))
