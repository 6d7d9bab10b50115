"""Tuning: the phrases by which Spark computes the same rows faster.

A computation states its rule and takes from here how Spark gets through it. Every phrase has its
reason, and ``docs/adr/0016-warm-engine.md`` the profile behind most of them. Without one of these
phrases the rows stay the same, and only the time changes.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import GROUP_TOPIC_HISTORY, QUEUE_ID
from tidemark.lake.clocks import Window

KEY_HASH = "key_hash"
"""Column of `with_key_hash`."""

FEW_OFFSETS = 16
"""Largest number of offsets of a queue that are searched one by one in its history."""

_TIME_BITS = 44
"""Enough for milliseconds of 500 years, below the bits of a rank; see `ranked`."""

_RANKS = 1 << 15
"""More than the queues of a topic on one broker, of which a rank is the place."""

_ID_BITS = 20
_LAST_ID = (1 << _ID_BITS) - 1
_LARGEST_VALUE = (1 << 43) - 1
_TOO_LARGE = (1 << 63) - 1
"""Limits of `with_id` and of `sum_or_too_large`."""


# Where rows are, and by what they are sorted.

IN_ONE_PART: ContextVar[bool] = ContextVar("in_one_part", default=False)
"""Whether a query has few rows, which one task computes; `SparkResource.session_for` sets it.

