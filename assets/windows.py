"""Reading the windows of tables as Spark frames, by the plan of a run."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from expectations.copies import tables_with_unique_keys
from expectations.quarantine import split
from lake.catalog import Lake
from lake.history import LoadedSnapshot, window_of
from lake.run_plan import RunPlan
from lake.schema import Table
from lake.tables import progress, raw
from lake.window import Window
from spark.columns import inside, is_before, stored_in
from spark.progress.filtering import Evidence
from spark.progress.queues import RawFrames
from spark.session.sizes import MANY_ROWS

COMPUTED_ON = (
    raw.SNAPSHOTS,
    raw.BROKERS,
    raw.QUEUE_OFFSETS,
    raw.CONSUMER_OFFSETS,
    raw.TOPICS,
    raw.CLIENTS,
    raw.CONSUMER_GROUPS,
)
"""The raw tables that queues and groups are computed from."""


def read_window(session: SparkSession, table: Table, window: Window) -> DataFrame:
    """Read the rows of a table in a window."""
    return read_windows(session, table, [window])


def read_windows(session: SparkSession, table: Table, windows: Sequence[Window]) -> DataFrame:
    """Read the rows of a table in any of at least one window."""
    return session.table(table.name).where(
        reduce(or_, (stored_in(window, table.instant) for window in windows))
    )


def read_hours(session: SparkSession, table: Table, window: Window) -> DataFrame:
    """Read the rows of a table in a window with code that does not name the window.

    Files are picked by whole hours, so that Spark runs the same compiled code at every tick.
    """
    of_hours = stored_in(window.whole_hours(), table.instant)
    return session.table(table.name).where(of_hours).where(inside(window, table.instant))


def read_loaded(
    session: SparkSession, table: Table, snapshots: Sequence[LoadedSnapshot]
) -> DataFrame:
    """Read the rows of a table that belong to given snapshots, which are in order of time."""
    if not snapshots:
        return session.table(table.name).where(F.lit(False))
    rows = read_hours(session, table, window_of(snapshots))
    return rows.where(F.col("snapshot_id").isin([each.snapshot_id for each in snapshots]))


def read_snapshots(
    session: SparkSession, table: Table, plan: RunPlan, earlier: Iterable[str] = ()
) -> DataFrame:
    """Read the rows of a table that belong to the plan's snapshots, or to earlier ones.

    Rows of a load that died belong to no loaded snapshot. Rows without a snapshot are read: they
    are for the quarantine.

    Args:
        session: the Spark session.
        table: the table.
        plan: the plan of the run.
        earlier: ids of snapshots before the window; those of the window among them add nothing.
    """
    before = sorted(set(earlier) - set(plan.snapshot_ids))
    snapshot_id = F.col("snapshot_id")
    of_window = snapshot_id.isNull() | snapshot_id.isin(list(plan.snapshot_ids))
    rows = read_hours(session, table, plan.reach if before else plan.window)
    if not before:
        return rows.where(of_window)
    of_before = snapshot_id.isNotNull() & snapshot_id.isin(before)
    lies_before = is_before(plan.window.start, table.instant)
    return rows.where(of_window | of_before).where(lies_before == of_before)


def read_only(
    session: SparkSession, table: Table, plan: RunPlan, snapshot_ids: Iterable[str]
) -> DataFrame:
    """Read the rows of a table that belong to given snapshots, of the window or before it."""
    wanted = sorted(snapshot_ids)
    # Without a wanted snapshot Spark plans no scan.
    found = F.col("snapshot_id").isin(wanted) if wanted else F.lit(False)
    return read_hours(session, table, plan.reach).where(found)


def read_valid(
    session: SparkSession, table: Table, plan: RunPlan, earlier: Iterable[str] = ()
) -> DataFrame:
    """Read the valid rows of one raw table, by the expectations of this table alone.

    Args:
        session: the Spark session.
        table: the table.
        plan: the plan of the run; rows of a table that is no suspect are valid.
        earlier: ids of snapshots before the window to read too.
    """
    frames = {table.name: read_snapshots(session, table, plan, earlier)}
    if table.name not in plan.suspects:
        return frames[table.name]
    return _split(frames, plan)[0][table.name]


def read_raw(
    session: SparkSession, plan: RunPlan, earlier: Iterable[str] = (), *, valid: Iterable[Table]
) -> RawFrames:
    """Read the raw rows that queues and groups are computed from.

    Args:
        session: the Spark session.
        plan: the plan of the run.
        earlier: ids of snapshots before the window to read too.
        valid: the tables of which only valid rows are wanted.
    """
    frames = {table.name: read_snapshots(session, table, plan, earlier) for table in COMPUTED_ON}
    chosen = dict(frames)
    if any(table.name in plan.suspects for table in valid):
        valid_frames, _ = _split(frames, plan)
        chosen |= {table.name: valid_frames[table.name] for table in valid}
    return RawFrames(**{table.short_name: chosen[table.name] for table in COMPUTED_ON})


def read_quarantined(session: SparkSession, plan: RunPlan) -> DataFrame | None:
    """Read the invalid raw rows of a window, as rows of ``quality.quarantine``.

    Returns:
        One row per invalid row of the suspect tables; None where these have no row at all.
    """
    searched = {table for table in raw.ALL if table.name in plan.suspects and plan.has_rows(table)}
    if not searched:
        return None
    # Rows of consumer offsets are compared with their queues, whether those are suspects or not.
    frames = {
        table.name: read_snapshots(session, table, plan)
        for table in (raw.QUEUE_OFFSETS, *raw.ALL)
        if table in searched or table is raw.QUEUE_OFFSETS
    }
    return _split(frames, plan, unique_in(plan, frames))[1]


def unique_in(plan: RunPlan, frames: Mapping[str, DataFrame]) -> frozenset[str]:
    """Return names of the tables in which no key repeats, as far as a window's size pays for it.

    Few rows are numbered faster than searched: one query less.

    Args:
        plan: the plan of the run.
        frames: rows of the window by full table name.
    """
    return tables_with_unique_keys(frames) if plan.rows > MANY_ROWS else frozenset()


def read_evidence(session: SparkSession, lake: Lake, plan: RunPlan) -> Evidence:
    """Read the rows from which filtered lag of a window is estimated."""
    validity = plan.settings.sample_validity
    reach = Window(plan.window.start - validity, plan.window.end)

    def rows(table: Table) -> DataFrame | None:
        return read_window(session, table, reach) if lake.has_rows(table, reach) else None

    tags = rows(raw.QUEUE_TAGS)
    return Evidence(tags, rows(progress.THROUGHPUT), _sampled_queues(session, lake, plan), validity)


def _sampled_queues(session: SparkSession, lake: Lake, plan: RunPlan) -> DataFrame | None:
    """Read ``progress.queues`` of the earlier snapshots whose samples still serve in the window."""
    earlier = Window(plan.window.start - plan.settings.sample_validity, plan.window.start)
    if not lake.has_rows(raw.QUEUE_TAGS, earlier):
        return None
    sampled = lake.read(raw.QUEUE_TAGS, earlier, columns=("snapshot_id",))
    ids = sampled["snapshot_id"].drop_null().unique().to_pylist()
    return read_only(session, progress.QUEUES, plan, ids) if ids else None


def _split(
    frames: Mapping[str, DataFrame], plan: RunPlan, unique: Collection[str] = ()
) -> tuple[dict[str, DataFrame], DataFrame]:
    return split(frames, plan.window.start, plan.decisions, unique)
