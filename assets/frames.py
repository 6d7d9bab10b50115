"""How asset bodies read windows as Spark frames and write them back."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from expectations.quarantine import split
from lake.catalog import Lake, all_of, one_of, window_filter
from lake.history import Look, Observation, Plan, Silent, window_of
from lake.schema import Table
from lake.steps import Step
from lake.tables import progress, quality, raw
from lake.window import HOUR, Window
from spark.columns import inside, is_before, stored_in
from spark.filtering import SERVES, Evidence
from spark.progress import RawFrames

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
    return read_windows(session, table, [window])


def read_windows(session: SparkSession, table: Table, windows: Sequence[Window]) -> DataFrame:
    """The rows of a table in any of at least one window."""
    return session.table(table.name).where(
        reduce(or_, (stored_in(window, table.instant) for window in windows))
    )


def read_hours(session: SparkSession, table: Table, window: Window) -> DataFrame:
    """The same, asked in code that does not name the window; files are picked by whole hours."""
    rows = read_window(session, table, window.whole_hours())
    return rows.where(inside(window, table.instant))


def read_snapshots(
    session: SparkSession, table: Table, plan: Plan, more: Iterable[str] = ()
) -> DataFrame:
    """The rows of a table that belong to loaded snapshots of the plan's window, or to `more`.

    Those of `more` are from before the window. Rows of a load that died half-way belong to no
    loaded snapshot yet; what tells of no snapshot is for the quarantine.
    """
    earlier = sorted(set(more) - set(plan.snapshots))
    reach = plan.reach if earlier else plan.window
    snapshot_id = F.col("snapshot_id")
    of_window = snapshot_id.isNull() | snapshot_id.isin(list(plan.snapshots))
    rows = read_hours(session, table, reach)
    if not earlier:
        return rows.where(of_window)
    of_earlier = snapshot_id.isNotNull() & snapshot_id.isin(earlier)
    lies_before = is_before(plan.window.start, table.instant)
    return rows.where(of_window | of_earlier).where(lies_before == of_earlier)


def read_looks(session: SparkSession, table: Table, looks: Sequence[Look]) -> DataFrame:
    """The rows of a table that belong to some snapshots, which are in order of time."""
    rows = read_hours(session, table, window_of(looks))
    return rows.where(F.col("snapshot_id").isin([look.snapshot_id for look in looks]))


def read_of(
    session: SparkSession, table: Table, plan: Plan, snapshot_ids: Iterable[str]
) -> DataFrame:
    """The rows of a table that belong to these snapshots, of the plan's window or before it."""
    wanted = sorted(snapshot_ids)
    # Of nothing Spark need not plan a scan.
    found = F.col("snapshot_id").isin(wanted) if wanted else F.lit(False)
    return read_hours(session, table, plan.reach).where(found)


def verdicts_of(lake: Lake, run_id: str) -> list[dict[str, Any]]:
    """What a run that is under way has judged: which expectation, and what was found."""
    now = datetime.now(UTC)
    lately = window_filter(quality.RESULTS, Window(now - timedelta(days=1), now + HOUR))
    mine = all_of(lately, one_of("run_id", [run_id]))
    columns = ("table", "expectation", "severity", "success", "unexpected")
    return lake.read(quality.RESULTS, mine, columns=columns).to_pylist()


def doubted(lake: Lake, run_id: str, plan: Plan) -> frozenset[str]:
    """Names of the raw tables that may hold rows which cannot be measurements.

    Looking for such rows costs more than computing on the good ones, and there hardly ever are any.
    Great Expectations has just judged the window by the same rules, and what was set aside of
    earlier snapshots stands in the quarantine, unless somebody has decided on it.

    Args:
        lake: the tables.
        run_id: the run, whose verdicts are asked; without any every table is doubted.
        plan: what the run takes.
    """
    verdicts = verdicts_of(lake, run_id)
    judged = {row["table"] for row in verdicts}
    # Not by success: a rule may tolerate rows that it sets aside. NULL could not be judged.
    broken = {
        row["table"]
        for row in verdicts
        if row["severity"] == "quarantine" and row["unexpected"] != 0
    }
    unjudged = {table.name for table in raw.ALL} - judged
    before = Window(plan.reach.start, plan.window.start)
    set_aside = lake.read(quality.QUARANTINE, before, columns=("table",)).to_pylist()
    decided = {decision.table for decision in plan.decisions}
    return frozenset(broken | unjudged | decided | {row["table"] for row in set_aside})


