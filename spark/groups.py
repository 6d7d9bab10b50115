"""How far every group has got on every topic: ``progress.groups``.

A sum is over what is known. What a silent broker, a quarantined row or a broadcasting client
without a broker-side offset hides is counted as unknown, never as zero.
"""

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from lake.history import WITHOUT_QUEUES
from lake.tables import progress
from lake.window import Window
from rocketmq import names
from spark.columns import SNAPSHOT, at_least_zero, inside
from spark.filtering import NOTHING, Evidence, with_filtered_lag
from spark.progress import RATES, RawFrames, drain_seconds, of_users

PAIR = (*SNAPSHOT, "consumer_group", "topic")
"""A group on a topic in a snapshot: the grain of the result."""

OWN_TOPIC = f"^({names.RETRY_PREFIX}|{names.DLQ_PREFIX})"
"""How topics begin that are a group's own."""

QUEUE_OF_PAIR = (*PAIR, "broker", "queue_id")

COUNTS = ("lag", "inflight", "available", "lost", "readable_lag", "lag_upper")
SPANS = ("delay_ms", "lag_span_ms", "inflight_span_ms", "available_span_ms")

OF_WORST_CLIENT = (
    *(*COUNTS, *SPANS, *RATES),
    *("client_id", "queues_known", "queues_unmeasured", "queues_never_committed"),
    *("max_queue_lag", "skew"),
    *("worst_broker", "worst_queue_id", "loss_in_seconds", "drain_seconds", "broadcast"),
)
"""What is summed over the queues of a pair, or of its worst client."""


def groups(
    queues: DataFrame,
    raw: RawFrames,
    silent: DataFrame,
    window: Window,
    evidence: Evidence = NOTHING,
) -> DataFrame:
    """``progress.groups`` of a window.

    Args:
        queues: ``progress.queues`` of the window.
        raw: raw rows of the window and of each `last_snapshot_id`. Of ``queue_offsets`` only those
            that are fit to compute on; of the others all, for a row that is not fit says what is
            not known. Rows of ``consumer_offsets`` that are in `queues` may be left out. None of
            them is counted twice when it is there twice.
        silent: ``snapshot_id, broker, last_snapshot_id``: one row per snapshot and broker that it
            should hold and does not.
        window: what is computed.
        evidence: what filtered lag is estimated from.

    Returns:
        One row per snapshot, group and topic, with the columns of `lake.tables.progress.GROUPS`
        but those of its `HEALTH`.
    """
    raw = replace(raw, consumer_offsets=_with_queues(raw))
    members = _members(raw.clients.where(inside(window)))
    known = _of_model(queues, members)
    hidden = _hidden(raw, silent)
    unknown = (
        hidden.unionByName(_excluded(raw.consumer_offsets.where(inside(window)), queues))
        .unionByName(
            _read_by_all(members, raw.queue_offsets.where(inside(window))), allowMissingColumns=True
        )
        .where(of_users())
        .groupBy(*QUEUE_OF_PAIR)
        .agg(F.max("read_by_all").alias("read_by_all"))
    )
    about_groups = _gathered(
        members.select("snapshot_id", "consumer_group", *COMMON),
        _unheard(hidden, raw.snapshots),
        _own_topics(raw.queue_offsets, raw.topics),
    )
    return (
        _pairs(_worst_client(_sums(known)), unknown, members)
        .withColumns(_of_retry_topic())
        .join(about_groups, on=["snapshot_id", "consumer_group"], how="left")
        .join(F.broadcast(_about_snapshots(raw.snapshots)), on="snapshot_id", how="left")
        .withColumns(_completeness())
        .withColumns(_membership())
        .transform(with_filtered_lag, known, raw.clients.where(inside(window)), evidence)
        .select(*FACTS)
    )


HEALTH = {column.name for column in progress.HEALTH}
"""What needs more than one observation, and is added by `spark.health`."""

FACTS = [name for name in progress.GROUPS.column_names if name not in HEALTH]
"""What one observation tells."""

COMMON = ("message_model", "consume_type", "version", "place_of_version")
"""What each member tells of its group."""


