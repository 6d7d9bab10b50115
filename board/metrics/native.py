"""Metrics named as brokers of RocketMQ 5.5 name theirs, for clusters of every version.

Labels and meanings are those of ``ConsumerLagCalculator`` and ``BrokerMetricsManager``; a scrape
of a 5.5.0 broker is kept with the tests. Where that broker reports 0 for an unknown number (no
commit, expired messages, no member online), there is no sample here. Nor is there a sample for a
lower bound of 0, because popped and unacknowledged messages are in no lag. The other lower bounds
are marked by ``tidemark_group_lag_is_lower_bound`` and its siblings.
"""

from board.metrics.declaration import NATIVE, Metric, Source
from lake.bounds import without_untrue_zero

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
    NATIVE,
    GROUP_LABELS,
    _GROUPS,
    (
        Metric(
            "rocketmq_consumer_lag_messages",
            "Messages that the group has not confirmed.",
            "progress.groups.lag",
            "lag",
        ),
        Metric("rocketmq_consumer_lag_latency", _LATENCY, "progress.groups.delay_ms", "delay_ms"),
        Metric(
            "rocketmq_consumer_lag_latency_milliseconds",
            f"{_LATENCY} The name that 5.5 brokers give it.",
            "progress.groups.delay_ms",
            "delay_ms",
        ),
        Metric(
            "rocketmq_consumer_inflight_messages",
            "Messages that were handed out and are not confirmed.",
            "progress.groups.inflight",
            "inflight",
        ),
        Metric(
            "rocketmq_consumer_ready_messages",
            "Messages that were not handed out yet.",
            "progress.groups.available",
            "available",
        ),
        Metric(
            "rocketmq_consumer_queueing_latency",
            _QUEUEING,
            "progress.groups.ready_delay_ms",
            "ready_delay_ms",
        ),
        Metric(
            "rocketmq_consumer_queueing_latency_milliseconds",
            f"{_QUEUEING} The name that 5.5 brokers give it.",
            "progress.groups.ready_delay_ms",
            "ready_delay_ms",
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
    NATIVE,
    (
        *("cluster", "node_type", "consumer_group", "language", "version", "consume_mode"),
        "is_system",
    ),
    _CONNECTIONS,
    (
        Metric(
            "rocketmq_consumer_connections",
            "Online members of the group.",
            "raw.clients",
            "connections",
        ),
    ),
)

SOURCES = (GROUPS, CONNECTIONS)
