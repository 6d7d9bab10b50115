"""Silences: what somebody does not want to be told of for a while. A small file of the home."""

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from filelock import FileLock

from alerting.fields import fits
from alerting.incidents import Incident
from alerting.rules import BaseRule
from lake.home import Home, write_whole

COLUMNS = ("rule", "cluster", "consumer_group", "topic", "broker")
"""What a silence can match, by globs."""


class SilenceError(ValueError):
    """A silence that does not exist, or a file of them that cannot be read."""


@dataclass(frozen=True)
class Silence:
    """Nobody is told of what fits until it ends.

    Attributes:
        silence_id: to end it by.
        match: column (`COLUMNS`) to globs, all columns must fit.
        until: when it ends by itself, UTC.
        author: who wants it.
        comment: why; may be empty.
        created_at: since when.
    """

    silence_id: str
    match: Mapping[str, tuple[str, ...]]
    until: datetime
    author: str
    comment: str
    created_at: datetime

    def covers(self, incident: Incident, now: datetime) -> bool:
        """Whether it is in force and about an incident."""
        return now < self.until and fits(self.match, incident.row | {"rule": incident.rule})


def silences(home: Home) -> list[Silence]:
    """All silences that have not been forgotten, the next to end first.

    Raises:
        SilenceError: their file cannot be read.
    """
    path = home.path / "silences.json"
    try:
        found = [_silence(each) for each in json.loads(path.read_text())]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SilenceError(f"{path}: cannot be read: {error}; delete it to start anew") from error
    return sorted(found, key=lambda each: (each.until, each.silence_id))


def silence(
    home: Home,
    match: Mapping[str, tuple[str, ...]],
    until: datetime,
    author: str,
    comment: str = "",
    now: datetime | None = None,
) -> Silence:
    """Adds a silence; those that have ended are forgotten.

    Raises:
        SilenceError: it matches everything, or its end is past.
    """
    now = now or datetime.now(UTC)
    if not match:
        raise SilenceError(f"say what to silence: {', '.join(COLUMNS)}")
    if until <= now:
        raise SilenceError(f"a silence until {until.isoformat()} would be over already")
    made = Silence(secrets.token_hex(4), match, until, author, comment, now)
    with _changing(home):
        _write(home, [*(each for each in silences(home) if each.until > now), made])
    return made


def unsilence(home: Home, silence_id: str) -> Silence:
    """Ends a silence.

    Raises:
        SilenceError: there is none of that id.
    """
    with _changing(home):
        found = silences(home)
        ended = [each for each in found if each.silence_id == silence_id]
        if not ended:
            raise SilenceError(f"no silence {silence_id!r}: tidemark incidents silences lists them")
        _write(home, [each for each in found if each not in ended])
    return ended[0]


def why_withheld(
    incident: Incident,
    known: Iterable[Silence],
    rules: Mapping[str, BaseRule],
    now: datetime,
) -> str | None:
    """Why nobody is told of an incident now, in a few words; None when they are."""
    for each in known:
        if each.covers(incident, now):
            return f"silenced by {each.author} until {each.until.isoformat()}"
    if incident.suppressed_by:
        return f"explained by incident {incident.suppressed_by}"
    rule = rules.get(incident.rule)
    if rule and rule.quiet_hours and rule.quiet_hours.hold(now):
        return "in quiet hours"
    return None


def withholding(
    known: Sequence[Silence], rules: Iterable[BaseRule]
) -> Callable[[Incident], str | None]:
    """`why_withheld` of any incident at the moment it is asked, by these silences and rules."""
    by_name = {rule.name: rule for rule in rules}
    return lambda incident: why_withheld(incident, known, by_name, datetime.now(UTC))


def _changing(home: Home) -> FileLock:
    home.path.mkdir(parents=True, exist_ok=True)
    return FileLock(home.path / "silences.lock", timeout=10)


def _write(home: Home, all_of_them: Iterable[Silence]) -> None:
    rows = [
        asdict(each) | {"until": each.until.isoformat(), "created_at": each.created_at.isoformat()}
        for each in all_of_them
    ]
    write_whole(home.path / "silences.json", json.dumps(rows, indent=1))


def _silence(row: Mapping[str, Any]) -> Silence:
    return Silence(
        silence_id=row["silence_id"],
        match={name: tuple(globs) for name, globs in row["match"].items()},
        until=datetime.fromisoformat(row["until"]),
        author=row["author"],
        comment=row["comment"],
        created_at=datetime.fromisoformat(row["created_at"]),
    )
