"""Silences: a person mutes the notifications of matching incidents for a while.

A silence that starts later is a maintenance window, planned ahead.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.rules.base import BaseRule
from tidemark.host.leases import SILENCES
from tidemark.host.shared import Shared
from tidemark.host.state import State, StateError
from tidemark.settings.fields import fits
from tidemark.settings.times import utc_instant

COLUMNS = ("rule", "severity", "cluster", "consumer_group", "topic", "broker")
"""Columns that a silence can match, by globs."""

KEPT = timedelta(days=30)
"""Time for which an ended silence is kept, with the person that ended it and the reason."""

MOST_KEPT = 500
"""Silences that have ended and are kept: the newest, as all are in one small file."""

MOST_GLOBS = 100
LONGEST_GLOB = 1000
"""Globs of a silence, and characters of each: every tick matches them with all incidents."""

LEASE_SECONDS = 10.0
"""Longest wait for another person's change, which takes milliseconds."""

_NAME = "silences.json"

Mute = Callable[[Incident, datetime], str | None]
"""Returns why an incident must not be notified now, or None when it may be."""


class SilenceError(ValueError):
    """A silence does not exist or is not valid, or silences cannot be read."""


class UnreadableSilencesError(SilenceError):
    """Silences cannot be read, whatever is wanted."""


@dataclass(frozen=True, kw_only=True)
class Silence:
    """Mutes the notifications of matching incidents until it ends.

    Attributes:
        silence_id: its id.
        match: column (`COLUMNS`) to globs; all columns must match.
        until: when it ends, UTC.
        author: the person who made it.
        comment: the reason; empty in those of versions that did not require one.
        created_at: when it was made, UTC.
        starts_at: when it starts, UTC; None = when it was made.
        ended_by: the person who ended it before its time; None = it was not ended early.
        end_reason: the reason of that person; may be empty.
    """

    silence_id: str
    match: Mapping[str, tuple[str, ...]]
    until: datetime
    author: str
    comment: str
    created_at: datetime
    starts_at: datetime | None = None
    ended_by: str | None = None
    end_reason: str = ""

    def covers(self, incident: Incident, now: datetime) -> bool:
        """Return whether it is active and matches an incident."""
        if self.state(now) != "ACTIVE":
            return False
        columns = incident.row | {"rule": incident.rule, "severity": incident.severity}
        return fits(self.match, columns)

    def state(self, now: datetime) -> str:
        """Return ``PLANNED`` | ``ACTIVE`` | ``ENDED``."""
        if now >= self.until:
            return "ENDED"
        return "PLANNED" if self.starts_at and now < self.starts_at else "ACTIVE"


