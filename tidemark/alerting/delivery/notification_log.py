"""The log of notifications: what each channel was sent of which incident, and what still waits.

A row of ``alerting.notifications`` is an entry of the log. Entries are kept for ever, so the whole
table is read only at the first delivery and after another process has written to it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from tidemark.alerting.incidents.incident import Incident, Transition
from tidemark.host.state import State
from tidemark.lake.catalog import Lake
from tidemark.lake.schema import not_before, one_of
from tidemark.lake.tables.alerting import NOTIFICATIONS
from tidemark.lake.typed_rows import dict_rows, plain_rows, typed_rows
from tidemark.model.incidents import NotificationStatus, TransitionKind, TransitionName

Key = tuple[str, str]
"""(incident id, name of the transition)."""

ChannelIncident = tuple[str, str]
"""(channel, incident id)."""

Marks = Mapping[str, datetime]
"""Channel to ``alerting.incidents.written_at``; earlier incidents have been considered."""

_MARKS = "delivery.json"


class _Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of ``alerting.notifications`` that code and table have alike."""

    incident_id: str
    transition: TransitionName
    channel: str
    transition_at: datetime
    status: NotificationStatus = NotificationStatus.PENDING
    attempts: int = 0
    delivered_at: datetime | None = None
    next_attempt_at: datetime | None = None
    first_delivered_at: datetime | None = None
    repeats: int = 0


class _Row(_Columns, frozen=True, kw_only=True):
    last_error: str | None = None


class Entry(_Columns, frozen=True, kw_only=True):
    """A transition of an incident on a channel: a row of ``alerting.notifications``.

    The table has one text for the last three attributes, ``last_error``. It is read as the one that
    the state of the entry allows: `withheld`, or `failure` after an attempt, or else `muted`.

    Attributes:
        failure: why the last attempt failed.
        muted: why it waits although the channel works.
        withheld: why it is never sent.
    """

    failure: str | None = None
    muted: str | None = None
    withheld: str | None = None

    @classmethod
    def new(cls, incident: Incident, transition: Transition, channel: str) -> "Entry":
        """Return the entry of a transition that a channel has not attempted yet."""
        return cls(
            incident_id=incident.incident_id,
            transition=transition.transition,
            channel=channel,
            transition_at=transition.at,
        )

    @property
    def key(self) -> Key:
        """Its key among the entries of its channel."""
        return self.incident_id, self.transition

    @property
    def is_delivered(self) -> bool:
        """Whether the channel accepted it."""
        return self.status == NotificationStatus.DELIVERED

    @property
    def first_at(self) -> datetime | None:
        """When the channel first accepted it; rows of older programs have only the last time."""
        return self.first_delivered_at or self.delivered_at

    def row(self) -> _Row:
        """Return it as the table has it."""
        text = self.withheld or self.muted or self.failure
        return _Row(**_common(self), last_error=text)


def _common(columns: _Columns) -> dict[str, Any]:
    return {name: getattr(columns, name) for name in _Columns.__struct_fields__}


def _entry(row: _Row) -> Entry:
    if row.status == NotificationStatus.WITHHELD:
        return Entry(**_common(row), withheld=row.last_error)
    if row.attempts:
        return Entry(**_common(row), failure=row.last_error)
    return Entry(**_common(row), muted=row.last_error)


def notifications_of(lake: Lake, incident: Incident) -> list[dict[str, Any]]:
    """Return the rows of ``alerting.notifications`` about one incident, in order of time."""
    rows = lake.read(NOTIFICATIONS, one_of("incident_id", [incident.incident_id]))
    return _in_order(dict_rows(rows))


class OpenNotifications:
    """Channels that were notified of a firing incident and not yet of its resolution.

    A resolution can be computed long after it happened, from a backlog, and is still delivered
    where the firing was. The owner keeps this object for as long as it delivers. Only the holder
    of the lease of deliveries uses it.
    """

    def __init__(self) -> None:
        self._home: Path | None = None
        self._version: int | None = None
        self._pairs: frozenset[ChannelIncident] = frozenset()

    def pairs(self, lake: Lake) -> frozenset[ChannelIncident]:
        """Return the channel and id of each incident whose last delivered notification is firing.

        Reads the table only where its version is not the remembered one.
        """
        version = lake.version(NOTIFICATIONS)
        if self._home != lake.home.path or self._version != version:
            self._remember(lake, version, _read_open(lake))
        return self._pairs

    def record(self, lake: Lake, entries: Iterable[Entry]) -> None:
        """Remember entries that were just written, so that they need not be read again.

        Args:
            lake: the tables, after the entries were written.
            entries: all entries of the incidents and channels that changed.
        """
        newest: dict[ChannelIncident, Entry] = {}
        for entry in sorted(entries, key=lambda entry: entry.transition_at):
            if entry.transition.kind != TransitionKind.ACKNOWLEDGED:
                newest[entry.channel, entry.incident_id] = entry
        opened = {key for key, one in newest.items() if _is_open(one.transition, one.status)}
        version = lake.version(NOTIFICATIONS)
        self._remember(lake, version, (self._pairs - newest.keys()) | opened)

    def _remember(self, lake: Lake, version: int | None, pairs: frozenset[ChannelIncident]) -> None:
        self._home, self._version, self._pairs = lake.home.path, version, pairs


