"""Progress of groups and of their queues over the observations that count for health."""

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import CONSUMED_QUEUE, GROUP_QUEUE, GROUP_TOPIC_HISTORY, SNAPSHOT, Added, column
from spark.progress.consume_modes import POP, is_lite
from spark.tuning import by_group_topic, small
from tidemark.model.health import CacheLimit
from tidemark.settings.sections import OBSERVATIONS


class Track(Added):
    """The place of a row among the observations of its group on a topic."""

    number = column("bigint", "number of the observation")
    counts_for_itself = column("boolean", "its health is that of this track")
    earlier_worse = column(
        "boolean", "its state before the window was a worse one than `CATCHING_UP`"
    )


def in_observations(first: int = 1 - OBSERVATIONS, last: int = 0) -> WindowSpec:
    """Return the observations of the same group and topic, from one before a row up to it."""
    order = SparkWindow.partitionBy(*GROUP_TOPIC_HISTORY).orderBy(Track.number)
    return order.rangeBetween(first, last)


class Counting(Added):
    """The observation that a snapshot counts for."""

    counts_for = column("string", "id of a snapshot in the window")
    ago = column("int", "how many observations the snapshot lies before that one")


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
"""Type of a queue that a reason can name."""


class NamedQueue(Added):
    """The lists that a queue is on, from which reasons name queues."""

    losing = column("boolean", "it lost messages")
    standing = column("boolean", "it stands still while messages wait")
    held_back = column("boolean", "its client does not pull because its cache is at a limit")


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
        One row per observation in the window, group and topic: `GROUP_TOPIC_HISTORY`,
        ``snapshot_id`` and `QueuesOfGroup`.
    """
    counting = numbers.select("snapshot_id", F.explode("counts_for").alias(*Counting.types()))
    rows = _with_cache(_over_observations(queues, counting), client_queues, counting)
    key = ("snapshot_id", *GROUP_TOPIC_HISTORY)
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
            stepped=F.bit_or(QueueHistory.stepped),
            progressed=_any(has_progressed),
            written=_any(F.col("max_offset") > QueueHistory.lowest_written),
            first_rank=F.min(F.when(has_progressed, F.col("priority_rank"))),
            has_limit=_any(QueueHistory.cache["has_limit"]),
        )
    )
    return added_up.groupBy(*key).agg(
        *QueuesOfGroup.named(
            stepped=F.bit_or(QueuesOfGroup.stepped),
            progressed=F.bool_or(QueuesOfGroup.progressed),
            written=F.bool_or(QueuesOfGroup.written),
            first_rank=F.min(QueuesOfGroup.first_rank),
            has_limit=F.bool_or(QueuesOfGroup.has_limit),
            losing=_queues_where(NamedQueue.losing),
            standing=_queues_where(NamedQueue.standing),
            held_back=_queues_where(NamedQueue.held_back),
        )
    )


def _over_observations(queues: DataFrame, counting: DataFrame) -> DataFrame:
    """Aggregate the observations of each queue that count for an observation in the window.

    One aggregation reads each row once for every observation it counts for. A window function would
    read all that count for each row, also for rows before the window: a tick of 16,000 group queues
    has nine of those for each that counts.
    """
    commit = F.coalesce("consumer_offset", F.lit(NEVER_COMMITTED).cast("bigint"))
    lags_at = F.when(F.col("lag_upper") > 0, F.col("observed_at"))
    stepped = F.col("consumer_offset") > F.col("previous_consumer_offset")
    is_latest = Counting.ago == 0
    return (
        by_group_topic(queues)
        .join(small(counting), on="snapshot_id")
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
    """Add the latest report about a queue from the observations that count for a snapshot."""
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
    offline = column("array<bigint>", "numbers of those at whose ends no client was online")
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
        was_online=F.max("online").over(in_observations(-1, -1)),
        pops=F.col("consume_mode").eqNullSafe(POP) & ~is_lite(F.col("topic")),
    ).transform(_with_history)


def _with_history(rows: DataFrame) -> DataFrame:
    all_of_them = in_observations()
    # The step into the first observation that counts began outside.
    steps = in_observations(2 - OBSERVATIONS)
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
        offline=F.collect_list(F.when(offline, Track.number)).over(steps),
        largest_ack_tps=F.max("ack_tps").over(all_of_them),
        redelivered=F.max("redelivered_tps").over(all_of_them),
        in_flight=F.collect_list("inflight").over(all_of_them),
        was_worse_earlier=F.max(Track.earlier_worse).over(all_of_them),
        produced_tps=F.avg(produced).over(all_of_them),
    )
