"""The part of ``progress.groups`` that queues and members give: sums, and the worst queues."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import GROUP_ID, GROUP_TOPIC, SNAPSHOT, Added, at_least_zero, column, with_new
from spark.progress.throughput import RATES, drain_seconds
from spark.tuning import (
    id_of,
    least_struct,
    ranked,
    small,
    sum_or_too_large,
    sum_unless_too_large,
    value_of,
    with_id,
)
from tidemark.model.consumption import DelaySource

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


ALIKE = ("consume_mode", "consume_kind", "inflight_source")
"""Texts that are the same for nearly all queues of a group on a topic."""


class Sums(Added):
    """Columns of `_sums` that are no results."""

    lags = column("double", "sum of the known lags, a negative one as 0")
    lags_known = column("bigint", "how many there are")
    worst = column("bigint", "a lag with its queue id; see `spark.tuning.with_id`")
    worst_queue = column("struct<order:bigint,broker:string,queue_id:int>", "the queue of it")
    has_priorities = column("boolean", "a queue has a place in an order")
    may_be_older = column("bigint", "1 where a first unconsumed message may be older than dated")
    may_be_ready_longer = column("bigint", "the same of a first message not handed out")


def _sums(known: DataFrame) -> DataFrame:
    """Aggregate the queues of each group, topic and client: sums, largest times, worst queue.

    First those of a broker that are alike, without texts: Spark then keeps numbers in a table, and
    not each queue in a map of Java objects.
    """
    consumer = (*GROUP_TOPIC, "client_id")
    of_brokers = _per_queue(known).groupBy(*consumer, "broker", *ALIKE).agg(*_of_broker())
    summed = of_brokers.groupBy(*consumer).agg(*_of_group())
    mean = Sums.lags / Sums.lags_known
    return with_new(
        summed,
        worst_broker=Sums.worst_queue["broker"],
        worst_queue_id=Sums.worst_queue["queue_id"],
        skew=F.when((mean > 0) & ~Sums.has_priorities, F.col("max_queue_lag") / mean),
        drain_seconds=drain_seconds(
            readable_lag=F.col("readable_lag"),
            consume_tps=F.col("consume_tps"),
            produce_tps=F.col("produce_tps"),
            lag_is_lower_bound=F.col("lag_is_lower_bound"),
        ),
        delay_is_lower_bound=F.when(F.col("delay_ms").isNotNull(), Sums.may_be_older > 0),
        ready_delay_is_lower_bound=F.when(
            F.col("ready_delay_ms").isNotNull(), Sums.may_be_ready_longer > 0
        ),
    )


def _per_queue(known: DataFrame) -> DataFrame:
    """Return the values of each queue that are added up, under the names of their sums."""
    # A queue with one unknown end is unknown, whatever its other numbers are.
    measured = F.col("min_offset").isNotNull() & F.col("max_offset").isNotNull()
    # The broker's shadow of a broadcasting group is a pull position: the consumed offset is
    # unknown, and its lag is a lower bound.
    is_shadow = F.col("offset_store") == "broker_broadcast"
    # A negative count violates an invariant, which `condition` shows; in a sum it counts as 0.
    counts = {name: F.when(measured, at_least_zero(F.col(name))) for name in COUNTS}
    # Queues of lower priority wait by design while one above them has messages.
    served = F.when(measured & (F.col("lag") > 0), F.col("priority_rank"))
    values = {
        **counts,
        **{name: ranked(F.when(measured, at_least_zero(F.col(name))), served) for name in SPANS},
        **{name: F.when(measured, F.col(name)) for name in (*RATES, "loss_in_seconds")},
        "queues_known": F.when(measured & ~is_shadow, 1).otherwise(0),
        "queues_unmeasured": F.when(~measured | is_shadow, 1).otherwise(0),
        "broadcast": F.col("offset_store") != "broker",
        "moved": F.col("consumer_offset") > F.col("previous_consumer_offset"),
        "queues_never_committed": F.when(measured & F.col("consumer_offset").isNull(), 1).otherwise(
            0
        ),
        "lag_is_lower_bound": F.col("lag_is_lower_bound"),
        "has_priorities": F.col("priority_rank").isNotNull(),
        "may_be_older": ranked((measured & _may_be_older()).cast("bigint"), served),
        "may_be_ready_longer": ranked((measured & _may_be_ready_longer()).cast("bigint"), served),
        "worst": with_id(counts["lag"], F.col("queue_id")),
    }
    return known.select(
        *(*GROUP_TOPIC, "client_id", "broker", *ALIKE),
        *(value.alias(name) for name, value in values.items()),
    )


_ADDED_UP = ("queues_known", "queues_unmeasured", "queues_never_committed", *RATES)
_ANY = ("broadcast", "moved", "lag_is_lower_bound", "has_priorities")
_RANKED = (*SPANS, "may_be_older", "may_be_ready_longer")
"""Columns of `_per_queue` by how they are aggregated, besides `COUNTS`."""


def _of_broker() -> list[Column]:
    """Return the aggregates of the alike queues of a group on a topic of one broker."""
    return [
        *(sum_or_too_large(F.col(name)).alias(name) for name in COUNTS),
        *(F.sum(name).alias(name) for name in _ADDED_UP),
        *(F.max(name).alias(name) for name in (*_RANKED, *_ANY)),
        F.min("loss_in_seconds").alias("loss_in_seconds"),
        F.max("lag").alias("max_queue_lag"),
        *Sums.named(
            lags=F.sum(F.col("lag").cast("double")),
            lags_known=F.count("lag"),
            worst=F.max(Sums.worst),
        ),
    ]


def _of_group() -> list[Column]:
    """Return the aggregates of the rows of `_of_broker`."""
    worst = F.struct(
        (-F.col("max_queue_lag")).alias("order"),
        F.col("broker").alias("broker"),
        id_of(Sums.worst).alias("queue_id"),
    )
    return [
        *(sum_unless_too_large(F.col(name)).alias(name) for name in COUNTS),
        *(F.sum(name).alias(name) for name in _ADDED_UP),
        *(F.max(name).alias(name) for name in _ANY),
        *(value_of(F.max(name)).alias(name) for name in _RANKED),
        F.min("loss_in_seconds").alias("loss_in_seconds"),
        F.max("max_queue_lag").alias("max_queue_lag"),
        F.min("consume_mode").alias("consume_mode"),
        # Brokers of one group can differ in kind; the last kind by name has the fewest facts.
        F.max("consume_kind").alias("consume_kind"),
        F.min("inflight_source").alias("inflight_source"),
        *Sums.named(
            lags=F.sum(Sums.lags),
            lags_known=F.sum(Sums.lags_known),
            worst_queue=least_struct(F.when(Sums.worst.isNotNull(), worst)),
        ),
    ]


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
