"""How much of a lag a group asks for at all: the filtering columns of ``progress.groups``.

Brokers count every message of a queue; a group that selects by tag or by SQL92 gets a part of them.
What part, is estimated: by a sample of the tags that lie before the group, else by what brokers
delivered while its offsets advanced.
"""

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake.settings import whole_number
from spark.columns import QUEUE, at_least_zero, reaching_back, steady_sum
from spark.subscriptions import ALL_TAGS, meaning
from spark.throughput import SERVED, seconds

SERVES = timedelta(minutes=whole_number("TIDEMARK_SAMPLE_MINUTES", 60))
"""How long a sample, or what was delivered, stands for what is unread
(``TIDEMARK_SAMPLE_MINUTES``)."""

Z = 1.959963984540054
"""Standard deviations that hold 95 % of a normal distribution."""

PAIR = ("snapshot_id", "consumer_group", "topic")


@dataclass(frozen=True)
class Evidence:
    """What filtering is estimated from: rows of the window and of `SERVES` before it.

    Attributes:
        tags: ``raw.queue_tags``, None where there are none.
        throughput: ``progress.throughput``, None where there are none.
    """

    tags: DataFrame | None = None
    throughput: DataFrame | None = None


NOTHING = Evidence()


def with_filtered_lag(
    groups: DataFrame, queues: DataFrame, clients: DataFrame, evidence: Evidence
) -> DataFrame:
    """Adds the columns of `lake.tables.progress.FILTERING`.

    A group whose members do not agree is filtered by the last heartbeat of any of them: no sample
    says anything about it. Of one that no member subscribes with, nothing is known.

    Args:
        groups: one row per snapshot, group and topic, with ``readable_lag`` and the ``client_id``
            that it is about, NULL but for broadcast.
        queues: ``progress.queues`` that the groups are made of.
        clients: ``raw.clients`` of the same snapshots.
        evidence: what to estimate from.
    """
    filters = _filters(clients)
    found = groups.join(filters.select(*PAIR, "is_unfiltered"), on=list(PAIR), how="left")
    unknown = F.lit(None).cast("double")
    sampled, entries, delivered = unknown, unknown, unknown
    if evidence.tags is not None:
        asked = queues.join(filters.select(*PAIR, "codes"), on=list(PAIR), how="inner")
        shares = _sampled(asked.where(F.col("codes").isNotNull()), evidence.tags)
        found = found.withColumn("reader", _reader()).join(shares, [*PAIR, "reader"], "left")
        sampled, entries = F.col("sampled"), F.col("entries")
    if evidence.throughput is not None:
        ratios = _delivered(filters, evidence.throughput)
        found = found.join(ratios, on=list(PAIR), how="left")
        delivered = F.col("delivered")
    is_unfiltered = F.coalesce("is_unfiltered", F.lit(False))
    low, high = _wilson(sampled, entries)

    def of_lag(share: Column) -> Column:
        whole = F.when(is_unfiltered, F.lit(1.0)).otherwise(share)
        return F.round(F.col("readable_lag") * whole).cast("bigint")

    return found.withColumns(
        {
            "match_ratio": F.when(is_unfiltered, F.lit(1.0)).otherwise(
                F.coalesce(sampled, delivered)
            ),
            "match_method": F.when(is_unfiltered, "none")
            .when(sampled.isNotNull(), "tag_sample")
            .when(delivered.isNotNull(), "delivered_over_advanced"),
            "filtered_lag": of_lag(F.coalesce(sampled, delivered)),
            "filtered_lag_low": of_lag(low),
            "filtered_lag_high": of_lag(high),
        }
    )


def tag_hash(tag: Column) -> Column:
    """The ``tags_code`` of a tag: Java's ``String.hashCode``, over UTF-16 units, of 32 bits."""
    units = F.hex(F.encode(tag, "UTF-16BE"))  # four digits each

    def add(code: Column, place: Column) -> Column:
        unit = F.conv(F.substr(units, place * 4 + 1, F.lit(4)), 16, 10).cast("bigint")
        return (code * 31 + unit) % 2**32

    places = F.sequence(F.lit(0), (F.length(units) / 4).cast("int") - 1)
    unsigned = F.aggregate(places, F.lit(0).cast("bigint"), add)
    return F.when(unsigned < 2**31, unsigned).otherwise(unsigned - 2**32)


