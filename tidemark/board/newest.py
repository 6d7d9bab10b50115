"""The newest rows of tables by cluster, as they are read into memory, and their age.

Tables are read in three ways: the rows of each cluster's newest computed snapshot; the newest rows
of each group, for tables that only deep snapshots fill; and all rows of the last hours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Operation, Snapshot

from tidemark.alerting.incidents.incident import OPEN
from tidemark.alerting.incidents.repository import row_as_of
from tidemark.lake import clocks
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import MICROSECOND, Window
from tidemark.lake.schema import (
    Table,
    all_of,
    any_of,
    earlier_than,
    equal_to,
    not_before,
    one_of,
    window_filter,
)
from tidemark.lake.tables import alerting, progress, quality, raw
from tidemark.model.snapshots import WITHOUT_QUEUES, SnapshotSource

STALE_AFTER = timedelta(minutes=5)
"""Age from which rows are stale: a cluster is collected every minute."""


def age_seconds(observed_at: datetime | None, now: datetime) -> float | None:
    """Return the age of a snapshot in seconds, None without one."""
    return None if observed_at is None else max(0.0, (now - observed_at).total_seconds())


def is_fresh(observed_at: datetime | None, now: datetime) -> bool:
    """Return whether a snapshot is new enough to speak of now; one of a clock ahead is not."""
    if observed_at is None or observed_at > clocks.latest(now):
        return False
    return now - observed_at <= STALE_AFTER


OF_SNAPSHOT = (
    progress.GROUPS,
    progress.QUEUES,
    progress.TOPICS,
    raw.BROKERS,
    raw.TOPICS,
    raw.CLIENTS,
    raw.CONSUMER_GROUPS,
    raw.QUEUE_OFFSETS,
)
"""Tables of which the rows of the newest computed snapshot of each cluster are kept."""

OF_GROUP = (
    progress.ASSIGNMENTS,
    progress.CAPACITY,
    progress.IDLE_CLIENTS,
    progress.SUBSCRIPTIONS,
    raw.CLIENT_TOPICS,
)
"""Tables that not every snapshot has rows for: the newest rows of each group are kept."""

RECENT = (
    *(progress.EVENTS, progress.THROUGHPUT, progress.OBJECTIVES),
    *(quality.RESULTS, quality.QUARANTINE),
)
"""Tables of which the rows of the last `REACH` are kept."""

REWRITTEN = (progress.OBJECTIVES,)
"""Tables of which a tick replaces the rows of the shown snapshot before it ends. Rows are kept
until there is a newer snapshot to show; a board that has none reads an earlier version."""

BEGINNINGS = (Operation.DELETE, Operation.OVERWRITE)
"""Operations of the first of the two versions that replace rows."""

EARLIER_VERSIONS = 5
"""Most versions of such a table that are read to find the rows of the shown snapshot. A tick makes
one, and one more for each time that it is repeated."""

REACH = {
    progress.EVENTS.name: timedelta(hours=24),
    progress.THROUGHPUT.name: timedelta(minutes=30),
    progress.OBJECTIVES.name: timedelta(hours=2),
    quality.RESULTS.name: timedelta(hours=2),
    quality.QUARANTINE.name: timedelta(hours=24),
}
"""Time before the newest snapshot whose rows of recent tables are kept."""

AFTERWARDS = timedelta(minutes=10)
"""Longest time after a snapshot for rows about it: a run evaluates when it computes."""

GROUP_REACH = timedelta(hours=1)
"""Largest age of the newest rows of a group; members get requests every few minutes."""

CLUSTER_REACH = timedelta(days=7)
"""Time before the newest snapshot in which a cluster must have a computed one to be shown."""

RESOLVED_REACH = timedelta(days=30)
"""Time for which an incident stays in memory after its resolution."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Newest:
    """The newest rows of every table that the board shows.

    Attributes:
        at: cluster -> instant of its newest computed snapshot that observed groups.
        rows: table name -> rows; every kept table is there, also without rows.
        versions: table name -> version of the table that the rows were read from.
        ahead: rows of ``raw.snapshots`` that lay later than counts (`tidemark.lake.clocks`).
        changes: how often rows had been read, these included.
    """

    at: Mapping[str, datetime] = field(default_factory=dict)
    rows: Mapping[str, pa.Table] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    ahead: Sequence[Mapping[str, Any]] = ()
    changes: int = 0

    def of(self, table: Table, cluster: str | None = None) -> pa.Table:
        """Return the kept rows of a table, of one cluster or of all."""
        rows = self.rows.get(table.name)
        return of_cluster(
            table.arrow_schema().empty_table() if rows is None else rows, table, cluster
        )

    @property
    def observed_at(self) -> datetime | None:
        """The instant of the newest snapshot of all clusters."""
        return max(self.at.values(), default=None)


