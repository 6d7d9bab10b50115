"""Progress of every group, and broadcasting client, on every queue: ``progress.queues``.

One small function computes each column family. An unknown operand makes a result NULL, because
SQL's arithmetic does.
"""

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import (
    CONSUMED_QUEUE,
    GROUP_ID,
    QUEUE_ID,
    Added,
    advance,
    at_least_zero,
    column,
    is_of_users,
    milliseconds,
    with_base,
    with_new,
    with_previous,
)
from spark.progress.consume_modes import (
    GROUP_TOPIC_AT,
    POP,
    Signs,
    consume_kind,
    consume_mode,
    lag_is_bound,
    offsets_show_inflight,
    rates_by_kind,
    ready_offset,
    signs_of_modes,
)
from spark.progress.delay import COUNTED, DATED, TIMES, Reading, learned_before, with_times
from spark.progress.throughput import drain_seconds, rate
from spark.progress.timeline import (
    CLOCK,
    OBSERVED_QUEUE,
    by_our_clock,
    observations,
    steps,
    with_source,
    without_skew,
)
from spark.progress.unknown_queues import SNAPSHOT_QUEUE, unreachable_queues
from spark.tuning import KEY_HASH, by_queue, hashed, inside, resolved, small
from tidemark.lake.clocks import Window
from tidemark.lake.system_topics import NamedTopics
from tidemark.lake.tables import progress
from tidemark.lake.tables import raw as raw_tables
from tidemark.model.consumption import Condition
from tidemark.model.snapshots import SnapshotSource
from tidemark.rocketmq.consume_modes import Witness
from tidemark.settings.sections import DEFAULT_HISTORY, HistorySettings

FORCED_CLEANING_RATIO = "diskSpaceCleanForciblyRatio"
FORCED_CLEANING_ENABLED = "cleanFileForciblyEnable"
HIGHEST_FORCED_CLEANING = 85
"""Percent of disk use from which a broker deletes files whatever their age, where the broker does
not report it. A broker accepts only lower values (`DefaultMessageStore.CleanCommitLogService`)."""


STORE_PLUGIN = "messageStorePlugIn"
TIERED_STORE = "TieredMessageStore"
TIERED_LEVEL = "tieredStorageLevel"
TIERED_HOURS = "tieredStoreFileReservedTime"

LOW_IDS_FIRST = "priorityOrderAsc"
"""For topics with priorities: with ``false`` the priority of queue 0 is the highest, else that of
the last queue. A message of priority p is in queue p (`SendMessageProcessor`, 5.4)."""

POP_MOVES_PULLS = "popConsumerKVServiceEnable"
BEFORE_POP = "^V[34]"
"""Versions of brokers that cannot hand out messages by POP."""


@dataclass(frozen=True, kw_only=True)
class RawFrames:
    """Valid rows of ``raw.*``: of the window and of the previous observations.

    Attributes:
        snapshots: ``raw.snapshots``.
        brokers: ``raw.brokers``.
        queue_offsets: ``raw.queue_offsets``.
        consumer_offsets: ``raw.consumer_offsets``.
        topics: ``raw.topics``.
        clients: ``raw.clients``.
        consumer_groups: ``raw.consumer_groups``.
    """

    snapshots: DataFrame
    brokers: DataFrame
    queue_offsets: DataFrame
    consumer_offsets: DataFrame
    topics: DataFrame
    clients: DataFrame
    consumer_groups: DataFrame


class BrokerFacts(Added):
    """Facts that a row takes from the configuration of its broker."""

    kept_hours = column(
        "double",
        "how long messages stay readable; unknown for a tiered store that does not report it",
    )
    forced_cleaning = column("double", "disk use from which files of any age are deleted")
    never_pops = column("boolean", "it is older than POP")
    pops_move_pulls = column(
        "boolean",
        "popped messages move its pull offsets, and acknowledgements its commits, so their "
        "difference is not the number in flight",
    )
    low_ids_first = column("boolean", "the queue with the lowest id has the highest priority")


