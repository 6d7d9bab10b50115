"""The snapshots that have been loaded and computed, and the parts of a window that runs replace.

Both kinds of snapshots follow from ``raw.snapshots`` and ``progress.snapshots``, which have a row
per snapshot. Reading them takes milliseconds, so no run searches the large tables for observations
before its window.

Iceberg replaces rows by a condition only where every row of a data file matches it, or none. After
compaction a file contains the rows of many runs, so a run replaces the rows around its window too,
as data files divide them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema

from tidemark.lake import clocks
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.schema import Table
from tidemark.lake.tables import progress, raw
from tidemark.lake.typed_rows import columns_of
from tidemark.model.snapshots import SnapshotSource, SnapshotStatus
from tidemark.settings.sections import MEMORY


@dataclass(frozen=True, kw_only=True)
class LoadedSnapshot:
    """The facts about a loaded snapshot that plans of runs need.

    Attributes:
        snapshot_id: its id.
        cluster: its cluster.
        observed_at: its start.
        status: ``COMPLETE`` | ``PARTIAL`` | ``FAILED``.
        brokers_read: broker groups whose offsets it holds.
        source: where it was read; None counts as `SnapshotSource.REMOTE`. Observations of different
            sources never follow each other: files are older than reports of brokers at the same
            instant.
        brokers_expected: addresses that should have responded; None or 0 where they are unknown.
        keys_read: digest of the queues and consumers it holds; None for one loaded without it.
        staleness_ms: milliseconds that its committed offsets may be old; None for those of brokers.
    """

    snapshot_id: str
    cluster: str
    observed_at: datetime
    status: str
    brokers_read: frozenset[str]
    source: str | None = None
    brokers_expected: int | None = None
    keys_read: str | None = None
    staleness_ms: int | None = None

    @property
    def origin(self) -> tuple[str, str]:
        """Its cluster and source, which are equal for observations that follow each other."""
        return self.cluster, self.source or SnapshotSource.REMOTE

    @property
    def is_of_all_brokers(self) -> bool:
        """Whether a broker that it lacks was unreachable; files hold their own broker only."""
        return self.source in (None, SnapshotSource.REMOTE)

    @property
    def requested_every_broker(self) -> bool:
        """Whether it requested a broker that it lacks; not where the collection itself failed."""
        return self.is_of_all_brokers and (
            self.status != SnapshotStatus.FAILED or bool(self.brokers_expected)
        )

    @property
    def is_of_groups(self) -> bool:
        """Whether it observes groups; logs of counters hold no offsets."""
        return self.source != SnapshotSource.STATS_LOG


COLUMNS = tuple(field.name for field in fields(LoadedSnapshot))
"""The columns of ``raw.snapshots`` that a loaded snapshot is made of."""


def pending_window(lake: Lake, since: datetime, now: datetime | None = None) -> Window | None:
    """Return the window of the loaded snapshots that are not computed; None without any.

    A snapshot that landed late changes the previous observation of later ones of its cluster, so
    the window reaches through the newest of these. It includes observations of other clusters.
    Snapshots of a clock that is ahead are left out (`tidemark.lake.clocks`). Computed ones stay as
    they are, or each tick would compute all of them again; others wait until their time has come.

    Where much is missing, as after a long pause, the window is the first part of it (`parts`): a
    run on all of it would take hours, and a fault that ended it would end the next one too. What
    remains is pending at the next tick.

    Args:
        lake: the tables.
        since: the instant from which on a snapshot counts.
        now: the present, None = by the clock.
    """
    first = first_missing(lake, since, now)
    if first is None:
        return None
    reach = Window.through(first, clocks.latest(now))
    computed = computed_ids(lake, reach)
    newest: dict[str, datetime] = {}
    missing: dict[str, datetime] = {}
    settled: dict[str, datetime] = {}
    for snapshot in loaded_snapshots(lake, reach):
        newest[snapshot.cluster] = snapshot.observed_at
        if snapshot.snapshot_id in computed:
            settled[snapshot.cluster] = snapshot.observed_at
        else:
            missing.setdefault(snapshot.cluster, snapshot.observed_at)
    window = Window.through(first, max(newest[cluster] for cluster in missing))
    return _first_part(lake, window, missing, settled)


def first_missing(lake: Lake, since: datetime, now: datetime | None = None) -> datetime | None:
    """Return the instant of the oldest loaded snapshot that is to be computed; None without any.

    Every computed snapshot is a loaded one, so an hour with as many of both lacks none. The tables'
    metadata contain both numbers: a history of months costs as much as one of hours.

    Args:
        lake: the tables.
        since: the instant from which on a snapshot counts.
        now: the present, None = by the clock.
    """
    counting = Window.through(max(since, clocks.EARLIEST), clocks.latest(now))
    computed = lake.rows_by_hour(progress.SNAPSHOTS)
    for hour, loaded in sorted(lake.rows_by_hour(raw.SNAPSHOTS).items()):
        is_outside = hour < floor_hour(counting.start) or hour >= counting.end
        if is_outside or computed.get(hour) == loaded:
            continue
        window = Window(hour, hour + HOUR)
        known = computed_ids(lake, window)
        for snapshot in loaded_snapshots(lake, window):
            if snapshot.observed_at in counting and snapshot.snapshot_id not in known:
                return snapshot.observed_at
    return None


def raw_needed(lake: Lake, since: datetime) -> datetime | None:
    """Return since when raw rows are needed for pending snapshots; None without any.

    After a pause that was longer than raw rows are kept, ticks catch up hour after hour.

    Args:
        lake: the tables.
        since: the instant from which on ticks compute snapshots.
    """
    first = first_missing(lake, since)
    return first - MEMORY if first else None


def _first_part(
    lake: Lake, window: Window, missing: Mapping[str, datetime], settled: Mapping[str, datetime]
) -> Window:
    """Return the first part of a window that leaves nothing wrong behind it.

    Args:
        lake: the tables.
        window: the window of all missing snapshots, which begins with the oldest.
        missing: the oldest missing snapshot of each cluster.
        settled: the newest computed snapshot of each cluster. It is computed again in the run that
            computes a missing one before it: no later run would.
    """
    if window.end - window.start <= HOUR:
        return window
    for part in parts(lake, window.whole_hours()):
        begun = [cluster for cluster, first in missing.items() if first < part.end]
        if all(settled.get(cluster, window.start) < part.end for cluster in begun):
            return Window(window.start, min(part.end, window.end))
    return window


def pending_after(lake: Lake, window: Window) -> int:
    """Return how many loaded snapshots that are not computed lie after a window of a tick.

    Only a window that is a part of the pending snapshots ends with a whole hour. After any other
    window nothing is read.
    """
    if window.end != floor_hour(window.end):
        return 0
    reach = Window.through(window.end, max(window.end, clocks.latest()))
    loaded = {snapshot.snapshot_id for snapshot in loaded_snapshots(lake, reach)}
    return len(loaded - computed_ids(lake, reach))


def computed_ids(lake: Lake, window: Window) -> set[str]:
    """Return ids of the snapshots of a window that are marked as computed."""
    result = lake.read(progress.SNAPSHOTS, window, columns=("snapshot_id",))
    return set(result["snapshot_id"].to_pylist())


def measured_rows(lake: Lake, window: Window) -> int:
    """Return about how many offsets of queues and consumers a window holds."""
    return sum(lake.max_rows(table, window) for table in (raw.QUEUE_OFFSETS, raw.CONSUMER_OFFSETS))


def remembered(window: Window) -> Window:
    """Return the window and `MEMORY` before it."""
    return Window(window.start - MEMORY, window.end)


def loaded_snapshots(
    lake: Lake, window: Window, observed_in: Window | None = None
) -> list[LoadedSnapshot]:
    """Return the loaded snapshots of a window in order of time.

    Args:
        lake: the tables.
        window: the window.
        observed_in: another window; only of the clusters with a snapshot there.
    """
    rows = lake.read(raw.SNAPSHOTS, window, columns=COLUMNS)
    if observed_in is not None:
        at = pc.field("observed_at")
        there = rows.filter((at >= observed_in.start) & (at < observed_in.end))
        rows = rows.filter(pc.field("cluster").isin(there["cluster"].unique()))
    return snapshots_of(rows)


def snapshots_of(rows: pa.Table) -> list[LoadedSnapshot]:
    """Return the snapshots that rows of ``raw.snapshots`` with `COLUMNS` hold, in order of time."""
    # Not sorted as Python's values: a day of many clusters has tens of thousands.
    ordered = rows.sort_by([("observed_at", "ascending"), ("snapshot_id", "ascending")])
    rows = (
        dict(zip(COLUMNS, row, strict=True))
        for row in zip(*columns_of(ordered, COLUMNS), strict=True)
    )
    return [
        LoadedSnapshot(**{**row, "brokers_read": frozenset(row["brokers_read"])}) for row in rows
    ]


def whole_clusters(snapshots: Iterable[LoadedSnapshot]) -> list[LoadedSnapshot]:
    """Return the snapshots of whole clusters, whose observations follow each other.

    Files contain one broker, so their sums are smaller and show no growth. They count only where no
    collector observes their cluster as a whole.
    """
    result = list(snapshots)
    observed = {
        loaded_snapshot.cluster for loaded_snapshot in result if loaded_snapshot.is_of_all_brokers
    }
    return [
        loaded_snapshot
        for loaded_snapshot in result
        if loaded_snapshot.is_of_all_brokers or loaded_snapshot.cluster not in observed
    ]


def files_left_out(snapshots: Iterable[LoadedSnapshot]) -> set[str]:
    """Return the ids of the snapshots that `whole_clusters` leaves out."""
    result = list(snapshots)
    counted = {loaded_snapshot.snapshot_id for loaded_snapshot in whole_clusters(result)}
    return {loaded_snapshot.snapshot_id for loaded_snapshot in result} - counted


def window_of(snapshots: Sequence[LoadedSnapshot]) -> Window:
    """Return the smallest window with all given snapshots, which are in order of time."""
    return Window.through(snapshots[0].observed_at, snapshots[-1].observed_at)


def complete_before(
    known: Iterable[LoadedSnapshot], window: Window, longer_ago: timedelta
) -> dict[str, LoadedSnapshot]:
    """Return the last complete snapshot before each snapshot of a window, by its id.

    Args:
        known: loaded snapshots of the window and of `MEMORY` before it, in order of time.
        window: the window; snapshots of files of one broker are left out.
        longer_ago: only complete snapshots further back than this, and at most `MEMORY`.
    """
    newest: dict[str, LoadedSnapshot] = {}
    complete: dict[str, LoadedSnapshot] = {}
    for snapshot in known:
        if not snapshot.is_of_all_brokers:
            continue
        before = newest.get(snapshot.cluster)
        age = snapshot.observed_at - before.observed_at if before else timedelta(0)
        if before and snapshot.observed_at in window and longer_ago < age <= MEMORY:
            complete[snapshot.snapshot_id] = before
        if snapshot.status == SnapshotStatus.COMPLETE:
            newest[snapshot.cluster] = snapshot
    return complete


def newest_computed(lake: Lake, window: Window) -> dict[str, datetime]:
    """Return the instant of each cluster's newest computed snapshot of a window."""
    columns = ("cluster", "observed_at")
    computed = lake.read(progress.SNAPSHOTS, window, columns=columns)
    newest = computed.group_by("cluster").aggregate([("observed_at", "max")]).to_pylist()
    return {row["cluster"]: row["observed_at_max"] for row in newest}