def silences(state: State) -> list[Silence]:
    """Return all silences, those that ended within `KEPT` too, the first to end first.

    Raises:
        UnreadableSilencesError: they cannot be read.
    """
    try:
        content = [_silence(item) for item in json.loads(state.read(_NAME) or "[]")]
    except StateError as error:
        # Silences that only cannot be reached must not be deleted.
        raise UnreadableSilencesError(str(error)) from error
    except (OSError, ValueError, OverflowError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableSilencesError(
            f"{_NAME}: cannot be read: {error}; delete it to start over"
        ) from error
    return sorted(content, key=lambda value: (value.until, value.silence_id))


def silence(
    shared: Shared,
    match: Mapping[str, tuple[str, ...]],
    until: datetime,
    author: str,
    comment: str,
    now: datetime | None = None,
    starts_at: datetime | None = None,
) -> Silence:
    """Add a silence, and remove those that ended long ago.

    Args:
        shared: the shared state, which keeps silences.
        match: column (`COLUMNS`) to globs; all columns must match.
        until: when it ends.
        author: the person who makes it.
        comment: the reason.
        now: the present, None = by the clock.
        starts_at: when it starts, for maintenance that is planned ahead; None = now.

    Raises:
        SilenceError: it has no reason, matches every incident, would have ended already, ends
            before it starts, or has a text that cannot be shown.
    """
    now = now or datetime.now(UTC)
    globs = [glob for given in match.values() for glob in given]
    _require_unicode(author, comment, *globs)
    if not comment.strip():
        raise SilenceError("comment: why it is silenced is wanted, in words")
    if len(globs) > MOST_GLOBS or any(len(glob) > LONGEST_GLOB for glob in globs):
        raise SilenceError(
            f"a silence has at most {MOST_GLOBS} globs of at most {LONGEST_GLOB} characters"
        )
    if not match:
        raise SilenceError(f"name what to silence by at least one of {', '.join(COLUMNS)}")
    if until <= now:
        raise SilenceError(f"a silence until {until.isoformat()} has ended already")
    if starts_at and until <= starts_at:
        raise SilenceError(
            f"it would end at {until.isoformat()}, before it starts at {starts_at.isoformat()}"
        )
    if unknown := match.keys() - set(COLUMNS):
        names = ", ".join(sorted(unknown))
        raise SilenceError(f"{names}: unknown, a silence matches {', '.join(COLUMNS)}")
    made = Silence(
        silence_id=secrets.token_hex(4),
        match=match,
        until=until,
        author=author,
        comment=comment,
        created_at=now,
        starts_at=starts_at,
    )
    with shared.leases.acquire(SILENCES, LEASE_SECONDS):
        result = silences(shared.state)
        ended = [item for item in result if now - KEPT < item.until <= now]
        others = [item for item in result if item.until > now]
        _write(shared.state, [*ended[-MOST_KEPT:], *others, made])
    return made


def unsilence(
    shared: Shared, silence_id: str, author: str, reason: str = "", now: datetime | None = None
) -> Silence:
    """End a silence before its time.

    Args:
        shared: the shared state, which keeps silences.
        silence_id: its id.
        author: the person who ends it.
        reason: the reason; may be empty.
        now: the present, None = by the clock.

    Raises:
        SilenceError: no silence that has not ended has that id, or a text cannot be shown.
    """
    now = now or datetime.now(UTC)
    _require_unicode(author, reason)
    with shared.leases.acquire(SILENCES, LEASE_SECONDS):
        by_id = {item.silence_id: item for item in silences(shared.state)}
        result = by_id.get(silence_id)
        if result is None or result.state(now) == "ENDED":
            raise SilenceError(f"no silence {silence_id!r}: tidemark incidents silences lists them")
        ended = replace(result, until=now, ended_by=author, end_reason=reason)
        _write(shared.state, (by_id | {silence_id: ended}).values())
    return ended


def mute_reason(incident: Incident, mutes: Iterable[Mute], now: datetime) -> str | None:
    """Return in a few words why an incident is not notified now; None when it is."""
    return next((reason for mute in mutes if (reason := mute(incident, now))), None)


def mutes(in_force: Sequence[Silence], rules: Iterable[BaseRule]) -> tuple[Mute, ...]:
    """Return the reasons to mute an incident, in order: silences, inhibition, quiet hours."""
    quiet_hours = {rule.name: rule.quiet_hours for rule in rules if rule.quiet_hours}

    def silenced(incident: Incident, now: datetime) -> str | None:
        for one in in_force:
            if one.covers(incident, now):
                return f"silenced by {one.author} until {one.until.isoformat()}"
        return None

    def in_quiet_hours(incident: Incident, now: datetime) -> str | None:
        quiet = quiet_hours.get(incident.rule)
        return "in quiet hours" if quiet and quiet.hold(now) else None

    return silenced, inhibited, in_quiet_hours


def inhibited(incident: Incident, now: datetime) -> str | None:
    """Return the incident that inhibits another, as a reason not to notify it."""
    by = incident.suppressed_by
    return f"inhibited by incident {by}" if by else None


def _require_unicode(*texts: str) -> None:
    """Refuse halves of characters, as JSON and command lines may hold: no page could show them."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise SilenceError(f"{text!r} is no text: {error.reason}") from error


def _write(state: State, silences_left: Iterable[Silence]) -> None:
    rows = [
        asdict(item)
        | {
            "until": item.until.isoformat(),
            "created_at": item.created_at.isoformat(),
            "starts_at": item.starts_at.isoformat() if item.starts_at else None,
        }
        for item in silences_left
    ]
    state.write(_NAME, json.dumps(rows, indent=1))


def _silence(row: Mapping[str, Any]) -> Silence:
    return Silence(
        silence_id=row["silence_id"],
        match={name: tuple(globs) for name, globs in row["match"].items()},
        until=utc_instant(row["until"]),
        author=row["author"],
        comment=row["comment"],
        created_at=utc_instant(row["created_at"]),
        starts_at=utc_instant(row["starts_at"]) if row.get("starts_at") else None,
        ended_by=row.get("ended_by"),
        end_reason=row.get("end_reason", ""),
    )
