"""Filtered lag, the part that passes a group's filter: columns of ``progress.groups``.

Brokers count every message of a queue; a group that filters by tag or by SQL92 receives a part of
them. The share is estimated from a sample of the tags of its unconsumed messages. Without a sample
it is estimated from the messages that brokers delivered while its offsets advanced.
"""

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import (
    GROUP_ID,
    GROUP_TOPIC_HISTORY,
    GROUP_TOPIC_ID,
    QUEUE,
    Added,
    at_least_zero,
    column,
    reaching_back,
    steady_sum,
    with_new,
)
from spark.progress.subscriptions import ALL_TAGS, meaning
from spark.progress.throughput import seconds
from tidemark.rocketmq.names import StatsName
from tidemark.settings.sections import DEFAULT_HISTORY

Z = 1.959963984540054
"""Standard deviations that hold 95 % of a normal distribution."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Inputs of the estimate of filtering: rows of the window, and earlier ones still valid.

    Attributes:
        tags: ``raw.queue_tags``, None where there are none.
        throughput: ``progress.throughput``, None where there are none.
        sampled_queues: ``progress.queues`` of the earlier snapshots that hold samples, None where
            there are none.
        validity: how long a sample, or a count of delivered messages, serves.
    """

    tags: DataFrame | None = None
    throughput: DataFrame | None = None
    sampled_queues: DataFrame | None = None
    validity: timedelta = DEFAULT_HISTORY.sample_validity


NOTHING = Evidence()


class Filter(Added):
    """The filter of a group on a topic."""

    is_unfiltered = column("boolean", "all members select all messages")
    codes = column("array<bigint>", "hashes of the selected tags; NULL for other filters")


class Share(Added):
    """The share of messages that pass a filter, by both kinds of evidence."""

    sampled = column("double", "share of the sampled entries")
    entries = column("bigint", "number of the sampled entries")
    delivered = column("double", "delivered messages over advanced offsets")


class OffsetThen(Added):
    """The progress of a group on a queue when a sample was taken."""

    first_then = column("bigint", "first unconsumed offset; NULL where it is not known")


def with_filtered_lag(
    groups: DataFrame, queues: DataFrame, clients: DataFrame, evidence: Evidence
) -> DataFrame:
    """Add the columns of `tidemark.lake.tables.progress.FILTERING`.

    When members differ, brokers filter by the last heartbeat of any of them, so no sample applies.
    Without a subscribed member the share is unknown.

    Args:
        groups: one row per snapshot, group and topic, with ``readable_lag`` and ``client_id``, the
            broadcasting client whose row it is, NULL for clustering groups.
        queues: ``progress.queues`` from which the groups are computed.
        clients: ``raw.clients`` of the same snapshots.
        evidence: rows from which the share is estimated.

    Returns:
        One row per row of `groups`.
    """
    filters = _filters(clients)
    frame = groups.join(
        filters.select(*GROUP_TOPIC_ID, "is_unfiltered"), on=list(GROUP_TOPIC_ID), how="left"
    )
    unknown = F.lit(None).cast("double")
    sampled, entries, delivered = unknown, unknown, unknown
    if evidence.tags is not None:
        filtered = queues.join(
            filters.select(*GROUP_TOPIC_ID, "codes"), on=list(GROUP_TOPIC_ID), how="inner"
        )
        shares = _sampled(
            filtered.where(Filter.codes.isNotNull()),
            evidence.tags,
            _offsets_then(queues, evidence.sampled_queues),
            evidence.validity,
        )
        frame = with_new(frame, consumer=_consumer()).join(
            shares, [*GROUP_TOPIC_ID, "consumer"], "left"
        )
        sampled, entries = Share.sampled, Share.entries
    if evidence.throughput is not None:
        ratios = _delivered(filters, evidence.throughput, evidence.validity)
        frame = frame.join(ratios, on=list(GROUP_TOPIC_ID), how="left")
        delivered = Share.delivered
    is_unfiltered = F.coalesce(Filter.is_unfiltered, F.lit(False))
    low, high = _wilson(sampled, entries)

    def of_lag(share: Column) -> Column:
        whole = F.when(is_unfiltered, F.lit(1.0)).otherwise(share)
        return F.round(F.col("readable_lag") * whole).cast("bigint")

    return with_new(
        frame,
        match_ratio=F.when(is_unfiltered, F.lit(1.0)).otherwise(F.coalesce(sampled, delivered)),
        match_method=F.when(is_unfiltered, "none")
        .when(sampled.isNotNull(), "tag_sample")
        .when(delivered.isNotNull(), "delivered_over_advanced"),
        filtered_lag=of_lag(F.coalesce(sampled, delivered)),
        filtered_lag_low=of_lag(low),
        filtered_lag_high=of_lag(high),
    )


