"""Maintenance of the tables: one asset, without hourly partitions, that keeps them small."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import dagster as dg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from assets.dagster_names import own_keys
from assets.metadata import EVERY_HOUR, OWNERS, code_version
from assets.partitions import TABLES_POOL, tick_since
from assets.reader import read_windows
from assets.resources import LakeResource
from assets.run import write_window
from spark.progress.timeline import thinned
from spark.session.configuration import SparkResource
from tidemark.host.failures import one_line
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.damaged_files import PUT_BACK
from tidemark.lake.retention import (
    Retention,
    compaction,
    expiry,
    orphan_removal,
    present,
    remember_raw_since,
    removal,
    remove_landed,
    remove_leftovers,
)
from tidemark.lake.schema import Table
from tidemark.lake.tables import TABLES, progress, raw
from tidemark.planning.history import raw_needed
from tidemark.settings.sections import HistorySettings

MAINTENANCE = dg.AssetKey("maintenance")

COMPACTED = 24 * HOUR
"""Time for which files are joined; rows of later landings stay in files of their own."""

ORPHANED = 3 * 24 * HOUR
"""Age from which a file that no version of a table names is removed."""

HOURS = 24
"""Tables take turns by the hour: files of each are listed once a day."""

REMEMBERED = HOUR
"""Time for which a reader may still read an older version of a table."""


@dg.asset(
    key=MAINTENANCE,
    group_name="maintain",
    kinds={"iceberg", "spark"},
    owners=OWNERS,
    freshness_policy=EVERY_HOUR,
    pool=TABLES_POOL,
    code_version=code_version("maintenance", thinned, removal, compaction, expiry),
)
@own_keys
def maintenance(
    context: dg.AssetExecutionContext,
    lake: LakeResource,
    spark: SparkResource,
    retention: dg.ResourceParam[Retention],
) -> dg.MaterializeResult:
    """Removes and thins old rows, joins the ticks' small files, forgets old table states.

    Every commit leaves a state of its table behind, and each next one has to carry them all.
    """
    lake.alone(context.log.info)
    now = present(lake.lake, datetime.now(UTC))
    needed = raw_needed(lake.lake, tick_since(lake.history_settings.days))
    retention = replace(retention, needed=needed)
    raw_before = retention.before(raw.SNAPSHOTS, now)
    assert raw_before
    done = Done()
    # Neither a landing that refuses to delete nor a damaged table must keep all others growing.
    try:
        done.landings = remove_landed(lake.lake, raw_before)
    except OSError as error:
        done.failed["the landing"] = one_line(error)
    end = floor_hour(now)
    young = Window(end - COMPACTED, end)
    session = spark.session_for(lake.lake.max_rows(progress.TIMELINE, young))
    thinned_hours = thin(session, lake.lake, end, lake.history_settings)
    for number, table in enumerate(TABLES.values()):
        if versions := len(lake.lake.table(table.name).metadata.snapshots):
            lake.alone()
            done.versions[table.name] = versions
            is_its_turn = number % HOURS == now.hour
            done.keep(session, lake.lake, table, retention, now, remove_orphans=is_its_turn)
    if done.failed:
        raise dg.Failure(
            f"{', '.join(done.failed)} cannot be kept small, all other tables were: "
            f"{next(iter(done.failed.values()))}",
            allow_retries=False,
        )
    left = [len(lake.lake.table(name).metadata.snapshots) for name in done.versions]
    return dg.MaterializeResult(
        metadata={
            "landings_removed": done.landings,
            "orphan_files_removed": done.orphans,
            "hours_thinned": thinned_hours,
            "states_before": sum(done.versions.values()),
            "states_after": sum(left),
            "raw_since": raw_before.isoformat(),
        }
    )


@dataclass(kw_only=True)
class Done:
    """Results of a maintenance run so far.

    Attributes:
        landings: folders of snapshots that were removed.
        versions: how many versions each table had before.
        orphans: files that were removed because no version names them.
        failed: why something could not be kept small, in one line.
    """

    landings: int = 0
    versions: dict[str, int] = field(default_factory=dict)
    orphans: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    def keep(
        self,
        session: SparkSession,
        lake: Lake,
        table: Table,
        retention: Retention,
        now: datetime,
        *,
        remove_orphans: bool,
    ) -> None:
        """Keep a table small.

        Raises:
            Exception: raw snapshots cannot be, or Spark does not respond.
        """
        try:
            keep_small(session, lake, table, retention, now)
            if remove_orphans:
                self.orphans += session.sql(orphan_removal(table, now - ORPHANED)).count()
                self.orphans += remove_leftovers(lake.table(table.name), now - ORPHANED)
        except Exception as error:
            # The run records how far raw rows are removed with `raw.SNAPSHOTS`, so a failure there
            # ends it. Without Spark no other table is tried.
            if table is raw.SNAPSHOTS:
                raise
            session.sql("SELECT 1").collect()
            self.failed[table.name] = f"{one_line(error)}; {PUT_BACK}"


def keep_small(
    session: SparkSession, lake: Lake, table: Table, retention: Retention, now: datetime
) -> None:
    """Remove the old rows of a table, join its small files and expire its old versions."""
    before, oldest = retention.before(table, now), lake.oldest_hour(table)
    if before and oldest and oldest < before:
        if table is raw.SNAPSHOTS:
            remember_raw_since(lake.shared.state, before)
        _change(session, lake, table, removal(table, before))
    end = floor_hour(now)
    _change(session, lake, table, compaction(table, Window(end - COMPACTED, end)))
    _change(session, lake, table, expiry(table, now - REMEMBERED))


def _change(session: SparkSession, lake: Lake, table: Table, statement: str) -> None:
    """Change a table and sync it: the next statement may remove the files of before."""
    lake.ready_for_spark(table)
    session.sql(statement).collect()
    lake.sync()


def thin(session: SparkSession, lake: Lake, end: datetime, settings: HistorySettings) -> int:
    """Thin the hours of the timeline that have come of age within a day; return how many."""

    def by_hour(rows: DataFrame) -> dict[datetime, int]:
        hour = F.date_trunc("hour", "observed_at")
        counted = rows.groupBy(F.unix_seconds(hour).alias("at")).count().collect()
        return {datetime.fromtimestamp(row["at"], UTC): row["count"] for row in counted}

    table = progress.TIMELINE
    history = read_windows(session, table, Window(end - COMPACTED, end - settings.thin_after))
    few = thinned(history, settings.thinned_step)
    before, after = by_hour(history), by_hour(few)
    hours = [hour for hour in sorted(before) if after.get(hour, 0) < before[hour]]
    for hour in hours:
        window = Window(hour, hour + HOUR)
        kept = thinned(read_windows(session, table, window), settings.thinned_step)
        write_window(kept, table, window, lake)
    return len(hours)