def of_cluster(rows: pa.Table, table: Table, cluster: str | None) -> pa.Table:
    """Return the rows of one cluster; all of them without one, or of a table without clusters."""
    if cluster is None or "cluster" not in table.column_names:
        return rows
    return rows.filter(pc.equal(rows["cluster"], cluster))


def read_newest(lake: Lake, known: Newest, versions: Mapping[str, str], now: datetime) -> Newest:
    """Return the newest rows; tables that have not changed since `known` are not read again.

    Args:
        lake: the tables.
        known: the rows that were read before.
        versions: table name -> present version.
        now: the present instant.

    Raises:
        DamagedError: a file of a table is missing or damaged.
    """
    changed = {name for name, version in versions.items() if known.versions.get(name) != version}
    is_new = progress.SNAPSHOTS.name in changed
    before = known.at, known.of(raw.SNAPSHOTS)
    at, snapshots = clusters_at(lake, clocks.latest(now)) if is_new else before
    rows = {raw.SNAPSHOTS.name: snapshots}
    for table in (*OF_SNAPSHOT, *OF_GROUP, *RECENT, alerting.INCIDENTS):
        is_known = table.name not in changed or table in REWRITTEN
        if at == known.at and is_known and table.name in known.rows:
            rows[table.name] = known.rows[table.name]
        else:
            rows[table.name] = read_rows(lake, table, at, now)
    incidents = rows[alerting.INCIDENTS.name]
    rows[alerting.INCIDENTS.name] = _incidents_until(incidents, at, known.of(alerting.INCIDENTS))
    is_loaded = raw.SNAPSHOTS.name in changed
    return Newest(
        at=at,
        rows=rows,
        versions=dict(versions),
        ahead=_ahead(lake, now) if is_loaded else known.ahead,
        changes=known.changes + 1,
    )


def until(rows: pa.Table, at: Mapping[str, datetime]) -> pa.Table:
    """Return rows without those of later snapshots than the shown one of their cluster.

    A tick writes a table after the other, and the row of ``progress.snapshots`` last. Everything
    that reads a table beyond the newest snapshots passes here, so a page shows one snapshot of a
    cluster also while a tick writes.

    Args:
        rows: with ``cluster`` or ``snapshot_id``, and ``observed_at``.
        at: cluster -> instant of its shown snapshot; rows of other clusters stay.
    """
    if not rows.num_rows or not at:
        return rows
    clusters = (
        rows["cluster"]
        if "cluster" in rows.column_names
        else pc.replace_substring_regex(rows["snapshot_id"], "^[^-]*Z-", "")
    )
    is_later = pa.array([False] * rows.num_rows, pa.bool_())
    for cluster, instant in at.items():
        of_cluster = pc.equal(clusters, cluster)
        after = pc.greater(rows["observed_at"], pa.scalar(instant))
        is_later = pc.or_(is_later, pc.and_(of_cluster, after))
    return rows.filter(pc.invert(pc.fill_null(is_later, False)))


def _incidents_until(rows: pa.Table, at: Mapping[str, datetime], known: pa.Table) -> pa.Table:
    """Return incidents without changes by snapshots that are not shown yet.

    A resolution by a person, or by the removal of a cluster, is shown at once.
    """
    later = [row for row in rows.to_pylist() if _is_of_later_snapshot(row, at)]
    if not later:
        return rows
    before = {row["incident_id"]: row for row in known.to_pylist()}
    shown = [
        row_as_of(before.get(row["incident_id"], row), at[row["cluster"]])
        for row in later
        if row["opened_at"] <= at[row["cluster"]]
    ]
    ids = pa.array([row["incident_id"] for row in later])
    others = rows.filter(pc.invert(pc.is_in(rows["incident_id"], value_set=ids)))
    return pa.concat_tables([others, pa.Table.from_pylist(shown, schema=rows.schema)])


