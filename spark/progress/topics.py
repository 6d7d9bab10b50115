"""Topics over all brokers: ``progress.topics``.

Sums are over the known queues; ``complete`` states whether these are all. A consumer reads only the
queues below ``read_queues``, and only on brokers where it may read: no consumer gets messages of
other queues.
"""

from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import (
    QUEUE,
    SNAPSHOT,
    Added,
    advance,
    column,
    is_topic_of_users,
    reaching_back,
    steady_sum,
    with_base,
    with_new,
    with_previous,
)
from spark.progress.delay import with_times
from spark.progress.queues import RawFrames
from spark.progress.throughput import rate
from spark.progress.timeline import OBSERVED_QUEUE, by_our_clock, observations, steps, with_source
from spark.tuning import KEY_HASH, inside, resolved, small, with_key_hash
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.system_topics import NamedTopics
from tidemark.lake.tables import progress
from tidemark.lake.tables import raw as raw_tables
from tidemark.model.consumption import DelaySource, UnreadableReason
from tidemark.model.snapshots import SnapshotSource
from tidemark.rocketmq import names
from tidemark.settings.sections import DEFAULT_HISTORY, HistorySettings

BROKER_TOPIC = ("snapshot_id", "broker", "topic")
"""A topic on one broker in a snapshot."""

LAST_HOUR = HOUR - timedelta(milliseconds=1)
"""The hour up to an observation, without the observation that begins it."""


class QueueOfTopic(Added):
    """Messages of a queue, and whether consumers can read them."""

    stored = column("bigint", "messages in the queue; NULL when one of its ends is unknown")
    reason = column("string", "the `UnreadableReason` of a queue with messages, NULL without one")
    unreadable = column("bigint", "messages that no consumer can read")


class OwnQueue(Added):
    """A queue of a retry or dead-letter topic."""

    added = column("bigint", "messages written within the hour before; NULL when unknown")
    oldest = column("timestamp", "store time of its oldest message")
    is_bound = column("boolean", "the oldest message may be older")


class Incomplete(Added):
    """The mark of a topic on a broker whose queues are not all known."""

    missing = column("boolean", "true of a broker that is unreachable, or a row in quarantine")


def topics(
    raw: RawFrames,
    listed: DataFrame | None,
    timeline: DataFrame,
    hour_before: DataFrame,
    unreachable: DataFrame,
    window: Window,
    settings: HistorySettings = DEFAULT_HISTORY,
    sources: DataFrame | None = None,
    system_topics: NamedTopics = (),
    metrics: DataFrame | None = None,
) -> DataFrame:
    """Compute ``progress.topics`` of a window.

    Args:
        raw: valid rows of the window, of the previous observations and of each `last_snapshot_id`.
        listed: ``raw.queue_offsets`` of the window, quarantined rows included; None where no row is
            quarantined.
        timeline: ``progress.timeline`` up to the end of the window, as far back as store times are
            needed.
        hour_before: ``snapshot_id, broker`` of the brokers that were observed an hour before.
        unreachable: ``snapshot_id, broker, last_snapshot_id``: one row per snapshot and broker that
            it should hold and does not.
        window: the window to compute.
        settings: over which times rates are computed.
        sources: as for `spark.progress.timeline.with_source`.
        system_topics: system topics that their names do not show, by cluster.
        metrics: ``raw.topic_metrics`` of the window; None where there are none.

    Returns:
        One row per snapshot and topic of users, with the columns of
        `tidemark.lake.tables.progress.TOPICS`.
    """
    snapshots = raw.snapshots.where(inside(window)).select(*SNAPSHOT)
    configured = raw.topics.where(inside(window)).select(
        *BROKER_TOPIC, *("kind", "message_type", "read_queues", "write_queues", "perm")
    )
    ours = by_our_clock(raw.queue_offsets, raw.brokers)
    ends = with_source(ours.where(is_topic_of_users(system_topics)), sources).select(
        *raw_tables.QUEUE_OFFSETS.column_names, "source", "staleness_ms", KEY_HASH
    )
    measured = _queues(ends, window, settings)
    of_groups = _queues_of_groups(ends, timeline, hour_before, window, settings.longest_gap)
    return (
        configured.join(measured, on=list(BROKER_TOPIC), how="full")
        .transform(_with_unreadable)
        .unionByName(of_groups, allowMissingColumns=True)
        .unionByName(_on_unreachable_brokers(raw.topics, unreachable), allowMissingColumns=True)
        .unionByName(_quarantined(listed, measured, window), allowMissingColumns=True)
        .transform(resolved)
        .groupBy("snapshot_id", "topic")
        .agg(*_sums())
        .join(small(snapshots), on="snapshot_id")
        .where(is_topic_of_users(system_topics) & ~F.col("kind").eqNullSafe(names.TopicKind.SYSTEM))
        .transform(_with_timing, metrics)
        .select(*progress.TOPICS.column_names)
    )


