"""Counters since the server's start, from tables whose rows are added, changed and removed."""

from collections import Counter
from datetime import datetime

import pyarrow as pa

from tidemark.model.incidents import NotificationStatus


class Totals:
    """Counters that only grow, whatever retention removes from the tables.

    The rows of the tables at the start count, so that a counter has about the same value after a
    restart of the server.
    """

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self._problems: Counter[str] = Counter()
        self._counted_until: dict[str, datetime] = {}
        self._notifications: Counter[tuple[str, str]] = Counter()
        self._in_table: Counter[tuple[str, str]] = Counter()

    def count_problems(self, snapshots: pa.Table) -> pa.Table:
        """Add the problems of snapshots that were not counted yet; return cluster and problems."""
        rows = snapshots.select(["cluster", "observed_at", "problems"]).to_pylist()
        for row in sorted(rows, key=lambda row: row["observed_at"]):
            cluster, at = row["cluster"], row["observed_at"]
            last = self._counted_until.get(cluster)
            if last is None or at > last:
                self._problems[cluster] += len(row["problems"] or ())
                self._counted_until[cluster] = at
        schema = pa.schema([("cluster", pa.string()), ("problems", pa.int64())])
        return pa.Table.from_pylist(
            [{"cluster": name, "problems": count} for name, count in self._problems.items()], schema
        )

    def count_notifications(self, notifications: pa.Table) -> pa.Table:
        """Add the attempts since the last call; return channel, outcome and notifications."""
        now: Counter[tuple[str, str]] = Counter()
        for row in notifications.select(["channel", "status", "attempts"]).to_pylist():
            channel, status = row["channel"], row["status"]
            delivered = status == NotificationStatus.DELIVERED
            now[channel, "delivered"] += delivered
            now[channel, "withheld"] += status == NotificationStatus.WITHHELD
            now[channel, "failed"] += max(0, (row["attempts"] or 0) - delivered)
        for key, count in now.items():
            self._notifications[key] += max(0, count - self._in_table[key])
        self._in_table = now
        schema = pa.schema(
            [("channel", pa.string()), ("outcome", pa.string()), ("notifications", pa.int64())]
        )
        return pa.Table.from_pylist(
            [
                {"channel": channel, "outcome": outcome, "notifications": count}
                for (channel, outcome), count in self._notifications.items()
            ],
            schema,
        )
