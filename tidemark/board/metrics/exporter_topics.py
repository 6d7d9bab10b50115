"""Metrics of topics and brokers named as rocketmq-exporter (commit e1ab2dd) names them."""

from tidemark.board.metrics.exposition import EXPORTER, Metric, Source

_TOPIC_LABELS = ("cluster", "broker", "topic")
_BROKER_LABELS = ("cluster", "brokerIP", "broker")


def _offsets(label: str, prefix: str, condition: str) -> str:
    return f"""
    SELECT cluster, broker, {prefix} AS "{label}", sum(max_offset) AS max_offset
    FROM raw_queue_offsets
    WHERE {condition}
    GROUP BY ALL
    """


NORMAL_TOPICS = Source(
    family=EXPORTER,
    labels=_TOPIC_LABELS,
    select=_offsets(
        "topic", "topic", "NOT starts_with(topic, '%RETRY%') AND NOT starts_with(topic, '%DLQ%')"
    ),
    metrics=(
        Metric(
            name="rocketmq_producer_offset",
            help="Sum of the max offsets over the queues of a broker.",
            column="raw.queue_offsets.max_offset",
            value="max_offset",
        ),
    ),
)

RETRY_TOPICS = Source(
    family=EXPORTER,
    labels=_TOPIC_LABELS,
    select=_offsets("topic", "topic", "starts_with(topic, '%RETRY%')"),
    metrics=(
        Metric(
            name="rocketmq_topic_retry_offset",
            help="Sum of the max offsets of a retry topic over the queues of a broker.",
            column="raw.queue_offsets.max_offset",
            value="max_offset",
        ),
    ),
)

DLQ_TOPICS = Source(
    family=EXPORTER,
    labels=("cluster", "broker", "group"),
    select=_offsets("group", "substr(topic, length('%DLQ%') + 1)", "starts_with(topic, '%DLQ%')"),
    metrics=(
        Metric(
            name="rocketmq_topic_dlq_offset",
            help="Sum of the max offsets of a dead-letter topic over the queues of a broker.",
            column="raw.queue_offsets.max_offset",
            value="max_offset",
        ),
    ),
)

_PRODUCED = """
WITH queues AS (
    SELECT cluster, broker, topic, queue_id, max(produce_tps) AS tps
    FROM progress_queues
    GROUP BY ALL
),
observed AS (
    SELECT cluster, broker, topic, sum(tps) AS observed_tps FROM queues GROUP BY ALL
),
counted AS (
    SELECT cluster, broker, topic,
        max(tps) FILTER (stats_name = 'TOPIC_PUT_NUMS') AS counted_tps,
        max(tps) FILTER (stats_name = 'TOPIC_PUT_SIZE') AS bytes
    FROM raw_broker_stats
    WHERE broker_id = 0 AND stats_window = 'minute' AND consumer_group IS NULL
    GROUP BY ALL
)
SELECT cluster, broker, topic, coalesce(observed_tps, counted_tps) AS tps, bytes
FROM observed FULL JOIN counted USING (cluster, broker, topic)
WHERE NOT starts_with(topic, '%RETRY%') AND NOT starts_with(topic, '%DLQ%')
"""

PRODUCED = Source(
    family=EXPORTER,
    labels=_TOPIC_LABELS,
    select=_PRODUCED,
    metrics=(
        Metric(
            name="rocketmq_producer_tps",
            help="Messages written a second; without consumers from the newest deep snapshot.",
            column="progress.queues.produce_tps",
            value="tps",
        ),
        Metric(
            name="rocketmq_producer_message_size",
            help="Bytes written a second, in the minute before the newest deep snapshot.",
            column="raw.broker_stats.tps",
            value="bytes",
        ),
    ),
)

MASTERS = Source(
    family=EXPORTER,
    labels=_BROKER_LABELS,
    select="""
    SELECT cluster, address AS "brokerIP", broker, put_tps, get_tps
    FROM raw_brokers
    WHERE broker_id = 0
    """,
    metrics=(
        Metric(
            name="rocketmq_broker_tps",
            help="Messages written to a broker a second, within 10 s.",
            column="raw.brokers.put_tps",
            value="put_tps",
        ),
        Metric(
            name="rocketmq_broker_qps",
            help="Messages that a broker handed out a second, within 10 s.",
            column="raw.brokers.get_tps",
            value="get_tps",
        ),
    ),
)

SLAVES = Source(
    family=EXPORTER,
    labels=_BROKER_LABELS,
    select="""
    SELECT slave.cluster AS cluster, slave.address AS "brokerIP", slave.broker AS broker,
        master.commit_log_max_offset - slave.commit_log_max_offset AS behind
    FROM raw_brokers AS slave JOIN raw_brokers AS master
        ON slave.cluster = master.cluster AND slave.broker = master.broker
    WHERE slave.broker_id <> 0 AND master.broker_id = 0
    """,
    metrics=(
        Metric(
            name="rocketmq_broker_commitlog_diff",
            help="Bytes of the commit log by which a slave is behind its master.",
            column="raw.brokers.commit_log_max_offset",
            value="behind",
        ),
    ),
)

SOURCES = (NORMAL_TOPICS, RETRY_TOPICS, DLQ_TOPICS, PRODUCED, MASTERS, SLAVES)