def _filters(clients: DataFrame) -> DataFrame:
    """What each group asks for of each topic it subscribes to.

    Returns:
        One row per snapshot, group and topic: ``is_unfiltered``, and ``codes``, the hashes of its
        tags, NULL where tags do not tell.
    """
    each = F.col("subscription")
    is_by_tag = F.coalesce(each["expression_type"], F.lit("TAG")) == "TAG"
    filters = F.collect_set(F.struct(is_by_tag.alias("is_by_tag"), meaning(each).alias("meaning")))
    only = F.when(F.size("filters") == 1, F.get("filters", F.lit(0)))
    wants_all = only["is_by_tag"] & (only["meaning"] == ALL_TAGS)
    tags = F.split(only["meaning"], r"\|\|")
    return (
        clients.select(
            "snapshot_id",
            "observed_at",
            "cluster",
            "consumer_group",
            F.explode("subscriptions").alias("subscription"),
        )
        .groupBy("observed_at", "cluster", *PAIR[:2], each["topic"].alias("topic"))
        .agg(filters.alias("filters"))
        .withColumns(
            {
                "is_unfiltered": F.coalesce(wants_all, F.lit(False)),
                "codes": F.when(only["is_by_tag"] & ~wants_all, F.transform(tags, tag_hash)),
            }
        )
        .select("observed_at", "cluster", *PAIR, "is_unfiltered", "codes")
    )


def _sampled(queues: DataFrame, tags: DataFrame) -> DataFrame:
    """The share of matching entries, each queue weighed by its lag.

    Args:
        queues: queues with the ``codes`` that their group asks for.
        tags: samples of the queues, also from before.

    Returns:
        One row per snapshot, group, topic and reader: ``sampled``, the share, and ``entries``, how
        many entries it is of.
    """
    code = F.col("tags_code")
    # Anything longer is no hash but an address (`ConsumeQueueExt.isExtAddr`).
    hashed = tags.where((code >= -(2**31)) & (code < 2**31))
    samples = hashed.groupBy(*QUEUE, "observed_at").agg(
        F.collect_list(F.struct("position", "tags_code")).alias("sample")
    )
    readers = queues.select(
        *("observed_at", *PAIR, "cluster", "broker", "queue_id", "codes"),
        _reader().alias("reader"),
        at_least_zero(F.col("lag")).alias("lag"),
        F.greatest("consumer_offset", "min_offset").alias("first"),
        F.col("max_offset").alias("end"),
    )
    unread = F.filter(
        "sample",
        lambda entry: (entry["position"] >= F.col("first")) & (entry["position"] < F.col("end")),
    )
    matching = F.filter("used", lambda entry: F.array_contains("codes", entry["tags_code"]))
    lag = F.col("lag")
    return (
        readers.unionByName(samples, allowMissingColumns=True)
        .withColumn(
            "sample", F.last("sample", ignorenulls=True).over(reaching_back(SERVES, *QUEUE))
        )
        .where("codes IS NOT NULL AND sample IS NOT NULL")
        .withColumn("used", F.when(F.size(unread) > 0, unread).otherwise(F.col("sample")))
        .withColumn("size", F.size("used"))
        .withColumn("share", F.size(matching) / F.col("size"))
        .groupBy(*PAIR, "reader")
        .agg(
            F.coalesce(
                F.try_divide(steady_sum(lag * F.col("share")), F.sum(lag)),
                steady_sum(F.col("share")) / F.count("share"),
            ).alias("sampled"),
            F.coalesce(F.sum(F.when(lag > 0, F.col("size"))), F.sum("size")).alias("entries"),
        )
    )


def _delivered(filters: DataFrame, throughput: DataFrame) -> DataFrame:
    """What brokers delivered for each message that offsets advanced over, of the last deep look.

    Of its windows the shortest in which they advanced; what was delivered again makes no more than
    all of them.

    Returns:
        One row per snapshot, group and topic: ``delivered``.
    """
    topic_of_group = ("cluster", "consumer_group", "topic")
    ratio = F.try_divide(F.col("sum"), F.col("tps_observed") * seconds())
    told = (
        throughput.where((F.col("stats_name") == SERVED) & (F.col("tps_observed") > 0))
        .where(F.col("sum").isNotNull())
        .groupBy("observed_at", *topic_of_group)
        .agg(F.min_by(F.when(ratio > 1, F.lit(1.0)).otherwise(ratio), seconds()).alias("delivered"))
    )
    return (
        filters.select("snapshot_id", "observed_at", *topic_of_group)
        .unionByName(told, allowMissingColumns=True)
        .withColumn(
            "delivered",
            F.last("delivered", ignorenulls=True).over(reaching_back(SERVES, *topic_of_group)),
        )
        .where("snapshot_id IS NOT NULL AND delivered IS NOT NULL")
        .select(*PAIR, "delivered")
    )


def _reader() -> Column:
    """The broadcasting client a row is about; joins do not find NULL."""
    return F.coalesce("client_id", F.lit(""))


def _wilson(share: Column, entries: Column) -> tuple[Column, Column]:
    """The 95 % interval of a share seen in so many entries (Wilson, 1927)."""
    spread = Z**2 / entries
    middle = (share + spread / 2) / (spread + 1)
    half = F.sqrt(share * (1 - share) * spread + spread * spread / 4) / (spread + 1)
    return middle - half, middle + half
