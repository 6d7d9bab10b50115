"""Progress of groups and of their queues over the observations that count for health."""

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import CONSUMED_QUEUE, GROUP_QUEUE, GROUP_TOPIC_HISTORY, SNAPSHOT, Added, column
from spark.progress.consume_modes import POP, is_lite
from spark.tuning import KEY_HASH, by_group_topic, small, with_key_hash
from tidemark.model.health import CacheLimit
from tidemark.settings.sections import OBSERVATIONS


class Track(Added):
    """The place of a row among the observations of its group on a topic."""

    number = column("bigint", "number of the observation")
    counts_for_itself = column("boolean", "its health is that of this track")
    earlier_worse = column(
        "boolean", "its state before the window was a worse one than `CATCHING_UP`"
    )


def in_observations(*key: str, first: int = 1 - OBSERVATIONS, last: int = 0) -> WindowSpec:
    """Return the observations of the same key, from one before a row up to it.

    Args:
        key: columns; by default a group on a topic.
        first: the first observation, counted from that of the row.
        last: the last one.
    """
    order = SparkWindow.partitionBy(*(key or GROUP_TOPIC_HISTORY)).orderBy(Track.number)
    return order.rangeBetween(first, last)


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

OWN = ("consumer_offset", "pull_offset", "max_offset", "lag_upper", "lost", "priority_rank")
"""Columns of ``progress.queues`` of which the value at an observation is needed."""


_CACHE = (
    f"struct<observed_at:timestamp,messages:bigint,client_id:string,limit:{LIMIT_TYPE},"
    "has_limit:boolean>"
)


class QueueHistory(Added):
    """A queue at an observation, and over those that count for it."""

    commit = column("bigint", "its commit; -1 without one")
    from_broker = column("boolean", "its offset is kept by the broker for the whole group")
    stepped = column("boolean", "the commit advanced since the previous observation")
    stepped_lately = column("boolean", "it did at one of the observations")
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
"""Type of a queue that a reason can name."""


class NamedQueue(Added):
    """The lists that a queue is on, from which reasons name queues."""

    losing = column("boolean", "it lost messages")
    standing = column("boolean", "it stands still while messages wait")
    held_back = column("boolean", "its client does not pull because its cache is at a limit")


class QueuesOfGroup(Added):
    """The queues of a group on a topic at an observation, and over those that count for it."""

    stepped = column("boolean", "a commit advanced since the previous observation")
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
    numbers: DataFrame,
    is_standing: Column,
) -> DataFrame:
    """Summarize the progress of each group's queues up to each observation.

    Args:
        queues: ``progress.queues`` of the window and of the observations before it.
        client_queues: ``raw.client_queues`` of them; None when no client was requested.
        numbers: ``snapshot_id, number, counts_for``, as for `spark.progress.health.with_health`.
        is_standing: whether a queue stands still while messages wait, of `QueueHistory`.

    Returns:
        One row per observation, group and topic: `GROUP_TOPIC_HISTORY`, ``snapshot_id``, the number
        of the observation and `QueuesOfGroup`.
    """
    rows = _with_cache(_over_observations(queues, numbers), client_queues, numbers)
    key = ("snapshot_id", Track.number, *GROUP_TOPIC_HISTORY)
    has_progressed = QueueHistory.commit > QueueHistory.first_commit
    # Spark collects row by row in maps of Java objects, so most queues are added up before.
    named = NamedQueue.to(
        rows,
        losing=F.coalesce(F.col("lost") > QueueHistory.lowest_lost, F.lit(False)),
        standing=F.coalesce(is_standing, F.lit(False)),
        held_back=QueueHistory.cache["limit"].isNotNull(),
    )
    is_named = NamedQueue.losing | NamedQueue.standing | NamedQueue.held_back
    added_up = named.groupBy(
        *(*key, *NamedQueue.types()), F.when(is_named, _queue()).alias("queue")
    ).agg(
        *QueuesOfGroup.named(
            stepped=_any(QueueHistory.stepped),
            progressed=_any(has_progressed),
            written=_any(F.col("max_offset") > QueueHistory.lowest_written),
            first_rank=F.min(F.when(has_progressed, F.col("priority_rank"))),
            has_limit=_any(QueueHistory.cache["has_limit"]),
        )
    )
    return added_up.groupBy(*key).agg(
        *QueuesOfGroup.named(
            stepped=F.bool_or(QueuesOfGroup.stepped),
            progressed=F.bool_or(QueuesOfGroup.progressed),
            written=F.bool_or(QueuesOfGroup.written),
            first_rank=F.min(QueuesOfGroup.first_rank),
            has_limit=F.bool_or(QueuesOfGroup.has_limit),
            losing=_queues_where(NamedQueue.losing),
            standing=_queues_where(NamedQueue.standing),
            held_back=_queues_where(NamedQueue.held_back),
        )
    )