def _is_of_later_snapshot(row: Mapping[str, Any], at: Mapping[str, datetime]) -> bool:
    instant = at.get(row["cluster"])
    if instant is None or row["observed_at"] is None or row["observed_at"] <= instant:
        return False
    is_closed = row["resolved_by"] or "closed" in msgspec.json.decode(row["evidence"] or "{}")
    return not is_closed


def _ahead(lake: Lake, now: datetime) -> list[dict[str, Any]]:
    columns = ("snapshot_id", "observed_at", "cluster")
    later = not_before("observed_at", clocks.latest(now))
    return lake.read(raw.SNAPSHOTS, later, columns).to_pylist()


def clusters_at(lake: Lake, instant: datetime) -> tuple[dict[str, datetime], pa.Table]:
    """Return the newest computed snapshot of each cluster: its instant, and its row.

    Raw rows are removed long before the rows computed from them. The row of such a snapshot has
    NULL in all columns but its id, instant and cluster.

    Args:
        lake: the tables.
        instant: as of then; never of later than counts now, whatever clock wrote it.
    """
    computed = _computed_until(lake, min(instant, clocks.latest()))
    if not computed.num_rows:
        return {}, raw.SNAPSHOTS.arrow_schema().empty_table()
    schema = raw.SNAPSHOTS.arrow_schema()
    reach = Window.through(*pc.min_max(computed["observed_at"]).as_py().values())
    loaded = lake.read(raw.SNAPSHOTS, reach).select(schema.names).cast(schema)
    ids = computed["snapshot_id"].combine_chunks()
    is_shown = pc.and_(
        pc.is_in(loaded["snapshot_id"], value_set=ids),
        pc.invert(pc.is_in(loaded["source"], value_set=pa.array(WITHOUT_QUEUES))),
    )
    known = loaded.filter(is_shown)
    # As for alert rules (`tidemark.planning.history.whole_clusters`): a file of one broker is shown
    # only where no collector observes its cluster as a whole.
    is_whole = pc.is_in(known["source"], value_set=pa.array([None, SnapshotSource.REMOTE]))
    removed = _without_raw_rows(computed, loaded["snapshot_id"])
    candidates = pa.concat_tables(
        [
            known.append_column("is_whole", is_whole),
            removed.append_column("is_whole", pa.array([False] * removed.num_rows, pa.bool_())),
        ]
    )
    order = [("is_whole", "descending"), ("observed_at", "descending")]
    candidates = candidates.sort_by(order).drop_columns("is_whole")
    first: dict[str, int] = {}
    for place, cluster in enumerate(candidates["cluster"].to_pylist()):
        first.setdefault(cluster, place)
    rows = candidates.take(pa.array(list(first.values()), type=pa.int64()))
    pairs = zip(rows["cluster"].to_pylist(), rows["observed_at"].to_pylist(), strict=True)
    return dict(sorted(pairs)), rows


def _computed_until(lake: Lake, instant: datetime) -> pa.Table:
    """Return the computed snapshots of `CLUSTER_REACH` before the newest one as of an instant."""
    columns = ("snapshot_id", "observed_at", "cluster")
    for hour in sorted(lake.rows_by_hour(progress.SNAPSHOTS), reverse=True):
        if not clocks.EARLIEST <= hour <= instant:
            continue
        reach = not_before("observed_at", hour - CLUSTER_REACH)
        reach = all_of(reach, earlier_than("observed_at", instant + MICROSECOND))
        computed = lake.read(progress.SNAPSHOTS, reach, columns=columns)
        # In the hour of the instant all may be later, and those before it further back.
        if computed.num_rows:
            return computed
    return progress.SNAPSHOTS.arrow_schema().empty_table()


def _without_raw_rows(computed: pa.Table, loaded: pa.ChunkedArray) -> pa.Table:
    """Return rows of ``raw.snapshots`` for computed snapshots whose own have been removed.

    Where they were read is unknown then. Logs of counters name their broker in the id.
    """
    is_loaded = pc.is_in(computed["snapshot_id"], value_set=loaded.combine_chunks())
    rows = computed.filter(pc.invert(is_loaded)).to_pylist()
    of_clusters = [row for row in rows if row["snapshot_id"].endswith(f"Z-{row['cluster']}")]
    return raw.SNAPSHOTS.arrow_table(of_clusters)


