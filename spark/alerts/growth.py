"""Growth: by how much a number of a row increased, for conditions of alert rules.

Growth compares with a complete observation. Otherwise messages that an unreachable broker hid would
reappear as growth. The earlier observation is one of the last minutes. Without one, it is the last
complete snapshot before the outage: messages that arrived during an outage of a broker or of the
collector count when it ends.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from lake.history import LoadedSnapshot
from lake.window import MICROSECOND, Window
from settings.constants import MEMORY

GROWTH = "_growth"
"""Ending of a column that holds the growth of the column named before it."""

HISTORY = timedelta(minutes=10)
"""Time in which any complete observation before is compared."""

Outages = Mapping[str, LoadedSnapshot]
"""By id of a snapshot, the last complete snapshot of its cluster, where that is longer ago than
`HISTORY` (`lake.history.complete_before`)."""

NO_OUTAGE: Outages = {}


def compares_growth(conditions: Iterable[str]) -> bool:
    """Return whether one of the SQL conditions names a growth."""
    return any(GROWTH in condition for condition in conditions)


def windows_to_compare(conditions: Iterable[str], window: Window, outages: Outages) -> list[Window]:
    """Return the windows of rows that SQL conditions on a window's rows compare."""
    if not compares_growth(conditions):
        return [window]
    reach = Window(window.start - HISTORY, window.end)
    instants = sorted({snapshot.observed_at for snapshot in outages.values()})
    return [*(Window.through(at, at) for at in instants if at not in reach), reach]


def with_growth(
    rows: DataFrame, key: Sequence[str], conditions: Iterable[str], outages: Outages
) -> DataFrame:
    """Add the growths that SQL conditions name; NULL without an observation to compare with.

    Args:
        rows: the rows of `windows_to_compare`, with ``snapshot_id, observed_at`` and ``complete``,
            whether a row covers its whole subject.
        key: the columns that name the observed subject.
        conditions: SQL conditions.
        outages: the outages in which the snapshots lie, or which they end.
    """
    texts = list(conditions)
    if not compares_growth(texts):
        return rows  # before the columns are read, for which Spark would resolve its plan
    names = [name for name in rows.columns if any(name + GROWTH in text for text in texts)]
    if not names:
        return rows
    return rows.withColumns(
        {name + GROWTH: F.col(name) - _complete_before(name, key, outages) for name in names}
    )


def _complete_before(name: str, key: Sequence[str], outages: Outages) -> Column:
    """Return the value of a column at the last complete observation."""
    earlier = SparkWindow.partitionBy(*key).orderBy(F.unix_micros("observed_at"))
    value = F.when(F.col("complete"), F.col(name))
    minutes = earlier.rangeBetween(-HISTORY // MICROSECOND, -1)
    within_minutes = F.last(value, ignorenulls=True).over(minutes)
    if not outages:
        return within_minutes
    complete = sorted({snapshot.snapshot_id for snapshot in outages.values()})
    known = F.when(
        F.col("snapshot_id").isin(complete), F.struct("snapshot_id", value.alias("value"))
    )
    day = earlier.rangeBetween(-MEMORY // MICROSECOND, -1)
    newest = F.last(known, ignorenulls=True).over(day)
    expected = F.create_map(
        *[F.lit(text) for row, before in outages.items() for text in (row, before.snapshot_id)]
    )[F.col("snapshot_id")]
    # Only that snapshot: a tick does not read those before it, and would find less than a backfill.
    return F.coalesce(within_minutes, F.when(newest["snapshot_id"] == expected, newest["value"]))
