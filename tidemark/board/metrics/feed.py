"""Inputs of the metrics: the newest rows, counters, deliveries, table sizes, tick times."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import EqualTo
from pyiceberg.table.snapshots import Operation

from tidemark.board.metrics.endpoint import Facts, Metrics
from tidemark.board.newest import Newest, until
from tidemark.lake.catalog import Lake
from tidemark.lake.conditions import all_of, not_before
from tidemark.lake.tables import TABLES, alerting, progress, raw

COUNTERS_REACH = timedelta(hours=1)
"""Largest age of the deep snapshot from which the broker's own counters are taken."""

OUTCOME = ("channel", "status", "attempts")
COUNTER = ("observed_at", "cluster", "broker", "broker_id", "stats_name", "topic")
COUNTED = (*COUNTER, "consumer_group", "stats_window", "tps", "sum")


class Feed:
    """Refreshes metrics from the tables, of which only changed ones are read again."""

    def __init__(self, lake: Lake, metrics: Metrics, version: str) -> None:
        """Nothing is read yet.

        Args:
            lake: the tables.
            metrics: the metrics to refresh.
            version: the version of Tidemark.
        """
        self._lake = lake
        self._metrics = metrics
        self._version = version
        self._rows: dict[str, int] = {}
        self._read: dict[str, pa.Table] = {}
        self._seen = Newest()

    def refresh(self, newest: Newest) -> None:
        """Turn the newest rows into metrics.

        Args:
            newest: the rows in memory.

        Raises:
            DamagedError: a file of a table is missing or damaged.
        """
        changed = {
            name
            for name, version in newest.versions.items()
            if self._seen.versions.get(name) != version
        }
        for name in changed & TABLES.keys():
            self._rows[name] = _row_count(self._lake, name)
        if raw.BROKER_STATS.name in changed or newest.at != self._seen.at:
            self._read[raw.BROKER_STATS.name] = _counters(self._lake, newest.at)
        if alerting.NOTIFICATIONS.name in changed:
            self._read[alerting.NOTIFICATIONS.name] = self._lake.read(
                alerting.NOTIFICATIONS, columns=OUTCOME
            )
        facts = Facts(self._version, self._rows, _tick_seconds(self._lake, newest.observed_at))
        computed = {progress.SNAPSHOTS.name: _computed(newest.at)}
        self._metrics.refresh({**newest.rows, **self._read, **computed}, facts)
        self._seen = newest


def _computed(at: Mapping[str, datetime]) -> pa.Table:
    columns = {"cluster": list(at), "observed_at": list(at.values())}
    types = progress.SNAPSHOTS.arrow_schema()
    return pa.table({name: pa.array(v, types.field(name).type) for name, v in columns.items()})


def _counters(lake: Lake, at: Mapping[str, datetime]) -> pa.Table:
    """Return the counters of each cluster's newest deep snapshot."""
    if not at:
        return raw.BROKER_STATS.arrow_schema().empty_table()
    recent = not_before("observed_at", min(at.values()) - COUNTERS_REACH)
    where = all_of(recent, EqualTo("stats_window", "minute"))  # pyright: ignore
    rows = until(lake.read(raw.BROKER_STATS, where, COUNTED), at)
    newest = rows.group_by("cluster").aggregate([("observed_at", "max")]).to_pylist()
    kept = [
        rows.filter(
            pc.and_(  # pyright: ignore
                pc.equal(rows["cluster"], item["cluster"]),  # pyright: ignore
                pc.equal(rows["observed_at"], item["observed_at_max"]),  # pyright: ignore
            )
        )
        for item in newest
        if item["cluster"] in at and item["observed_at_max"] >= at[item["cluster"]] - COUNTERS_REACH
    ]
    return pa.concat_tables(kept) if kept else rows.slice(0, 0)


def _row_count(lake: Lake, name: str) -> int:
    snapshot = lake.table(name).current_snapshot()
    summary = snapshot.summary if snapshot else None
    return int(summary["total-records"] or 0) if summary else 0


def _tick_seconds(lake: Lake, observed_at: datetime | None) -> float | None:
    """Return how long after the start of the newest snapshot its numbers were written."""
    if observed_at is None:
        return None
    commits = (
        datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
        for snapshot in lake.table(progress.SNAPSHOTS.name).snapshots()
        if snapshot.summary is None or snapshot.summary.operation is not Operation.REPLACE
    )
    later = [commit for commit in commits if commit >= observed_at]
    return (min(later) - observed_at).total_seconds() if later else None
