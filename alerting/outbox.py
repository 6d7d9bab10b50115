"""The outbox: telling every transition of every incident on every channel, at least once.

``alerting.incidents`` says what is to be told (its transitions), ``alerting.notifications`` what
was. What is missing there is due; a message is sent, then written down. So whoever is killed at
whatever moment repeats at most the one message it had not written down yet, and forgets none.

Transitions of an incident are told in their order, and its end only where its beginning was told.
What somebody silenced, what another incident explains and what falls into quiet hours waits: when
it is over before it may be told, nobody ever hears of it, each time that it comes back.

A channel of digests is told the same: each of its entries waits for the end of the period it was
made in, and what was told and still stands is told again at the end of each next one. Periods are
counted from midnight UTC, weeks from Monday, so they outlast restarts.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic

import msgspec
from filelock import FileLock, Timeout
from msgspec.structs import replace

from alerting.channels import Channel, ChannelError
from alerting.ends import Told, unended, written
from alerting.incidents import FIRING, Incident
from alerting.messages import Notice, severity_order
from alerting.store import find, of_rows
from lake.catalog import Lake, all_of, any_of, not_before, one_of
from lake.records import of_table, to_rows
from lake.tables.alerting import INCIDENTS, NOTIFICATIONS

LOOK_BACK = timedelta(hours=1)
"""What was over for longer before anybody looked is history, and told to nobody who was not told
its beginning."""

FIRST_PAUSE = timedelta(seconds=15)
LONGEST_PAUSE = timedelta(minutes=15)
"""Between two attempts, doubled each time."""

LONGEST_LOOK = 15.0
"""Seconds after which a channel that is told one by one has to wait for the others."""

A_MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
"""Periods of digests are counted from here."""

LOG = logging.getLogger("tidemark.notifications")

Withheld = Callable[[Incident], str | None]
"""Why an incident must not be told now, None when it may."""


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
    next_digest: datetime | None = None,
) -> Due:
    """What is due on one channel.

    Args:
        incidents: open ones and those over lately.
        entries: of this channel.
        channel: its name.
        now: the present.
        withheld: why an incident must not be told.
        next_digest: what is new waits until then; None: it is told at once.
    """
    found = [
        _due_of(incident, entries, channel, now, withheld(incident), next_digest)
        for incident in incidents
    ]
    notices = [notice for each in found for notice in each.notices]
    notices.sort(key=lambda each: (each.transition.at, each.incident.incident_id))
    return Due(tuple(notices), tuple(entry for each in found for entry in each.noted))


def _due_of(
    incident: Incident,
    entries: Mapping[Key, Entry],
    channel: str,
    now: datetime,
    reason: str | None,
    next_digest: datetime | None,
) -> Due:
    """What is due of one incident; see `due`."""
    notices: list[Notice] = []
    noted: list[Entry] = []
    told = waits = False
    for transition in incident.transitions:
        known = entries.get((incident.incident_id, transition.transition))
        notice = Notice(incident, transition)
        if known and known.status != "PENDING":
            if known.status == "DELIVERED":
                told = notice.state == "FIRING"
            if _stands(notice) and known.next_attempt_at and not _waits(known, now):
                if reason:
                    noted.append(replace(known, next_attempt_at=next_digest))
                else:
                    notices.append(Notice(incident, transition, again=True))
            continue
        entry = known or replace(_fresh(notice, channel), next_attempt_at=next_digest)
        if notice.state == "RESOLVED" and not told:
            noted.append(replace(entry, status="WITHHELD", last_error="its start was not told"))
        elif not told and known and _was_held(known) and notice.is_past:
            held = f"over while {known.last_error}"
            noted.append(replace(entry, status="WITHHELD", last_error=held))
        elif not (known or told or incident.is_open) and now - transition.at > LOOK_BACK:
            noted.append(replace(entry, status="WITHHELD", last_error="history when met"))
        elif reason and (incident.is_open or told):
            at = entry.next_attempt_at if _waits(entry, now) else next_digest
            held = replace(entry, last_error=reason, next_attempt_at=at)
            if held != known:
                noted.append(held)
            break
        elif reason:
            noted.append(replace(entry, status="WITHHELD", last_error=f"over while {reason}"))
        elif waits or _waits(entry, now):
            # What follows does not overtake it, and is in the same digest.
            if next_digest and (known is None or _was_held(known)):
                noted.append(replace(entry, last_error=None))
            told, waits = notice.state == "FIRING", True
        else:
            notices.append(notice)
            told = notice.state == "FIRING"
    return Due(tuple(notices), tuple(noted))


def _fresh(notice: Notice, channel: str) -> Entry:
    transition = notice.transition
    return Entry(notice.incident.incident_id, transition.transition, channel, transition.at)


def _stands(notice: Notice) -> bool:
    """Whether the incident is open and this its last transition."""
    return notice.incident.is_open and notice.transition is notice.incident.transitions[-1]


def _was_held(entry: Entry) -> bool:
    """Whether it waits because it must not be told, and was never tried."""
    return entry.last_error is not None and not entry.attempts


def _waits(entry: Entry, now: datetime) -> bool:
    return entry.next_attempt_at is not None and entry.next_attempt_at > now


def _next_digest(channel: Channel, now: datetime) -> datetime | None:
    """The end of the period that an instant lies in; None for a channel that is told at once."""
    if channel.every is None:
        return None
    return now + channel.every - (now - A_MONDAY) % channel.every


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

    def __or__(self, other: "Delivery") -> "Delivery":
        """What was told here and there."""
        return Delivery({**self.delivered, **other.delivered}, {**self.failed, **other.failed})

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
            return _deliver(lake, channels, withheld, clock) if channels else Delivery()
    except Timeout:
        return Delivery()


def _deliver(
    lake: Lake, channels: Sequence[Channel], withheld: Withheld, clock: Callable[[], datetime]
) -> Delivery:
    standing = unended(lake)
    incidents = _to_tell(lake, channels, standing, clock())
    if not incidents:
        return Delivery()
    entries = _entries(lake, incidents)
    delivered: dict[str, tuple[Notice, ...]] = {}
    failed: dict[str, str] = {}
    for channel in channels:
        mine = entries.get(channel.name, {})
        now = clock()
        asked = due(incidents, mine, channel.name, now, withheld, _next_digest(channel, now))
        changed = list(asked.noted)
        for message in _messages(channel, asked.notices):
            error = _send(channel, message)
            changed += [_tried(notice, mine, channel, clock(), error) for notice in message]
            standing = _write(lake, mine, changed, standing)
            changed = []
            if error:
                failed[channel.name] = error
                break
            delivered[channel.name] = (*delivered.get(channel.name, ()), *message)
        standing = _write(lake, mine, changed, standing)
    return Delivery(delivered, failed)


def _write(
    lake: Lake, entries: Mapping[Key, Entry], changed: Sequence[Entry], standing: frozenset[Told]
) -> frozenset[Told]:
    """Writes entries of a channel down; who is to be told of an end after that."""
    if not changed:
        return standing
    lake.gather(NOTIFICATIONS, to_rows(changed))
    of_changed = {each.incident_id for each in changed}
    known = {key: each for key, each in entries.items() if key[0] in of_changed}
    known |= {(each.incident_id, each.transition): each for each in changed}
    return written(lake, standing, known.values())


def _messages(channel: Channel, notices: Sequence[Notice]) -> Iterator[Sequence[Notice]]:
    """The notices as messages: one of all, or where each is one the worst first, while time lasts.

    What is left is due at the next look.
    """
    if notices and not channel.one_by_one:
        yield notices
        return
    until = monotonic() + LONGEST_LOOK
    for notice in sorted(notices, key=lambda each: severity_order(each.incident.severity)):
        if monotonic() > until:
            break
        yield (notice,)


def _send(channel: Channel, notices: Sequence[Notice]) -> str | None:
    """Sends one message; the reason in one line when it was not taken."""
    try:
        channel.send(notices)
    except ChannelError as error:
        LOG.warning("channel %s: %d notices not told: %s", channel.name, len(notices), error)
        return str(error)
    return None


def _tried(
    notice: Notice,
    entries: Mapping[Key, Entry],
    channel: Channel,
    now: datetime,
    error: str | None,
) -> Entry:
    key = notice.incident.incident_id, notice.transition.transition
    entry = entries.get(key) or _fresh(notice, channel.name)
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
        next_attempt_at=_next_digest(channel, now) if _stands(notice) else None,
    )


def _to_tell(
    lake: Lake, channels: Sequence[Channel], standing: frozenset[Told], now: datetime
) -> list[Incident]:
    """The incidents that something may be due of.

    Those that are open, over lately, or still waiting; and those of which a channel was told the
    beginning, for their end may be found out, by computing that catches up, long after it was.
    """
    names = {each.name for each in channels}
    firing = one_of("state", FIRING)
    where = any_of(firing, not_before("resolved_at", now - LOOK_BACK))
    found = {each.incident_id: each for each in of_rows(lake.read(INCIDENTS, where))}
    pending = all_of(one_of("status", ["PENDING"]), one_of("channel", names))
    columns = ("incident_id", "next_attempt_at")
    # Looking for old incidents costs more the longer there are any: only those whose time has come.
    waiting = {
        row["incident_id"]
        for row in lake.read(NOTIFICATIONS, pending, columns=columns).to_pylist()
        if row["next_attempt_at"] is None or row["next_attempt_at"] <= now
    }
    waiting |= {incident_id for channel, incident_id in standing if channel in names}
    found |= {each.incident_id: each for each in find(lake, waiting - found.keys())}
    return [each for each in found.values() if each.transitions]


def _entries(lake: Lake, incidents: Sequence[Incident]) -> dict[str, dict[Key, Entry]]:
    """What was written down of the transitions of incidents, by channel."""
    first = min(each.transitions[0].at for each in incidents)
    since = not_before("transition_at", first)
    found: dict[str, dict[Key, Entry]] = {}
    for entry in of_table(lake.read(NOTIFICATIONS, since), Entry):
        found.setdefault(entry.channel, {})[entry.incident_id, entry.transition] = entry
    return found


def entries_of(lake: Lake, incident: Incident) -> list[dict[str, object]]:
    """What was written down of one incident, in order."""
    rows = lake.read(NOTIFICATIONS, one_of("incident_id", [incident.incident_id])).to_pylist()
    return sorted(rows, key=lambda row: (row["transition_at"], row["channel"]))