def quarantine_frame(session: SparkSession, plan: Plan) -> DataFrame:
    """The raw rows of a window that cannot be measurements, as ``quality.quarantine``."""
    frames = {table.name: read_snapshots(session, table, plan) for table in raw.ALL}
    return _split(frames, plan)[1]


def _split(frames: Mapping[str, DataFrame], plan: Plan) -> tuple[dict[str, DataFrame], DataFrame]:
    return split(frames, observed_at=plan.window.start, decisions=plan.decisions)


def raw_frames(
    session: SparkSession,
    plan: Plan,
    more: Iterable[str] = (),
    *,
    fit: Iterable[Table],
    doubts: Collection[str],
) -> RawFrames:
    """The raw rows that a window is computed from.

    Args:
        session: the Spark session.
        plan: what the window takes.
        more: ids of snapshots before the window to read too.
        fit: the tables of which only rows that can be measurements are wanted.
        doubts: names of the tables that may hold others, see `doubted`.
    """
    frames = {table.name: read_snapshots(session, table, plan, more) for table in COMPUTED_ON}
    chosen = dict(frames)
    if any(table.name in doubts for table in fit):
        good, _ = _split(frames, plan)
        chosen |= {table.name: good[table.name] for table in fit}
    return RawFrames(**{table.short_name: chosen[table.name] for table in COMPUTED_ON})


def read_fit(
    session: SparkSession,
    table: Table,
    plan: Plan,
    more: Iterable[str] = (),
    *,
    doubts: Collection[str],
) -> DataFrame:
    """The rows of one raw table that can be measurements, by rules about this table alone."""
    frames = {table.name: read_snapshots(session, table, plan, more)}
    if table.name not in doubts:
        return frames[table.name]
    return _split(frames, plan)[0][table.name]


def filter_evidence(session: SparkSession, lake: Lake, plan: Plan) -> Evidence:
    """What filtered lag of a plan's window is estimated from."""
    reach = Window(plan.window.start - SERVES, plan.window.end)

    def rows(table: Table) -> DataFrame | None:
        return read_window(session, table, reach) if has_rows(lake, table, reach) else None

    return Evidence(rows(raw.QUEUE_TAGS), rows(progress.THROUGHPUT))


def silent_frame(session: SparkSession, silent: Iterable[Silent]) -> DataFrame:
    """The holes of a plan as rows: ``snapshot_id, broker, last_snapshot_id``."""
    rows = [(item.snapshot_id, item.broker, item.last_snapshot_id) for item in silent]
    return session.createDataFrame(
        rows, "snapshot_id string, broker string, last_snapshot_id string"
    )


def numbers_frame(session: SparkSession, observations: Iterable[Observation]) -> DataFrame:
    """The observations of a plan as rows: ``snapshot_id, number, counts_for``."""
    return session.createDataFrame(
        [(it.snapshot_id, it.number, dict(it.counts_for)) for it in observations],
        "snapshot_id string, number bigint, counts_for map<string,int>",
    )


def steps_frame(session: SparkSession, steps: Iterable[Step]) -> DataFrame:
    """Steps as rows, a column per field."""
    return session.createDataFrame(
        [tuple((vars(step) | {"lacking": list(step.lacking)}).values()) for step in steps],
        "snapshot_id string, observed_at timestamp, cluster string, broker string, "
        "previous_snapshot_id string, previous_at timestamp, lacking array<string>, down boolean",
    )


def has_rows(lake: Lake, table: Table, window: Window) -> bool:
    """Whether a window of a table has any row; told without a job."""
    return lake.read(table, window, columns=(table.instant,), limit=1).num_rows > 0


def clear_window(table: Table, window: Window, lake: Lake) -> int:
    """Replaces a window of a table by nothing, where there is something; tells 0 rows."""
    if has_rows(lake, table, window):
        lake.replace(table, window, [])
    return 0


def write_window(frame: DataFrame, table: Table, window: Window, lake: Lake) -> int:
    """Replaces a window of a table by a frame in one commit, also by nothing.

    Returns:
        Rows written, as Iceberg counted them.
    """
    lake.catalog  # noqa: B018  the tables must exist before Spark writes to them
    rows = frame.select(*table.column_names).writeTo(table.name)
    rows.overwrite(stored_in(window, table.instant))
    snapshot = lake.table(table.name).current_snapshot()
    summary = snapshot.summary if snapshot else None
    return int(summary["added-records"] or 0) if summary else 0
