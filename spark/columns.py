"""Columns of computations: their declaration, keys of rows, and expressions that several share.

A computation adds columns on the way to its table. Those that one function adds and another reads
are declared in a class of `Added`, with their types and meanings; the others have one reader.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from tidemark.lake.schema import Table, type_text
from tidemark.lake.system_topics import NamedTopics
from tidemark.lake.tables import raw
from tidemark.rocketmq import names

SNAPSHOT = tuple(column.name for column in raw.SNAPSHOT)
"""The snapshot of a row: its id, its instant and its cluster."""

QUEUE = ("cluster", "broker", "topic", "queue_id")
"""A queue over time."""

QUEUE_ID = ("broker", "topic", "queue_id")
"""The key for joins of queues in one snapshot."""

GROUP = (*SNAPSHOT, "consumer_group")
"""A group in a snapshot."""

GROUP_TOPIC = (*GROUP, "topic")
"""A group on a topic in a snapshot."""

GROUP_QUEUE = (*GROUP_TOPIC, "broker", "queue_id")
"""A queue of a group in a snapshot."""

GROUP_ID = ("snapshot_id", "consumer_group")
"""The key for joins on `GROUP`; a snapshot has one instant and one cluster."""

GROUP_TOPIC_ID = (*GROUP_ID, "topic")
"""The key for joins on `GROUP_TOPIC`."""

GROUP_TOPIC_HISTORY = ("cluster", "consumer_group", "topic")
"""A group on a topic over time."""

CONSUMED_QUEUE = (*QUEUE, "consumer_group", "client_id")
"""A queue as a group, or a broadcasting client, consumes it over time."""


class column:  # noqa: N801  reads as a declaration, as a property does
    """The declaration of a column in a class of `Added`, which reads as the column itself."""

    def __init__(self, type: str, meaning: str) -> None:
        """Take Spark's simple name of the type, and the meaning in a phrase."""
        self.type, self.meaning = type, meaning

    def __set_name__(self, owner: type, name: str) -> None:
        """Take the name of the column from that of the attribute."""
        self.name = name

    def __get__(self, _: object, owner: type) -> Column:
        """Return the column in an expression, on a frame that has it."""
        return F.col(self.name)


class Added:
    """Columns that a step of a computation adds to its rows.

    A subclass declares each of them as an attribute. Expressions name them as attributes, so a name
    that no step adds is an error of the type checker.
    """

    @classmethod
    def types(cls) -> dict[str, str]:
        """Return the types of the declared columns by name, in their order."""
        attributes = vars(cls).items()
        return {name: value.type for name, value in attributes if isinstance(value, column)}

    @classmethod
    def named(cls, **columns: Column) -> list[Column]:
        """Return declared columns under their names, for a selection or an aggregation.

        Raises:
            TypeError: one of the columns is not declared.
        """
        if undeclared := columns.keys() - cls.types().keys():
            raise TypeError(f"{cls.__name__} does not declare {', '.join(sorted(undeclared))}")
        return [value.alias(name) for name, value in columns.items()]

    @classmethod
    def to(cls, frame: DataFrame, **columns: Column) -> DataFrame:
        """Add declared columns to a frame that does not have them yet; see `with_new`."""
        return frame.select("*", *cls.named(**columns))

    @classmethod
    def unknown(cls) -> dict[str, Column]:
        """Return the declared columns without a value."""
        return {name: F.lit(None).cast(type) for name, type in cls.types().items()}


def with_new(frame: DataFrame, **columns: Column) -> DataFrame:
    """Add columns whose names the frame does not have yet.

    Of a name that it has, Spark refuses every later use as ambiguous.

    Not by ``withColumns``: for each of those a Spark Connect server resolves the plan so far, which
    for the plans of a tick takes longer than to run them. A selection is resolved once, at the end.
    """
    return frame.select("*", *(value.alias(name) for name, value in columns.items()))


def with_replaced(frame: DataFrame, **columns: Column) -> DataFrame:
    """Replace columns of a frame by others of the same name, at their places."""
    return frame.withColumns(columns)


def unknown_of(table: Table, *missing: str) -> dict[str, Column]:
    """Return columns of a table that some rows of it do not have: NULL of their declared types."""
    types = {declared.name: declared.type for declared in table.columns}
    return {name: F.lit(None).cast(type_text(types[name])) for name in missing}


def with_previous(frame: DataFrame, key: tuple[str, ...], *offsets: str) -> DataFrame:
    """Add the previous observation of the same key: ``previous_at`` and ``previous_<offset>``."""
    order = SparkWindow.partitionBy(*key).orderBy("observed_at", "snapshot_id")
    previous = {f"previous_{name}": F.lag(name).over(order) for name in offsets}
    return with_new(frame, previous_at=F.lag("observed_at").over(order), **previous)


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
    return with_new(frame, **{name: F.expr(f"last(struct({fields})) OVER ({within})")})


@dataclass(frozen=True, kw_only=True)
class Advance:
    """An offset of a row, and the earlier ones that its rate follows from.

    Attributes:
        now: the offset.
        previous: the one of the previous observation.
        base: the one from which the rate is computed; see `with_base`.
        since: the instant of the base.
    """

    now: Column
    previous: Column
    base: Column
    since: Column


def advance(offset: str, base: str) -> Advance:
    """Return the advance of an offset in rows of `with_previous` and `with_base`."""
    earliest = F.col(base)
    return Advance(
        now=F.col(offset),
        previous=F.col(f"previous_{offset}"),
        base=earliest[offset],
        since=earliest["observed_at"],
    )


def reaching_back(span: timedelta, *key: str, until: int = 0) -> WindowSpec:
    """Return the rows of the same key from a span before a row's ``observed_at`` up to it.

    Args:
        span: how far back.
        key: columns.
        until: end of the range in milliseconds from the row; -1 excludes rows of its own instant.
    """
    order = SparkWindow.partitionBy(*key).orderBy(F.unix_millis("observed_at"))
    return order.rangeBetween(-round(span.total_seconds() * 1000), until)


def at_least_zero(count: Column) -> Column:
    """Return 0 for a negative count and NULL for an unknown one (`greatest` skips NULL)."""
    return F.when(count < 0, F.lit(0).cast("bigint")).otherwise(count)


def milliseconds(start: Column, end: Column) -> Column:
    """Return the milliseconds from one instant to another; NULL when one is unknown."""
    return F.unix_millis(end) - F.unix_millis(start)


def steady_sum(value: Column) -> Column:
    """Sum real numbers independently of the order of rows, so that backfills equal ticks."""
    result = F.array_sort(F.collect_list(value))
    total = F.aggregate(result, F.lit(0.0), lambda so_far, number: so_far + number)
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


def is_of_users(named: NamedTopics = ()) -> Column:
    """Return whether topic and group are users' own, not RocketMQ's.

    Args:
        named: system topics that no name shows, by cluster.
    """
    group = F.col("consumer_group")
    system_group = group.isin(*names.SYSTEM_GROUPS) | group.startswith(names.SYSTEM_GROUP_PREFIX)
    return is_topic_of_users(named) & ~system_group


def is_topic_of_users(named: NamedTopics = ()) -> Column:
    """Return whether the topic is users' own; `named` as for `is_of_users`."""
    topic = F.col("topic")
    users_own = ~topic.isin(*names.SYSTEM_TOPICS) & ~topic.startswith(names.SYSTEM_TOPIC_PREFIX)
    if not named:
        return users_own
    return users_own & ~F.concat_ws("/", "cluster", topic).isin(["/".join(pair) for pair in named])
