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
    family=EXPORTER,
    labels=_DIFF_LABELS,
    select=_lag(retry=False),
    metrics=(
        Metric(
            name="rocketmq_group_diff",
            help="Messages of a topic that the group has not confirmed.",
            column="progress.groups.lag",
            value="lag",
        ),
    ),
    cluster_if_several=True,
)

RETRY_DIFF = Source(
    family=EXPORTER,
    labels=_DIFF_LABELS,
    select=_lag(retry=True),
    metrics=(
        Metric(
            name="rocketmq_group_retrydiff",
            help="Messages of the retry topic that the group has not confirmed.",
            column="progress.groups.lag",
            value="lag",
        ),
    ),
    cluster_if_several=True,
)

DLQ_DIFF = Source(
    family=EXPORTER,
    labels=_DIFF_LABELS,
    select=_DLQ,
    metrics=(
        Metric(
            name="rocketmq_group_dlqdiff",
            help="Messages in the dead-letter topic of the group.",
            column="progress.groups.dlq_messages",
            value="dlq_messages",
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
    family=EXPORTER,
    labels=("caddr", "localaddr", "group"),
    select=_COUNT,
    metrics=(
        Metric(
            name="rocketmq_group_count",
            help="Online members of the group.",
            column="raw.clients",
            value="members",
        ),
    ),
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
    family=EXPORTER,
    labels=_BY_BROKER,
    select=_OFFSETS,
    metrics=(
        Metric(
            name="rocketmq_consumer_offset",
            help="Sum of the committed offsets over the queues of a broker.",
            column="progress.queues.consumer_offset",
            value="consumer_offset",
        ),
        Metric(
            name="rocketmq_group_consume_total_offset",
            help="Sum of the committed offsets over the queues of a broker.",
            column="progress.queues.consumer_offset",
            value="consumer_offset",
        ),
        Metric(
            name="rocketmq_consumer_tps",
            help="Messages handed out a second, by masters and slaves.",
            column="progress.queues.pull_tps",
            value="delivered_tps",
        ),
        Metric(
            name="rocketmq_group_consume_tps",
            help="Messages confirmed a second.",
            column="progress.queues.consume_tps",
            value="consume_tps",
        ),
        Metric(
            name="rocketmq_group_get_latency_by_storetime",
            help="Milliseconds since the first unconsumed message of a broker was stored.",
            column="progress.queues.delay_ms",
            value="delay_ms",
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
    family=EXPORTER,
    labels=_BY_BROKER,
    select=_COUNTED,
    metrics=(
        Metric(
            name="rocketmq_consumer_message_size",
            help="Bytes handed out a second, in the minute before the newest deep snapshot.",
            column="raw.broker_stats.tps",
            value="bytes",
        ),
        Metric(
            name="rocketmq_send_back_nums",
            help="Messages sent back for a retry in the minute before the newest deep snapshot.",
            column="raw.broker_stats.sum",
            value="sent_back",
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
    family=EXPORTER,
    labels=("clientAddr", "clientId", "group", "topic"),
    select=_CLIENTS,
    metrics=(
        Metric(
            name="rocketmq_client_consume_fail_msg_count",
            help="Messages that failed in the hour before the newest deep snapshot.",
            column="raw.client_topics.consume_failed_last_hour",
            value="consume_failed_last_hour",
        ),
        Metric(
            name="rocketmq_client_consume_fail_msg_tps",
            help="Messages that failed a second.",
            column="raw.client_topics.consume_failed_tps",
            value="consume_failed_tps",
        ),
        Metric(
            name="rocketmq_client_consume_ok_msg_tps",
            help="Messages consumed a second.",
            column="raw.client_topics.consume_ok_tps",
            value="consume_ok_tps",
        ),
        Metric(
            name="rocketmq_client_consume_rt",
            help="Milliseconds of a listener call.",
            column="raw.client_topics.consume_rt_ms",
            value="consume_rt_ms",
        ),
        Metric(
            name="rocketmq_client_consumer_pull_rt",
            help="Milliseconds of a pull.",
            column="raw.client_topics.pull_rt_ms",
            value="pull_rt_ms",
        ),
        Metric(
            name="rocketmq_client_consumer_pull_tps",
            help="Messages pulled a second.",
            column="raw.client_topics.pull_tps",
            value="pull_tps",
        ),
    ),
    cluster_if_several=True,
)

SOURCES = (DIFF, RETRY_DIFF, DLQ_DIFF, COUNT, OFFSETS, COUNTED, CLIENTS)
