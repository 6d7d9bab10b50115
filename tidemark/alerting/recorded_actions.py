"""Actions of people that leave nothing else, in the shared state.

Most decisions are recorded where they are kept: silences, annotations, incidents, quarantined rows.
A request for stacks and messages leaves nothing, nor does the resolution of an incident that never
fired, which is therefore removed. `tidemark.alerting.audit_trail` lists all of them.
"""

import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from tidemark.host.failures import DamagedError, one_line
from tidemark.host.leases import ACTIONS, LeaseError
from tidemark.host.shared import Shared
from tidemark.host.state import State, decoded
from tidemark.model.incidents import ActionKind

_log = logging.getLogger(__name__)

KEPT = timedelta(days=90)
"""Time for which the actions that this module records are kept, that of annotations."""

MOST_KEPT = 2000
"""Actions that are kept: the newest, as all are in one small text."""

SAME_REQUEST = timedelta(minutes=10)
"""A person who requests the same stacks again within this time is recorded once: a page that is
loaded again, or a program that polls, must not take the place of other actions."""

LEASE_SECONDS = 10.0
"""Longest wait for the record of another action, which takes milliseconds."""

_NAME = "actions.json"


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
    return decoded(state, _NAME, list[Action], UnreadableActionsError)


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
        shared.state.write(_NAME, text)


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
