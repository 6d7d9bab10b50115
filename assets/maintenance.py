"""Keeping the tables small: one asset that belongs to no hour."""

from datetime import UTC, datetime

import dagster as dg

from assets.metadata import OWNERS
from assets.resources import LakeResource
from lake.retention import Retention, remember_raw_since, remove_landed
from lake.tables import TABLES, raw
from lake.window import HOUR, Window, floor_hour
from spark.maintenance import compaction, expiry, removal
from spark.session import SparkResource

MAINTENANCE = dg.AssetKey("maintenance")

COMPACTED = 24 * HOUR
"""How far back files are joined: what lands later than that stays in files of its own."""

REMEMBERED = HOUR
"""How long a reader may still ask for an older state of a table."""


@dg.asset(
    key=MAINTENANCE,
    group_name="maintain",
    kinds={"iceberg", "spark"},
    owners=OWNERS,
)
def maintenance(
    context: dg.AssetExecutionContext, lake: LakeResource, spark: SparkResource
) -> dg.MaterializeResult:
    """Removes rows that are too old, joins the ticks' small files, forgets old table states.

    Every commit leaves a state of its table behind, and each next one has to carry them all.
    """
    now = datetime.now(UTC)
    retention = Retention.of()
    raw_before = retention.before(raw.SNAPSHOTS, now)
    assert raw_before
    landings = remove_landed(lake.lake, raw_before)
    session = spark.session_for(1)
    states = {}
    for table in TABLES.values():
        known = lake.lake.table(table.name).metadata.snapshots
        if not known:
            continue
        before = retention.before(table, now)
        oldest = lake.lake.oldest(table)
        if before and oldest and oldest < before:
            if table is raw.SNAPSHOTS:
                remember_raw_since(lake.lake.home, before)
            session.sql(removal(table, before)).collect()
        end = floor_hour(now)
        session.sql(compaction(table, Window(end - COMPACTED, end))).collect()
        session.sql(expiry(table, now - REMEMBERED)).collect()
        states[table.name] = len(known)
    return dg.MaterializeResult(
        metadata={
            "landings_removed": landings,
            "states_before": sum(states.values()),
            "states_after": sum(len(lake.lake.table(name).metadata.snapshots) for name in states),
            "raw_since": raw_before.isoformat(),
        }
    )
