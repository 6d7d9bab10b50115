"""Recorded notifications of incidents: rows of ``alerting.notifications``."""

from collections.abc import Iterable, Sequence
from typing import Any

from alerting.delivery.due import Entry
from alerting.delivery.open_notifications import OpenNotifications
from alerting.incidents.incident import Incident
from lake.catalog import Lake
from lake.conditions import one_of
from lake.tables.alerting import NOTIFICATIONS
from lake.typed_rows import dict_rows, plain_rows


def notifications_of(lake: Lake, incident: Incident) -> list[dict[str, Any]]:
    """Return the rows of ``alerting.notifications`` about one incident, in order of time."""
    rows = lake.read(NOTIFICATIONS, one_of("incident_id", [incident.incident_id]))
    return _in_order(dict_rows(rows))


class Records:
    """The entries of some incidents on all channels, as one delivery reads and writes them.

    It remembers the entries that it writes, so a message states earlier notifications without a
    query.
    """

    def __init__(
        self, lake: Lake, open_notifications: OpenNotifications, entries: Iterable[Entry]
    ) -> None:
        """Keep entries.

        Args:
            lake: the tables.
            open_notifications: receives the written entries.
            entries: all earlier entries of the incidents.
        """
        self._lake = lake
        self._open_notifications = open_notifications
        self._of: dict[str, dict[tuple[str, str], Entry]] = {}
        self._remember(entries)

    def of(self, incident: Incident) -> list[dict[str, Any]]:
        """Return the same rows as `notifications_of`."""
        return _in_order(plain_rows(self._of.get(incident.incident_id, {}).values()))

    def write(self, changed: Sequence[Entry]) -> None:
        """Write the changed entries of a channel."""
        if not changed:
            return
        self._lake.upsert(NOTIFICATIONS, plain_rows(changed))
        self._remember(changed)
        channels = {each.channel for each in changed}
        current = (
            entry
            for incident_id in {each.incident_id for each in changed}
            for entry in self._of[incident_id].values()
            if entry.channel in channels
        )
        self._open_notifications.record(self._lake, current)

    def _remember(self, entries: Iterable[Entry]) -> None:
        for each in entries:
            self._of.setdefault(each.incident_id, {})[each.channel, each.transition] = each


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = ("transition_at", "channel", "transition")
    return sorted(rows, key=lambda row: tuple(row[name] for name in names))
