"""A run as assets see it: its tables, session, plan and validation; it replaces rows of windows."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial, wraps
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession

from assets.dagster_names import PREFIX, own_keys
from assets.metadata import code_version, described, key_of, written
from assets.partitions import ON_WINDOWS, is_tick, run_window, tick_since
from assets.reader import Reader, read_windows
from spark.session.configuration import SparkResource
from spark.tuning import inside, resolved, stored_in
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.retention import raw_since
from tidemark.lake.schema import Table
from tidemark.lake.tables import quality
from tidemark.planning.history import around_files, rows_outside
from tidemark.planning.lacking_parts import read_quarantine
from tidemark.planning.run_plan import (
    RunPlan,
    Validation,
    outcomes_of,
    plan_run,
    suspect_tables,
    tables_with_quarantined_rows,
)
from tidemark.settings.sections import HistorySettings


def clear_window(table: Table, window: Window, lake: Lake) -> int:
    """Replace a window of a table by nothing, where it has rows; return the 0 rows written."""
    if not window.empty and lake.has_rows(table, window):
        lake.replace(table, window, table.arrow_schema().empty_table())
    return 0


def write_window(frame: DataFrame, table: Table, window: Window, lake: Lake) -> int:
    """Replace a window of a table by a frame, which may be empty, in one commit.

    Rows of a failed run may be in one file with rows outside the window, because files are joined.
    Then all rows of these files are written again.

    Returns:
        Rows of the window, as Iceberg counted them.

    Raises:
        LostError: this run lost its lease.
        Exception: of Spark, where another run wrote rows of the window first.
    """
    base = lake.ready_for_spark(table)
    rows = frame.select(*table.column_names)
    around = around_files(lake, table, window)
    kept = rows_outside(lake, table, window, around)
    if kept:
        stored = read_windows(frame.sparkSession, table, around)
        outside = stored.where(~inside(window, table.instant))
        rows = rows.unionByName(outside.select(*table.column_names))
    try:
        _writer(rows, table, base).overwrite(stored_in(around, table.instant))
    except Exception:
        lake.confirm()  # a lost lease explains more than Iceberg's error
        raise
    return _added(lake, table) - kept


def _writer(rows: DataFrame, table: Table, base: int | None) -> DataFrameWriterV2:
    """Return a writer that does not shuffle rows, and that commits only onto a known version.

    By default Iceberg shuffles and sorts all rows by their hour once more. A window has few hours,
    so each task can keep a file open for each. A writer also resolves a plan again from its
    beginning, unless it finds that done.

    An engine continues the write of a run that was killed or lost its lease. Iceberg refuses its
    commit where another run has written rows of the same window since the version `base`.
    """
    writer = resolved(rows, table.instant).writeTo(table.name)
    writer = writer.option("distribution-mode", "none").option("fanout-enabled", "true")
    if base is not None:
        writer = writer.option("validate-from-snapshot-id", str(base))
    return writer.option("isolation-level", "serializable")


def _added(lake: Lake, table: Table) -> int:
    snapshot = lake.table(table.name).current_snapshot()
    summary = snapshot.summary if snapshot else None
    return int(summary["added-records"] or 0) if summary else 0


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of Dagster, from its first step to its last; no step changes anything of it.

    Plan and validation are frozen values that are made from stored state alone, once, where a step
    first needs them. So a person may materialize any asset alone, and every step of a whole run
    gets the same ones. They are no assets, because one asset alone has no step before it.

    Attributes:
        lake: the tables.
        run_id: Dagster's id of the run.
        tags: Dagster's tags of the run, which name its hours.
        settings: how far back the run reads.
        spark: opens the Spark session.
        alone: makes sure that this run alone changes the tables, at first by waiting for others;
            raises `Failure` where another run took too long, and `LeaseError` where leases cannot
            be had or this run lost its own.
        recorded: returns the tables that Dagster has recorded as materialized by the run.
    """

    lake: Lake
    run_id: str
    tags: Mapping[str, str]
    settings: HistorySettings
    spark: SparkResource
    alone: Callable[[], None]
    recorded: Callable[[], frozenset[str]]

    @property
    def since(self) -> datetime:
        """The instant from which on ticks compute loaded snapshots."""
        return tick_since(self.settings.days)

    @cached_property
    def plan(self) -> RunPlan:
        """The plan of the run. A tick learns its window only by loading, so `raw` loads before.

        Raises:
            Failure: the run recomputes hours whose raw rows have been removed, so it would remove
                the rows computed from them.
        """
        self.alone()
        window = run_window(self.tags, self.lake, self.settings.days)
        since = raw_since(self.lake.shared.state)
        if since and window.start < since and not is_tick(self.tags):
            raise dg.Failure(
                f"raw rows before {since:%Y-%m-%dT%H:%MZ} have been removed, and what was "
                "computed from them stays as it is: recompute from then on",
                allow_retries=False,
            )
        return plan_run(self.lake, window, self.settings)

    @cached_property
    def validation(self) -> Validation:
        """The outcome of validation, for all steps after the quarantine.

        A run without the quarantine has only the outcomes of its expectations, or none.
        """
        plan = self.plan
        quarantined = read_quarantine(self.lake, plan.window, plan.decisions)
        if self.lacks([quality.QUARANTINE]):
            suspects = suspect_tables(outcomes_of(self.lake, self.run_id), plan)
        else:
            suspects = tables_with_quarantined_rows(quarantined, plan)
        return Validation(suspects=suspects, hidden=quarantined.hidden)

    @property
    def session(self) -> SparkSession:
        """The Spark session, configured for as many rows as the plan expects."""
        return self.spark.session_for(self.plan.rows)

    @property
    def reader(self) -> Reader:
        """The reader of the computations, for all steps after the quarantine."""
        return self.reader_with(self.validation)

    def reader_with(self, validation: Validation) -> Reader:
        """Return a reader by the plan of the run and an outcome of validation."""
        return Reader(session=self.session, lake=self.lake, plan=self.plan, validation=validation)

    def lacks(self, tables: Iterable[Table]) -> list[str]:
        """Return names of those tables whose window this run has not computed so far.

        A run by hand of some assets, or the repetition of a failed run, lacks the steps of others.
        """
        recorded = self.recorded()
        return [table.name for table in tables if table.name not in recorded]

    def replace(
        self,
        table: Table,
        frame: DataFrame | None,
        details: Callable[[], dict[str, Any]] = dict,
        *,
        window: Window | None = None,
    ) -> dg.MaterializeResult:
        """Replace a window of a table and describe the materialization.

        Args:
            table: the table.
            frame: the rows of the window; None where there are none, which costs no Spark job.
            details: returns more metadata, and is called when the rows are written.
            window: the window, else that of the run.
        """
        window = window or self.plan.window
        self.alone()
        if frame is None:
            rows = clear_window(table, window, self.lake)
        else:
            rows = write_window(frame, table, window, self.lake)
        metadata = written(rows, window, **details())
        return dg.MaterializeResult(asset_key=key_of(table), metadata=metadata)


