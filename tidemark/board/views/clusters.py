"""Clusters, their topics, and the producers that are connected to the brokers of a topic.

Brokers know the group of a producer and not the topics that it writes: any of these may write the
topic, and a producer of it is connected to its brokers.
"""

from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.board.http_responses import ProblemError
from tidemark.board.newest import GROUP_REACH, age_seconds, is_fresh
from tidemark.board.views.scope import GROUPS_WITH_TEAM
from tidemark.board.views.view import Shown, View
from tidemark.lake.bounds import bound_of, columns_with_marks
from tidemark.lake.clocks import MICROSECOND, Window
from tidemark.lake.schema import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    STRINGS,
    TIMESTAMP,
    Column,
    Table,
)
from tidemark.lake.tables import progress, raw
from tidemark.lake.typed_rows import dict_rows


def cluster_rows(newest: Shown, now: datetime) -> list[dict[str, Any]]:
    """Return a row per cluster, by name: its newest snapshot, and freshness.

    A row holds the columns of ``raw.snapshots``, ``age_seconds``, ``fresh``, and ``brokers``: the
    names of its broker groups.
    """
    snapshots = dict_rows(newest.of(raw.SNAPSHOTS).sort_by("cluster"))
    return [
        row
        | {
            "age_seconds": age_seconds(row["observed_at"], now),
            "fresh": is_fresh(row["observed_at"], now),
            "brokers": sorted(set(newest.of(raw.BROKERS, row["cluster"])["broker"].to_pylist())),
        }
        for row in snapshots
    ]


_COMPUTED = (
    *("unreadable_messages", "unreadable_reason", "message_type", "timing_messages"),
    *("added_last_hour", "oldest_at", "oldest_at_is_upper_bound", "complete"),
)

_OF_TOPICS = tuple(column for column in progress.TOPICS.columns if column.name in _COMPUTED)
"""Columns of ``progress.topics``; NULL of system topics, which have no row there."""

TOPICS = Table(
    name="board.topics",
    comment="One row per topic at the newest snapshot, over all brokers.",
    columns=(
        raw.CLUSTER,
        raw.TOPIC,
        raw.OBSERVED_AT,
        Column("kind", STRING, "normal | retry | dlq | pop_retry | system | lmq"),
        Column("brokers", INT, "broker groups that have it"),
        Column("queues", INT, "queues with known offsets"),
        Column("messages", BIGINT, "messages in the retained range of those queues"),
        *_OF_TOPICS,
        Column("newest_stored_at", TIMESTAMP, "store time of its newest message"),
        Column("groups", INT, "consumer groups with progress on it, or subscribed to it"),
        Column("lag", BIGINT, "largest known lag of a group"),
        Column("lag_is_lower_bound", BOOLEAN, "whether the lag of one of them is a lower bound"),
        Column("produce_tps", DOUBLE, "messages written a second"),
    ),
    key=("cluster", "topic"),
)
"""The columns of the rows below; they are in no table."""


def topic_rows(rows: Shown) -> pa.Table:
    """Return a row of `TOPICS` per topic that brokers report or groups consume."""
    of_topic = ["cluster", "topic"]
    known = rows.of(raw.TOPICS).group_by(of_topic).aggregate(
        [("kind", "min"), ("broker", "count_distinct")]
    )  # fmt: skip
    offsets = rows.of(raw.QUEUE_OFFSETS)
    size = pc.subtract(offsets["max_offset"], offsets["min_offset"])
    queues = offsets.append_column("messages", size).group_by(of_topic).aggregate(
        [("queue_id", "count"), ("messages", "sum"), ("newest_stored_at", "max")]
    )  # fmt: skip
    groups = rows.of(progress.GROUPS).group_by(of_topic).aggregate(
        [("consumer_group", "count"), ("lag", "max"), ("produce_tps", "max"),
         *((name, "max") for name in columns_with_marks(("lag",))[1:])]
    )  # fmt: skip
    computed = rows.of(progress.TOPICS).select([*of_topic, *_COMPUTED, "produce_tps"])
    joined: dict[tuple[str, str], dict[str, Any]] = {}
    for table in (known, queues, groups, computed):
        for row in table.to_pylist():
            joined.setdefault((row["cluster"], row["topic"]), {}).update(row)
    return pa.Table.from_pylist(
        [_row(row, rows) for _, row in sorted(joined.items())], schema=TOPICS.arrow_schema()
    )


