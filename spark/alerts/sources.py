"""The rows that alert rules are evaluated on: groups, topics, brokers and snapshots."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.columns import with_new
from spark.tuning import small
from tidemark.lake.schema import Table
from tidemark.lake.tables.progress import GROUPS, TOPICS
from tidemark.lake.tables.raw import BROKERS, SNAPSHOTS
from tidemark.model.snapshots import SnapshotSource
from tidemark.rocketmq.names import CONNECTIONS, DLQ_PREFIX

MANY = 10
"""Failed requests about single topics or groups from which the broker counts as unreachable."""

OF_BROKERS = (
    *("GET_ALL_CONSUMER_OFFSET", "GET_ALL_TOPIC_CONFIG", "GET_ALL_SUBSCRIPTIONGROUP_CONFIG"),
    *("GET_BROKER_CONFIG", "GET_BROKER_RUNTIME_INFO"),
)
"""Requests that every snapshot sends once to each broker, as its problems name them."""

NEEDED = OF_BROKERS[:3]
"""Requests without whose response the snapshot lacks a part of the broker's queues."""

OF_ITEMS = ("GET_TOPIC_STATS_INFO ", CONNECTIONS)
"""Requests that every snapshot sends for each topic and group; the problem names it."""

IMPOSSIBLE = "offsets below 0"
"""Text in the message of a problem with a response that was read."""

REPEATED = r"\((\d+) more requests failed\)$"
"""Count of the problems that one represents, see `tidemark.rocketmq.snapshot.problems`."""

_MEASUREMENTS = [
    name
    for name in BROKERS.column_names
    if name
    not in ("snapshot_id", "observed_at", "config", "cluster", "broker", "broker_id", "address")
]


def is_unreachable() -> Column:
    """Return whether the broker of a row of ``raw.brokers`` did not respond."""
    return F.coalesce(*[F.col(name).cast("string") for name in _MEASUREMENTS]).isNull()


def with_unreachable(snapshots: DataFrame, brokers: DataFrame) -> DataFrame:
    """Add ``unreachable``, the addresses that a snapshot could not read; NULL without any broker.

    Args:
        snapshots: rows of ``raw.snapshots``.
        brokers: rows of ``raw.brokers`` of the same snapshots.
    """
    requested = brokers.groupBy("snapshot_id").agg(
        F.collect_set(
            F.struct("address", "broker", "broker_id", is_unreachable().alias("unreachable"))
        ).alias("requested")
    )
    not_read = F.transform(F.filter("requested", _is_not_read), lambda broker: broker["address"])
    return snapshots.join(small(requested), on="snapshot_id", how="left").transform(
        with_new, unreachable=F.array_sort(not_read)
    )


def _is_not_read(broker: Column) -> Column:
    """Return whether a snapshot lacks a broker's queues; a slave only has to respond."""
    problems = F.filter("problems", lambda problem: problem["endpoint"] == broker["address"])
    is_missing = ~F.array_contains("brokers_read", broker["broker"])
    not_read = (
        (is_missing & F.exists(problems, lambda problem: _is_of(problem, *OF_BROKERS, *OF_ITEMS)))
        | F.exists(problems, lambda problem: _is_of(problem, *NEEDED))
        | (F.aggregate(problems, F.lit(0), _and_failed) >= MANY)
    )
    is_master = broker["broker_id"] == 0
    return broker["unreachable"] | (is_master & F.coalesce(not_read, F.lit(False)))


def _is_of(problem: Column, *operations: str) -> Column:
    named = [problem["operation"].startswith(name) for name in operations]
    return reduce(or_, named) & ~F.contains(_message(problem), F.lit(IMPOSSIBLE))


def _and_failed(so_far: Column, problem: Column) -> Column:
    """Add to a count the failed requests about topics and groups that a problem represents."""
    more = F.regexp_extract(_message(problem), REPEATED, 1).try_cast("int")
    failed = F.coalesce(more, F.lit(0)) + 1
    return so_far + F.when(_is_of(problem, *OF_ITEMS), failed).otherwise(0)


def _message(problem: Column) -> Column:
    return F.coalesce(problem["message"], F.lit(""))


@dataclass(frozen=True, kw_only=True)
class Source:
    """Rows that alert rules are evaluated on.

    Attributes:
        table: the table that has them.
        key: columns that name a subject, joined by ``/``.
        evidence: columns that show why a rule is true.
        prepare: adds ``complete`` (whether the row covers its whole subject), ``judgeable``
            (whether its numbers are meaningful; if not, no rule is true of the row, and if unknown,
            every outcome is unknown) and columns that only rules need.
        also_reads: other tables that `prepare` takes, after its own.
    """

    table: Table
    key: tuple[str, ...]
    evidence: tuple[str, ...]
    prepare: Callable[..., DataFrame]
    also_reads: tuple[Table, ...] = ()


