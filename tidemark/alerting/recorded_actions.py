"""Actions of people that leave nothing else, and refused accesses, in the shared state.

Most decisions are recorded where they are kept: silences, annotations, incidents, quarantined rows.
A request for stacks and messages leaves nothing, nor does the resolution of an incident that never
fired, which is therefore removed. `tidemark.alerting.audit_trail` lists all of them.

Accesses that the board refuses are counted by hour. One row of an hour counts the refusals of one
person or address on one part of the board: whoever repeats refused requests, or a hostile page that
does, changes a number and adds no row.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import msgspec

from tidemark.host.failures import DamagedError, one_line
from tidemark.host.leases import ACTIONS, REFUSALS, LeaseError
from tidemark.host.shared import Shared
from tidemark.host.state import State, decoded
from tidemark.lake.clocks import floor_hour
from tidemark.model.incidents import ActionKind

_log = logging.getLogger(__name__)

KEPT = timedelta(days=90)
"""Time for which the actions that this module records are kept, that of annotations."""

MOST_KEPT = 2000
"""Actions that are kept, and rows of refused accesses: the newest, as all are in one small text."""

SAME_REQUEST = timedelta(minutes=10)
"""A person who requests the same stacks again within this time is recorded once: a page that is
loaded again, or a program that polls, must not take the place of other actions."""

LEASE_SECONDS = 10.0
"""Longest wait for the record of another process, which takes milliseconds."""

_ACTIONS_NAME = "actions.json"


class UnreadableActionsError(DamagedError):
    """The recorded actions cannot be read; one line."""


@dataclass(frozen=True, kw_only=True)
class Action:
    """An action of a person; `tidemark.alerting.audit_trail.ACTIONS` describes its columns."""

    at: datetime
    author: str
    action: ActionKind
    target: str | None = None
    subject: str | None = None
    rows: int | None = None
    requests: int | None = None
    cluster: str | None = None
    consumer_group: str | None = None
    topic: str | None = None
    reason: str | None = None

    @property
    def action_id(self) -> str:
        """Its id, the same whenever the trail is read."""
        group = f"{self.cluster}/{self.consumer_group}/{self.topic or ''}"
        about = self.target or self.subject or group
        return f"{self.at:%Y%m%dT%H%M%S%fZ}-{self.action}-{about}"


def recorded(state: State) -> list[Action]:
    """Return the actions that `record` keeps, the newest first.

    Raises:
        UnreadableActionsError: they cannot be read.
    """
    return decoded(state, _ACTIONS_NAME, list[Action], UnreadableActionsError)


def record(shared: Shared, action: Action, most: int = MOST_KEPT) -> None:
    """Record an action that is kept nowhere else, and remove those older than `KEPT`.

    Args:
        shared: the shared state, which keeps it.
        action: the action.
        most: how many are kept.

    Raises:
        UnreadableActionsError: the others cannot be read.
        LeaseError: another process keeps changing them, or leases cannot be had.
        OSError: it cannot be written.
    """
    with shared.leases.acquire(ACTIONS, LEASE_SECONDS):
        kept = [made for made in recorded(shared.state) if made.at > action.at - KEPT]
        text = msgspec.json.encode([action, *kept[: most - 1]]).decode()
        shared.state.write(_ACTIONS_NAME, text)


def record_diagnosis(
    shared: Shared, author: str, now: datetime, *, cluster: str, consumer_group: str,
    topic: str | None,
) -> None:  # fmt: skip
    """Record that a person requested the stacks of a group, and the messages it is at.

    A failure to record it is logged: it must not keep from a person what they need now.
    """
    action = Action(
        action=ActionKind.DIAGNOSED,
        at=now,
        author=author,
        cluster=cluster,
        consumer_group=consumer_group,
        topic=topic,
    )
    try:
        for made in recorded(shared.state):
            is_recent = made.at > now - SAME_REQUEST
            if is_recent and replace(made, at=now) == action:
                return
        record(shared, action)
    except (OSError, LeaseError) as error:
        _log.warning("a request for stacks by %s is not recorded: %s", author, one_line(error))


REFUSALS_KEPT = timedelta(days=30)
"""Time for which refused accesses are kept."""

MOST_AN_HOUR = 50
"""Rows of an hour; further refusals are counted in one more row for each status."""

OTHERS = "others"
"""Stands for persons, addresses and parts of the board beyond `MOST_AN_HOUR`."""

WRITE_SECONDS = 60.0
"""Time between two writes of what was counted."""

LONGEST_NAME = 200

_REFUSALS_NAME = "refusals.json"


_Key = tuple[datetime, str, str, int]


class UnreadableRefusalsError(DamagedError):
    """The refused accesses cannot be read; one line."""


@dataclass(frozen=True, kw_only=True)
class Refusals:
    """The refusals of one person or address on one part of the board in one hour.

    Attributes:
        at: the first of them.
        author: the person; the address of a client that is no known person.
        access: method and part of the board, such as ``POST /api/v1/silences``.
        status: of the responses.
        requests: how many.
    """

    at: datetime
    author: str
    access: str
    status: int
    requests: int

    @property
    def key(self) -> _Key:
        """The refusals of one row have this key in common."""
        return floor_hour(self.at), self.author, self.access, self.status

    @property
    def of_others(self) -> "Refusals":
        """The same refusals where an hour has no room for their author."""
        return replace(self, author=OTHERS, access=OTHERS)

    @property
    def action(self) -> Action:
        """Its row of the audit trail."""
        return Action(
            action=ActionKind.REFUSED,
            at=self.at,
            author=self.author,
            subject=self.access,
            requests=self.requests,
            reason=str(self.status),
        )


def refused(state: State) -> list[Refusals]:
    """Return the refused accesses that are kept, the newest hour first.

    Raises:
        UnreadableRefusalsError: they cannot be read.
    """
    return decoded(state, _REFUSALS_NAME, list[Refusals], UnreadableRefusalsError)


def united(kept: Iterable[Refusals], counted: Iterable[Refusals], now: datetime) -> list[Refusals]:
    """Return kept and counted refusals together: one row for each hour, author, access, status.

    Args:
        kept: rows that were written before.
        counted: rows since then.
        now: the present, which decides how long rows are kept.
    """
    rows: dict[_Key, Refusals] = {}
    of_hour: dict[datetime, int] = {}
    for row in sorted((*kept, *counted), key=lambda row: row.at):
        hour = floor_hour(row.at)
        if row.key not in rows and of_hour.get(hour, 0) >= MOST_AN_HOUR:
            row = row.of_others
        if known := rows.get(row.key):
            rows[row.key] = replace(known, requests=known.requests + row.requests)
        elif row.at > now - REFUSALS_KEPT:
            rows[row.key] = row
            of_hour[hour] = of_hour.get(hour, 0) + (row.author != OTHERS)
    return sorted(rows.values(), key=lambda row: row.at, reverse=True)[:MOST_KEPT]


class RefusalCounter:
    """Counts refusals in memory and writes them once a minute, so each of them costs little."""

    def __init__(self, shared: Shared) -> None:
        """Nothing is counted yet.

        Args:
            shared: the shared state, which keeps them.
        """
        self._shared = shared
        self._counted: dict[_Key, Refusals] = {}
        self._access = threading.Lock()
        self._ended = threading.Event()

    def count(self, author: str, access: str, status: int, now: datetime) -> None:
        """Count one refusal."""
        author = author[:LONGEST_NAME]
        made = Refusals(at=now, author=author, access=access, status=status, requests=1)
        with self._access:
            if made.key not in self._counted and len(self._counted) >= MOST_AN_HOUR:
                made = made.of_others
            known = self._counted.get(made.key)
            self._counted[made.key] = replace(known, requests=known.requests + 1) if known else made

    def start(self) -> Callable[[], None]:
        """Write at intervals in a thread; return a function that writes the rest and ends it."""
        thread = threading.Thread(target=self._follow, name="board-refusals", daemon=True)
        thread.start()

        def end() -> None:
            self._ended.set()
            thread.join(timeout=LEASE_SECONDS)

        return end

    def _follow(self) -> None:
        while not self._ended.wait(WRITE_SECONDS):
            self.write()
        self.write()

    def write(self) -> None:
        """Write what was counted. A failure is logged, and the next attempt includes it."""
        with self._access:
            counted, self._counted = list(self._counted.values()), {}
        if not counted:
            return
        now = datetime.now(UTC)
        try:
            with self._shared.leases.acquire(REFUSALS, LEASE_SECONDS):
                rows = united(refused(self._shared.state), counted, now)
                self._shared.state.write(_REFUSALS_NAME, msgspec.json.encode(rows).decode())
        except (OSError, LeaseError) as error:
            _log.warning("refused accesses are not recorded: %s", one_line(error))
            with self._access:
                rows = united(counted, self._counted.values(), now)
                self._counted = {row.key: row for row in rows}
