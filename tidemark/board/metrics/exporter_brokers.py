"""Metrics of brokers and their topics named as rocketmq-exporter (commit e1ab2dd) names them.

The map ``raw.brokers.runtime`` holds the texts of a broker's runtime report (28). A text that is no
number, or a key that a version lacks, is no sample; the exporter stops at the first of either.
"""

from collections.abc import Iterator

from tidemark.board.metrics.exposition import COUNTER, EXPORTER, GAUGE, Metric, Source

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

_PREFIX = "rocketmq_brokeruntime_"

_DISTRIBUTION = {
    "0ms": ("<=0ms", "0 ms"),
    "0to10ms": ("0~10ms", "up to 10 ms"),
    "10to50ms": ("10~50ms", "10 to 50 ms"),
    "50to100ms": ("50~100ms", "50 to 100 ms"),
    "100to200ms": ("100~200ms", "100 to 200 ms"),
    "200to500ms": ("200~500ms", "200 to 500 ms"),
    "500to1s": ("500ms~1s", "500 ms to 1 s"),
    "1to2s": ("1~2s", "1 to 2 s"),
    "2to3s": ("2~3s", "2 to 3 s"),
    "3to4s": ("3~4s", "3 to 4 s"),
    "4to5s": ("4~5s", "4 to 5 s"),
    "5to10s": ("5~10s", "5 to 10 s"),
    "10stomore": ("10s~", "more than 10 s"),
}
"""End of the metric's name to the class of the report, and to words."""

_RATES = {
    "getfound_tps": (("getFoundTps",), "Reads a second that found messages"),
    "gettotal_tps": (("getTotalTps",), "Reads a second"),
    "gettransfered_tps": (
        ("getTransferredTps", "getTransferedTps"),  # 5.x, 4.x
        "Messages handed out a second",
    ),
    "getmiss_tps": (("getMissTps",), "Reads a second that found nothing"),
    "put_tps": (("putTps",), "Messages written a second"),
}
"""Start of the metric's name to the keys of the report, the first that is there, and to words."""

_WINDOWS = {"10": 1, "60": 2, "600": 3}
"""Seconds of a rate's window to its place in the text of the report."""

_NUMBERS = {
    "msg_put_total_today_now": ("msgPutTotalTodayNow", "Messages written until now"),
    "msg_gettotal_today_now": ("msgGetTotalTodayNow", "Messages handed out until now"),
    "msg_puttotal_todaymorning": ("msgPutTotalTodayMorning", "Messages written until today"),
    "msg_gettotal_todaymorning": ("msgGetTotalTodayMorning", "Messages handed out until today"),
    "msg_puttotal_yesterdaymorning": (
        "msgPutTotalYesterdayMorning",
        "Messages written until yesterday",
    ),
    "msg_gettotal_yesterdaymorning": (
        "msgGetTotalYesterdayMorning",
        "Messages handed out until yesterday",
    ),
    "put_message_average_size": ("putMessageAverageSize", "Mean bytes of a message"),
    "putmessage_entire_time_max": ("putMessageEntireTimeMax", "Milliseconds of the longest write"),
    "getmessage_entire_time_max": ("getMessageEntireTimeMax", "Milliseconds of the longest read"),
    "put_latency_99": ("putLatency99", "Milliseconds of a write, 99th percentile"),
    "put_latency_999": ("putLatency999", "Milliseconds of a write, 99.9th percentile"),
    "pagecache_lock_time_mills": (
        "pageCacheLockTimeMills",
        "Milliseconds that the write lock is held",
    ),
    "consumequeue_disk_ratio": (
        "consumeQueueDiskRatio",
        "Share of the consume queues' disk in use, 0 to 1",
    ),
    "remain_transientstore_buffer_numbs": (
        "remainTransientStoreBufferNumbs",
        "Free buffers of the transient store",
    ),
    "start_accept_sendrequest_time": (
        "startAcceptSendRequestTimeStamp",
        "When the broker accepts messages from, milliseconds since 1970",
    ),
    "dispatch_maxbuffer": ("dispatchMaxBuffer", "Largest buffer of the dispatch"),
    "query_threadpool_queue_capacity": (
        "queryThreadPoolQueueCapacity",
        "Capacity of the queue of queries",
    ),
    "query_threadpoolqueue_size": ("queryThreadPoolQueueSize", "Queries that wait"),
    "query_threadpoolqueue_headwait_timemills": (
        "queryThreadPoolQueueHeadWaitTimeMills",
        "Milliseconds that the first query has waited",
    ),
    "send_threadpoolqueue_capacity": (
        "sendThreadPoolQueueCapacity",
        "Capacity of the queue of sends",
    ),
    "send_threadpool_queue_size": ("sendThreadPoolQueueSize", "Sends that wait"),
    "send_threadpoolqueue_headwait_timemills": (
        "sendThreadPoolQueueHeadWaitTimeMills",
        "Milliseconds that the first send has waited",
    ),
    "pull_threadpoolqueue_capacity": (
        "pullThreadPoolQueueCapacity",
        "Capacity of the queue of pulls",
    ),
    "pull_threadpoolqueue_size": ("pullThreadPoolQueueSize", "Pulls that wait"),
    "pull_threadpoolqueue_headwait_timemills": (
        "pullThreadPoolQueueHeadWaitTimeMills",
        "Milliseconds that the first pull has waited",
    ),
}
"""End of the metric's name to the key of the report, and to words."""

