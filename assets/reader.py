"""Reading tables as Spark frames: by the plan of a run, or a plain window."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass
from datetime import timedelta
from functools import reduce
from operator import and_, or_
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from expectations.annotations import tables_with_unique_keys
from expectations.quarantine import split
from spark.progress.filtering import Evidence
from spark.progress.queues import RawFrames
from spark.session.configuration import MANY_ROWS
from spark.tuning import as_read, inside, is_before, stored_in
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.schema import Table
from tidemark.lake.tables import progress, raw
from tidemark.model.snapshots import SnapshotSource
from tidemark.planning.hours_of_week import observed_an_hour_before
from tidemark.planning.lacking_parts import nearest_queues
from tidemark.planning.observation_steps import Step
from tidemark.planning.run_plan import NOT_VALIDATED, RunPlan, Validation

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


def read_windows(session: SparkSession, table: Table, *windows: Window) -> DataFrame:
    """Read the rows of a table in any of at least one window."""
    of_windows = reduce(or_, (stored_in(window, table.instant) for window in windows))
    return as_read(session.table(table.name).where(of_windows))


def read_hours(
    session: SparkSession, table: Table, window: Window, *conditions: Column
) -> DataFrame:
    """Read the rows of a table in a window with code that does not name the window.

    Files are picked by whole hours, so that Spark runs the same compiled code at every tick.

    Args:
        session: the Spark session.
        table: the table.
        window: the window.
        conditions: further conditions. All are one filter, because a plan of a tick reads tables
            dozens of times, and Spark visits each filter hundreds of times until it is resolved.
    """
    of_hours = stored_in(window.whole_hours(), table.instant)
    wanted = reduce(and_, (of_hours, inside(window, table.instant), *conditions))
    return as_read(session.table(table.name).where(wanted))


@dataclass(frozen=True, kw_only=True)
class Reader:
    """The inputs of a run's computations; no computation reads anything else.

    Attributes:
        session: the Spark session.
        lake: the tables, for reads of metadata and of a few values.
        plan: the plan of the run.
        validation: the outcome of validation. Rows of a table that is no suspect are valid.
    """

    session: SparkSession
    lake: Lake
    plan: RunPlan
    validation: Validation = NOT_VALIDATED

    def hours(self, table: Table, window: Window, *conditions: Column) -> DataFrame:
        """Read the rows of a table in any window; see `read_hours`."""
        return read_hours(self.session, table, window, *conditions)

    def rows(self, table: Table, earlier: Iterable[str] = ()) -> DataFrame:
        """Read the rows of a table that belong to the plan's snapshots, or to earlier ones.

        Rows of a load that died belong to no loaded snapshot. Rows without a snapshot are read:
        they are for the quarantine.

        Args:
            table: the table.
            earlier: ids of snapshots before the window; those of the window among them add nothing.
        """
        plan = self.plan
        before = sorted(set(earlier) - set(plan.snapshot_ids))
        snapshot_id = F.col("snapshot_id")
        of_window = snapshot_id.isNull() | snapshot_id.isin(list(plan.snapshot_ids))
        if not before:
            return self.hours(table, plan.window, of_window)
        of_before = snapshot_id.isNotNull() & snapshot_id.isin(before)
        lies_before = is_before(plan.window.start, table.instant)
        is_wanted = of_window | of_before
        return self.hours(table, plan.reach, is_wanted, lies_before == of_before)

    def only(self, table: Table, snapshot_ids: Iterable[str]) -> DataFrame:
        """Read the rows of a table that belong to given snapshots, of the window or before it."""
        wanted = sorted(snapshot_ids)
        # Without a wanted snapshot Spark plans no scan.
        is_wanted = F.col("snapshot_id").isin(wanted) if wanted else F.lit(False)
        return self.hours(table, self.plan.reach, is_wanted)

    def stored(self, table: Table, before: timedelta = timedelta(0)) -> DataFrame:
        """Read the rows of a table by time; of raw tables those of loaded snapshots or of none.

        Args:
            table: the table.
            before: how far before the window rows are read too.
        """
        plan = self.plan
        reach = Window(plan.window.start - before, plan.window.end)
        rows = read_windows(self.session, table, reach)
        if table.namespace != "raw" or table is raw.SNAPSHOTS:
            return rows
        loaded = [*plan.before(before), *plan.snapshot_ids]
        return rows.where(F.col("snapshot_id").isNull() | F.col("snapshot_id").isin(loaded))

    def valid(self, table: Table, earlier: Iterable[str] = ()) -> DataFrame:
        """Read the valid rows of a raw table, by the expectations of this table alone.

        Args:
            table: the table.
            earlier: ids of snapshots before the window to read too.
        """
        rows = self.rows(table, earlier)
        if table.name not in self.validation.suspects:
            return rows
        return self._split({table.name: rows})[0][table.name]

    def valid_if_any(self, table: Table) -> DataFrame | None:
        """Read the valid rows of a raw table in the window; None where it has no row there."""
        return self.valid(table) if self.plan.has_rows(table) else None

    def raw(self, earlier: Iterable[str] = (), *, valid: Iterable[Table]) -> RawFrames:
        """Read the raw rows that queues and groups are computed from.

        Args:
            earlier: ids of snapshots before the window to read too.
            valid: the tables of which only valid rows are wanted.
        """
        frames = {table.name: self.rows(table, earlier) for table in COMPUTED_ON}
        chosen = dict(frames)
        if any(table.name in self.validation.suspects for table in valid):
            valid_frames, _ = self._split(frames)
            chosen |= {table.name: valid_frames[table.name] for table in valid}
        return RawFrames(**{table.short_name: chosen[table.name] for table in COMPUTED_ON})

    def invalid(self) -> DataFrame | None:
        """Read the invalid raw rows of the window, as rows of ``quality.quarantine``.

        Returns:
            One row per invalid row of the suspect tables; None where these have no row at all.
        """
        searched = {
            table
            for table in raw.ALL
            if table.name in self.validation.suspects and self.plan.has_rows(table)
        }
        if not searched:
            return None
        # Rows of consumer offsets are compared with their queues, suspects or not.
        frames = {
            table.name: self.rows(table)
            for table in raw.ALL
            if table in searched or table is raw.QUEUE_OFFSETS
        }
        return self._split(frames, self.unique_in(frames))[1]

    def unique_in(self, frames: Mapping[str, DataFrame]) -> frozenset[str]:
        """Return names of the tables in which no key repeats, where a window's size pays for it.

        Few rows are numbered faster than searched: one query less.

        Args:
            frames: rows of the window by full table name.
        """
        return tables_with_unique_keys(frames) if self.plan.rows > MANY_ROWS else frozenset()

    def evidence(self) -> Evidence:
        """Read the rows from which filtered lag of the window is estimated."""
        validity = self.plan.settings.sample_validity
        window = self.plan.window
        reach = Window(window.start - validity, window.end)
        tags, throughput = (
            self.hours(table, reach) if self.lake.has_rows(table, reach) else None
            for table in (raw.QUEUE_TAGS, progress.THROUGHPUT)
        )
        return Evidence(
            tags=tags,
            throughput=throughput,
            sampled_queues=self._sampled_queues(validity),
            validity=validity,
        )

    def unreachable(self) -> DataFrame:
        """Return the unreachable brokers of the plan as rows, a column per field."""
        return self._frame(
            map(astuple, self.plan.unreachable),
            "snapshot_id string, broker string, last_snapshot_id string",
        )

    def sources(self) -> DataFrame | None:
        """Return the sources of snapshots that were not read from brokers; None where all were."""
        of_files = [
            (snapshot.snapshot_id, snapshot.source, snapshot.staleness_ms)
            for snapshot in self.plan.known
            if not snapshot.is_of_all_brokers
        ]
        schema = "snapshot_id string, source string, staleness_ms bigint"
        return self._frame(of_files, schema) if of_files else None

    def nearest(self) -> DataFrame | None:
        """Return where the queues of clients' files are read; None without such a snapshot."""
        plan = self.plan
        if not any(snapshot.source == SnapshotSource.LOCAL_OFFSETS for snapshot in plan.snapshots):
            return None
        return self._frame(
            map(astuple, nearest_queues(plan.known, plan.window)),
            "snapshot_id string, broker string, nearest_id string",
        )

    def observations(self) -> DataFrame:
        """Return the recent observations of the plan as rows, a column per field."""
        return self._frame(
            (
                (observation.snapshot_id, observation.number, dict(observation.counts_for))
                for observation in self.plan.observations
            ),
            "snapshot_id string, number bigint, counts_for map<string,int>",
        )

    def steps(self, steps: Iterable[Step]) -> DataFrame:
        """Return steps as rows, a column per field."""
        return self._frame(
            (tuple((vars(step) | {"lacking": list(step.lacking)}).values()) for step in steps),
            "snapshot_id string, observed_at timestamp, cluster string, broker string, "
            "previous_snapshot_id string, previous_at timestamp, lacking array<string>, "
            "down boolean",
        )

    def counter_windows(self) -> DataFrame:
        """Return the counter windows of the plan as rows, a column per field."""
        return self._frame(
            map(astuple, self.plan.counter_windows),
            "snapshot_id string, broker string, stats_window string, before_id string, "
            "after_id string, share double",
        )

    def observed_an_hour_before(self) -> DataFrame:
        """Return the snapshots with their brokers that were observed an hour before too."""
        plan = self.plan
        return self._frame(
            observed_an_hour_before(plan.known, plan.window, plan.settings.longest_gap),
            "snapshot_id string, broker string",
        )

    def _sampled_queues(self, validity: timedelta) -> DataFrame | None:
        """Read ``progress.queues`` of the earlier snapshots whose samples serve in the window."""
        start = self.plan.window.start
        earlier = Window(start - validity, start)
        if not self.lake.has_rows(raw.QUEUE_TAGS, earlier):
            return None
        sampled = self.lake.read(raw.QUEUE_TAGS, earlier, columns=("snapshot_id",))
        ids = sampled["snapshot_id"].drop_null().unique().to_pylist()
        return self.only(progress.QUEUES, ids) if ids else None

    def _frame(self, rows: Iterable[Any], schema: str) -> DataFrame:
        return as_read(self.session.createDataFrame(list(rows), schema))

    def _split(
        self, frames: Mapping[str, DataFrame], unique: Collection[str] = ()
    ) -> tuple[dict[str, DataFrame], DataFrame]:
        return split(frames, self.plan.window.start, self.plan.decisions, unique)
