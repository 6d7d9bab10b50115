"""The rows that alert rules are evaluated on: groups, topics, brokers and snapshots."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake.schema import Table
from lake.tables.progress import GROUPS, TOPICS
from lake.tables.raw import BROKERS, SNAPSHOTS
from spark.alerts.unreachable_brokers import is_unreachable, with_unreachable
from spark.columns import with_new
from tidemark.model.snapshots import SnapshotSource


@dataclass(frozen=True)
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
    return with_new(groups, {"judgeable": ~is_broadcasting | F.col("online")})


def _with_topic_columns(topics: DataFrame) -> DataFrame:
    """Mark all topics: their numbers always mean something."""
    return with_new(topics, {"judgeable": F.lit(True)})


def _with_broker_columns(brokers: DataFrame) -> DataFrame:
    """Add ``unreachable``, 1 for an unreachable broker and else 0; it is never unknown."""
    return with_new(
        brokers,
        {
            "unreachable": is_unreachable().cast("bigint"),
            "complete": F.lit(True),
            "judgeable": F.lit(True),
        },
    )


def _with_snapshot_columns(snapshots: DataFrame, brokers: DataFrame) -> DataFrame:
    """Mark snapshots of whole clusters; files of one broker show nothing of the others."""
    remote = F.lit(SnapshotSource.REMOTE)
    is_of_cluster = F.when(F.coalesce("source", remote) == remote, F.lit(True))
    return with_new(
        with_unreachable(snapshots, brokers),
        {"complete": F.lit(True), "judgeable": is_of_cluster},
    )


_GROUP_KEY = ("cluster", "consumer_group", "topic")

GROUPS_SOURCE = "groups"

SOURCES = {
    GROUPS_SOURCE: Source(
        GROUPS,
        _GROUP_KEY,
        (
            *_GROUP_KEY,
            *("readable_lag", "lag", "lag_upper", "lost", "queues", "queues_unknown"),
            *("max_queue_lag", "worst_broker", "worst_queue_id", "delay_ms", "online", "clients"),
            *("message_model", "loss_in_seconds", "dlq_messages", "health", "health_reason"),
            *("health_reason_code", "health_facts"),
            *("complete", "lag_is_lower_bound", "delay_is_lower_bound"),
            *("duplicate_client_ids", "registered"),
        ),
        _with_group_columns,
    ),
    "topics": Source(
        TOPICS,
        ("cluster", "topic"),
        (
            *("cluster", "topic", "unreadable_messages", "unreadable_reason", "messages"),
            *("brokers", "queues", "complete", "read_queues", "write_queues", "perm"),
        ),
        _with_topic_columns,
    ),
    "brokers": Source(
        BROKERS,
        ("cluster", "broker", "address"),
        (
            *("cluster", "broker", "address", "broker_id", "disk_ratio"),
            *("offsets_missing", "offsets_behind", "offsets_late", "offsets_stand"),
        ),
        _with_broker_columns,
    ),
    "snapshots": Source(
        SNAPSHOTS,
        ("cluster",),
        ("cluster", "status", "brokers_expected", "brokers_answered", "unreachable"),
        _with_snapshot_columns,
        also_reads=(BROKERS,),
    ),
}
"""Sources by the name that alert rules use."""
