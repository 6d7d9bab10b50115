"""What several computations say the same way: the keys of a queue, and small columns."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from lake.tables import raw
from lake.window import Window

SNAPSHOT = tuple(column.name for column in raw.SNAPSHOT)
"""What says of which snapshot a row is, and when and of what that was."""

QUEUE = ("cluster", "broker", "topic", "queue_id")
"""A queue over time."""


def inside(window: Window, instant: str = "observed_at") -> Column:
    """Whether an instant of a row lies in the window; to a data source this says nothing."""
    return ~is_before(window.start, instant) & is_before(window.end, instant)


def is_before(moment: datetime, instant: str = "observed_at") -> Column:
    """Whether an instant of a row lies before a moment, as one that is not known does.

    Compared as structs of one field. A bare moment stands as a number in the code that Spark makes
    of an expression, so each tick's would be made, compiled and warmed up anew; of a struct there
    is a reference.
    """
    return F.struct(F.col(instant).alias("at")) < F.struct(timestamp(moment).alias("at"))


def stored_in(window: Window, instant: str = "observed_at") -> Column:
    """Whether an instant lies in the window, so that a data source can pick files by it.

    Of whole hours the files say it all, and no row is asked.
    """
    at = F.col(instant)
    return (at >= timestamp(window.start)) & (at < timestamp(window.end))


def timestamp(instant: datetime) -> Column:
    """An instant, as text until it is planned.

    To take one as it is pyspark asks a remote engine every time which of two types it prefers, a
    round trip for each of the hundreds in a tick.
    """
    return F.lit(instant.isoformat()).cast("timestamp")


def with_previous(frame: DataFrame, key: tuple[str, ...], *offsets: str) -> DataFrame:
    """Adds each row's previous observation: ``previous_at`` and ``previous_<offset>``."""
    order = SparkWindow.partitionBy(*key).orderBy("observed_at", "snapshot_id")
    previous = {f"previous_{name}": F.lag(name).over(order) for name in offsets}
    return frame.withColumns({"previous_at": F.lag("observed_at").over(order), **previous})


def reaching_back(span: timedelta, *key: str, until: int = 0) -> WindowSpec:
    """Rows of the same key, from so long before a row's ``observed_at`` up to it.

    Args:
        span: how long.
        key: columns.
        until: the last milliseconds from the row's: -1 leaves out those of its own instant.
    """
    order = SparkWindow.partitionBy(*key).orderBy(F.unix_millis("observed_at"))
    return order.rangeBetween(-round(span.total_seconds() * 1000), until)


def at_least_zero(count: Column) -> Column:
    """The count, 0 where it is negative, NULL where it is not known (`greatest` skips NULL)."""
    return F.when(count < 0, F.lit(0).cast("bigint")).otherwise(count)


def milliseconds(start: str, end: str | Column) -> Column:
    """Milliseconds from one instant to another; NULL where one is not known."""
    until = F.col(end) if isinstance(end, str) else end
    return F.unix_millis(until) - F.unix_millis(F.col(start))


def steady_sum(value: Column) -> Column:
    """The sum of real numbers, the same in whatever order rows come: a backfill gives a tick's."""
    found = F.array_sort(F.collect_list(value))
    total = F.aggregate(found, F.lit(0.0), lambda sum, each: sum + each)
    return F.when(F.size(found) > 0, total)


def fits(match: Mapping[str, Sequence[str]]) -> Column:
    """Whether of each named column one glob fits: ``*`` is any text, ``?`` any character."""
    condition = F.lit(True)
    for name, globs in match.items():
        if "*" not in globs:
            fits = F.lit(False)
            for glob in globs:
                fits = fits | F.col(name).like(_like(glob))
            condition = condition & F.coalesce(fits, F.lit(False))
    return condition


def _like(glob: str) -> str:
    r"""A glob as a pattern of SQL's LIKE, escaped by ``\``."""
    literal = glob.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return literal.replace("*", "%").replace("?", "_")