def _pairs(sums: DataFrame, unknown: DataFrame, members: DataFrame) -> DataFrame:
    """Every group on every topic: of which queues are known, or not, or which is subscribed to.

    One aggregation of all three, where joins would sort each of them. Among the unknown are all
    queues that a broadcasting group reads: what is known of its worst client is taken off.
    """
    found = F.col("queues_known") + F.col("queues_unmeasured")
    read_by_all = F.max("read_by_all") > 0
    return (
        sums.unionByName(
            unknown.select(*PAIR, F.lit(1).alias("unknown"), "read_by_all"),
            allowMissingColumns=True,
        )
        .unionByName(
            members.where(of_users()).select(*PAIR, F.col("client_id").alias("member")),
            allowMissingColumns=True,
        )
        .groupBy(*PAIR)
        .agg(
            (
                F.coalesce(F.sum("unknown"), F.lit(0))
                + F.coalesce(F.max("queues_unmeasured"), F.lit(0))
                - F.when(read_by_all, F.coalesce(F.max(found), F.lit(0))).otherwise(0)
            ).alias("queues_unknown"),
            F.size(F.collect_set("member")).alias("subscribers"),
            *(F.max(name).alias(name) for name in OF_WORST_CLIENT),
        )
    )


def _members(clients: DataFrame) -> DataFrame:
    """One row per snapshot, group, client and topic it subscribes to."""
    return clients.withColumns(
        {"subscription": F.explode_outer("subscriptions"), "place_of_version": _place_of_version()}
    ).select(
        *SNAPSHOT,
        "consumer_group",
        "client_id",
        *COMMON,
        F.col("subscription.topic").alias("topic"),
    )


def _place_of_version() -> Column:
    """What orders versions as `rocketmq.names.version_order` does."""
    version = F.col("version")
    numbers = F.transform(
        F.regexp_extract_all(version, F.lit(r"(\d+)"), 1), lambda text: text.try_cast("bigint")
    )
    release = F.when(version.endswith("_SNAPSHOT"), 0).otherwise(1)
    # A bare number is what a client that is not Java's told.
    return (
        F.when(version == "HIGHER_VERSION", F.array(F.lit(99)))
        .when(version.rlike(r"^\d+$"), F.concat(F.array(F.lit(0)), numbers))
        .when(version == "V3", numbers)
        .otherwise(F.concat(numbers, F.array(release)))
    )


def _gathered(members: DataFrame, unheard: DataFrame, own_topics: DataFrame) -> DataFrame:
    """One row per snapshot and group: what is known of it as a whole, each from one source."""
    return (
        members.withColumn("has_members", F.lit(True))
        .unionByName(unheard, allowMissingColumns=True)
        .unionByName(own_topics, allowMissingColumns=True)
        .groupBy("snapshot_id", "consumer_group")
        .agg(
            F.min("message_model").alias("message_model"),
            F.min("consume_type").alias("consume_type"),
            F.min_by("version", "place_of_version").alias("client_version"),
            F.max("has_members").alias("has_members"),
            F.max("unheard").alias("unheard"),
            F.max("hidden").alias("hidden"),
            F.max("has_retry_topic").alias("has_retry_topic"),
            F.max("has_dlq").alias("has_dlq"),
            F.try_sum("stored_retries").alias("stored_retries"),
            F.try_sum("dead_letters").alias("dead_letters"),
        )
    )


def _of_model(queues: DataFrame, members: DataFrame) -> DataFrame:
    """Leaves out what a group committed as a cluster when it is broadcasting now."""
    key = ["snapshot_id", "consumer_group"]
    models = members.groupBy(*key).agg(F.min("message_model").alias("model"))
    broadcasting = models.where("model = 'BROADCASTING'").select(
        *key, F.lit("broker").alias("offset_store")
    )
    return queues.join(F.broadcast(broadcasting), on=[*key, "offset_store"], how="left_anti")


def _hidden(raw: RawFrames, silent: DataFrame) -> DataFrame:
    """The queues that a silent broker last had."""
    last = raw.consumer_offsets.select(
        F.col("snapshot_id").alias("last_snapshot_id"),
        "broker",
        "consumer_group",
        "topic",
        "queue_id",
    )
    holes = silent.join(raw.snapshots.select(*SNAPSHOT), on="snapshot_id", how="inner")
    return holes.join(last, on=["last_snapshot_id", "broker"], how="inner").select(*QUEUE_OF_PAIR)


