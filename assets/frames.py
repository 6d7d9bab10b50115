"""How asset bodies read windows as Spark frames and write them back."""

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from expectations.quarantine import split
from lake.catalog import Lake
from lake.history import Plan, Silent, Step
from lake.schema import Table
from lake.tables import raw
from lake.window import Window
from spark.progress import RawFrames, inside

COMPUTED_ON = (
    raw.SNAPSHOTS,
    raw.BROKERS,
    raw.QUEUE_OFFSETS,
    raw.CONSUMER_OFFSETS,
    raw.TOPICS,
    raw.CLIENTS,
)


def read_window(session: SparkSession, table: Table, window: Window) -> DataFrame:
    """The rows of a table in a window."""
    return session.table(table.name).where(inside(window))


def read_snapshots(
    session: SparkSession, table: Table, plan: Plan, more: Iterable[str] = ()
) -> DataFrame:
    """The rows of a raw table that belong to loaded snapshots of the plan's window, or to `more`.

    Rows of a load that died half-way belong to no loaded snapshot yet.
    """
    in_window = read_window(session, table, plan.window).where(_of_loaded(plan))
    earlier = sorted(set(more) - set(plan.snapshots))
    if not earlier:
        return in_window
    return in_window.unionByName(read_before(session, table, plan, earlier))


def read_before(
    session: SparkSession, table: Table, plan: Plan, snapshot_ids: Iterable[str]
) -> DataFrame:
    """The rows of a table from before the plan's window that belong to these snapshots."""
    before = read_window(session, table, Window(plan.reach.start, plan.window.start))
    wanted = list(snapshot_ids)
    return before.where(F.col("snapshot_id").isin(wanted) if wanted else F.lit(False))


def _of_loaded(plan: Plan) -> Column:
    """Whether a row is of a loaded snapshot of the plan, or tells of none and is for quarantine."""
    snapshot_id = F.col("snapshot_id")
    return snapshot_id.isNull() | snapshot_id.isin(list(plan.snapshots))


def quarantine_frame(session: SparkSession, plan: Plan) -> DataFrame:
    """The raw rows of a window that cannot be measurements, as ``quality.quarantine``."""
    frames = {table.name: read_snapshots(session, table, plan) for table in raw.ALL}
    return split(frames, observed_at=plan.window.start)[1]


def raw_frames(
    session: SparkSession, plan: Plan, more: Iterable[str] = (), *, fit: Iterable[Table]
) -> RawFrames:
    """The raw rows that a window is computed from.

    Args:
        session: the Spark session.
        plan: what the window takes.
        more: ids of snapshots before the window to read too.
        fit: the tables of which only rows that can be measurements are wanted.
    """
    frames = {table.name: read_snapshots(session, table, plan, more) for table in COMPUTED_ON}
    good, _ = split(frames, observed_at=plan.window.start)
    chosen = frames | {table.name: good[table.name] for table in fit}
    return RawFrames(**{table.short_name: chosen[table.name] for table in COMPUTED_ON})


def silent_frame(session: SparkSession, silent: Iterable[Silent]) -> DataFrame:
    """The holes of a plan as rows: ``snapshot_id, broker, last_snapshot_id``."""
    rows = [(item.snapshot_id, item.broker, item.last_snapshot_id) for item in silent]
    return session.createDataFrame(
        rows, "snapshot_id string, broker string, last_snapshot_id string"
    )


def numbers_frame(session: SparkSession, observations: Mapping[str, int]) -> DataFrame:
    """The observations of a plan as rows: ``snapshot_id, number``."""
    return session.createDataFrame(list(observations.items()), "snapshot_id string, number bigint")


def steps_frame(session: SparkSession, steps: Iterable[Step]) -> DataFrame:
    """Steps as rows, a column per field."""
    return session.createDataFrame(
        [tuple(vars(step).values()) for step in steps],
        "snapshot_id string, observed_at timestamp, cluster string, broker string, "
        "previous_snapshot_id string, previous_at timestamp, sound boolean, down boolean",
    )


def write_window(frame: DataFrame, table: Table, window: Window, lake: Lake) -> int:
    """Replaces a window of a table by a frame in one commit, also by nothing.

    Returns:
        Rows written, as Iceberg counted them.
    """
    lake.catalog  # noqa: B018  the tables must exist before Spark writes to them
    at = F.col(table.instant)
    condition = (at >= F.lit(window.start)) & (at < F.lit(window.end))
    frame.select(*table.column_names).writeTo(table.name).overwrite(condition)
    snapshot = lake.table(table.name).current_snapshot()
    summary = snapshot.summary if snapshot else None
    return int(summary["added-records"] or 0) if summary else 0