_TOTALS = {
    "put_message_size_total": ("putMessageSizeTotal", "Bytes written since the broker's start"),
    "putmessage_times_total": ("putMessageTimesTotal", "Messages written since the broker's start"),
}
"""The same for values that only grow while a broker runs."""

_COLUMNS = {
    "commitlog_disk_ratio": ("disk_ratio", "Share of the commit log's disk in use, 0 to 1"),
    "commitlog_minoffset": ("commit_log_min_offset", "First physical offset still stored"),
    "commitlog_maxoffset": ("commit_log_max_offset", "Next physical offset to be written"),
    "dispatch_behind_bytes": ("dispatch_behind_bytes", "Bytes not yet in the consume queues"),
    "earliest_message_timestamp": (
        "epoch_ms(earliest_stored_at)",
        "Store time of the oldest message, milliseconds since 1970",
    ),
}
"""End of the metric's name to SQL on ``raw.brokers``, and to words."""

_SIZES = {
    "commitlogdir_capacity_total": (
        r"Total : (\S+) (\w+)",
        "commitLogDirCapacity",
        "Bytes of the commit log's disk",
    ),
    "commitlogdir_capacity_free": (
        r"Free : (\S+) (\w+)",
        "commitLogDirCapacity",
        "Free bytes of the commit log's disk",
    ),
    "remain_howmanydata_toflush": (
        r"(\S+) (\w+)",
        "remainHowManyDataToFlush",
        "Bytes written and not yet flushed",
    ),
}
"""End of the metric's name to the pattern of a number and its unit, to the key, and to words."""


def _text(key: str) -> str:
    return f"runtime['{key}']"


def _number(text: str) -> str:
    return f"TRY_CAST({text} AS DOUBLE)"


def _bytes(text: str, pattern: str) -> str:
    number, unit = (f"regexp_extract({text}, '{pattern}', {part})" for part in (1, 2))
    return f"{_number(number)} * pow(1024, strpos('KMGTPE', left({unit}, 1)))"


def _values() -> Iterator[tuple[str, str, str, str, str]]:
    """Yield name without prefix, SQL, documented column, words and kind of each metric."""
    for name, (words, text) in _DISTRIBUTION.items():
        result = f"regexp_extract({_text('putMessageDistributeTime')}, '\\[{words}\\]:(\\d+)', 1)"
        yield f"pmdt_{name}", _number(result), "runtime", f"Writes of a minute that took {text}", ""
    for name, (keys, words) in _RATES.items():
        text = f"coalesce({', '.join(map(_text, keys))})"
        for seconds, place in _WINDOWS.items():
            sql = _number(f"string_split({text}, ' ')[{place}]")
            yield f"{name}{seconds}", sql, "runtime", f"{words}, within {seconds} s", ""
    for name, (key, words) in _NUMBERS.items():
        yield name, _number(_text(key)), "runtime", words, ""
    for name, (key, words) in _TOTALS.items():
        yield name, _number(_text(key)), "runtime", words, COUNTER
    for name, (column, words) in _COLUMNS.items():
        yield name, column, column.removeprefix("epoch_ms(").rstrip(")"), words, ""
    for name, (pattern, key, words) in _SIZES.items():
        yield name, _bytes(_text(key), pattern), "runtime", words, ""


_SELECT = f"""
SELECT cluster, address AS "brokerIP", '' AS "brokerHost", version AS des,
    epoch_ms(booted_at)::VARCHAR AS boottime, {_text("brokerVersion")} AS broker_version,
    {", ".join(f'{sql} AS "{name}"' for name, sql, *_ in _values())}
FROM raw_brokers
WHERE broker_id = 0
"""

RUNTIME = Source(
    family=EXPORTER,
    labels=("cluster", "brokerIP", "brokerHost", "des", "boottime", "broker_version"),
    select=_SELECT,
    metrics=tuple(
        Metric(
            name=_PREFIX + name,
            help=f"{words}.",
            column=f"raw.brokers.{column}",
            value=name,
            kind=kind or GAUGE,
        )
        for name, _, column, words, kind in _values()
    ),
)

OF_RUNTIME = (RUNTIME,)

REPORT_KEYS = frozenset(
    {
        *("putMessageDistributeTime", "commitLogDirCapacity", "remainHowManyDataToFlush"),
        "brokerVersion",
        *(key for keys, _ in _RATES.values() for key in keys),
        *(key for key, _ in _NUMBERS.values()),
        *(key for key, _ in _TOTALS.values()),
    }
)
"""Keys of the report that the metrics need."""