def _with_group_columns(groups: DataFrame) -> DataFrame:
    """Mark groups whose numbers are meaningful.

    The numbers of a broadcasting group are meaningful only while a member is online: the offsets of
    a client that has left never move again.
    """
    is_broadcasting = F.coalesce(F.col("message_model") == "BROADCASTING", F.lit(False))
    return with_new(groups, judgeable=~is_broadcasting | F.col("online"))


def _with_topic_columns(topics: DataFrame) -> DataFrame:
    """Mark all topics as meaningful, and add the group and the age of dead letters.

    ``consumer_group`` and ``dead_letter_age_seconds`` are those of dead-letter topics, NULL of
    others; without a dead letter the age is 0.
    """
    is_dead = F.col("topic").startswith(DLQ_PREFIX)
    age = F.unix_seconds("observed_at") - F.unix_seconds("oldest_at")
    return with_new(
        topics,
        judgeable=F.lit(True),
        consumer_group=F.when(is_dead, F.substr(F.col("topic"), F.lit(len(DLQ_PREFIX) + 1))),
        dead_letter_age_seconds=F.when(
            is_dead, F.when(F.col("messages") == 0, F.lit(0)).otherwise(age)
        ),
    )


def _with_broker_columns(brokers: DataFrame) -> DataFrame:
    """Add ``unreachable``, 1 for an unreachable broker and else 0; it is never unknown."""
    return with_new(
        brokers,
        unreachable=is_unreachable().cast("bigint"),
        complete=F.lit(True),
        judgeable=F.lit(True),
    )


def _with_snapshot_columns(snapshots: DataFrame, brokers: DataFrame) -> DataFrame:
    """Mark snapshots of whole clusters; files of one broker show nothing of the others."""
    remote = F.lit(SnapshotSource.REMOTE)
    is_of_cluster = F.when(F.coalesce("source", remote) == remote, F.lit(True))
    down = F.filter("proxies", lambda proxy: ~proxy["responded"])
    return with_new(
        with_unreachable(snapshots, brokers),
        proxies_down=F.when(F.col("proxies").isNotNull(), F.size(down)),
        complete=F.lit(True),
        judgeable=is_of_cluster,
    )


_GROUP_KEY = ("cluster", "consumer_group", "topic")

GROUPS_SOURCE = "groups"

SOURCES = {
    GROUPS_SOURCE: Source(
        table=GROUPS,
        key=_GROUP_KEY,
        evidence=(
            *_GROUP_KEY,
            *("readable_lag", "lag", "lag_upper", "lost", "queues", "queues_unknown"),
            *("max_queue_lag", "worst_broker", "worst_queue_id", "delay_ms", "online", "clients"),
            *("message_model", "loss_in_seconds", "dlq_messages", "health", "health_reason"),
            *("health_reason_code", "health_facts"),
            *("complete", "lag_is_lower_bound", "delay_is_lower_bound"),
            *("duplicate_client_ids", "registered"),
        ),
        prepare=_with_group_columns,
    ),
    "topics": Source(
        table=TOPICS,
        key=("cluster", "topic"),
        evidence=(
            *("cluster", "topic", "unreadable_messages", "unreadable_reason", "messages"),
            *("brokers", "queues", "complete", "read_queues", "write_queues", "perm"),
            *("consumer_group", "dead_letter_age_seconds", "added_last_hour"),
            *("oldest_at", "oldest_at_is_upper_bound", "newest_at"),
        ),
        prepare=_with_topic_columns,
    ),
    "brokers": Source(
        table=BROKERS,
        key=("cluster", "broker", "address"),
        evidence=(
            *("cluster", "broker", "address", "broker_id", "disk_ratio"),
            *("offsets_missing", "offsets_behind", "offsets_late", "offsets_stand"),
            *("replica_behind_bytes", "replica_behind_ms", "replica_behind_is_lower_bound"),
            *("sends_waiting", "send_wait_ms", "page_cache_lock_ms", "failed_writes"),
            *("sends_refused", "sends_failed", "light_queues", "light_queue_limit"),
        ),
        prepare=_with_broker_columns,
    ),
    "snapshots": Source(
        table=SNAPSHOTS,
        key=("cluster",),
        evidence=(
            *("cluster", "status", "brokers_expected", "brokers_answered", "unreachable"),
            "proxies",
        ),
        prepare=_with_snapshot_columns,
        also_reads=(BROKERS,),
    ),
}
"""Sources by the name that alert rules use."""
