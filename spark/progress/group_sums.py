"""The part of ``progress.groups`` that queues and members give: sums, and the worst queues."""

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import SNAPSHOT, Added, at_least_zero, column, with_new, with_replaced
from spark.progress.consume_modes import POP, is_lite
from spark.progress.keys import GROUP_ID, GROUP_TOPIC, GROUP_TOPIC_HISTORY
from spark.progress.throughput import RATES, drain_seconds
from spark.tuning import KEY_HASH, largest_of_first_rank, least_struct, small, with_key_hash
from tidemark.model.queues import DelaySource
from tidemark.settings.sections import OBSERVATIONS


class Track(Added):
    """The place of a row among the observations of its group on a topic."""

    number = column("int", "number of the observation")
    counts_for_itself = column("boolean", "its health is that of this track")
    earlier_worse = column(
        "boolean", "its state before the window was a worse one than `CATCHING_UP`"
    )


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
    offline = column("array<int>", "numbers of those at whose ends no client was online")
    largest_ack_tps = column("double", "largest rate of acknowledgements; NULL where none is known")
    redelivered = column("double", "largest rate of redelivered messages")
    in_flight = column("array<bigint>", "known numbers of messages in flight, oldest first")
    was_worse_earlier = column("boolean", "`Track.earlier_worse` is true of one")
    produced_tps = column("double", "mean rate of production")


def group_progress(rows: DataFrame) -> DataFrame:
    """Add `GroupHistory` to rows of ``progress.groups`` with their `Track`."""
    value = F.when(F.col("online"), F.col("lag_upper")).otherwise(F.col("readable_lag"))
    return GroupHistory.to(
        rows,
        value=F.when(F.col("complete"), value),
        was_online=F.max("online").over(in_observations(-1, -1)),
        pops=F.col("consume_mode").eqNullSafe(POP) & ~is_lite(F.col("topic")),
    ).transform(_with_history)


def in_observations(first: int = 1 - OBSERVATIONS, last: int = 0) -> WindowSpec:
    """Return the observations of the same group and topic, from one before a row up to it."""
    order = SparkWindow.partitionBy(*GROUP_TOPIC_HISTORY).orderBy(Track.number)
    return order.rangeBetween(first, last)


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


REPORTED_OF_GROUP = ("message_model", "consume_type", "version", "version_order")
"""Columns of `group_members` that each member reports about its group."""


class Members(Added):
    """Columns of `group_members` besides those of ``raw.clients``."""

    version_order = column("array<bigint>", "orders versions; see `_version_order`")


def group_members(clients: DataFrame) -> DataFrame:
    """Return the topics that each member of a group subscribes to.

    Args:
        clients: ``raw.clients``.

    Returns:
        One row per snapshot, group, client and topic: `SNAPSHOT`, ``consumer_group, client_id,
        topic`` (NULL for a member without subscriptions), ``connections`` and
        `REPORTED_OF_GROUP`.
    """
    return with_new(
        clients, subscription=F.explode_outer("subscriptions"), version_order=_version_order()
    ).select(
        *SNAPSHOT,
        "consumer_group",
        "client_id",
        "connections",
        *REPORTED_OF_GROUP,
        F.col("subscription.topic").alias("topic"),
    )


def _version_order() -> Column:
    """Return an array that orders versions as `tidemark.rocketmq.names.version_order` does."""
    version = F.col("version")
    numbers = F.transform(
        F.regexp_extract_all(version, F.lit(r"(\d+)"), 1), lambda text: text.try_cast("bigint")
    )
    release = F.when(version.endswith("_SNAPSHOT"), 0).otherwise(1)
    # Clients in other languages than Java report a bare number.
    return (
        F.when(version == "HIGHER_VERSION", F.array(F.lit(99)))
        .when(version.rlike(r"^\d+$"), F.concat(F.array(F.lit(0)), numbers))
        .when(version == "V3", numbers)
        .otherwise(F.concat(numbers, F.array(release)))
    )


def without_leftover_commits(queues: DataFrame, members: DataFrame) -> DataFrame:
    """Leave out broker-side commits of groups that are broadcasting now.

    Such a group made them as a cluster and no longer uses them.

    Args:
        queues: ``progress.queues``.
        members: rows of `group_members`.

    Returns:
        Rows of `queues`.
    """
    models = members.groupBy(*GROUP_ID).agg(F.min("message_model").alias("model"))
    broadcasting = models.where(F.col("model") == "BROADCASTING").select(
        *GROUP_ID, F.lit("broker").alias("offset_store")
    )
    return queues.join(small(broadcasting), on=[*GROUP_ID, "offset_store"], how="left_anti")


COUNTS = ("lag", "inflight", "available", "lost", "readable_lag", "lag_upper")
SPANS = ("delay_ms", "ready_delay_ms", "lag_span_ms", "inflight_span_ms", "available_span_ms")


class WorstClient(Added):
    """Columns of `sums_of_worst_clients` besides those of ``progress.groups``."""

    queues_known = column("bigint", "queues with both ends and an own offset")
    queues_unmeasured = column("bigint", "the others")
    broadcast = column("boolean", "its offsets are not those of a clustering group")
    moved = column("boolean", "a commit advanced since the previous observation")


WORST_CLIENT_COLUMNS = (
    *(*COUNTS, *SPANS, *RATES),
    *("client_id", "queues_never_committed", *WorstClient.types()),
    *("max_queue_lag", "skew"),
    *("worst_broker", "worst_queue_id", "loss_in_seconds", "drain_seconds"),
    *("consume_mode", "consume_kind", "lag_is_lower_bound", "inflight_source"),
    *("delay_is_lower_bound", "ready_delay_is_lower_bound"),
)
"""Aggregates over the queues of a group on a topic, or of its worst broadcasting client."""