class GroupFacts(Added):
    """Facts that a row takes from the configuration of its group."""

    is_orderly = column("boolean", "its gRPC members consume in order")


class Priorities(Added):
    """Facts that a row takes from a topic whose queues have priorities."""

    ranked_queues = column("int", "how many queues of the broker consumers read")


WRITTEN_BASE, READ_BASE = "written_base", "read_base"
"""Bases of the rates of what is written and of what is read; see `spark.columns.with_base`."""


def queues(
    raw: RawFrames,
    window: Window,
    settings: HistorySettings = DEFAULT_HISTORY,
    timeline: DataFrame | None = None,
    sources: DataFrame | None = None,
    nearest: DataFrame | None = None,
    broker_stats: DataFrame | None = None,
    system_topics: NamedTopics = (),
    earlier: DataFrame | None = None,
) -> DataFrame:
    """Compute ``progress.queues`` of a window.

    Args:
        raw: one row per key and snapshot. Snapshots before the window serve as previous
            observations and give no rows.
        window: the window to compute.
        settings: over which times rates are computed.
        timeline: ``progress.timeline`` from before the window, as far back as store times are
            needed.
        sources: as for `spark.progress.timeline.with_source`.
        nearest: one row per `tidemark.planning.lacking_parts.NearestQueues`; None where the window
            holds no offsets of clients' files.
        broker_stats: ``raw.broker_stats`` of the window; None where there are none.
        system_topics: system topics that their names do not show, by cluster.
        earlier: ``progress.queues`` of the previous observations, whose store times and consume
            modes stay; None where there are none.

    Returns:
        One row per snapshot of the window, queue, group and broadcasting client, with the columns
        of `tidemark.lake.tables.progress.QUEUES`, without system topics and groups, and without
        queues that consumers cannot reach.
    """
    since = None if timeline is None else window
    ours = by_our_clock(by_queue(raw.queue_offsets), raw.brokers)
    ends = with_source(ours, sources).select(
        *raw_tables.QUEUE_OFFSETS.column_names, "source", KEY_HASH
    )
    written = observations(
        _with_steps(ends, OBSERVED_QUEUE, settings, "max_offset", base=WRITTEN_BASE), since
    )
    read = _with_steps(
        with_source(by_queue(raw.consumer_offsets), sources),
        (KEY_HASH, *CONSUMED_QUEUE, "source"),
        settings,
        *("consumer_offset", "pull_offset"),
        base=READ_BASE,
    )
    consumers = read.where(inside(window) & is_of_users(system_topics)).select(*_consumer_columns())
    beyond = unreachable_queues(raw.queue_offsets.where(inside(window)), raw.topics)
    reachable = consumers.join(small(beyond), on=[*SNAPSHOT_QUEUE], how="left_anti")
    now = raw.consumer_offsets.where(inside(window) & is_of_users(system_topics))
    signs = signs_of_modes(
        now,
        raw.clients.where(inside(window)),
        raw.topics.where(inside(window)),
        broker_stats,
        earlier,
    )
    joined = (
        _with_queues(reachable, written, window, nearest)
        .join(small(_about_brokers(raw.brokers)), on=["snapshot_id", "broker"], how="left")
        .join(small(signs), on=list(GROUP_TOPIC_AT), how="left")
        .join(small(_orderly_groups(raw, window)), on=list(GROUP_ID), how="left")
        .join(
            small(_with_priorities(raw.topics.where(inside(window)))),
            on=["snapshot_id", "broker", "topic"],
            how="left",
        )
        .transform(_with_consumption)
    )
    counted = (
        resolved(joined).transform(with_new, **_counts()).transform(with_new, **_more_counts())
    )
    grown = steps(ends, timeline, now, window)
    learned = None
    if earlier is not None:
        learned = learned_before(with_source(by_queue(earlier), sources), window)
    timed = with_times(resolved(counted), grown, learned, others=_OTHERS)
    rates = rates_by_kind(F.col("consume_kind"), _rates(settings.longest_gap))
    rated = with_new(resolved(timed), **rates)
    return with_new(
        rated,
        drain_seconds=drain_seconds(
            readable_lag=F.col("readable_lag"),
            consume_tps=F.col("consume_tps"),
            produce_tps=F.col("produce_tps"),
            lag_is_lower_bound=F.col("lag_is_lower_bound"),
        ),
        loss_in_seconds=_loss_in_seconds(),
        condition=_condition(),
        priority_rank=_priority_rank(),
    ).select(*progress.QUEUES.column_names)