PARTS = {
    "totals": progress.TOPICS,
    "configuration": raw.TOPICS,
    "queues": raw.QUEUE_OFFSETS,
    "groups": GROUPS_WITH_TEAM,
}
"""Tables of the details of a topic, by their names there."""


def topic_details(rows: Shown, cluster: str, topic: str) -> dict[str, Any]:
    """Return the details of a topic from the shown rows.

    Raises:
        ProblemError: the topic has no rows.
    """
    details: dict[str, Any] = {}
    for name, table in PARTS.items():
        result = rows.of(table, cluster)
        result = result.filter(pc.equal(result["topic"], topic))
        details[name] = dict_rows(result.sort_by([(key, "ascending") for key in table.key]))
    if not any(details.values()):
        raise ProblemError(404, f"no topic {topic!r} in {cluster!r}: GET /api/v1/topics lists them")
    return {"cluster": cluster, "topic": topic, "observed_at": rows.at[cluster], **details}


def _row(row: dict[str, Any], rows: Shown) -> dict[str, Any]:
    lag = row.get("lag_max")
    marks = {name: row.get(f"{name}_max") for name in columns_with_marks(("lag",))[1:]}
    is_bound = bound_of("lag", {"lag": lag, **marks}) is not None
    return {
        "cluster": row["cluster"],
        "topic": row["topic"],
        "observed_at": rows.at.get(row["cluster"]),
        "kind": row.get("kind_min"),
        "brokers": row.get("broker_count_distinct"),
        "queues": row.get("queue_id_count"),
        "messages": row.get("messages_sum"),
        **{column.name: row.get(column.name) for column in _OF_TOPICS},
        "newest_stored_at": row.get("newest_stored_at_max"),
        "groups": row.get("consumer_group_count", 0),
        "lag": lag,
        "lag_is_lower_bound": None if lag is None else is_bound,
        "produce_tps": row.get("produce_tps", row.get("produce_tps_max")),
    }


PRODUCERS = Table(
    name="board.producers",
    comment="One row per producer that is connected to a broker of the topic; null where no deep "
    "snapshot of the hour before lists any. Brokers do not know which topics it writes.",
    columns=(
        Column("producer_group", STRING, "its group"),
        Column("client_id", STRING, "the client"),
        Column("client_address", STRING, "host:port that a broker sees"),
        Column("language", STRING, "client language"),
        Column("version", STRING, "client version"),
        Column("connected_to", STRINGS, "brokers of the topic that it is connected to"),
        Column("last_seen_at", TIMESTAMP, "its last heartbeat, by a broker's clock"),
        Column("observed_at", TIMESTAMP, "start of the deep snapshot"),
    ),
    key=("producer_group", "client_id"),
)
"""The columns of the rows below; they are in no table."""


def producer_rows(view: View, rows: Shown, cluster: str, topic: str) -> list[dict[str, Any]] | None:
    """Return the producers that are connected to brokers of a topic; None where that is unknown.

    Args:
        view: the tables as the person sees them.
        rows: what is shown.
        cluster: a cluster among these.
        topic: the topic.

    Raises:
        DamagedError: a file of a table is missing or damaged.
    """
    configured = rows.of(raw.TOPICS, cluster)
    configured = configured.filter(pc.equal(configured["topic"], topic))
    brokers = set(configured["broker"].to_pylist())
    window = Window(rows.at[cluster] - GROUP_REACH, rows.at[cluster] + MICROSECOND)
    columns = ("broker", raw.BROKERS.instant, "producers")
    listed = view.rows_between(raw.BROKERS, window, {"cluster": cluster}, columns)
    newest: dict[str, dict[str, Any]] = {}
    for row in listed.filter(pc.is_valid(listed["producers"])).to_pylist():
        before = newest.get(row["broker"])
        if row["broker"] in brokers and (not before or before["observed_at"] < row["observed_at"]):
            newest[row["broker"]] = row
    if not newest:
        return None
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for broker, row in sorted(newest.items()):
        for producer in row["producers"]:
            key = producer["producer_group"], producer["client_id"]
            known = merged.setdefault(
                key, {**producer, "connected_to": [], "observed_at": row["observed_at"]}
            )
            known["connected_to"].append(broker)
    return [merged[key] for key in sorted(merged)]