def _queues(ends: DataFrame, window: Window, settings: HistorySettings) -> DataFrame:
    """Return the queues of a window: `BROKER_TOPIC`, ``queue_id``, offsets, rate and newest."""
    stepped = with_base(
        with_previous(ends, OBSERVED_QUEUE, "max_offset"),
        OBSERVED_QUEUE,
        settings.shortest_step,
        "written_base",
        "max_offset",
    )
    newest = F.least("newest_stored_at", "observed_at")
    return stepped.where(inside(window)).select(
        *BROKER_TOPIC,
        *("queue_id", "max_offset"),
        *QueueOfTopic.named(stored=F.col("max_offset") - F.col("min_offset")),
        F.when(F.col("newest_stored_at").isNotNull(), newest).alias("newest_at"),
        rate(
            advance("max_offset", "written_base"), F.col("observed_at"), settings.longest_gap
        ).alias("produce_tps"),
    )


def _with_unreadable(queues: DataFrame) -> DataFrame:
    """Add why no consumer can read a queue, and its messages then.

    A queue whose offsets are unknown has no reason: ids of static topics (5.x) do not count from 0.
    """
    stored = QueueOfTopic.stored
    reason = F.when(
        F.col("perm").bitwiseAND(names.READ_PERMISSION) == 0,
        UnreadableReason.NO_READ_PERMISSION.value,
    ).when(F.col("queue_id") >= F.col("read_queues"), UnreadableReason.BEYOND_READ_QUEUES.value)
    is_known = F.col("read_queues").isNotNull() & F.col("perm").isNotNull()
    none = F.when(is_known, F.lit(0).cast("bigint"))
    return QueueOfTopic.to(
        queues,
        reason=F.when(stored > 0, reason),
        unreadable=F.when(stored.isNull(), None).when(reason.isNotNull(), stored).otherwise(none),
    )


def _queues_of_groups(
    ends: DataFrame,
    timeline: DataFrame,
    hour_before: DataFrame,
    window: Window,
    longest_gap: timedelta,
) -> DataFrame:
    """Return queues of retry and dead-letter topics: added messages, and the oldest message.

    Returns:
        One row per queue: `BROKER_TOPIC` and `OwnQueue`. It has no other columns, so that the queue
        counts once.
    """
    own = F.col("topic").startswith(names.RETRY_PREFIX) | F.col("topic").startswith(
        names.DLQ_PREFIX
    )
    ends, timeline = ends.where(own), timeline.where(own)
    before = timeline.where(~inside(window))
    # The oldest message is dated as the first that a consumer without any progress would read.
    reader = {
        "consumer_offset": F.col("min_offset"),
        "pull_offset": F.lit(None).cast("bigint"),
    }
    read = with_new(ends, **reader)
    readers = read.where(inside(window)).select(*QUEUE, *reader)
    grown = steps(ends, before, readers, window)
    rows = observations(read, window).where(inside(window))
    dated = with_times(
        resolved(with_new(rows, **_as_counts())),
        resolved(grown, OBSERVED_QUEUE[1]),
        others=["snapshot_id"],
    )
    added = _added(dated, timeline, longest_gap)
    is_unknown = F.col("readable_lag").isNull() | (
        (F.col("readable_lag") > 0) & F.col("consumer_at").isNull()
    )
    return added.join(
        small(with_new(hour_before, was_observed=F.lit(True))),
        on=["snapshot_id", "broker"],
        how="left",
    ).select(
        *BROKER_TOPIC,
        *OwnQueue.named(
            added=F.when(F.col("was_observed"), OwnQueue.added),
            oldest=F.col("consumer_at"),
            is_bound=is_unknown | F.col("delay_source").eqNullSafe(DelaySource.AT_LEAST),
        ),
    )


def _as_counts() -> dict[str, Column]:
    stored, none = F.col("max_offset") - F.col("min_offset"), F.lit(None)
    return {
        "lag": stored,
        "readable_lag": stored,
        "lost": F.lit(0).cast("bigint"),
        "inflight": none.cast("bigint"),
        "available": none.cast("bigint"),
        "first_unconsumed_at": none.cast("timestamp"),
        "clock_error_ms": F.lit(0).cast("bigint"),
        "ready_offset": none.cast("bigint"),
        "lag_is_lower_bound": none.cast("boolean"),
        "consumer_group": F.lit(""),
        "client_id": none.cast("string"),
        "read_from": F.col("source"),
    }


def _added(rows: DataFrame, timeline: DataFrame, longest_gap: timedelta) -> DataFrame:
    """Add ``added``, the messages written within the hour before each row.

    Unknown where a step that reaches into the hour began long before it.
    """
    growth = F.col("max_offset") - F.when(
        F.col("previous_max_offset") <= F.col("max_offset"), F.col("previous_max_offset")
    ).otherwise(0)
    keyed = with_key_hash(timeline, *QUEUE)
    grown = keyed.select(
        *(KEY_HASH, *QUEUE),
        F.coalesce("source", F.lit(SnapshotSource.REMOTE)).alias("source"),
        "observed_at",
        F.coalesce(growth, F.col("max_offset")).alias("growth"),
        F.col("previous_at").alias("grew_since"),
    )
    of_hour = reaching_back(LAST_HOUR, *OBSERVED_QUEUE)
    begun = F.min("grew_since").over(of_hour)
    gap = int((HOUR + longest_gap).total_seconds() * 1000)
    is_within = begun.isNull() | (F.unix_millis("observed_at") - F.unix_millis(begun) <= gap)
    total = F.coalesce(F.sum("growth").over(of_hour), F.lit(0))
    mixed = rows.unionByName(grown, allowMissingColumns=True)
    frame = OwnQueue.to(mixed, added=F.when(is_within, total))
    return frame.where(F.col("snapshot_id").isNotNull())


