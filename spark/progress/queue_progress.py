"""Progress of single queues over the observations that count for the health of their group."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import SNAPSHOT, Added, column
from spark.progress.keys import CONSUMED_QUEUE, GROUP_QUEUE, GROUP_TOPIC_HISTORY
from spark.tuning import small
from tidemark.model.health import CacheLimit

LIMIT_TYPE = "struct<kind:string,amount:bigint,limit:bigint>"


def reached_limit() -> Column:
    """Return the first limit that a row of ``raw.client_queues`` is above, with the amount.

    In the order in which clients check them: a struct of ``kind`` (a `CacheLimit`), ``amount`` and
    ``limit``, for example 1004 of 1000 messages. NULL where none is reached or nothing is known.
    The numbers are a client's own, so a sum that no ``bigint`` can hold is unknown.
    """
    messages = F.try_add(
        "cached_messages", F.coalesce("in_order_messages", F.lit(0).cast("bigint"))
    )
    span = F.try_subtract("cached_max_offset", "cached_min_offset")
    limits = (
        (CacheLimit.CACHED_MESSAGES, messages, "most_messages"),
        (CacheLimit.CACHED_MIB, F.col("cached_mib"), "most_mib"),
        (CacheLimit.CACHED_SPAN, span, "widest_span"),
    )
    return F.coalesce(
        *(
            F.when(
                amount > F.col(limit),
                F.struct(
                    F.lit(kind).alias("kind"),
                    amount.alias("amount"),
                    F.col(limit).cast("bigint").alias("limit"),
                ),
            )
            for kind, amount, limit in limits
        )
    )


NEVER_COMMITTED = -1
"""Stands for an offset that was never committed, as in `ConsumerOffsetManager.queryOffset`."""

LATEST = (
    *("observed_at", "consumer_offset", "pull_offset", "max_offset", "lag_upper", "lost"),
    "priority_rank",
)
"""Columns of ``progress.queues`` of which the value at the latest observation is needed."""


_CACHE = (
    f"struct<observed_at:timestamp,messages:bigint,client_id:string,limit:{LIMIT_TYPE},"
    "has_limit:boolean>"
)


class Counting(Added):
    """The observation that a snapshot counts for."""

    counts_for = column("string", "id of a snapshot in the window")
    ago = column("int", "how many observations the snapshot lies before that one")


class QueueHistory(Added):
    """A queue over the observations that count for one in the window."""

    commit = column("bigint", "the latest commit; -1 without one")
    from_broker = column("boolean", "its offset is kept by the broker for the whole group")
    stepped = column("int", "a bit for each, newest lowest: the commit advanced since the last")
    first_commit = column("bigint", "the commit at the first of them; -1 without one")
    lowest_pull = column("bigint", "lowest pull offset")
    lowest_written = column("bigint", "lowest end of the queue")
    highest_written = column("bigint", "highest end of the queue")
    lowest_lost = column("bigint", "least number of lost messages")
    lagged = column("bigint", "at how many of them it lagged")
    lags_since = column("timestamp", "instant of the first at which it lagged")
    cache = column(_CACHE, "latest client report of its cached messages; NULL without one")


QUEUE = (
    "struct<broker:string,queue_id:int,client_id:string,from_broker:boolean,"
    "consumer_offset:bigint,lag_upper:bigint,priority_rank:int,first_commit:bigint,lost:bigint,"
    f"lowest_lost:bigint,pull_offset:bigint,lowest_pull:bigint,cache:{_CACHE}>"
)
"""Type of a queue that a reason can name; see `queues_with`."""


class QueuesOfGroup(Added):
    """The queues of a group on a topic, over the observations that count for one in the window."""

    stepped = column("int", "as `QueueHistory.stepped`, of any queue")
    progressed = column("boolean", "a commit is further than at the first of them")
    written = column("boolean", "a message was written")
    first_rank = column("int", "lowest `priority_rank` of a queue that progressed")
    losing = column(f"array<{QUEUE}>", "queues that lost messages")
    standing = column(f"array<{QUEUE}>", "queues that stand still while messages wait")
    held_back = column(
        f"array<{QUEUE}>", "those whose client does not pull because its cache is at a limit"
    )
    has_limit = column("boolean", "a client reported the limit of a cache")


def queue_progress(
    queues: DataFrame,
    client_queues: DataFrame | None,
    counting: DataFrame,
    is_standing: Column,
) -> DataFrame:
    """Summarize the progress of each group's queues up to each observation.

    Args:
        queues: ``progress.queues`` of the window and of the observations before it.
        client_queues: ``raw.client_queues`` of them; None when no client was requested.
        counting: one row per snapshot and observation that it counts for: ``snapshot_id`` and
            `Counting`.
        is_standing: whether a queue stands still while messages wait, of `QueueHistory`.

    Returns:
        One row per observation in the window, group and topic: `GROUP_TOPIC_HISTORY`,
        ``snapshot_id`` and `QueuesOfGroup`.
    """
    has_progressed = QueueHistory.commit > QueueHistory.first_commit
    return (
        _with_cache(_over_observations(queues, counting), client_queues, counting)
        .groupBy("snapshot_id", *GROUP_TOPIC_HISTORY)
        .agg(
            *QueuesOfGroup.named(
                stepped=F.bit_or(QueueHistory.stepped),
                progressed=_any(has_progressed),
                written=_any(F.col("max_offset") > QueueHistory.lowest_written),
                first_rank=F.min(F.when(has_progressed, F.col("priority_rank"))),
                losing=queues_with(F.col("lost") > QueueHistory.lowest_lost),
                standing=queues_with(is_standing),
                held_back=queues_with(QueueHistory.cache["limit"].isNotNull()),
                has_limit=_any(QueueHistory.cache["has_limit"]),
            )
        )
    )


def _over_observations(queues: DataFrame, counting: DataFrame) -> DataFrame:
    """Aggregate the observations of each queue that count for an observation in the window.

    One aggregation reads each row once for every observation it counts for. A window function would
    read all that count for each row, also for rows before the window.
    """
    commit = F.coalesce("consumer_offset", F.lit(NEVER_COMMITTED).cast("bigint"))
    lags_at = F.when(F.col("lag_upper") > 0, F.col("observed_at"))
    stepped = F.col("consumer_offset") > F.col("previous_consumer_offset")
    is_latest = Counting.ago == 0
    return (
        queues.join(small(counting), on="snapshot_id")
        .groupBy(*CONSUMED_QUEUE, Counting.counts_for.alias("snapshot_id"))
        .agg(
            *(F.max(F.when(is_latest, F.col(name))).alias(name) for name in LATEST),
            *QueueHistory.named(
                commit=F.max(F.when(is_latest, commit)),
                # A boolean, because Spark sorts to aggregate texts.
                from_broker=F.max(F.when(is_latest, F.col("offset_store") == "broker")),
                stepped=F.bit_or(F.when(stepped, _bit(Counting.ago))),
                first_commit=F.max_by(commit, Counting.ago),
                lowest_pull=F.min("pull_offset"),
                lowest_written=F.min("max_offset"),
                highest_written=F.max("max_offset"),
                lowest_lost=F.min("lost"),
                lagged=F.count(lags_at),
                lags_since=F.min(lags_at),
            ),
        )
    )


def _bit(place: Column) -> Column:
    return F.call_function("shiftleft", F.lit(1), place)


def _with_cache(
    queues: DataFrame, client_queues: DataFrame | None, counting: DataFrame
) -> DataFrame:
    if client_queues is None:
        return QueueHistory.to(queues, cache=F.lit(None).cast(_CACHE))
    # Named here, because a frame's own list of columns would make Spark resolve its plan again.
    keys = [name for name in GROUP_QUEUE if name not in SNAPSHOT]
    report = F.struct(
        "observed_at",
        F.col("cached_messages").alias("messages"),
        "client_id",
        reached_limit().alias("limit"),
        F.col("most_messages").isNotNull().alias("has_limit"),
    )
    is_owned = ~F.coalesce("dropped", F.lit(False)) & F.col("cached_messages").isNotNull()
    cache = (
        client_queues.where(is_owned)
        .join(small(counting), on="snapshot_id")
        .groupBy(Counting.counts_for.alias("snapshot_id"), *keys)
        .agg(*QueueHistory.named(cache=F.max(report).cast(_CACHE)))
    )
    return queues.join(cache, on=["snapshot_id", *keys], how="left")


def queues_with(condition: Column) -> Column:
    """Collect the queues for which a condition holds, as structs ordered by broker and queue."""
    queue = F.struct(
        *("broker", "queue_id", "client_id", QueueHistory.from_broker),
        *("consumer_offset", "lag_upper", "priority_rank", QueueHistory.first_commit),
        *("lost", QueueHistory.lowest_lost, "pull_offset", QueueHistory.lowest_pull),
        QueueHistory.cache,
    )
    return F.array_sort(F.collect_list(F.when(condition, queue)))


def _any(condition: Column) -> Column:
    """Return whether a condition holds for any row; unknown counts as false."""
    return F.bool_or(F.coalesce(condition, F.lit(False)))