def read_rows(lake: Lake, table: Table, at: Mapping[str, datetime], now: datetime) -> pa.Table:
    """Return the rows of a table that belong to the newest snapshots of clusters.

    Args:
        lake: the tables.
        table: one of those above, or ``alerting.incidents``.
        at: cluster -> instant of its newest snapshot.
        now: the present instant.
    """
    if table is alerting.INCIDENTS:
        kept = any_of(one_of("state", OPEN), not_before("resolved_at", now - RESOLVED_REACH))
        return lake.read(table, kept)
    if not at:
        return table.arrow_schema().empty_table()
    if table in RECENT:
        newest = max(at.values())
        since = newest - REACH[table.name]
        if table is quality.RESULTS:
            rows = lake.read(table, Window.through(since, newest + AFTERWARDS))
            is_later = pc.greater(rows["window_start"], pa.scalar(newest))
            return rows.filter(pc.invert(pc.fill_null(is_later, False)))
        if table in REWRITTEN:
            return _before_rewriting(lake, table, not_before(table.instant, since), at)
        return until(lake.read(table, Window.through(since, newest)), at)
    if table in OF_GROUP:
        return newest_of_groups(lake.read(table, _windows(table, at, GROUP_REACH)))
    return lake.read(table, _windows(table, at, timedelta(0)))


def _before_rewriting(
    lake: Lake, table: Table, recent: BooleanExpression, at: Mapping[str, datetime]
) -> pa.Table:
    """Return recent rows of a table as they were for the shown snapshots.

    They are those of its newest version that has no later row. Where there is none a few versions
    back, they are the rows of the present version that are not later.
    """
    rows = lake.read(table, recent)
    present = until(rows, at)
    if present.num_rows == rows.num_rows:
        return present
    versions = lake.table(table.name)
    version = versions.current_snapshot()
    for _ in range(EARLIER_VERSIONS):
        version = _whole_before(versions, version)
        if version is None:
            break
        with lake.scanned(table, recent, snapshot_id=version.snapshot_id) as scan:
            rows = scan.to_arrow()
        shown = until(rows, at)
        if shown.num_rows == rows.num_rows:
            return shown
    return present


def _whole_before(versions: IcebergTable, version: Snapshot | None) -> Snapshot | None:
    """Return the version before, passing over those that only begin a replacement.

    A replacement of rows is two versions of one commit: without the rows, and with the new ones.
    """
    while version and version.parent_snapshot_id:
        version = versions.snapshot_by_id(version.parent_snapshot_id)
        if version and version.summary and version.summary.operation not in BEGINNINGS:
            return version
    return None


def _windows(table: Table, at: Mapping[str, datetime], reach: timedelta) -> BooleanExpression:
    """Return the condition that a row lies in a cluster's newest snapshot, or shortly before it."""
    by_instant: dict[datetime, list[str]] = {}
    for cluster, instant in at.items():
        by_instant.setdefault(instant, []).append(cluster)
    return any_of(
        *(
            all_of(_of_clusters(clusters), window_filter(table, window))
            for instant, clusters in by_instant.items()
            for window in [Window.through(instant - reach, instant)]
        )
    )


def _of_clusters(clusters: Iterable[str]) -> BooleanExpression:
    names = list(clusters)
    if len(names) == 1:
        return equal_to("cluster", names[0])
    return one_of("cluster", names)


def newest_of_groups(rows: pa.Table) -> pa.Table:
    """Return the rows of each group's newest instant among those given."""
    names = ["cluster", "consumer_group"]
    newest = rows.group_by(names).aggregate([("observed_at", "max")])
    joined = rows.select([*names, "observed_at"]).append_column(
        "place", pa.array(range(rows.num_rows), type=pa.int64())
    )
    kept = joined.join(newest, keys=[*names, "observed_at"], right_keys=[*names, "observed_at_max"],
                       join_type="inner")  # fmt: skip
    return rows.take(kept["place"].sort())
