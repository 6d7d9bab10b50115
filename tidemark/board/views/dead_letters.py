"""Dead letters and retries of each group at the shown snapshot."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.board.views.groups import WORST_FIRST
from tidemark.board.views.view import Shown
from tidemark.lake.schema import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Column, Table
from tidemark.lake.tables import progress, raw
from tidemark.model.health import Health
from tidemark.rocketmq.names import DLQ_PREFIX

DEAD_LETTERS = Table(
    name="board.dead_letters",
    comment="One row per group with a dead-letter topic, or with messages to try again.",
    columns=(
        raw.CLUSTER,
        raw.CONSUMER_GROUP,
        Column("topic", STRING, "its dead-letter topic; NULL where it has none"),
        raw.OBSERVED_AT,
        Column("health", STRING, "the worst of its topics; NULL where it has no offsets"),
        Column("messages", BIGINT, "dead letters in the retained range of the known queues"),
        Column("added_last_hour", BIGINT, "dead letters written within the last hour"),
        Column("newest_at", TIMESTAMP, "store time of the newest dead letter"),
        Column("newest_age_seconds", BIGINT, "its age at the snapshot"),
        Column("oldest_at", TIMESTAMP, "store time of the oldest dead letter"),
        Column(
            "oldest_at_is_upper_bound",
            BOOLEAN,
            "whether the oldest was stored at oldest_at or earlier, not just then",
        ),
        Column("dead_letter_age_seconds", BIGINT, "age of the oldest at the snapshot"),
        Column(
            "expires_in_seconds",
            BIGINT,
            "until the oldest may be deleted, by the shortest retention of the cluster's brokers",
        ),
        Column("complete", BOOLEAN, "whether all queues of its topics are known"),
        Column("retry_lag", BIGINT, "messages that wait for another attempt"),
        Column("retry_lag_is_lower_bound", BOOLEAN, "whether some of them may be missing there"),
        Column("redelivered_tps", DOUBLE, "messages a second that came back for another attempt"),
        Column(
            "retry_max_times",
            INT,
            "attempts before a message becomes a dead letter; NULL where brokers differ",
        ),
    ),
    key=("cluster", "consumer_group"),
)
"""The columns of the rows below; they are in no table."""

_Key = tuple[str, str]


def dead_letter_rows(rows: Shown) -> pa.Table:
    """Return a row of `DEAD_LETTERS` per group that has any, or has messages to try again."""
    topics = {
        (row["cluster"], row["topic"].removeprefix(DLQ_PREFIX)): row for row in _dead_topics(rows)
    }
    groups = _groups(rows)
    attempts = _attempts(rows)
    retention = _retention(rows)
    return pa.Table.from_pylist(
        [
            _row(key, topics.get(key), groups.get(key, []), attempts.get(key), retention)
            | {"observed_at": rows.at.get(key[0])}
            for key in sorted(topics.keys() | groups.keys())
        ],
        schema=DEAD_LETTERS.arrow_schema(),
    )


def worst_first(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows by new dead letters, then unknown ones, then by all, then by retries."""
    return sorted(
        rows,
        key=lambda row: (
            -(row["added_last_hour"] or 0),
            row["messages"] is not None,
            -(row["messages"] or 0),
            -(row["redelivered_tps"] or 0),
            -(row["retry_lag"] or 0),
            (row["cluster"], row["consumer_group"]),
        ),
    )


def _dead_topics(rows: Shown) -> list[dict[str, Any]]:
    table = rows.of(progress.TOPICS)
    return table.filter(pc.starts_with(table["topic"], DLQ_PREFIX)).to_pylist()


def _groups(rows: Shown) -> dict[_Key, list[dict[str, Any]]]:
    """Return the rows of groups with a dead letter, or a message to try again."""
    table = rows.of(progress.GROUPS)
    is_any = pa.array([False] * table.num_rows, pa.bool_())
    for name in ("dlq_messages", "retry_lag", "redelivered_tps"):
        above = pc.fill_null(pc.greater(table[name], 0), False)
        is_any = pc.or_(is_any, above)
    names = table.filter(is_any).group_by(["cluster", "consumer_group"]).aggregate([])
    dead = {(row["cluster"], row["topic"].removeprefix(DLQ_PREFIX)) for row in _dead_topics(rows)}
    wanted = dead | {(row["cluster"], row["consumer_group"]) for row in names.to_pylist()}
    group_names = pa.array(sorted({name for _, name in wanted}), pa.string())
    few = table.filter(pc.is_in(table["consumer_group"], value_set=group_names))
    result: dict[_Key, list[dict[str, Any]]] = defaultdict(list)
    for row in few.to_pylist():
        if (key := (row["cluster"], row["consumer_group"])) in wanted:
            result[key].append(row)
    return result


def _attempts(rows: Shown) -> dict[_Key, int | None]:
    """Return the attempts that all brokers give a group's messages; None where they differ."""
    table = rows.of(raw.CONSUMER_GROUPS)
    limits = table.group_by(["cluster", "consumer_group"]).aggregate(
        [("retry_max_times", "min"), ("retry_max_times", "max")]
    )
    return {
        (row["cluster"], row["consumer_group"]): row["retry_max_times_min"]
        if row["retry_max_times_min"] == row["retry_max_times_max"]
        else None
        for row in limits.to_pylist()
    }


def _retention(rows: Shown) -> dict[str, float | None]:
    """Return the shortest known retention of the brokers of each cluster, in hours."""
    shortest = rows.of(raw.BROKERS).group_by("cluster").aggregate([("retention_hours", "min")])
    return {row["cluster"]: row["retention_hours_min"] for row in shortest.to_pylist()}


def _row(
    key: _Key,
    topic: Mapping[str, Any] | None,
    groups: list[dict[str, Any]],
    attempts: int | None,
    retention: Mapping[str, float | None],
) -> dict[str, Any]:
    states = [row["health"] or Health.UNKNOWN for row in groups]
    row = {
        "cluster": key[0],
        "consumer_group": key[1],
        "health": min(states, key=WORST_FIRST.index, default=None),
        "messages": _largest(groups, "dlq_messages"),
        "complete": all(row["complete"] is not False for row in groups),
        "retry_lag": _largest(groups, "retry_lag"),
        "retry_lag_is_lower_bound": _largest(groups, "retry_lag_is_lower_bound"),
        "redelivered_tps": _largest(groups, "redelivered_tps"),
        "retry_max_times": attempts,
    }
    if topic is None:
        return row
    row |= {name: topic[name] for name in ("topic", "messages", "added_last_hour")}
    row["complete"] = topic["complete"] is not False and row["complete"]
    return row if topic["messages"] == 0 else row | _ages(topic, retention.get(key[0]))


def _ages(topic: Mapping[str, Any], retention_hours: float | None) -> dict[str, Any]:
    """Return the instants and ages of the oldest and of the newest dead letter."""
    at: datetime = topic["observed_at"]
    oldest, newest = (
        None if topic[name] is None else max(0, round((at - topic[name]).total_seconds()))
        for name in ("oldest_at", "newest_at")
    )
    names = ("oldest_at", "oldest_at_is_upper_bound", "newest_at")
    ages = {name: topic[name] for name in names}
    ages |= {"newest_age_seconds": newest, "dead_letter_age_seconds": oldest}
    if oldest is None or retention_hours is None:
        return ages
    return ages | {"expires_in_seconds": max(0, round(retention_hours * 3600) - oldest)}


def _largest(rows: Iterable[Mapping[str, Any]], name: str) -> Any:
    """Return a number of the whole group, which the rows of all its topics repeat."""
    return max((row[name] for row in rows if row[name] is not None), default=None)