def _with_consumption(rows: DataFrame) -> DataFrame:
    """Add the way in which messages are handed out, and the consumer's part of a `Reading`."""
    reported, skew_ms = F.col("reported_unconsumed_at"), F.col("clock_skew_ms")
    return (
        rows.transform(
            with_new,
            first_unconsumed_at=without_skew(reported, skew_ms),
            consume_mode=consume_mode(
                request_mode=F.col("request_mode"),
                sign_now=Signs.sign_now,
                last_sign=Signs.last_sign,
                never_pops=BrokerFacts.never_pops,
            ),
            consume_mode_at=Signs.last_sign["at"],
        )
        .transform(
            with_new,
            consume_kind=consume_kind(
                mode=F.col("consume_mode"),
                request_mode=F.col("request_mode"),
                sign_now=Signs.sign_now,
                offset_store=F.col("offset_store"),
                topic=F.col("topic"),
                is_orderly=GroupFacts.is_orderly,
                pops_move_pulls=BrokerFacts.pops_move_pulls,
            ),
        )
        .transform(Reading.to, ready_offset=ready_offset(F.col("consume_kind")))
    )


def _rates(longest_gap: timedelta) -> dict[str, Column]:
    """Return the rates of a queue in messages a second, as of a group that pulls."""
    read_at = F.col("observed_at")
    # Offsets of clients' files meet queues of another snapshot: its own step gives their rate.
    written_at = F.coalesce("queue_offsets_at", read_at)
    return {
        "produce_tps": rate(advance("max_offset", WRITTEN_BASE), written_at, longest_gap),
        "consume_tps": rate(advance("consumer_offset", READ_BASE), read_at, longest_gap),
        "pull_tps": rate(advance("pull_offset", READ_BASE), read_at, longest_gap),
    }


def _with_steps(
    rows: DataFrame, key: tuple[str, ...], settings: HistorySettings, *offsets: str, base: str
) -> DataFrame:
    """Add the previous observation of each row, and the one that its rates are based on."""
    stepped = with_previous(rows, key, *offsets)
    return with_base(stepped, key, settings.shortest_step, base, *offsets)


_QUEUE_COLUMNS = (
    *("min_offset", "max_offset", "newest_stored_at", "source"),
    *("previous_max_offset", WRITTEN_BASE, "run"),
)
"""Columns that a consumer row takes from its queue, besides the key."""


def _consumer_columns() -> list[Column]:
    """Return the columns of consumer rows, under names that their queues' rows do not have."""
    renamed = {
        "first_unconsumed_at": "reported_unconsumed_at",
        "source": "read_from",
    }
    added = (KEY_HASH, "source", "staleness_ms", READ_BASE)
    previous = ("previous_consumer_offset", "previous_pull_offset")
    names = (*raw_tables.CONSUMER_OFFSETS.column_names, *added, *previous)
    return [F.col(name).alias(renamed.get(name, name)) for name in names]