def sums_of_worst_clients(known: DataFrame) -> DataFrame:
    """Sum the queues of each group on a topic; of a broadcasting group those of one client.

    Args:
        known: ``progress.queues`` of a window, without commits that no longer count.

    Returns:
        One row per snapshot, group and topic: `GROUP_TOPIC` and `WORST_CLIENT_COLUMNS` of the
        client with the largest lag.
    """
    return _worst_client(_sums(known))


def _sums(known: DataFrame) -> DataFrame:
    """Aggregate the queues of each group, topic and client: sums, largest times, worst queue."""
    # A queue with one unknown end is unknown, whatever its other numbers are.
    measured = F.col("min_offset").isNotNull() & F.col("max_offset").isNotNull()
    of_queues = (*COUNTS, *SPANS, *RATES, "loss_in_seconds")
    known = with_replaced(known, **{name: F.when(measured, F.col(name)) for name in of_queues})
    # The broker's shadow of a broadcasting group is a pull position: the consumed offset is
    # unknown, and its lag is a lower bound.
    is_shadow = F.col("offset_store") == "broker_broadcast"
    # A negative count violates an invariant, which `condition` shows; in a sum it counts as 0.
    lag = at_least_zero(F.col("lag"))
    worst = F.struct(
        (-lag).alias("order"), F.col("broker").alias("broker"), F.col("queue_id").alias("queue_id")
    )
    consumer = (*GROUP_TOPIC, "client_id")
    summed = (
        with_key_hash(known, *consumer)
        .groupBy(KEY_HASH, *consumer)
        .agg(
            *(F.try_sum(at_least_zero(F.col(name))).alias(name) for name in COUNTS),
            *(_largest_of_served(F.col(name)).alias(name) for name in SPANS),
            *(F.sum(name).alias(name) for name in RATES),
            F.min("loss_in_seconds").alias("loss_in_seconds"),
            *WorstClient.named(
                queues_known=F.count_if(measured & ~is_shadow),
                queues_unmeasured=F.count_if(~measured | is_shadow),
                broadcast=F.max(F.col("offset_store") != "broker"),
                moved=F.max(F.col("consumer_offset") > F.col("previous_consumer_offset")),
            ),
            F.count_if(measured & F.col("consumer_offset").isNull()).alias(
                "queues_never_committed"
            ),
            F.max(lag).alias("max_queue_lag"),
            F.avg(lag).alias("mean_queue_lag"),
            least_struct(F.when(F.col("lag").isNotNull(), worst)).alias("worst"),
            F.min("consume_mode").alias("consume_mode"),
            # Brokers of one group can differ in kind; the last kind by name has the fewest facts.
            F.max("consume_kind").alias("consume_kind"),
            F.max("lag_is_lower_bound").alias("lag_is_lower_bound"),
            F.min("inflight_source").alias("inflight_source"),
            F.max(F.col("priority_rank").isNotNull()).alias("has_priorities"),
            (_largest_of_served((measured & _may_be_older()).cast("bigint")) > 0).alias(
                "may_be_older"
            ),
            (_largest_of_served((measured & _may_be_ready_longer()).cast("bigint")) > 0).alias(
                "may_be_ready_longer"
            ),
        )
    )
    return with_new(
        summed,
        worst_broker=F.col("worst.broker"),
        worst_queue_id=F.col("worst.queue_id"),
        skew=F.when(
            (F.col("mean_queue_lag") > 0) & ~F.col("has_priorities"),
            F.col("max_queue_lag") / F.col("mean_queue_lag"),
        ),
        drain_seconds=drain_seconds(
            readable_lag=F.col("readable_lag"),
            consume_tps=F.col("consume_tps"),
            produce_tps=F.col("produce_tps"),
            lag_is_lower_bound=F.col("lag_is_lower_bound"),
        ),
        delay_is_lower_bound=F.when(F.col("delay_ms").isNotNull(), F.col("may_be_older")),
        ready_delay_is_lower_bound=F.when(
            F.col("ready_delay_ms").isNotNull(), F.col("may_be_ready_longer")
        ),
    )


def _largest_of_served(value: Column) -> Column:
    """Aggregate the largest value of the queues that are served now; all are, without priorities.

    Queues of lower priority wait by design while one above them has messages.
    """
    return largest_of_first_rank(
        at_least_zero(value), F.when(F.col("lag") > 0, F.col("priority_rank"))
    )


def _may_be_older() -> Column:
    """Return whether the first unconsumed message of a queue may be older than its delay shows.

    The largest of the known delays of a group is then a lower bound. A queue without a commit has
    no first unconsumed message; `queues_never_committed` counts it.
    """
    is_undated = (F.col("readable_lag") > 0) & F.col("consumer_at").isNull()
    return F.coalesce(F.col("delay_source") == DelaySource.AT_LEAST, F.lit(False)) | F.coalesce(
        is_undated, F.lit(False)
    )


def _may_be_ready_longer() -> Column:
    """Return whether the first message not handed out may be older than the ready delay shows."""
    is_undated = (F.coalesce("available", "lag") > 0) & F.col("pull_at").isNull()
    return F.coalesce("ready_delay_is_lower_bound", F.lit(False)) | F.coalesce(
        is_undated, F.lit(False)
    )


def _worst_client(sums: DataFrame) -> DataFrame:
    """Keep the row of the client with the largest lag; a clustering group has one row anyway."""
    order = SparkWindow.partitionBy(*GROUP_TOPIC).orderBy(
        F.col("lag").desc_nulls_last(), F.col("client_id").asc_nulls_first()
    )
    return with_new(sums, place=F.row_number().over(order)).where(F.col("place") == 1)