def tag_hash(tag: Column) -> Column:
    """Return the ``tags_code`` of a tag: Java's ``String.hashCode``, 32 bits over UTF-16."""
    units = F.hex(F.encode(tag, "UTF-16BE"))  # four digits each

    def add(code: Column, place: Column) -> Column:
        unit = F.conv(F.substr(units, place * 4 + 1, F.lit(4)), 16, 10).cast("bigint")
        return (code * 31 + unit) % 2**32

    places = F.sequence(F.lit(0), (F.length(units) / 4).cast("int") - 1)
    unsigned = F.aggregate(places, F.lit(0).cast("bigint"), add)
    return F.when(unsigned < 2**31, unsigned).otherwise(unsigned - 2**32)


def _filters(clients: DataFrame) -> DataFrame:
    """Return the filter of each group on each topic it subscribes to.

    Returns:
        One row per snapshot, group and topic: `Filter`.
    """
    column = F.col("subscription")
    is_by_tag = F.coalesce(column["expression_type"], F.lit("TAG")) == "TAG"
    filters = F.collect_set(
        F.struct(is_by_tag.alias("is_by_tag"), meaning(column).alias("meaning"))
    )
    only = F.when(F.size("filters") == 1, F.get("filters", F.lit(0)))
    selects_all = only["is_by_tag"] & (only["meaning"] == ALL_TAGS)
    tags = F.split(only["meaning"], r"\|\|")
    return (
        clients.select(
            "snapshot_id",
            "observed_at",
            "cluster",
            "consumer_group",
            F.explode("subscriptions").alias("subscription"),
        )
        .groupBy("observed_at", "cluster", *GROUP_ID, column["topic"].alias("topic"))
        .agg(filters.alias("filters"))
        .select(
            "observed_at",
            "cluster",
            *GROUP_TOPIC_ID,
            *Filter.named(
                is_unfiltered=F.coalesce(selects_all, F.lit(False)),
                codes=F.when(only["is_by_tag"] & ~selects_all, F.transform(tags, tag_hash)),
            ),
        )
    )


def _offsets_then(queues: DataFrame, earlier: DataFrame | None) -> DataFrame:
    """Return the first unconsumed offset of each group on each queue when samples were taken.

    Returns:
        One row per instant (``sampled_at``), queue, group and consumer: `OffsetThen`.
    """
    needed = ("observed_at", *QUEUE, "consumer_group", "client_id", "consumer_offset", "min_offset")
    known = queues.select(*needed)
    if earlier is not None:
        known = known.unionByName(earlier.select(*needed))
    return known.select(
        F.col("observed_at").alias("sampled_at"),
        *(*QUEUE, "consumer_group"),
        _consumer().alias("consumer"),
        *OffsetThen.named(first_then=F.greatest("consumer_offset", "min_offset")),
    )