CurrentRun = dg.ResourceParam[Run]
"""The parameter by which a body receives its run."""


@dg.resource(
    required_resource_keys={PREFIX + "lake", PREFIX + "spark"},
    description="The run: its tables, Spark and plan.",
)
def run_resource(context: dg.InitResourceContext) -> Run:
    """Make the run of a process; Dagster makes one for each run and passes it to all its steps."""
    resources = context.resources
    lake, spark = getattr(resources, PREFIX + "lake"), getattr(resources, PREFIX + "spark")
    assert context.run and context.instance, "only runs have a plan"
    report = context.log.info if context.log else lambda _: None
    return Run(
        lake=lake.lake,
        run_id=context.run.run_id,
        tags=context.run.tags,
        settings=lake.history_settings,
        spark=spark,
        alone=partial(lake.alone, report),
        recorded=partial(recorded_tables, context.instance, context.run.run_id),
    )


def recorded_tables(instance: dg.DagsterInstance, run_id: str) -> frozenset[str]:
    """Return names of the tables that Dagster has recorded as materialized by a run."""
    events = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    keys = (event.get_dagster_event().asset_key for event in events)
    return frozenset(".".join(key.path) for key in keys if key)


def window_asset(
    table: Table, *sources: Table
) -> Callable[[Callable[..., dg.MaterializeResult]], dg.AssetsDefinition]:
    """Declare the asset of a table of which each run replaces its window.

    The decorated body reads by the run's reader, calls one pure function and replaces the window.
    It is not called when the window is empty, because a tick had nothing to compute.

    Args:
        table: the table.
        sources: the tables that it is computed from.
    """

    def declared(body: Callable[..., dg.MaterializeResult]) -> dg.AssetsDefinition:
        @wraps(body)
        def step(*context: Any, run: Run, **resources: Any) -> dg.MaterializeResult:
            if run.plan.window.empty:
                return run.replace(table, None)
            return body(*context, run=run, **resources)

        return dg.asset(
            **described(table, *sources),
            code_version=code_version(table, body),
            **ON_WINDOWS,
        )(own_keys(step))

    return declared