def _read_open(lake: Lake) -> frozenset[ChannelIncident]:
    columns = ("channel", "incident_id", "transition", "transition_at", "status")
    rows = lake.read(NOTIFICATIONS, columns=columns).sort_by("transition_at")
    kinds = [TransitionName(name).kind for name in rows["transition"].to_pylist()]
    rows = rows.filter(
        pa.array([kind != TransitionKind.ACKNOWLEDGED for kind in kinds], pa.bool_())
    )
    newest = rows.group_by(["channel", "incident_id"], use_threads=False).aggregate(
        [("transition", "last"), ("status", "last")]
    )
    return frozenset(
        (row["channel"], row["incident_id"])
        for row in newest.to_pylist()
        if _is_open(TransitionName(row["transition_last"]), row["status_last"])
    )


def _is_open(transition: TransitionName, status: str) -> bool:
    return status == NotificationStatus.DELIVERED and transition.kind == TransitionKind.FIRING


class NotificationLog:
    """The entries of some incidents on all channels, as one delivery reads and writes them.

    It remembers the entries that it writes, so a message states earlier notifications without a
    query.

    Attributes:
        at_start: by channel, its entries before the delivery.
    """

    def __init__(
        self, lake: Lake, incidents: Sequence[Incident], open_notifications: OpenNotifications
    ) -> None:
        """Read the entries.

        Args:
            lake: the tables.
            incidents: at least one, all with a transition.
            open_notifications: receives the written entries.
        """
        self._lake = lake
        self._open_notifications = open_notifications
        self._of: dict[str, dict[tuple[str, str], Entry]] = {}
        self.at_start: dict[str, dict[Key, Entry]] = {}
        since = not_before("transition_at", min(one.transitions[0].at for one in incidents))
        entries = [_entry(row) for row in typed_rows(lake.read(NOTIFICATIONS, since), _Row)]
        for entry in entries:
            self.at_start.setdefault(entry.channel, {})[entry.key] = entry
        self._remember(entries)

    def of(self, incident: Incident) -> list[dict[str, Any]]:
        """Return the same rows as `notifications_of`."""
        entries = self._of.get(incident.incident_id, {}).values()
        return _in_order(plain_rows(entry.row() for entry in entries))

    def write(self, changed: Sequence[Entry]) -> None:
        """Write the changed entries of a channel."""
        if not changed:
            return
        self._lake.upsert(NOTIFICATIONS, plain_rows(entry.row() for entry in changed))
        self._remember(changed)
        channels = {entry.channel for entry in changed}
        current = (
            entry
            for incident_id in {entry.incident_id for entry in changed}
            for entry in self._of[incident_id].values()
            if entry.channel in channels
        )
        self._open_notifications.record(self._lake, current)

    def _remember(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            known = self._of.setdefault(entry.incident_id, {})
            known[entry.channel, entry.transition] = entry


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = ("transition_at", "channel", "transition")
    return sorted(rows, key=lambda row: tuple(row[name] for name in names))


def read_marks(state: State, now: datetime) -> dict[str, datetime]:
    """Return how far each channel has been notified, by the newest incident considered for it.

    A process that delivers again after days reads incidents from there, so it misses none that
    opened and resolved meanwhile. Without marks, or where they are damaged, every channel is new,
    which repeats nothing.

    Args:
        state: the shared state of all processes.
        now: the present. A later mark is left out, because the clock was set back, and incidents
            written since would count as considered.
    """
    try:
        stored = json.loads(state.read(_MARKS) or "{}")
        marks = {name: datetime.fromisoformat(mark) for name, mark in stored["channels"].items()}
        return {name: mark for name, mark in marks.items() if mark <= now}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_marks(state: State, marks: Marks) -> None:
    """Replace the marks; the caller holds the lease of deliveries."""
    channels = {name: mark.isoformat() for name, mark in sorted(marks.items())}
    state.write(_MARKS, json.dumps({"channels": channels}, indent=1))