def _with_queues(
    consumers: DataFrame, written: DataFrame, window: Window, nearest: DataFrame | None
) -> DataFrame:
    """Add to each consumer row the columns of its queue, and ``queue_offsets_at``.

    Offsets of clients' files are compared with the queues of the nearest snapshot. Without such a
    snapshot the rows stay, and numbers computed from both are unknown.
    """
    if nearest is None:
        unknown = {"queue_offsets_at": F.lit(None).cast("timestamp")}
        of_window = written.where(inside(window)).select("snapshot_id", *QUEUE_ID, *_QUEUE_COLUMNS)
        frame = consumers.join(hashed(of_window), on=["snapshot_id", *QUEUE_ID], how="inner")
        return with_new(frame, **unknown)
    ends = written.select(
        F.col("snapshot_id").alias("compared_id"),
        F.col("observed_at").alias("compared_at"),
        *(*QUEUE_ID, *_QUEUE_COLUMNS),
    )
    of_files = Reading.read_from == SnapshotSource.LOCAL_OFFSETS
    placed = consumers.join(small(nearest), on=["snapshot_id", "broker"], how="left")
    return (
        with_new(placed, compared_id=F.coalesce("nearest_id", "snapshot_id"))
        .join(hashed(ends), on=["compared_id", *QUEUE_ID], how="left")
        .where(of_files | F.col("compared_at").isNotNull())
        .transform(with_new, queue_offsets_at=F.when(of_files, F.col("compared_at")))
    )


_FROM_TIMES = {
    *("produce_tps", "consume_tps", "pull_tps"),
    *("drain_seconds", "loss_in_seconds", "condition", "priority_rank"),
}
"""Columns that are computed once the messages are dated."""

_BASIS = (
    *("previous_pull_offset", WRITTEN_BASE, READ_BASE, "disk_ratio"),
    *("kept_hours", "forced_cleaning", "low_ids_first", "ranked_queues"),
)
"""Columns from which they follow, and which the table does not have."""

_OTHERS = [
    name
    for name in (*progress.QUEUES.column_names, *_BASIS)
    if name not in {*DATED, *COUNTED, *TIMES, *_FROM_TIMES}
]
"""Columns that dating leaves as they are."""


def _with_priorities(topics: DataFrame) -> DataFrame:
    """Return one row per topic of a broker whose queues have priorities: `Priorities`."""
    return topics.where(F.col("message_type") == "PRIORITY").select(
        "snapshot_id", "broker", "topic", *Priorities.named(ranked_queues=F.col("read_queues"))
    )


def _priority_rank() -> Column:
    """Return how many queues of the broker go before this one (`PopMessageProcessor`).

    Only POP keeps the order: members that pull take all their queues alike.
    """
    from_last = Priorities.ranked_queues - 1 - F.col("queue_id")
    rank = F.when(F.coalesce(BrokerFacts.low_ids_first, F.lit(False)), F.col("queue_id")).otherwise(
        from_last
    )
    return F.when((F.col("consume_mode") == POP) & (rank >= 0), rank)


def _about_brokers(brokers: DataFrame) -> DataFrame:
    """Return one row per snapshot and broker group: its disk use and clock, and `BrokerFacts`.

    A tiered store keeps messages after the local files are gone, whatever the disk use.

    Each value is taken from the replica with the smallest id that reports it: a broker may report
    its configuration without its counters, or the other way round.
    """
    reported = F.col("config")[FORCED_CLEANING_RATIO].try_cast("double")
    ratio = F.least(reported, F.lit(HIGHEST_FORCED_CLEANING).cast("double")) / 100
    is_enabled = F.lower(F.col("config")[FORCED_CLEANING_ENABLED])
    config, endless = F.col("config"), F.lit(float("inf"))
    is_tiered = F.coalesce(config[STORE_PLUGIN].contains(TIERED_STORE), F.lit(False)) & ~(
        F.coalesce(config[TIERED_LEVEL] == "DISABLE", F.lit(False))
    )
    tiered_hours = config[TIERED_HOURS].try_cast("double")
    longest = F.greatest(tiered_hours, F.col("retention_hours").cast("double"))
    of_tiers = F.when(tiered_hours.isNotNull(), longest)
    never = F.when(is_enabled == "false", endless)
    known = BrokerFacts.to(
        brokers,
        forced_cleaning=F.coalesce(F.when(is_tiered, endless), never, ratio),
        kept_hours=F.when(is_tiered, of_tiers).otherwise(F.col("retention_hours").cast("double")),
        never_pops=F.col("version").rlike(BEFORE_POP),
        pops_move_pulls=F.lower(F.col("config")[POP_MOVES_PULLS]) == "true",
        low_ids_first=F.lower(F.col("config")[LOW_IDS_FIRST]) == "false",
    )
    return known.groupBy("snapshot_id", "broker").agg(
        *(
            F.min_by(name, F.when(F.col(name).isNotNull(), F.col("broker_id"))).alias(name)
            for name in (*(*BrokerFacts.types(), "disk_ratio", *CLOCK),)
        )
    )