def _excluded(consumer_offsets: DataFrame, queues: DataFrame) -> DataFrame:
    """The queues that only rows unfit to compute on are about."""
    named = consumer_offsets.select(*QUEUE_OF_PAIR).dropna()
    return named.join(queues.select(*QUEUE_OF_PAIR), on=list(QUEUE_OF_PAIR), how="left_anti")


def _read_by_all(members: DataFrame, queue_offsets: DataFrame) -> DataFrame:
    """The queues that each broadcasting member reads, whether it is known how far or not."""
    broadcasting = (
        members.where(F.col("message_model") == "BROADCASTING")
        .where(~F.col("topic").startswith(names.RETRY_PREFIX))
        .select(*PAIR)
        .distinct()
    )
    read = queue_offsets.select("snapshot_id", "topic", "broker", "queue_id")
    return broadcasting.join(read, on=["snapshot_id", "topic"], how="inner").select(
        *QUEUE_OF_PAIR, F.lit(1).alias("read_by_all")
    )


def _sums(known: DataFrame) -> DataFrame:
    """One row per pair and client: sums of what is known, largest times, worst queue."""
    # A queue that one end is not known of is not known, whatever its other numbers are.
    measured = F.col("min_offset").isNotNull() & F.col("max_offset").isNotNull()
    of_queues = (*COUNTS, *SPANS, *RATES, "loss_in_seconds")
    known = known.withColumns({name: F.when(measured, F.col(name)) for name in of_queues})
    # A negative count is a broken invariant, shown by its condition; in a sum it counts as 0.
    lag = at_least_zero(F.col("lag"))
    worst = F.struct(
        (-lag).alias("order"), F.col("broker").alias("broker"), F.col("queue_id").alias("queue_id")
    )
    summed = known.groupBy(*PAIR, "client_id").agg(
        *(F.try_sum(at_least_zero(F.col(name))).alias(name) for name in COUNTS),
        *(F.max(name).alias(name) for name in SPANS),
        *(F.sum(name).alias(name) for name in RATES),
        F.min("loss_in_seconds").alias("loss_in_seconds"),
        F.count_if(measured).alias("queues_known"),
        F.count_if(~measured).alias("queues_unmeasured"),
        F.count_if(measured & F.col("consumer_offset").isNull()).alias("queues_never_committed"),
        F.max(lag).alias("max_queue_lag"),
        F.avg(lag).alias("mean_queue_lag"),
        F.min(F.when(F.col("lag").isNotNull(), worst)).alias("worst"),
        F.max(F.col("offset_store") != "broker").alias("broadcast"),
    )
    return summed.withColumns(
        {
            "worst_broker": F.col("worst.broker"),
            "worst_queue_id": F.col("worst.queue_id"),
            "skew": F.when(
                F.col("mean_queue_lag") > 0, F.col("max_queue_lag") / F.col("mean_queue_lag")
            ),
            "drain_seconds": drain_seconds(),
        }
    )


def _worst_client(sums: DataFrame) -> DataFrame:
    """A cluster group has one row here; a broadcasting one keeps that of its worst client."""
    order = SparkWindow.partitionBy(*PAIR).orderBy(
        F.col("lag").desc_nulls_last(), F.col("client_id").asc_nulls_first()
    )
    return sums.withColumn("place", F.row_number().over(order)).where("place = 1")


