"""Keys and small column expressions that several computations share."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from tidemark.lake.clocks import Window
from tidemark.lake.tables import raw

SNAPSHOT = tuple(column.name for column in raw.SNAPSHOT)
"""The snapshot of a row: its id, its instant and its cluster."""

KEY_HASH = "key_hash"

HASHED = "shuffle_hash"
"""Join of a window's rows with another frame by a hash table of each partition. A sort of both
sides takes longer than the computation after it."""

QUEUE = ("cluster", "broker", "topic", "queue_id")
"""A queue over time."""


def inside(window: Window, instant: str = "observed_at") -> Column:
    """Return whether an instant lies in the window.

    Data sources cannot use this condition to select files; see `stored_in`.
    """
    return ~is_before(window.start, instant) & is_before(window.end, instant)


def is_before(moment: datetime, instant: str = "observed_at") -> Column:
    """Return whether an instant lies before a moment; true of an unknown instant.

    The comparison is between structs of one field. Spark writes a bare moment as a number into the
    code it generates, so every tick would generate, compile and warm up its own code. Generated
    code contains only a reference to a struct.
    """
    return F.struct(F.col(instant).alias("at")) < F.struct(timestamp(moment).alias("at"))


def stored_in(window: Window, instant: str = "observed_at") -> Column:
    """Return whether an instant lies in the window, in a form by which data sources select files.

    For a window of whole hours the selection of files is exact, and no row is filtered.
    """
    at = F.col(instant)
    return (at >= timestamp(window.start)) & (at < timestamp(window.end))


def timestamp(instant: datetime) -> Column:
    """Return an instant as a column.

    As a text with a cast: for a datetime literal pyspark requests the preferred timestamp type from
    a remote engine each time, a round trip for each of the hundreds in a tick.
    """
    return F.lit(instant.isoformat()).cast("timestamp")


def with_previous(frame: DataFrame, key: tuple[str, ...], *offsets: str) -> DataFrame:
    """Add the previous observation of the same key: ``previous_at`` and ``previous_<offset>``."""
    order = SparkWindow.partitionBy(*key).orderBy("observed_at", "snapshot_id")
    previous = {f"previous_{name}": F.lag(name).over(order) for name in offsets}
    return with_new(frame, {"previous_at": F.lag("observed_at").over(order), **previous})


def with_base(
    frame: DataFrame, key: tuple[str, ...], at_least: timedelta, name: str, *offsets: str
) -> DataFrame:
    """Add a struct: the latest earlier observation of the same key that is old enough for a rate.

    Args:
        frame: rows with ``observed_at`` and `offsets`.
        key: columns.
        at_least: its smallest distance from the row.
        name: name of the struct.
        offsets: columns that the struct has, with ``observed_at``.
    """
    # In SQL's words: for a range of the instants themselves, which are sorted already, pyspark has
    # none.
    within = (
        f"PARTITION BY {', '.join(key)} ORDER BY observed_at RANGE BETWEEN UNBOUNDED PRECEDING "
        f"AND INTERVAL '{at_least.total_seconds():.6f}' SECOND PRECEDING"
    )
    fields = ", ".join(("observed_at", *offsets))
    return with_new(frame, {name: F.expr(f"last(struct({fields})) OVER ({within})")})


def reaching_back(span: timedelta, *key: str, until: int = 0) -> WindowSpec:
    """Return the rows of the same key from a span before a row's ``observed_at`` up to it.

    Args:
        span: how far back.
        key: columns.
        until: end of the range in milliseconds from the row; -1 excludes rows of its own instant.
    """
    order = SparkWindow.partitionBy(*key).orderBy(F.unix_millis("observed_at"))
    return order.rangeBetween(-round(span.total_seconds() * 1000), until)


def with_new(frame: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """Add columns whose names the frame does not have yet.

    Not by ``withColumns``: for each of those a Spark Connect server resolves the plan so far, which
    for the plans of a tick takes longer than to run them. A selection is resolved once, at the end.
    """
    return frame.select("*", *(column.alias(name) for name, column in columns.items()))


def resolved(rows: DataFrame, column: str = "snapshot_id") -> DataFrame:
    """Return the same rows, whose plan a Spark Connect server resolves once, here.

    The server resolves a plan with functions level by level and visits all other levels each time,
    so two halves take half of the time. ``withColumns`` makes it resolve the plan so far.

    Args:
        rows: any rows.
        column: one of their columns.
    """
    return rows.withColumns({column: F.col(column)})


def with_key_hash(rows: DataFrame, *key: str) -> DataFrame:
    """Add ``key_hash``, which goes before the key where Spark sorts rows by it.

    Spark compares the first eight bytes of the first column, and whole rows only where those are
    equal. A window has few clusters, and names begin alike; hashes differ.
    """
    return with_new(rows, {KEY_HASH: F.xxhash64(*key)})


def at_least_zero(count: Column) -> Column:
    """Return 0 for a negative count and NULL for an unknown one (`greatest` skips NULL)."""
    return F.when(count < 0, F.lit(0).cast("bigint")).otherwise(count)


def milliseconds(start: str, end: str | Column) -> Column:
    """Return the milliseconds from one instant to another; NULL when one is unknown."""
    until = F.col(end) if isinstance(end, str) else end
    return F.unix_millis(until) - F.unix_millis(F.col(start))


def steady_sum(value: Column) -> Column:
    """Sum real numbers independently of the order of rows, so that backfills equal ticks."""
    result = F.array_sort(F.collect_list(value))
    total = F.aggregate(result, F.lit(0.0), lambda sum, value: sum + value)
    return F.when(F.size(result) > 0, total)


def matches(globs_of: Mapping[str, Sequence[str]]) -> Column:
    """Return whether each named column matches one of its globs.

    ``*`` stands for any text, ``?`` for any character.
    """
    condition = F.lit(True)
    for name, globs in globs_of.items():
        if "*" not in globs:
            matching = F.lit(False)
            for glob in globs:
                matching = matching | F.col(name).like(_like_pattern(glob))
            condition = condition & F.coalesce(matching, F.lit(False))
    return condition


def _like_pattern(glob: str) -> str:
    r"""Return a glob as a pattern of SQL's LIKE, escaped by ``\``."""
    literal = glob.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return literal.replace("*", "%").replace("?", "_")
