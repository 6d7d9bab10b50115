"""Progress of single queues over the observations that count for the health of their group."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import SNAPSHOT, with_new
from spark.progress.keys import CONSUMED_QUEUE, GROUP_QUEUE, GROUP_TOPIC_HISTORY
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
        counting: ``snapshot_id, counts_for, ago``: a snapshot, an observation it counts for, and
            how many observations it lies before that one.
        is_standing: whether a queue stands still while messages wait, of a row of this
            aggregation.

    Returns:
        One row per observation in the window, group and topic: `GROUP_TOPIC_HISTORY`,
        ``snapshot_id`` and, over all observations that count for it: ``stepped``, a bit for each
        (newest lowest), set when a commit advanced since the one before; ``progressed``, whether a
        commit is further than at the first of them; ``written``, whether a message was written;
        ``first_rank``, the lowest `priority_rank` of a queue that progressed; ``losing``, the
        queues that lost messages; ``standing``, the standing queues;
        ``held_back``, those whose client does not pull because its cache is at a limit (see
        `queues_with`); ``has_limit``, whether a client reported one of any queue.
    """
    return (
        _with_cache(_over_observations(queues, counting), client_queues, counting)
        .groupBy("snapshot_id", *GROUP_TOPIC_HISTORY)
        .agg(
            F.bit_or("stepped").alias("stepped"),
            _any(F.col("commit") > F.col("first_commit")).alias("progressed"),
            _any(F.col("max_offset") > F.col("lowest_written")).alias("written"),
            F.min(F.when(F.col("commit") > F.col("first_commit"), F.col("priority_rank"))).alias(
                "first_rank"
            ),
            queues_with(F.col("lost") > F.col("lowest_lost")).alias("losing"),
            queues_with(is_standing).alias("standing"),
            queues_with(F.col("cache.limit").isNotNull()).alias("held_back"),
            _any(F.col("cache.has_limit")).alias("has_limit"),
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
    is_latest = F.col("ago") == 0
    latest = {
        **{name: F.col(name) for name in LATEST},
        "commit": commit,
        # A boolean, because Spark sorts to aggregate texts.
        "from_broker": F.col("offset_store") == "broker",
    }
    return (
        queues.join(F.broadcast(counting), on="snapshot_id")
        .groupBy(*CONSUMED_QUEUE, F.col("counts_for").alias("snapshot_id"))
        .agg(
            *(F.max(F.when(is_latest, value)).alias(name) for name, value in latest.items()),
            F.bit_or(F.when(stepped, _bit("ago"))).alias("stepped"),
            F.max_by(commit, "ago").alias("first_commit"),
            F.min("pull_offset").alias("lowest_pull"),
            F.min("max_offset").alias("lowest_written"),
            F.max("max_offset").alias("highest_written"),
            F.min("lost").alias("lowest_lost"),
            F.count(lags_at).alias("lagged"),
            F.min(lags_at).alias("lags_since"),
        )
    )


def _bit(place: str) -> Column:
    return F.call_function("shiftleft", F.lit(1), F.col(place))


def _with_cache(
    queues: DataFrame, client_queues: DataFrame | None, counting: DataFrame
) -> DataFrame:
    """Add ``cache``: the latest client report of the queue's cached messages, NULL without one."""
    limit = f"client_id:string,limit:{LIMIT_TYPE},has_limit:boolean"
    kind = f"struct<observed_at:timestamp,messages:bigint,{limit}>"
    if client_queues is None:
        return with_new(queues, cache=F.lit(None).cast(kind))
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
        .join(F.broadcast(counting), on="snapshot_id")
        .groupBy(F.col("counts_for").alias("snapshot_id"), *keys)
        .agg(F.max(report).cast(kind).alias("cache"))
    )
    return queues.join(cache, on=["snapshot_id", *keys], how="left")


def queues_with(condition: Column) -> Column:
    """Collect the queues for which a condition holds, as structs ordered by broker and queue.

    Fields: ``broker, queue_id, client_id, from_broker, consumer_offset, lag_upper, priority_rank,
    first_commit, lost, lowest_lost, pull_offset, lowest_pull`` and ``cache`` (``observed_at,
    messages, client_id, limit``).
    """
    names = ("broker", "queue_id", "client_id", "from_broker", "consumer_offset", "lag_upper")
    counted = (
        "priority_rank",
        "first_commit",
        "lost",
        "lowest_lost",
        "pull_offset",
        "lowest_pull",
        "cache",
    )
    queue = F.struct(*names, *counted)
    return F.array_sort(F.collect_list(F.when(condition, queue)))


def _any(condition: Column) -> Column:
    """Return whether a condition holds for any row; unknown counts as false."""
    return F.bool_or(F.coalesce(condition, F.lit(False)))