def _orderly_groups(raw: RawFrames, window: Window) -> DataFrame:
    """Return one row per snapshot and group: `GroupFacts`."""
    groups = raw.consumer_groups.where(inside(window)).groupBy(*GROUP_ID)
    return groups.agg(*GroupFacts.named(is_orderly=F.max("consume_orderly")))


def _counts() -> dict[str, Column]:
    maximum, minimum = F.col("max_offset"), F.col("min_offset")
    committed, pulled = F.col("consumer_offset"), F.col("pull_offset")
    is_shown = offsets_show_inflight(
        F.col("consume_kind"), F.col("pull_source"), BrokerFacts.pops_move_pulls
    )
    return {
        "lag": maximum - committed,
        "inflight": F.when(is_shown, pulled - committed),
        "available": maximum - Reading.ready_offset,
        "lost": at_least_zero(minimum - committed),
    }


def _more_counts() -> dict[str, Column]:
    readable = at_least_zero(F.col("lag") - F.col("lost"))
    is_bound = lag_is_bound(F.col("consume_kind"))
    stored = F.col("max_offset") - F.col("min_offset")
    return {
        "readable_lag": readable,
        "lag_upper": F.when(F.col("consumer_offset").isNull(), stored).otherwise(readable),
        "lag_is_lower_bound": F.when(is_bound.isNotNull(), is_bound & F.col("inflight").isNull()),
        "inflight_source": F.when(
            F.col("inflight").isNotNull(),
            F.when(F.col("pull_source") == "client_cache", Witness.CLIENT_CACHE.value).otherwise(
                Witness.OFFSETS.value
            ),
        ),
    }


def _loss_in_seconds() -> Column:
    """Return the seconds until the first readable unconsumed message may be deleted.

    From `FORCED_CLEANING_RATIO` on a broker deletes files of any age, so none is left. Between
    ``diskMaxUsedSpaceRatio`` and that ratio it deletes only expired files, as it does at
    ``deleteWhen``: nothing changes for messages within the retention.
    """
    age = milliseconds(F.col("consumer_at"), F.col("observed_at")) / 1000
    # In floating point: the seconds of "for ever" do not fit into an int.
    left = BrokerFacts.kept_hours * 3600 - age
    forced = F.coalesce(BrokerFacts.forced_cleaning, F.lit(HIGHEST_FORCED_CLEANING / 100))
    is_cleaned = (F.col("disk_ratio") >= forced) & (F.col("readable_lag") > 0)
    return F.when(is_cleaned | (left < 0), F.lit(0.0)).otherwise(left)


def _condition() -> Column:
    return (
        F.when(F.col("max_offset") < F.col("previous_max_offset"), Condition.RECREATED)
        .when(F.col("consumer_offset") > F.col("max_offset"), Condition.AHEAD_OF_BROKER)
        .when(F.col("lost") > 0, Condition.LOST)
        .when(F.col("consumer_offset").isNull(), Condition.NEVER_COMMITTED)
        .when(F.col("consumer_offset") < F.col("previous_consumer_offset"), Condition.REWOUND)
        .otherwise(Condition.OK)
    )
