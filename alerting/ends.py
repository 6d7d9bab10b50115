"""Who was told that something fires and not yet that it is over, without asking for it each time.

An end may be met long after it was, when computing catches up. ``alerting.notifications`` is kept
for ever, so it is read whole only where somebody else has written to it: when a notifier starts.
"""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from lake.catalog import Lake
from lake.tables.alerting import NOTIFICATIONS

Told = tuple[str, str]
"""(channel, incident id)."""

_COLUMNS = ("channel", "incident_id", "transition", "transition_at", "status")

_KNOWN: dict[Path, tuple[int | None, frozenset[Told]]] = {}
"""By home: the state of the table, and what it says."""


class Entry(Protocol):
    """What counts here of a row of ``alerting.notifications``."""

    @property
    def incident_id(self) -> str: ...  # noqa: D102
    @property
    def transition(self) -> str: ...  # noqa: D102
    @property
    def channel(self) -> str: ...  # noqa: D102
    @property
    def transition_at(self) -> datetime: ...  # noqa: D102
    @property
    def status(self) -> str: ...  # noqa: D102


def written(lake: Lake, before: frozenset[Told], entries: Iterable[Entry]) -> frozenset[Told]:
    """What `unended` says after entries were written down.

    Args:
        lake: the tables.
        before: what `unended` said before.
        entries: all there are of the incidents and channels that changed.
    """
    newest: dict[Told, Entry] = {}
    for each in sorted(entries, key=lambda each: each.transition_at):
        newest[each.channel, each.incident_id] = each
    after = {key for key, each in newest.items() if _is_unended(each.transition, each.status)}
    told = (before - newest.keys()) | after
    _KNOWN[lake.home.path] = lake.state(NOTIFICATIONS), told
    return told


def unended(lake: Lake) -> frozenset[Told]:
    """Channel and id of each incident that a channel was last told the beginning of."""
    state = lake.state(NOTIFICATIONS)
    known = _KNOWN.get(lake.home.path)
    if known is None or known[0] != state:
        known = state, _read(lake)
        _KNOWN[lake.home.path] = known
    return known[1]


def _read(lake: Lake) -> frozenset[Told]:
    rows = lake.read(NOTIFICATIONS, columns=_COLUMNS).sort_by("transition_at")
    newest = rows.group_by(["channel", "incident_id"], use_threads=False).aggregate(
        [("transition", "last"), ("status", "last")]
    )
    return frozenset(
        (row["channel"], row["incident_id"])
        for row in newest.to_pylist()
        if _is_unended(row["transition_last"], row["status_last"])
    )


def _is_unended(transition: str, status: str) -> bool:
    return status == "DELIVERED" and transition.startswith("FIRING")
