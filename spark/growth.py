"""By how much a number grew, which rules may ask of any column of their rows.

It is compared with an observation of everything: what a silent broker hid meanwhile would come back
as growth. That is one of the minutes before, or, where there is none, the last look at which all of
the cluster was known: what came while a broker or the collector was down is told when it is back.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Rows
from pyspark.sql import functions as F

from lake.history import Look
from lake.memory import MEMORY
from lake.window import MICROSECOND, Window

GROWTH = "_growth"
"""Ending of a column that tells by how much another one grew since all of it was last known."""

HISTORY = timedelta(minutes=10)
"""How far back any observation of everything counts."""

Outages = Mapping[str, Look]
"""Snapshots before which not all of their cluster was known for longer than `HISTORY`, by id: the
look at which it was (`lake.history.complete_before`)."""

NO_OUTAGE: Outages = {}


def grows(asked: Iterable[str]) -> bool:
    """Whether one of some SQL expressions looks at growth."""
    return any(GROWTH in each for each in asked)


def windows(asked: Iterable[str], window: Window, outages: Outages) -> list[Window]:
    """The windows of the rows that SQL expressions of a window look at."""
    if not grows(asked):
        return [window]
    reach = Window(window.start - HISTORY, window.end)
    instants = sorted({look.observed_at for look in outages.values()})
    return [*(Window.through(at, at) for at in instants if at not in reach), reach]


def with_growth(
    rows: DataFrame, key: Sequence[str], asked: Iterable[str], outages: Outages
) -> DataFrame:
    """Adds the growth that SQL expressions look at; NULL without an observation to compare with.

    Args:
        rows: those of `windows`, with ``snapshot_id, observed_at`` and ``complete``, whether a row
            is all there is.
        key: the columns that name what is observed.
        asked: SQL expressions.
        outages: those that the snapshots lie in, or end.
    """
    expressions = list(asked)
    names = [name for name in rows.columns if any(name + GROWTH in each for each in expressions)]
    if not names:
        return rows
    return rows.withColumns(
        {name + GROWTH: F.col(name) - _before(name, key, outages) for name in names}
    )


def _before(name: str, key: Sequence[str], outages: Outages) -> Column:
    """The value of a column when all of it was last known."""
    earlier = Rows.partitionBy(*key).orderBy(F.unix_micros("observed_at"))
    value = F.when(F.col("complete"), F.col(name))
    minutes = earlier.rangeBetween(-HISTORY // MICROSECOND, -1)
    shortly = F.last(value, ignorenulls=True).over(minutes)
    if not outages:
        return shortly
    looks = sorted({look.snapshot_id for look in outages.values()})
    known = F.when(F.col("snapshot_id").isin(looks), F.struct("snapshot_id", value.alias("value")))
    day = earlier.rangeBetween(-MEMORY // MICROSECOND, -1)
    newest = F.last(known, ignorenulls=True).over(day)
    of_row = F.create_map(
        *[F.lit(text) for row, look in outages.items() for text in (row, look.snapshot_id)]
    )[F.col("snapshot_id")]
    # Only that look: a tick does not read what was before it, and would tell less than an hour.
    return F.coalesce(shortly, F.when(newest["snapshot_id"] == of_row, newest["value"]))