def _unheard(hidden: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Groups whose members may be online where nobody could be asked."""
    failed = snapshots.select("snapshot_id", F.explode("problems").alias("problem")).where(
        F.col("problem.operation").startswith(names.CONNECTIONS)
    )
    named = F.substring_index("problem.operation", names.CONNECTIONS, -1)
    asked = failed.select("snapshot_id", F.explode(F.split(named, " ")).alias("consumer_group"))
    groups = hidden.select("snapshot_id", "consumer_group", F.lit(True).alias("hidden"))
    return groups.unionByName(asked, allowMissingColumns=True).withColumn("unheard", F.lit(True))


def _own_topics(queue_offsets: DataFrame, topics: DataFrame) -> DataFrame:
    """Which groups have a retry and a dead-letter topic, and messages stored in their queues."""
    topic, stored = F.col("topic"), F.col("max_offset") - F.col("min_offset")
    is_retry, is_dlq = (topic.startswith(each) for each in (names.RETRY_PREFIX, names.DLQ_PREFIX))
    queues = queue_offsets.select("snapshot_id", "topic", stored.alias("stored"))
    return (
        queues.unionByName(topics.select("snapshot_id", "topic"), allowMissingColumns=True)
        .where(is_retry | is_dlq)
        .select(
            "snapshot_id",
            F.regexp_replace(topic, OWN_TOPIC, "").alias("consumer_group"),
            F.when(is_retry, F.lit(True)).alias("has_retry_topic"),
            F.when(is_dlq, F.lit(True)).alias("has_dlq"),
            F.when(is_retry, F.col("stored")).alias("stored_retries"),
            F.when(is_dlq, F.col("stored")).alias("dead_letters"),
        )
    )


def _of_retry_topic() -> dict[str, Column]:
    """The lag of each group on its own retry topic, and how much of that is not known."""
    own = F.col("topic") == F.concat(F.lit(names.RETRY_PREFIX), F.col("consumer_group"))
    group = SparkWindow.partitionBy("snapshot_id", "consumer_group")
    return {
        "retries": F.max(F.when(own, F.col("lag"))).over(group),
        "retries_unknown": F.max(F.when(own, F.col("queues_unknown"))).over(group),
    }


def _about_snapshots(snapshots: DataFrame) -> DataFrame:
    """What is known of snapshots as a whole.

    ``fully_read``: it holds every topic; one that is not there does not exist. ``from_files``: it
    was read from files, and nobody was asked who is online.
    """
    source = F.coalesce("source", F.lit("remote"))
    with_topics = ~source.isin(*WITHOUT_QUEUES)
    return snapshots.groupBy("snapshot_id").agg(
        F.max((F.col("status") == "COMPLETE") & with_topics).alias("fully_read"),
        F.max(F.when(source != "remote", F.lit(True))).alias("from_files"),
    )


def _with_queues(raw: RawFrames) -> DataFrame:
    """Consumer offsets, without those that clients' files told: they are no observation of a queue.

    Counted, they would make every group in them unknown at an instant at which nobody looked.
    """
    without = raw.snapshots.where(F.col("source").isin(*WITHOUT_QUEUES)).select("snapshot_id")
    return raw.consumer_offsets.join(F.broadcast(without), on="snapshot_id", how="left_anti")


def _completeness() -> dict[str, Column]:
    known = F.coalesce("queues_known", F.lit(0))
    unknown = F.coalesce("queues_unknown", F.lit(0))
    fully_read = F.coalesce("fully_read", F.lit(False)) & F.col("hidden").isNull()
    no_retries = F.col("has_retry_topic").isNull() | (F.col("stored_retries") == 0)
    none_hidden = F.coalesce("retries_unknown", F.lit(0)) == 0
    no_dlq = F.col("has_dlq").isNull()
    zero = F.lit(0).cast("bigint")
    return {
        "queues": (known + unknown).cast("int"),
        "queues_unknown": unknown.cast("int"),
        "queues_never_committed": F.coalesce("queues_never_committed", F.lit(0)).cast("int"),
        "complete": unknown == 0,
        "dlq_messages": F.coalesce("dead_letters", F.when(fully_read & no_dlq, zero)),
        "retry_lag": F.coalesce("retries", F.when(fully_read & no_retries & none_hidden, zero)),
    }


def _membership() -> dict[str, Column]:
    asked = F.col("unheard").isNull() & F.col("from_files").isNull()
    online = F.when(F.col("has_members"), F.lit(True)).when(asked, F.lit(False))
    shadow = F.when(F.col("broadcast"), F.lit("BROADCASTING"))
    return {
        "online": online,
        "clients": F.when(online.isNotNull(), F.col("subscribers").cast("int")),
        "message_model": F.coalesce("message_model", shadow),
    }
