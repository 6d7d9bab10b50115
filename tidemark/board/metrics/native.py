"""Metrics named as brokers of RocketMQ 5.5 name theirs, for clusters of every version.

Labels and meanings are those of ``ConsumerLagCalculator`` and ``BrokerMetricsManager``; a scrape
of a 5.5.0 broker is kept with the tests. Where that broker reports 0 for an unknown number (no
commit, expired messages, no member online), there is no sample here. Nor is there a sample for a
lower bound of 0, because popped and unacknowledged messages are in no lag. The other lower bounds
are marked by ``tidemark_group_lag_is_lower_bound`` and its siblings.
"""

from collections import Counter
from datetime import datetime

import pyarrow as pa

from tidemark.board.metrics.exposition import NATIVE, Metric, Source
from tidemark.lake.bounds import without_untrue_zero
from tidemark.model.incidents import NotificationStatus


class Totals:
    """Counters that only grow, whatever retention removes from the tables.

    The rows of the tables at the start count, so that a counter has about the same value after a
    restart of the server.
    """

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self._problems: Counter[str] = Counter()
        self._counted_until: dict[str, datetime] = {}
        self._notifications: Counter[tuple[str, str]] = Counter()
        self._in_table: Counter[tuple[str, str]] = Counter()

    def count_problems(self, snapshots: pa.Table) -> pa.Table:
        """Add the problems of snapshots that were not counted yet; return cluster and problems."""
        rows = snapshots.select(["cluster", "observed_at", "problems"]).to_pylist()
        for row in sorted(rows, key=lambda row: row["observed_at"]):
            cluster, at = row["cluster"], row["observed_at"]
            last = self._counted_until.get(cluster)
            if last is None or at > last:
                self._problems[cluster] += len(row["problems"] or ())
                self._counted_until[cluster] = at
        schema = pa.schema([("cluster", pa.string()), ("problems", pa.int64())])
        return pa.Table.from_pylist(
            [{"cluster": name, "problems": count} for name, count in self._problems.items()], schema
        )

    def count_notifications(self, notifications: pa.Table) -> pa.Table:
        """Add the attempts since the last call; return channel, outcome and notifications."""
        now: Counter[tuple[str, str]] = Counter()
        for row in notifications.select(["channel", "status", "attempts"]).to_pylist():
            channel, status = row["channel"], row["status"]
            delivered = status == NotificationStatus.DELIVERED
            now[channel, "delivered"] += delivered
            now[channel, "withheld"] += status == NotificationStatus.WITHHELD
            now[channel, "failed"] += max(0, (row["attempts"] or 0) - delivered)
        for key, count in now.items():
            self._notifications[key] += max(0, count - self._in_table[key])
        self._in_table = now
        schema = pa.schema(
            [("channel", pa.string()), ("outcome", pa.string()), ("notifications", pa.int64())]
        )
        return pa.Table.from_pylist(
            [
                {"channel": channel, "outcome": outcome, "notifications": count}
                for (channel, outcome), count in self._notifications.items()
            ],
            schema,
        )


GROUP_LABELS = ("cluster", "node_type", "consumer_group", "topic", "is_retry", "is_system")

_GROUPS = f"""
SELECT cluster, 'tidemark' AS node_type, consumer_group, topic,
    CASE WHEN starts_with(topic, '%RETRY%') THEN 'true' ELSE 'false' END AS is_retry,
    'false' AS is_system,
    {without_untrue_zero("lag")} AS lag, {without_untrue_zero("delay_ms")} AS delay_ms,
    inflight, available, {without_untrue_zero("ready_delay_ms")} AS ready_delay_ms
FROM progress_groups
WHERE complete
"""

_LATENCY = "Milliseconds since the first unconsumed message in the retained range was stored."
_QUEUEING = "Milliseconds since the first message that was not handed out was stored."

GROUPS = Source(
    family=NATIVE,
    labels=GROUP_LABELS,
    select=_GROUPS,
    metrics=(
        Metric(
            name="rocketmq_consumer_lag_messages",
            help="Messages that the group has not confirmed.",
            column="progress.groups.lag",
            value="lag",
        ),
        Metric(
            name="rocketmq_consumer_lag_latency",
            help=_LATENCY,
            column="progress.groups.delay_ms",
            value="delay_ms",
        ),
        Metric(
            name="rocketmq_consumer_lag_latency_milliseconds",
            help=f"{_LATENCY} The name that 5.5 brokers give it.",
            column="progress.groups.delay_ms",
            value="delay_ms",
        ),
        Metric(
            name="rocketmq_consumer_inflight_messages",
            help="Messages that were handed out and are not confirmed.",
            column="progress.groups.inflight",
            value="inflight",
        ),
        Metric(
            name="rocketmq_consumer_ready_messages",
            help="Messages that were not handed out yet.",
            column="progress.groups.available",
            value="available",
        ),
        Metric(
            name="rocketmq_consumer_queueing_latency",
            help=_QUEUEING,
            column="progress.groups.ready_delay_ms",
            value="ready_delay_ms",
        ),
        Metric(
            name="rocketmq_consumer_queueing_latency_milliseconds",
            help=f"{_QUEUEING} The name that 5.5 brokers give it.",
            column="progress.groups.ready_delay_ms",
            value="ready_delay_ms",
        ),
    ),
)

_CONNECTIONS = """
WITH system AS (
    SELECT cluster, consumer_group, bool_or(system) AS is_system
    FROM raw_consumer_groups
    GROUP BY ALL
)
SELECT cluster, 'tidemark' AS node_type, consumer_group, lower(language) AS language,
    lower(version) AS version,
    CASE consume_type WHEN 'CONSUME_ACTIVELY' THEN 'pull' WHEN 'CONSUME_PASSIVELY' THEN 'push'
        WHEN 'CONSUME_POP' THEN 'pop' END AS consume_mode,
    CASE WHEN is_system THEN 'true' ELSE 'false' END AS is_system,
    count(*) AS connections
FROM raw_clients LEFT JOIN system USING (cluster, consumer_group)
GROUP BY ALL
"""

CONNECTIONS = Source(
    family=NATIVE,
    labels=(
        *("cluster", "node_type", "consumer_group", "language", "version", "consume_mode"),
        "is_system",
    ),
    select=_CONNECTIONS,
    metrics=(
        Metric(
            name="rocketmq_consumer_connections",
            help="Online members of the group.",
            column="raw.clients",
            value="connections",
        ),
    ),
)

SOURCES = (GROUPS, CONNECTIONS)
