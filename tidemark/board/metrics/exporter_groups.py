"""Metrics of groups and topics named as rocketmq-exporter (commit e1ab2dd) names them.

Labels are the exporter's. Values are Tidemark's: queues without a commit are not lag, a client that
did not report has no sample, nor has a lower bound of 0, and messages that slaves serve count.
"""

from tidemark.board.metrics.exposition import EXPORTER, Metric, Source
from tidemark.lake.bounds import without_untrue_zero

_DIFF_LABELS = ("group", "topic", "countOfOnlineConsumers", "msgModel")
_BY_BROKER = ("cluster", "broker", "topic", "group")

_MEMBERS = """
members AS (
    SELECT cluster, consumer_group, count(*) AS members FROM raw_clients GROUP BY ALL
),
rows AS (
    SELECT *,
        coalesce(members::VARCHAR, CASE WHEN online = false THEN '0' END)
            AS "countOfOnlineConsumers",
        '1' AS "msgModel"
    FROM progress_groups LEFT JOIN members USING (cluster, consumer_group)
    WHERE message_model IS DISTINCT FROM 'BROADCASTING'
)
"""


def _lag(retry: bool) -> str:
    condition = "" if retry else "NOT "
    return f"""
    WITH {_MEMBERS}
    SELECT cluster, consumer_group AS "group", topic, "countOfOnlineConsumers", "msgModel",
        {without_untrue_zero("lag")} AS lag
    FROM rows
    WHERE complete AND {condition}starts_with(topic, '%RETRY%')
    """


_DLQ = f"""
WITH {_MEMBERS}
SELECT cluster, consumer_group AS "group", '%DLQ%' || consumer_group AS topic,
    any_value("countOfOnlineConsumers") AS "countOfOnlineConsumers", "msgModel",
    max(dlq_messages) AS dlq_messages
FROM rows
GROUP BY ALL
"""

DIFF = Source(
    EXPORTER,
    _DIFF_LABELS,
    _lag(retry=False),
    (
        Metric(
            "rocketmq_group_diff",
            "Messages of a topic that the group has not confirmed.",
            "progress.groups.lag",
            "lag",
        ),
    ),
    cluster_if_several=True,
)

RETRY_DIFF = Source(
    EXPORTER,
    _DIFF_LABELS,
    _lag(retry=True),
    (
        Metric(
            "rocketmq_group_retrydiff",
            "Messages of the retry topic that the group has not confirmed.",
            "progress.groups.lag",
            "lag",
        ),
    ),
    cluster_if_several=True,
)

DLQ_DIFF = Source(
    EXPORTER,
    _DIFF_LABELS,
    _DLQ,
    (
        Metric(
            "rocketmq_group_dlqdiff",
            "Messages in the dead-letter topic of the group.",
            "progress.groups.dlq_messages",
            "dlq_messages",
        ),
    ),
    cluster_if_several=True,
)

_COUNT = """
SELECT cluster, string_agg(client_address, ',' ORDER BY client_id) AS caddr,
    string_agg(client_id, ',' ORDER BY client_id) AS localaddr, consumer_group AS "group",
    count(*) AS members
FROM raw_clients
GROUP BY cluster, consumer_group
UNION ALL
SELECT DISTINCT cluster, '', '', consumer_group, 0
FROM progress_groups ANTI JOIN raw_clients USING (cluster, consumer_group)
WHERE online = false
"""

COUNT = Source(
    EXPORTER,
    ("caddr", "localaddr", "group"),
    _COUNT,
    (Metric("rocketmq_group_count", "Online members of the group.", "raw.clients", "members"),),
    cluster_if_several=True,
)

_OFFSETS = """
SELECT cluster, broker, topic, consumer_group AS "group",
    sum(consumer_offset) AS consumer_offset,
    CASE WHEN max(delay_ms) > 0 OR NOT coalesce(bool_or(lag_is_lower_bound), false)
        THEN max(delay_ms) END AS delay_ms,
    sum(coalesce(pull_tps, consume_tps)) AS delivered_tps, sum(consume_tps) AS consume_tps
FROM progress_queues
WHERE client_id IS NULL AND offset_store IS DISTINCT FROM 'broker_broadcast'
GROUP BY ALL
"""

