"""Channels that were notified of a firing incident and not yet of its resolution.

A resolution can be found long after it happened, when a backlog is computed. It is still delivered
where the firing was. ``alerting.notifications`` is kept for ever, so it is read as a whole only at
the first delivery and after another process has written to it.
"""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from lake.catalog import Lake
from lake.tables.alerting import NOTIFICATIONS

ChannelIncident = tuple[str, str]
"""(channel, incident id)."""

_COLUMNS = ("channel", "incident_id", "transition", "transition_at", "status")


class Entry(Protocol):
    """The columns of ``alerting.notifications`` that this module needs."""

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


class OpenNotifications:
    """The open notifications of one home, remembered from one delivery to the next.

    Its owner keeps it for as long as it delivers. Only the holder of the delivery lock uses it.
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
            self._remember(lake, version, _read(lake))
        return self._pairs

    def record(self, lake: Lake, entries: Iterable[Entry]) -> None:
        """Remember entries that were just written, so that they need not be read again.

        Args:
            lake: the tables, after the entries were written.
            entries: all entries of the incidents and channels that changed.
        """
        newest: dict[ChannelIncident, Entry] = {}
        of_states = (each for each in entries if not is_acknowledgement(each.transition))
        for each in sorted(of_states, key=lambda each: each.transition_at):
            newest[each.channel, each.incident_id] = each
        opened = {key for key, each in newest.items() if _is_open(each.transition, each.status)}
        version = lake.version(NOTIFICATIONS)
        self._remember(lake, version, (self._pairs - newest.keys()) | opened)

    def _remember(self, lake: Lake, version: int | None, pairs: frozenset[ChannelIncident]) -> None:
        self._home, self._version, self._pairs = lake.home.path, version, pairs


def _read(lake: Lake) -> frozenset[ChannelIncident]:
    rows = lake.read(NOTIFICATIONS, columns=_COLUMNS).sort_by("transition_at")
    names = [not is_acknowledgement(each) for each in rows["transition"].to_pylist()]
    rows = rows.filter(pa.array(names, pa.bool_()))
    newest = rows.group_by(["channel", "incident_id"], use_threads=False).aggregate(
        [("transition", "last"), ("status", "last")]
    )
    return frozenset(
        (row["channel"], row["incident_id"])
        for row in newest.to_pylist()
        if _is_open(row["transition_last"], row["status_last"])
    )


def is_acknowledgement(transition: str) -> bool:
    """Return whether a transition is that a person acknowledged the incident."""
    return transition.startswith("ACKNOWLEDGED")


def _is_open(transition: str, status: str) -> bool:
    return status == "DELIVERED" and transition.startswith("FIRING")