PART_ROWS = 3_000_000
"""Offsets of queues and consumers that a part holds at most, unless a single hour holds more."""

MEASURED = (raw.QUEUE_OFFSETS, raw.CONSUMER_OFFSETS)
"""The tables whose rows are counted: all others are small compared with them."""


def parts(lake: Lake, window: Window) -> list[Window]:
    """Return consecutive windows of whole hours that make up a window of whole hours.

    Args:
        lake: the tables.
        window: the hours to compute.
    """
    rows: dict[datetime, int] = {}
    for table in MEASURED:
        for hour, count in lake.rows_by_hour(table).items():
            rows[hour] = rows.get(hour, 0) + count
    return list(_parts(window, rows))


def _parts(window: Window, rows: Mapping[datetime, int]) -> Iterator[Window]:
    start, taken = window.start, 0
    hour = window.start
    while hour < window.end:
        more = rows.get(hour, 0)
        if hour > start and taken + more > PART_ROWS:
            yield Window(start, hour)
            start, taken = hour, 0
        taken += more
        hour += HOUR
    yield Window(start, window.end)


_EPOCH = datetime.fromtimestamp(0, UTC)


def rows_outside(lake: Lake, table: Table, window: Window, around: Window) -> int:
    """Return how many rows a table has around a window and not in it."""
    if around == window:
        return 0
    around_rows, inside = (
        lake.read(table, value, columns=(table.instant,)).num_rows for value in (around, window)
    )
    return around_rows - inside


def around_files(lake: Lake, table: Table, window: Window) -> Window:
    """Return the smallest window around another that cuts through no data file of a table.

    A data file holds rows of a single hour, so the result reaches to whole hours at most.
    """
    with lake.scanned(table, window.whole_hours()) as scan:
        schema = scan.projection()
        spans = [_span(schema, table, task.file) for task in scan.plan_files()]
    around = window
    while True:
        cut = [span for span in spans if span.start < around.end and around.start < span.end]
        wider = Window(
            min([around.start, *(span.start for span in cut)]),
            max([around.end, *(span.end for span in cut)]),
        )
        if wider == around:
            return around
        around = wider


def _span(schema: Schema, table: Table, file: DataFile) -> Window:
    """Return the window from the first to the last row of a file, by its metadata."""
    instant = schema.find_field(table.instant)
    first, last = (
        _EPOCH + timedelta(microseconds=from_bytes(instant.field_type, bounds[instant.field_id]))
        for bounds in (file.lower_bounds, file.upper_bounds)
    )
    return Window.through(first, last)