OFFSETS = Source(
    EXPORTER,
    _BY_BROKER,
    _OFFSETS,
    (
        Metric(
            "rocketmq_consumer_offset",
            "Sum of the committed offsets over the queues of a broker.",
            "progress.queues.consumer_offset",
            "consumer_offset",
        ),
        Metric(
            "rocketmq_group_consume_total_offset",
            "Sum of the committed offsets over the queues of a broker.",
            "progress.queues.consumer_offset",
            "consumer_offset",
        ),
        Metric(
            "rocketmq_consumer_tps",
            "Messages handed out a second, by masters and slaves.",
            "progress.queues.pull_tps",
            "delivered_tps",
        ),
        Metric(
            "rocketmq_group_consume_tps",
            "Messages confirmed a second.",
            "progress.queues.consume_tps",
            "consume_tps",
        ),
        Metric(
            "rocketmq_group_get_latency_by_storetime",
            "Milliseconds since the first unconsumed message of a broker was stored.",
            "progress.queues.delay_ms",
            "delay_ms",
        ),
    ),
)

_COUNTED = """
SELECT cluster, broker, topic, consumer_group AS "group",
    sum(tps) FILTER (stats_name = 'GROUP_GET_SIZE') AS bytes,
    sum(sum) FILTER (stats_name = 'SNDBCK_PUT_NUMS') AS sent_back
FROM raw_broker_stats
WHERE stats_window = 'minute' AND consumer_group IS NOT NULL
GROUP BY ALL
"""

COUNTED = Source(
    EXPORTER,
    _BY_BROKER,
    _COUNTED,
    (
        Metric(
            "rocketmq_consumer_message_size",
            "Bytes handed out a second, in the minute before the newest deep snapshot.",
            "raw.broker_stats.tps",
            "bytes",
        ),
        Metric(
            "rocketmq_send_back_nums",
            "Messages sent back for a retry in the minute before the newest deep snapshot.",
            "raw.broker_stats.sum",
            "sent_back",
        ),
    ),
)

_CLIENTS = """
SELECT topics.cluster AS cluster, client_address AS "clientAddr", topics.client_id AS "clientId",
    topics.consumer_group AS "group", topic, consume_failed_last_hour, consume_failed_tps,
    consume_ok_tps, consume_rt_ms, pull_rt_ms, pull_tps
FROM raw_client_topics AS topics LEFT JOIN raw_clients AS clients
    ON topics.cluster = clients.cluster AND topics.consumer_group = clients.consumer_group
    AND topics.client_id = clients.client_id
"""

CLIENTS = Source(
    EXPORTER,
    ("clientAddr", "clientId", "group", "topic"),
    _CLIENTS,
    (
        Metric(
            "rocketmq_client_consume_fail_msg_count",
            "Messages that failed in the hour before the newest deep snapshot.",
            "raw.client_topics.consume_failed_last_hour",
            "consume_failed_last_hour",
        ),
        Metric(
            "rocketmq_client_consume_fail_msg_tps",
            "Messages that failed a second.",
            "raw.client_topics.consume_failed_tps",
            "consume_failed_tps",
        ),
        Metric(
            "rocketmq_client_consume_ok_msg_tps",
            "Messages consumed a second.",
            "raw.client_topics.consume_ok_tps",
            "consume_ok_tps",
        ),
        Metric(
            "rocketmq_client_consume_rt",
            "Milliseconds of a listener call.",
            "raw.client_topics.consume_rt_ms",
            "consume_rt_ms",
        ),
        Metric(
            "rocketmq_client_consumer_pull_rt",
            "Milliseconds of a pull.",
            "raw.client_topics.pull_rt_ms",
            "pull_rt_ms",
        ),
        Metric(
            "rocketmq_client_consumer_pull_tps",
            "Messages pulled a second.",
            "raw.client_topics.pull_tps",
            "pull_tps",
        ),
    ),
    cluster_if_several=True,
)

SOURCES = (DIFF, RETRY_DIFF, DLQ_DIFF, COUNT, OFFSETS, COUNTED, CLIENTS)
