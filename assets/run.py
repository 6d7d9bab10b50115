"""A run as the bodies of assets see it: its tables, its Spark session and its plan."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial, wraps
from inspect import isgeneratorfunction
from typing import Any, TypeVar

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from assets.metadata import described, key_of, written
from assets.partitions import ON_WINDOWS, is_tick, run_window, tick_since
from assets.replacement import clear_window, write_window
from lake.catalog import Lake
from lake.retention import raw_since
from lake.run_plan import RunPlan, plan_run
from lake.schema import Table
from settings.history import HistorySettings
from spark.session.configuration import SparkResource

_T = TypeVar("_T")


class Run:
    """One run of Dagster, from its first step to its last.

    Its plan cannot be made before the run starts, because a tick learns its window only by loading.
    The plan is no asset or step either, because a person who materializes one asset in the Dagster
    UI selects no other step. So the step that loads makes the plan, or the first step that computes
    where none loads (`planned`), and every later step gets the same plan. A plan never changes;
    validation replaces it once by a plan that names the suspect tables.

    Attributes:
        lake: the tables.
        run_id: Dagster's id of the run.
    """

    def __init__(
        self,
        lake: Lake,
        spark: SparkResource,
        settings: HistorySettings,
        run_id: str,
        tags: Mapping[str, str],
        alone: Callable[[], None] = lambda: None,
    ) -> None:
        self.lake = lake
        self.run_id = run_id
        self._spark = spark
        self._settings = settings
        self._tags = tags
        self._alone = alone
        self._plan: RunPlan | None = None
        self._computed: set[str] = set()

    @property
    def plan(self) -> RunPlan:
        """The plan of the run.

        Raises:
            RuntimeError: no step has made it yet.
        """
        if self._plan is None:
            raise RuntimeError("this run has no plan yet: the step lacks the decorator `planned`")
        return self._plan

    @property
    def session(self) -> SparkSession:
        """The Spark session, configured for as many rows as the plan expects."""
        return self._spark.session_for(self.plan.rows)

    def begin(self) -> None:
        """Make sure that this run alone changes the tables, at first by waiting for others.

        Raises:
            Failure: another run took too long.
            LeaseError: leases cannot be had, or this run lost its own.
        """
        self._alone()

    @property
    def since(self) -> datetime:
        """The instant from which on ticks compute loaded snapshots."""
        return tick_since(self._settings.days)

    def make_plan(self) -> None:
        """Make the plan of the run, unless an earlier step has.

        Raises:
            Failure: the run recomputes hours whose raw rows have been removed, so it would remove
                the rows computed from them.
        """
        self.begin()
        if self._plan is not None:
            return
        window = run_window(self._tags, self.lake, self._settings.days)
        since = raw_since(self.lake.shared.state)
        if since and window.start < since and not is_tick(self._tags):
            raise dg.Failure(
                f"raw rows before {since:%Y-%m-%dT%H:%MZ} have been removed, and what was "
                "computed from them stays as it is: recompute from then on",
                allow_retries=False,
            )
        self._plan = plan_run(self.lake, window, self._settings)

    def has_computed(self, *tables: Table) -> None:
        """Remember that the window of these tables is computed."""
        self._computed.update(table.name for table in tables)

    def lacks(self, tables: Iterable[Table]) -> list[str]:
        """Return names of those tables whose window this run has not computed.

        A run by hand of some assets, or the repetition of a failed run, lacks the steps of others.
        """
        return [table.name for table in tables if table.name not in self._computed]

    def validated(self, suspects: frozenset[str]) -> None:
        """Replace the plan by one with the result of validation.

        Args:
            suspects: names of the raw tables that may contain rows that are no measurements.
        """
        self._plan = self.plan.with_suspects(suspects)


CurrentRun = dg.ResourceParam[Run]
"""The parameter by which a body receives its run."""


@dg.resource(
    required_resource_keys={"lake", "spark"}, description="The run: its tables, Spark and plan."
)
def run_resource(context: dg.InitResourceContext) -> Run:
    """Make the run of a process; Dagster makes one for each run and passes it to all its steps."""
    lake, spark = context.resources.lake, context.resources.spark
    assert context.run, "only runs have a plan"
    run_id, tags = context.run.run_id, context.run.tags
    report = context.log.info if context.log else lambda _: None
    alone = partial(lake.alone, report)
    return Run(lake.lake, spark, lake.history_settings, run_id, tags, alone)


def planned(body: Callable[..., _T]) -> Callable[..., _T]:
    """Hand a body the run with its plan, which is made here unless an earlier step has made it.

    Dagster takes several results only from a generator, so a generator stays one.
    """

    @wraps(body)
    def step(*context: Any, run: Run, **resources: Any) -> Any:
        run.make_plan()
        return body(*context, run=run, **resources)

    @wraps(body)
    def steps(*context: Any, run: Run, **resources: Any) -> Any:
        run.make_plan()
        results: Any = body(*context, run=run, **resources)
        yield from results

    return steps if isgeneratorfunction(body) else step


def window_asset(
    table: Table, *deps: Table
) -> Callable[[Callable[..., dg.MaterializeResult]], dg.AssetsDefinition]:
    """Declare the asset of a table of which each run replaces its window.

    The decorated body reads by the plan, calls one pure function and returns `replaced`. It is not
    called when the window is empty, because a tick found nothing to compute.

    Args:
        table: the table.
        deps: the tables that it is computed from.
    """

    def declared(body: Callable[..., dg.MaterializeResult]) -> dg.AssetsDefinition:
        @planned
        @wraps(body)
        def step(*context: Any, run: Run, **resources: Any) -> dg.MaterializeResult:
            if run.plan.window.empty:
                result = replaced(run, table, None)
            else:
                result = body(*context, run=run, **resources)
            run.has_computed(table)
            return result

        return dg.asset(
            **described(table),
            deps=[key_of(each) for each in deps],
            **ON_WINDOWS,
        )(step)

    return declared


def replaced(
    run: Run,
    table: Table,
    frame: DataFrame | None,
    details: Callable[[], dict[str, Any]] = dict,
) -> dg.MaterializeResult:
    """Replace the run's window of a table and describe the materialization.

    Args:
        run: the run.
        table: the table.
        frame: the rows of the window; None where there are none, which costs no Spark job.
        details: more metadata, read when the rows are written.
    """
    window = run.plan.window
    run.begin()
    if frame is None:
        rows = clear_window(table, window, run.lake)
    else:
        rows = write_window(frame, table, window, run.lake)
    metadata = written(rows, window, **details())
    return dg.MaterializeResult(asset_key=key_of(table), metadata=metadata)