Spark starts a stage for each exchange and a job for each broadcast, however few rows they have.
Rows that are read into one partition need no exchange before joins and windows, and no broadcast.
"""


def as_read(rows: DataFrame) -> DataFrame:
    """Return rows of a table, few ones in one partition.

    A scan of one file has one partition too, and Spark exchanges its rows all the same.
    """
    return rows.coalesce(1) if IN_ONE_PART.get() else rows


def by_queue(rows: DataFrame) -> DataFrame:
    """Bring all rows of a queue into one partition.

    Spark keeps them there for every window and join whose key holds these columns; otherwise it
    exchanges all rows once more for each.
    """
    return _together(rows, *QUEUE_ID)


def by_group_topic(rows: DataFrame) -> DataFrame:
    """Bring all rows of a group on a topic into one partition, as `by_queue` those of a queue."""
    return _together(rows, *GROUP_TOPIC_HISTORY)


def _together(rows: DataFrame, *key: str) -> DataFrame:
    return rows if IN_ONE_PART.get() else rows.repartition(*key)


def small(rows: DataFrame) -> DataFrame:
    """Return the small side of a join, which leaves the rows of the other side where they are."""
    return hashed(rows) if IN_ONE_PART.get() else F.broadcast(rows)


def hashed(rows: DataFrame) -> DataFrame:
    """Return the smaller side of a join, to be joined by a hash table of each partition.

    A sort of both sides takes longer than the computation after it.
    """
    return rows.hint("shuffle_hash")


def with_key_hash(rows: DataFrame, *key: str) -> DataFrame:
    """Add ``key_hash``, which goes before the key where Spark sorts rows by it.

    Spark compares the first eight bytes of the first column, and whole rows only where those are
    equal. A window has few clusters, and names begin alike; hashes differ.
    """
    return rows.select("*", F.xxhash64(*key).alias(KEY_HASH))


CARRIED = "carried"
"""Column of `packed`."""


def packed(rows: DataFrame, *kept: str | Column, carried: Sequence[str]) -> DataFrame:
    """Return rows with some columns of their own and all others as one value, until `unpacked`.

    Each sort and window function writes each column of each row once more, and a Spark Connect
    server resolves each at each level of a plan. One value is copied as its bytes.

    Args:
        rows: any rows.
        kept: columns that are read before `unpacked`.
        carried: names of all others. Spark takes the value apart again, and nothing is gained,
            where one of them is not read afterwards.
    """
    return rows.select(*kept, F.struct(*carried).alias(CARRIED))


def unpacked(rows: DataFrame) -> DataFrame:
    """Return rows of `packed` with a column for each that is carried."""
    return rows.select("*", f"{CARRIED}.*")


# When a plan is resolved.


def resolved(rows: DataFrame, column: str = "snapshot_id") -> DataFrame:
    """Return the same rows, whose plan a Spark Connect server resolves once, here.

    The server resolves a plan with functions level by level and visits all other levels each time,
    so two halves take half of the time. ``withColumns`` makes it resolve the plan so far. A tick of
    16,000 group queues takes 9.4 s with it in front of a writer, and 10.0 s without.

    Args:
        rows: any rows.
        column: one of their columns.
    """
    return rows.withColumns({column: F.col(column)})


# Instants of a run in conditions. Two things matter: whether the source of rows selects its files
# by the condition, and whether every run generates the same code.


def timestamp(instant: datetime) -> Column:
    """Return an instant as a column.

    As a text with a cast: for a datetime literal pyspark requests the preferred timestamp type from
    a remote engine each time, a round trip for each of the hundreds in a tick.
    """
    return F.lit(instant.isoformat()).cast("timestamp")


def is_before(moment: datetime, instant: str = "observed_at") -> Column:
    """Return whether an instant lies before a moment; true of an unknown instant.

    The comparison is between structs of one field. Spark writes a bare moment as a number into the
    code it generates, so every tick would generate, compile and warm up its own code. Generated
    code contains only a reference to a struct.
    """
    return F.struct(F.col(instant).alias("at")) < F.struct(timestamp(moment).alias("at"))


def inside(window: Window, instant: str = "observed_at") -> Column:
    """Return whether an instant lies in the window.

    Data sources cannot use this condition to select files; see `stored_in`.
    """
    return ~is_before(window.start, instant) & is_before(window.end, instant)


def stored_in(window: Window, instant: str = "observed_at") -> Column:
    """Return whether an instant lies in the window, in a form by which data sources select files.

    For a window of whole hours the selection of files is exact, and no row is filtered.
    """
    at = F.col(instant)
    return (at >= timestamp(window.start)) & (at < timestamp(window.end))


# Aggregates. For one that keeps a text or a struct Spark sorts all rows; it hashes rows for one
# that keeps a number, or collects.


def least_struct(value: Column) -> Column:
    """Aggregate the least struct; NULL where there is none."""
    return F.array_min(F.collect_list(value))


# Several numbers as one, whose maximum Spark keeps in a table.


def ranked(value: Column, rank: Column) -> Column:
    """Return a value with its rank, of which the largest is that of the lowest rank.

    Args:
        value: milliseconds, not negative; NULL does not count.
        rank: from 0 on; rows without one come after all others.
    """
    place = F.coalesce(F.lit(_RANKS) - rank.cast("bigint"), F.lit(0).cast("bigint"))
    return F.shiftleft(place, _TIME_BITS) + value


def value_of(ranked_value: Column) -> Column:
    """Return the value of one of `ranked`."""
    return ranked_value.bitwiseAND(F.lit((1 << _TIME_BITS) - 1))


def with_id(value: Column, number: Column) -> Column:
    """Return a value with the number that stands for it, of which the largest has the least number.

    Args:
        value: not negative; values from 2 to the power of 43 on are alike. NULL does not count.
        number: an id of at most 20 bits.
    """
    limited = F.when(value > _LARGEST_VALUE, F.lit(_LARGEST_VALUE)).otherwise(value)
    return F.shiftleft(limited, _ID_BITS) + (_LAST_ID - number)


def id_of(value_with_id: Column) -> Column:
    """Return the number of one of `with_id`."""
    return (_LAST_ID - value_with_id.bitwiseAND(F.lit(_LAST_ID))).cast("int")


def sum_or_too_large(value: Column) -> Column:
    """Aggregate a part of a sum of counts; `_TOO_LARGE` where no ``bigint`` can hold it."""
    return F.coalesce(F.try_sum(value), F.when(F.count(value) > 0, F.lit(_TOO_LARGE)))


def sum_unless_too_large(part: Column) -> Column:
    """Aggregate the parts of `sum_or_too_large`; NULL where no ``bigint`` can hold the sum."""
    return F.when(F.max(part) < _TOO_LARGE, F.try_sum(part))