def _sampled(queues: DataFrame, tags: DataFrame, then: DataFrame, validity: timedelta) -> DataFrame:
    """Return the share of matching entries, each queue weighted by its lag.

    A sample covers the group furthest behind, so it begins before the offsets of other groups. Only
    entries that a group had not consumed then belong to its lag. Of these, entries that are still
    unconsumed count, or all where none is left.

    Args:
        queues: queues with the ``codes`` of their group's tags.
        tags: samples of the queues, also from before the window.
        then: rows of `_offsets_then`. Without one the group's progress then is unknown, and only
            entries that are unconsumed now count.
        validity: how long a sample is valid.

    Returns:
        One row per snapshot, group, topic and consumer: `Share.sampled` and `Share.entries`.
    """
    code = F.col("tags_code")
    # Anything longer is no hash but an address (`ConsumeQueueExt.isExtAddr`).
    hashed = tags.where((code >= -(2**31)) & (code < 2**31))
    samples = hashed.groupBy(*QUEUE, "observed_at").agg(
        F.collect_list(F.struct("position", "tags_code")).alias("entries_taken")
    )
    samples = samples.select(
        *(*QUEUE, "observed_at"),
        F.struct(F.col("observed_at").alias("at"), F.col("entries_taken").alias("taken")).alias(
            "sample"
        ),
    )
    consumers = queues.select(
        *("observed_at", *GROUP_TOPIC_ID, "cluster", "broker", "queue_id", "codes"),
        _consumer().alias("consumer"),
        at_least_zero(F.col("lag")).alias("lag"),
        F.greatest("consumer_offset", "min_offset").alias("first"),
        F.col("max_offset").alias("end"),
    )
    unconsumed = F.filter(
        "newest.taken",
        lambda entry: (entry["position"] >= F.col("first")) & (entry["position"] < F.col("end")),
    )
    unconsumed_then = F.filter(
        "newest.taken", lambda entry: entry["position"] >= OffsetThen.first_then
    )
    still = F.when(OffsetThen.first_then.isNull(), unconsumed).otherwise(
        F.filter(unconsumed, lambda entry: entry["position"] >= OffsetThen.first_then)
    )
    matching = F.filter("used", lambda entry: F.array_contains(Filter.codes, entry["tags_code"]))
    # A real number: the sum of lags may exceed 64 bits.
    lag = F.col("lag").cast("double")
    return (
        consumers.unionByName(samples, allowMissingColumns=True)
        .transform(
            with_new,
            newest=F.last("sample", ignorenulls=True).over(reaching_back(validity, *QUEUE)),
        )
        .where(Filter.codes.isNotNull() & F.col("newest").isNotNull())
        .transform(with_new, sampled_at=F.col("newest.at"))
        .join(then, on=["sampled_at", *QUEUE, "consumer_group", "consumer"], how="left")
        .transform(with_new, still=still, then=unconsumed_then)
        .transform(
            with_new, used=F.when(F.size("still") > 0, F.col("still")).otherwise(F.col("then"))
        )
        .transform(with_new, size=F.size("used"))
        .where(F.col("size") > 0)
        .transform(with_new, share=F.size(matching) / F.col("size"))
        .groupBy(*GROUP_TOPIC_ID, "consumer")
        .agg(
            *Share.named(
                sampled=F.coalesce(
                    F.try_divide(steady_sum(lag * F.col("share")), steady_sum(lag)),
                    steady_sum(F.col("share")) / F.count("share"),
                ),
                entries=F.coalesce(F.sum(F.when(lag > 0, F.col("size"))), F.sum("size")),
            ),
        )
    )


def _delivered(filters: DataFrame, throughput: DataFrame, validity: timedelta) -> DataFrame:
    """Return delivered messages over advanced offsets, of the latest deep snapshot.

    Its shortest statistics window in which offsets advanced counts. Repeated deliveries could raise
    the share above 1, which is cut.

    Returns:
        One row per snapshot, group and topic: ``delivered``.
    """
    length = seconds(F.col("stats_window"))
    ratio = F.try_divide(F.col("sum"), F.col("tps_observed") * length)
    ratios = (
        throughput.where((F.col("stats_name") == StatsName.SERVED) & (F.col("tps_observed") > 0))
        .where(F.col("sum").isNotNull())
        .groupBy("observed_at", *GROUP_TOPIC_HISTORY)
        .agg(F.min_by(F.when(ratio > 1, F.lit(1.0)).otherwise(ratio), length).alias("ratio"))
    )
    return (
        filters.select("snapshot_id", "observed_at", *GROUP_TOPIC_HISTORY)
        .unionByName(ratios, allowMissingColumns=True)
        .transform(
            Share.to,
            delivered=F.last("ratio", ignorenulls=True).over(
                reaching_back(validity, *GROUP_TOPIC_HISTORY)
            ),
        )
        .where(F.col("snapshot_id").isNotNull() & Share.delivered.isNotNull())
        .select(*GROUP_TOPIC_ID, "delivered")
    )


def _consumer() -> Column:
    """Return the broadcasting client of a row, as a text to join on, because NULL never joins."""
    return F.coalesce("client_id", F.lit(""))


def _wilson(share: Column, entries: Column) -> tuple[Column, Column]:
    """Return the 95 % interval of a share found in that many entries (Wilson, 1927)."""
    spread = Z**2 / entries
    middle = (share + spread / 2) / (spread + 1)
    half = F.sqrt(share * (1 - share) * spread + spread * spread / 4) / (spread + 1)
    return middle - half, middle + half