def _on_unreachable_brokers(topics: DataFrame, unreachable: DataFrame) -> DataFrame:
    """Return the topics that brokers last had which are unreachable now, marked as `Incomplete`."""
    last = topics.select(
        F.col("snapshot_id").alias("last_snapshot_id"),
        *("broker", "topic", "kind", "message_type"),
    )
    return unreachable.join(last, on=["last_snapshot_id", "broker"], how="inner").select(
        *BROKER_TOPIC, *("kind", "message_type"), *Incomplete.named(missing=F.lit(True))
    )


def _quarantined(listed: DataFrame | None, measured: DataFrame, window: Window) -> DataFrame:
    """Return the topics with quarantined queues, marked as `Incomplete`."""
    if listed is None:
        return measured.select(*BROKER_TOPIC).where(F.lit(False))
    key = [*BROKER_TOPIC, "queue_id"]
    invalid = listed.where(inside(window)).dropna(subset=[*BROKER_TOPIC])
    return invalid.join(measured.select(*key), on=key, how="left_anti").select(
        *BROKER_TOPIC, *Incomplete.named(missing=F.lit(True))
    )


def _with_timing(topics: DataFrame, metrics: DataFrame | None) -> DataFrame:
    """Add ``timing_messages``, NULL where the endpoints of not all of its brokers were read."""
    if metrics is None:
        return with_new(topics, timing_messages=F.lit(None).cast("bigint"))
    reported = metrics.groupBy("snapshot_id", "topic").agg(
        F.try_sum("timing_messages").alias("timing"),
        F.count_distinct(F.when(F.col("timing_messages").isNotNull(), F.col("broker"))).alias(
            "endpoints"
        ),
    )
    is_known = F.col("endpoints") == F.col("brokers")
    return topics.join(small(reported), on=["snapshot_id", "topic"], how="left").transform(
        with_new, timing_messages=F.when(is_known, F.col("timing"))
    )


def _sums() -> list[Column]:
    """Return the columns of a topic from its queues and its configurations."""
    has_queues = F.col("read_queues") + F.col("write_queues") > 0
    is_unknown = (
        Incomplete.missing.isNotNull()
        | (F.col("queue_id").isNotNull() & QueueOfTopic.stored.isNull())
        # No broker reports a configured queue: it was not read.
        | (has_queues & F.col("queue_id").isNull())
        # Without a configuration nobody knows who may read the queue.
        | (F.col("queue_id").isNotNull() & (F.col("read_queues") + F.col("perm")).isNull())
    )
    of_broker = F.struct("broker", "read_queues", "write_queues", "perm")
    reason = QueueOfTopic.reason
    no_permission, beyond = (unreadable_reason.value for unreadable_reason in UnreadableReason)
    types = F.collect_set("message_type")
    return [
        F.max("kind").alias("kind"),
        F.when(F.size(types) == 1, F.element_at(types, 1)).alias("message_type"),
        F.count_distinct("broker").cast("int").alias("brokers"),
        (~F.max(F.coalesce(is_unknown, F.lit(False)))).alias("complete"),
        F.count_if(QueueOfTopic.stored.isNotNull()).cast("int").alias("queues"),
        F.try_sum(QueueOfTopic.stored).alias("messages"),
        F.try_sum(QueueOfTopic.unreadable).alias("unreadable_messages"),
        F.when(F.max(reason == no_permission), no_permission)
        .when(F.max(reason == beyond), beyond)
        .alias("unreadable_reason"),
        steady_sum(F.col("produce_tps")).alias("produce_tps"),
        F.min(OwnQueue.oldest).alias("oldest_at"),
        F.when(F.min(OwnQueue.oldest).isNotNull(), F.max(OwnQueue.is_bound)).alias(
            "oldest_at_is_upper_bound"
        ),
        F.max("newest_at").alias("newest_at"),
        F.when(
            F.count(OwnQueue.added) == F.count(OwnQueue.is_bound), F.try_sum(OwnQueue.added)
        ).alias("added_last_hour"),
        *(_common(name).alias(name) for name in ("read_queues", "write_queues", "perm")),
        F.array_sort(F.collect_set(F.when(F.col("perm").isNotNull(), of_broker))).alias(
            "by_broker"
        ),
    ]


def _common(name: str) -> Column:
    """Return the value of all brokers; NULL where they differ."""
    return F.when(F.min(name) == F.max(name), F.min(name))
