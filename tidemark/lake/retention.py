"""Retention and maintenance of tables: removal, compaction, expiry of snapshots."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.compute as pc
from pyiceberg.table import Table as IcebergTable

from tidemark.host.state import State
from tidemark.lake.catalog import NAME, Lake
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.landing import Landed, days, folders
from tidemark.lake.schema import Table, earlier_than
from tidemark.lake.tables import alerting, progress, raw

FILES = 5
"""Least number of files of an hour that are compacted."""


def removal(table: Table, before: datetime) -> str:
    """Return SQL that removes the rows before an hour; whole hours are whole files."""
    return f"DELETE FROM {table.name} WHERE {table.instant} < {_instant(before)}"


def compaction(table: Table, window: Window, files: int = FILES) -> str:
    """Return SQL that joins the small files of a window, in each hour that has enough of them."""
    where = (
        f"{table.instant} >= {_instant(window.start)} AND {table.instant} < {_instant(window.end)}"
    )
    return (
        f"CALL {NAME}.system.rewrite_data_files(table => '{table.name}', "
        f"where => \"{where}\", options => map('min-input-files', '{files}'))"
    )


def expiry(table: Table, before: datetime) -> str:
    """Return SQL that expires the versions before an instant, but never the newest."""
    return (
        f"CALL {NAME}.system.expire_snapshots(table => '{table.name}', "
        f"older_than => {_instant(before)}, retain_last => 1)"
    )


def orphan_removal(table: Table, before: datetime) -> str:
    """Return SQL that removes files which no version of a table names, as a killed run leaves them.

    Args:
        table: its declaration.
        before: files that are younger stay: a commit under way may be about to name them.
    """
    # An object store is listed by prefix; Hadoop has no file system for it.
    return (
        f"CALL {NAME}.system.remove_orphan_files(table => '{table.name}', "
        f"older_than => {_instant(before)}, prefix_listing => true)"
    )


def remove_leftovers(table: IcebergTable, before: datetime) -> int:
    """Remove left-overs of removed files on a disk; return the number of files and folders.

    Spark writes a hidden checksum beside each file. PyIceberg removes old metadata without it, and
    Iceberg lists neither hidden files nor folders of hours without a file.

    Args:
        table: the table; one in a bucket has no left-overs.
        before: instant from which files stay, because a file under way may need them.
    """
    location, removed = table.location(), 0
    if not location.startswith("file:"):
        return 0
    folder = Path(f"/{location.removeprefix('file:').lstrip('/')}")

    def is_old(path: Path) -> bool:
        return path.stat().st_mtime < before.timestamp()

    for checksum in list(folder.rglob(".*.crc")):
        file = checksum.with_name(checksum.name[1:].removesuffix(".crc"))
        if not file.exists() and is_old(checksum):
            checksum.unlink()
            removed += 1
    for hour in list((folder / "data").glob("*/")):
        if is_old(hour):
            with suppress(OSError):  # not empty
                hour.rmdir()
                removed += 1
    return removed


def _instant(instant: datetime) -> str:
    return f"TIMESTAMP '{instant.isoformat()}'"


FOR_EVER = (alerting.INCIDENTS.name, alerting.NOTIFICATIONS.name, progress.EVENTS.name)
"""Tables of few rows that people read much later: nothing is removed from them."""

_RAW_SINCE = "raw_since"

_OBSERVED_SINCE = "observed_since.json"

TRUSTED = timedelta(days=1)
"""Time after the newest snapshot up to which a clock is trusted for the removal of rows."""


@dataclass(frozen=True, kw_only=True)
class Retention:
    """Days that rows are kept.

    Attributes:
        raw: those of ``raw.*``, and landed snapshots that are computed; ``TIDEMARK_RAW_DAYS``.
        progress: those of ``progress.*`` and ``quality.*``; ``TIDEMARK_PROGRESS_DAYS``.
        alerts: those of ``alerting.alerts``, a row per true alert rule, subject and observation;
            ``TIDEMARK_ALERT_DAYS``.
        needed: instant from which raw rows are kept however old they are; None = no such.
    """

    raw: int
    progress: int
    alerts: int
    needed: datetime | None = None

    def before(self, table: Table, now: datetime) -> datetime | None:
        """Return the hour before which rows of a table are removed; None where they are kept."""
        if table.name in FOR_EVER:
            return None
        days = {"raw": self.raw, "alerting": self.alerts}.get(table.namespace, self.progress)
        hour = floor_hour(now - timedelta(days=days))
        if self.needed and table.namespace == "raw":
            return min(hour, floor_hour(self.needed))
        return hour


def present(lake: Lake, now: datetime) -> datetime:
    """Return the instant from which the age of rows counts.

    It lies at most `TRUSTED` after the newest snapshot, by the clocks of its brokers where they are
    known. Where they are unknown, a single hour after a pause does not count. So a host whose clock
    is far ahead removes nothing too early, and a home whose collection has ended keeps its rows.

    Args:
        lake: the tables.
        now: the time of this host's clock.
    """
    hours = sorted(hour for hour in lake.rows_by_hour(raw.BROKERS) if hour <= now)
    if not hours:
        return now
    hour = hours[-1]
    names = ("observed_at", "clock_skew_ms")
    rows = lake.read(raw.BROKERS, Window(hour, hour + HOUR), columns=names).to_pylist()
    by_brokers = [
        row["observed_at"] + timedelta(milliseconds=row["clock_skew_ms"])
        for row in rows
        if row["clock_skew_ms"] is not None
    ]
    if by_brokers:
        return min(now, TRUSTED + max(by_brokers))
    # Files name no clock but that of their host, and one snapshot may be of a clock that was ahead.
    if len(hours) > 1 and hour - hours[-2] > TRUSTED:
        return min(now, TRUSTED + hours[-2] + HOUR)
    return min(now, TRUSTED + max(row["observed_at"] for row in rows))


def raw_since(state: State) -> datetime | None:
    """Return since when raw rows are complete; None while none were removed."""
    text = state.read(_RAW_SINCE)
    return datetime.fromisoformat(text.strip()).astimezone(UTC) if text else None


def observed_since(state: State) -> datetime | None:
    """Return the first observation of a loaded snapshot; None while none is recorded."""
    text = state.read(_OBSERVED_SINCE)
    return datetime.fromisoformat(json.loads(text)).astimezone(UTC) if text else None


def remember_observed_since(lake: Lake, first: datetime) -> None:
    """Record the first observation after a load; the caller holds the lease of runs.

    Without a record the rows of the loads before count, as those of a program that kept none.

    Args:
        lake: the tables, with what was loaded.
        first: the first observation that was loaded.
    """
    state = lake.shared.state
    known = observed_since(state)
    if known is None:
        instants = lake.read(raw.SNAPSHOTS, columns=("observed_at",))["observed_at"]
        first = min(first, pc.min(instants).as_py() or first)
    if known is None or first < known:
        state.write(_OBSERVED_SINCE, json.dumps(first.isoformat()))


def remember_raw_since(state: State, instant: datetime) -> None:
    """Record that older raw rows are removed, before they are; the caller holds the lease of runs.

    Args:
        state: where it is recorded.
        instant: raw rows are complete from then on.
    """
    known = raw_since(state)
    if known is None or known < instant:
        state.write(_RAW_SINCE, instant.isoformat())


def remove_landed(lake: Lake, before: datetime) -> int:
    """Remove the folders of computed snapshots before an instant; return how many.

    Unfinished folders of killed collectors, and days without a file, are removed too.
    """
    where = earlier_than(progress.SNAPSHOTS.instant, before)
    computed = lake.read(progress.SNAPSHOTS, where, columns=("snapshot_id",))
    known = set(computed["snapshot_id"].to_pylist())
    landing, present = lake.landing, list(folders(lake.landing))
    old = [item for item in present if item.snapshot_id in known]
    others = (item for item in present if item.snapshot_id not in known)
    unfinished = [item for item in others if item.observed_at < before and not item.is_finished]
    list(landing.each(lambda item: landing.remove(item.path), old + unfinished))
    for day in days(landing):
        if day.name < f"{before:%Y-%m-%d}":
            for hour in landing.folders(day):
                landing.remove_unfinished(day / hour)
            landing.remove_empty(day)
    return len(old)


def too_old_to_load(lake: Lake, pending: Sequence[Landed], since: datetime | None) -> set[str]:
    """Return the ids of landed snapshots that must not be loaded.

    Retention would remove the rows of a snapshot that no tick computes, and the next tick would
    load it again. A snapshot from before the oldest raw rows is loaded only where nothing of its
    cluster was computed after it: that would be computed again, without its own raw rows.

    Args:
        lake: the tables.
        pending: landed snapshots that are not loaded.
        since: the instant from which on ticks compute snapshots; None for all.
    """
    snapshot_ids = {item.snapshot_id for item in pending if since and item.observed_at < since}
    removed = raw_since(lake.shared.state)
    if removed is None or not any(item.observed_at < removed for item in pending):
        return snapshot_ids
    where = earlier_than(progress.SNAPSHOTS.instant, removed)
    computed = lake.read(progress.SNAPSHOTS, where, columns=("cluster", "observed_at"))
    newest = computed.group_by("cluster").aggregate([("observed_at", "max")]).to_pylist()
    last = {row["cluster"]: row["observed_at_max"] for row in newest}
    return snapshot_ids | {
        item.snapshot_id
        for item in pending
        if item.cluster in last and item.observed_at <= last[item.cluster]
    }