def _over_observations(queues: DataFrame, numbers: DataFrame) -> DataFrame:
    """Add `QueueHistory` without ``cache`` to the rows of observations that count."""
    recent = in_observations(KEY_HASH, *CONSUMED_QUEUE)
    commit = F.coalesce("consumer_offset", F.lit(NEVER_COMMITTED).cast("bigint"))
    lags_at = F.when(F.col("lag_upper") > 0, F.col("observed_at"))
    numbered = queues.join(small(numbers.select("snapshot_id", Track.number)), on="snapshot_id")
    observed = numbered.select(
        *("snapshot_id", "observed_at", Track.number, *CONSUMED_QUEUE, *OWN),
        *QueueHistory.named(
            commit=commit,
            from_broker=F.col("offset_store") == "broker",
            stepped=F.col("consumer_offset") > F.col("previous_consumer_offset"),
        ),
    )
    return QueueHistory.to(
        with_key_hash(by_group_topic(observed), *CONSUMED_QUEUE),
        stepped_lately=F.max(QueueHistory.stepped).over(recent),
        first_commit=F.first(QueueHistory.commit).over(recent),
        lowest_pull=F.min("pull_offset").over(recent),
        lowest_written=F.min("max_offset").over(recent),
        highest_written=F.max("max_offset").over(recent),
        lowest_lost=F.min("lost").over(recent),
        lagged=F.count(lags_at).over(recent),
        lags_since=F.min(lags_at).over(recent),
    )


def _with_cache(
    queues: DataFrame, client_queues: DataFrame | None, numbers: DataFrame
) -> DataFrame:
    """Add the latest report about a queue from the observations that count for a snapshot."""
    if client_queues is None:
        return QueueHistory.to(queues, cache=F.lit(None).cast(_CACHE))
    # Named here, because a frame's own list of columns would make Spark resolve its plan again.
    keys = [name for name in GROUP_QUEUE if name not in SNAPSHOT]
    counting = numbers.select("snapshot_id", F.explode("counts_for").alias("counts_for", "ago"))
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
        .groupBy(F.col("counts_for").alias("snapshot_id"), *keys)
        .agg(*QueueHistory.named(cache=F.max(report).cast(_CACHE)))
    )
    return queues.join(cache, on=["snapshot_id", *keys], how="left")


def _queue() -> Column:
    """Return a row of a queue as a struct, which a reason can name."""
    return F.struct(
        *("broker", "queue_id", "client_id", QueueHistory.from_broker),
        *("consumer_offset", "lag_upper", "priority_rank", QueueHistory.first_commit),
        *("lost", QueueHistory.lowest_lost, "pull_offset", QueueHistory.lowest_pull),
        QueueHistory.cache,
    )


def _queues_where(condition: Column) -> Column:
    """Collect the queues for which a condition holds, ordered by broker and queue."""
    return F.array_sort(F.collect_list(F.when(condition, F.col("queue"))))


def _any(condition: Column) -> Column:
    """Return whether a condition holds for any row; unknown counts as false."""
    return F.bool_or(F.coalesce(condition, F.lit(False)))


KNOWN = "struct<observed_at:timestamp,value:bigint,lost:bigint>"
"""Type of an observation with a known value."""


class GroupHistory(Added):
    """Facts about a group on a topic from its last `OBSERVATIONS`, this one included."""

    value = column("bigint", "the lag that health compares; NULL when a queue of it is unknown")
    was_online = column("boolean", "a member was online at the observation before")
    pops = column("boolean", "it pops, and acknowledgements do not move its commits")
    observations = column("bigint", "how many there are")
    since = column("timestamp", "instant of the oldest")
    known = column(f"array<{KNOWN}>", "those with a value, oldest first")
    stepped_offline = column("boolean", "a commit advanced while no client was online")
    largest_ack_tps = column("double", "largest rate of acknowledgements; NULL where none is known")
    redelivered = column("double", "largest rate of redelivered messages")
    in_flight = column("array<bigint>", "known numbers of messages in flight, oldest first")
    was_worse_earlier = column("boolean", "`Track.earlier_worse` is true of one")
    produced_tps = column("double", "mean rate of production")


def group_progress(rows: DataFrame) -> DataFrame:
    """Add `GroupHistory` to rows of ``progress.groups`` with `Track` and `QueuesOfGroup`."""
    value = F.when(F.col("online"), F.col("lag_upper")).otherwise(F.col("readable_lag"))
    return GroupHistory.to(
        rows,
        value=F.when(F.col("complete"), value),
        was_online=F.max("online").over(in_observations(first=-1, last=-1)),
        pops=F.col("consume_mode").eqNullSafe(POP) & ~is_lite(F.col("topic")),
    ).transform(_with_history)


def _with_history(rows: DataFrame) -> DataFrame:
    all_of_them = in_observations()
    # The step into the first observation that counts began outside.
    steps = in_observations(first=2 - OBSERVATIONS)
    known = F.when(
        GroupHistory.value.isNotNull(), F.struct("observed_at", GroupHistory.value, "lost")
    )
    # An advance without a member online makes `online` unknown, see `spark.progress.groups`.
    was_online = F.coalesce(GroupHistory.was_online, F.lit(False))
    offline = ~F.coalesce("online", F.lit(False)) & ~was_online
    produced = F.when(GroupHistory.value.isNotNull(), F.col("produce_tps"))
    return GroupHistory.to(
        rows,
        observations=F.count(F.lit(1)).over(all_of_them),
        since=F.min("observed_at").over(all_of_them),
        known=F.collect_list(known).over(all_of_them),
        stepped_offline=F.max(offline & QueuesOfGroup.stepped).over(steps),
        largest_ack_tps=F.max("ack_tps").over(all_of_them),
        redelivered=F.max("redelivered_tps").over(all_of_them),
        in_flight=F.collect_list("inflight").over(all_of_them),
        was_worse_earlier=F.max(Track.earlier_worse).over(all_of_them),
        produced_tps=F.avg(produced).over(all_of_them),
    )
