"""Metrics of Tidemark's own: of groups, of queues where switched on, of incidents, of itself."""

from tidemark.board.metrics.exposition import COUNTER, OWN, QUEUES, Metric, Source
from tidemark.model.consumption import DelaySource
from tidemark.model.health import Health
from tidemark.model.incidents import IncidentState

_GROUP_LABELS = ("cluster", "consumer_group", "topic")

_GROUPS = """
SELECT cluster, consumer_group, topic,
    CASE WHEN complete THEN lag END AS lag,
    CASE WHEN complete THEN readable_lag END AS readable_lag,
    CASE WHEN complete THEN lost END AS lost,
    CASE WHEN complete THEN filtered_lag END AS filtered_lag,
    CASE WHEN complete THEN delay_ms / 1000 END AS delay_seconds,
    CASE WHEN complete THEN ready_delay_ms / 1000 END AS ready_delay_seconds,
    CASE WHEN complete AND NOT coalesce(lag_is_lower_bound, false) THEN drain_seconds END
        AS drain_seconds,
    CASE WHEN complete AND lag IS NOT NULL THEN lag_is_lower_bound::INTEGER END
        AS lag_is_lower_bound,
    CASE WHEN complete AND delay_ms IS NOT NULL
        THEN (delay_is_lower_bound OR coalesce(lag_is_lower_bound, false))::INTEGER END
        AS delay_is_lower_bound,
    CASE WHEN complete AND ready_delay_ms IS NOT NULL
        THEN ready_delay_is_lower_bound::INTEGER END AS ready_delay_is_lower_bound,
    CASE WHEN complete THEN produce_tps END AS produce_tps,
    CASE WHEN complete THEN consume_tps END AS consume_tps,
    CASE WHEN retry_lag IS NOT NULL THEN retry_lag_is_lower_bound::INTEGER END
        AS retry_lag_is_lower_bound,
    loss_in_seconds, retry_lag, dlq_messages, clients, queues_unknown
FROM progress_groups
"""


def _group(name: str, help: str, value: str, column: str = "") -> Metric:
    return Metric(
        name=f"tidemark_group_{name}",
        help=help,
        column=f"progress.groups.{column or value}",
        value=value,
    )


GROUPS = Source(
    family=OWN,
    labels=_GROUP_LABELS,
    team_if_owned=True,
    select=_GROUPS,
    metrics=(
        _group("lag_messages", "Messages that the group has not confirmed.", "lag"),
        _group(
            "readable_lag_messages",
            "Messages in the retained range that the group has not confirmed.",
            "readable_lag",
        ),
        _group("lost_messages", "Messages that expired before they were consumed.", "lost"),
        _group(
            "filtered_lag_messages",
            "Estimated unconsumed messages that pass the filter of the group.",
            "filtered_lag",
        ),
        _group(
            "delay_seconds",
            "Age of the first unconsumed message in the retained range.",
            "delay_seconds",
            "delay_ms",
        ),
        _group(
            "ready_delay_seconds",
            "Age of the first message that was not handed out.",
            "ready_delay_seconds",
            "ready_delay_ms",
        ),
        _group(
            "lag_is_lower_bound",
            "1 where the numbers of unconsumed messages are lower bounds, as of messages that were "
            "popped and not acknowledged.",
            "lag_is_lower_bound",
        ),
        _group(
            "delay_is_lower_bound",
            "1 where the delay is a lower bound, and loss_in_seconds an upper bound.",
            "delay_is_lower_bound",
        ),
        _group(
            "ready_delay_is_lower_bound",
            "1 where the age of the first message that was not handed out is a lower bound.",
            "ready_delay_is_lower_bound",
        ),
        _group("drain_seconds", "Time until nothing is left at present rates.", "drain_seconds"),
        _group(
            "loss_in_seconds",
            "Time until the first unconsumed message may expire.",
            "loss_in_seconds",
        ),
        _group("produce_tps", "Messages written a second.", "produce_tps"),
        _group("consume_tps", "Messages confirmed a second.", "consume_tps"),
        _group("retry_lag_messages", "Unconsumed messages of the retry topics.", "retry_lag"),
        _group(
            "retry_lag_is_lower_bound",
            "1 where the messages of the retry topics are a lower bound.",
            "retry_lag_is_lower_bound",
        ),
        _group("dlq_messages", "Messages in the dead-letter topic.", "dlq_messages"),
        _group("clients", "Online members subscribed to the topic.", "clients"),
        _group(
            "queues_unknown", "Queues without an observation in the snapshot.", "queues_unknown"
        ),
    ),
)

TOPICS = Source(
    family=OWN,
    labels=("cluster", "topic"),
    select="""
    SELECT cluster, topic, timing_messages,
        CASE WHEN complete THEN unreadable_messages END AS unreadable
    FROM progress_topics
    """,
    metrics=(
        Metric(
            name="tidemark_topic_unreadable_messages",
            help="Messages that no consumer can read, whatever its group.",
            column="progress.topics.unreadable_messages",
            value="unreadable",
        ),
        Metric(
            name="tidemark_topic_timing_messages",
            help="Delayed messages that wait for their time, as brokers' endpoints report them.",
            column="progress.topics.timing_messages",
            value="timing_messages",
        ),
    ),
)

PROXIES = Source(
    family=OWN,
    labels=("cluster", "proxy"),
    select="""
    SELECT cluster, proxy.endpoint AS proxy, proxy.responded::INTEGER AS up, proxy.members,
        proxy.groups
    FROM (
        SELECT cluster, unnest(proxies) AS proxy
        FROM (
            SELECT cluster, proxies
            FROM raw_snapshots
            QUALIFY row_number() OVER (PARTITION BY cluster ORDER BY observed_at DESC) = 1
        )
    )
    """,
    metrics=(
        Metric(
            name="tidemark_proxy_up",
            help="1 where the Proxy reported online members, else 0.",
            column="raw.snapshots.proxies",
            value="up",
        ),
        Metric(
            name="tidemark_proxy_members",
            help="Online clients that the Proxy reports, of all groups.",
            column="raw.snapshots.proxies",
            value="members",
        ),
        Metric(
            name="tidemark_proxy_groups",
            help="Groups with an online client that the Proxy reports.",
            column="raw.snapshots.proxies",
            value="groups",
        ),
    ),
)

_BROKERS = """
SELECT cluster, broker, broker_id, sends_waiting, send_wait_ms / 1000 AS send_wait,
    page_cache_lock_ms / 1000 AS page_cache_lock, failed_writes, sends_refused, sends_failed,
    light_queues, light_queue_limit, lite_subscriptions, replica_behind_bytes,
    replica_behind_ms / 1000 AS replica_behind, offsets_missing, offsets_behind, producers_online,
    CASE WHEN replica_behind_ms IS NOT NULL THEN replica_behind_is_lower_bound::INTEGER END
        AS replica_behind_is_lower_bound
FROM raw_brokers
"""


def _broker(name: str, help: str, value: str, column: str = "") -> Metric:
    return Metric(
        name=f"tidemark_broker_{name}",
        help=help,
        column=f"raw.brokers.{column or value}",
        value=value,
    )


BROKERS = Source(
    family=OWN,
    labels=("cluster", "broker", "broker_id"),
    select=_BROKERS,
    metrics=(
        _broker("sends_waiting", "Sends that wait for a thread of the broker.", "sends_waiting"),
        _broker(
            "send_wait_seconds",
            "How long the first of them has waited.",
            "send_wait",
            "send_wait_ms",
        ),
        _broker(
            "page_cache_lock_seconds",
            "How long the present write has held the lock of the commit log.",
            "page_cache_lock",
            "page_cache_lock_ms",
        ),
        _broker(
            "failed_writes",
            "Messages that the broker's store did not write since the broker's start.",
            "failed_writes",
        ),
        _broker(
            "sends_refused",
            "Sends that it refused as it was busy, since its start, by its metrics endpoint; a "
            "lower bound.",
            "sends_refused",
        ),
        _broker(
            "sends_failed",
            "Sends that got another error, since its start, by its metrics endpoint.",
            "sends_failed",
        ),
        _broker("light_queues", "Light queues, those of lite topics and others.", "light_queues"),
        _broker("light_queue_limit", "Light queues that it may hold.", "light_queue_limit"),
        _broker(
            "lite_subscriptions",
            "Lite topics that members are subscribed to, once for each member.",
            "lite_subscriptions",
        ),
        _broker(
            "replica_behind_bytes",
            "Bytes of its master's commit log that a slave lacks.",
            "replica_behind_bytes",
        ),
        _broker(
            "replica_behind_seconds",
            "How long ago its master's commit log ended where that of a slave ends.",
            "replica_behind",
            "replica_behind_ms",
        ),
        _broker(
            "replica_behind_is_lower_bound",
            "1 where that time is a lower bound.",
            "replica_behind_is_lower_bound",
        ),
        _broker(
            "producers",
            "Connections of producers to the broker, at deep snapshots.",
            "producers_online",
        ),
        _broker(
            "offsets_missing",
            "Consumer offsets of its master that a slave lacks, at deep snapshots.",
            "offsets_missing",
        ),
        _broker(
            "offsets_behind_messages",
            "Messages that a slave's copy of the consumer offsets is behind, at deep snapshots.",
            "offsets_behind",
        ),
    ),
)

_OBJECTIVES = """
SELECT DISTINCT ON (cluster, consumer_group, topic, objective)
    cluster, consumer_group, topic, objective, target, budget_left, burn_rate_1h, burn_rate_6h,
    (bad_before + bad) * 60 AS bad_seconds, (unknown_before + unknown) * 60 AS unknown_seconds
FROM progress_objectives
ORDER BY cluster, consumer_group, topic, objective, hour DESC
"""


def _objective(name: str, help: str, value: str, column: str = "") -> Metric:
    return Metric(
        name=f"tidemark_objective_{name}",
        help=help,
        column=f"progress.objectives.{column or value}",
        value=value,
    )


OBJECTIVES = Source(
    family=OWN,
    labels=(*_GROUP_LABELS, "objective"),
    team_if_owned=True,
    select=_OBJECTIVES,
    metrics=(
        _objective("target_ratio", "Share of the window's minutes that must not be bad.", "target"),
        _objective(
            "budget_left_ratio",
            "Share of the error budget that is left; below 0 when the objective is missed.",
            "budget_left",
        ),
        _objective(
            "burn_rate_1h",
            "How fast the last hour uses the budget; at 1 it lasts for the window.",
            "burn_rate_1h",
        ),
        _objective("burn_rate_6h", "The same of the last six hours.", "burn_rate_6h"),
        _objective(
            "bad_seconds",
            "Time of the window above the limit of the objective.",
            "bad_seconds",
            "bad_before",
        ),
        _objective(
            "unknown_seconds",
            "Time of the window of which it is unknown whether it was within the limit.",
            "unknown_seconds",
            "unknown_before",
        ),
    ),
)

_DEAD = """
SELECT cluster, substr(topic, length('%DLQ%') + 1) AS consumer_group,
    CASE WHEN complete THEN messages END AS messages,
    CASE WHEN complete THEN added_last_hour END AS added,
    CASE WHEN complete AND messages > 0
        THEN epoch(observed_at) - epoch(oldest_at) END AS oldest_age,
    CASE WHEN complete AND messages > 0
        THEN epoch(observed_at) - epoch(newest_at) END AS newest_age,
    CASE WHEN complete AND messages > 0 AND oldest_at IS NOT NULL
        THEN oldest_at_is_upper_bound::INTEGER END AS oldest_is_bound
FROM progress_topics WHERE starts_with(topic, '%DLQ%')
"""


def _dead(name: str, help: str, value: str, column: str) -> Metric:
    return Metric(
        name=f"tidemark_dead_letter_{name}",
        help=help,
        column=f"progress.topics.{column}",
        value=value,
    )


DEAD_LETTERS = Source(
    family=OWN,
    labels=("cluster", "consumer_group"),
    team_if_owned=True,
    select=_DEAD,
    metrics=(
        _dead("messages", "Messages that the dead-letter topic keeps.", "messages", "messages"),
        _dead(
            "added_last_hour",
            "Messages that became dead letters within the last hour.",
            "added",
            "added_last_hour",
        ),
        _dead("oldest_seconds", "Age of the oldest dead letter.", "oldest_age", "oldest_at"),
        _dead(
            "oldest_is_lower_bound",
            "1 where the age of the oldest dead letter is a lower bound.",
            "oldest_is_bound",
            "oldest_at_is_upper_bound",
        ),
        _dead("newest_seconds", "Age of the newest dead letter.", "newest_age", "newest_at"),
    ),
)

_STATES = ", ".join(f"'{state}'" for state in Health)

_HEALTH = f"""
SELECT cluster, consumer_group, topic, state, (health = state)::INTEGER AS is_state
FROM progress_groups CROSS JOIN (SELECT unnest([{_STATES}]) AS state)
"""

HEALTH = Source(
    family=OWN,
    labels=(*_GROUP_LABELS, "state"),
    team_if_owned=True,
    select=_HEALTH,
    metrics=(
        _group("health", "1 of the state that holds, 0 of the others.", "is_state", "health"),
    ),
)

_QUEUES = f"""
SELECT cluster, broker, topic, queue_id::VARCHAR AS queue_id, consumer_group,
    coalesce(client_id, '') AS client_id, lag, lost, inflight, delay_ms / 1000 AS delay_seconds,
    CASE WHEN lag IS NOT NULL THEN lag_is_lower_bound::INTEGER END AS lag_is_lower_bound,
    CASE WHEN delay_ms IS NOT NULL
        THEN (delay_source = '{DelaySource.AT_LEAST}' OR coalesce(lag_is_lower_bound, false))
        ::INTEGER END AS delay_is_lower_bound,
    consumer_offset, max_offset
FROM progress_queues
"""


def _queue(name: str, help: str, value: str, column: str = "") -> Metric:
    return Metric(
        name=f"tidemark_queue_{name}",
        help=help,
        column=f"progress.queues.{column or value}",
        value=value,
    )


QUEUE = Source(
    family=QUEUES,
    labels=("cluster", "broker", "topic", "queue_id", "consumer_group", "client_id"),
    team_if_owned=True,
    select=_QUEUES,
    metrics=(
        _queue("lag_messages", "Messages that the group has not confirmed.", "lag"),
        _queue("lost_messages", "Messages that expired before they were consumed.", "lost"),
        _queue("inflight_messages", "Messages handed out and not confirmed.", "inflight"),
        _queue(
            "delay_seconds",
            "Age of the first unconsumed message in the retained range.",
            "delay_seconds",
            "delay_ms",
        ),
        _queue("lag_is_lower_bound", "1 where the lag is a lower bound.", "lag_is_lower_bound"),
        _queue(
            "delay_is_lower_bound",
            "1 where the delay is a lower bound.",
            "delay_is_lower_bound",
            "delay_source",
        ),
        _queue("consumer_offset", "Next offset to consume.", "consumer_offset"),
        _queue("max_offset", "Next offset to be written.", "max_offset"),
    ),
)

INCIDENTS = Source(
    family=OWN,
    labels=("cluster", "state", "severity", "rule"),
    select=f"""
    SELECT cluster, state, severity, rule, count(*) AS incidents
    FROM alerting_incidents
    WHERE state <> '{IncidentState.RESOLVED}'
    GROUP BY ALL
    """,
    metrics=(
        Metric(
            name="tidemark_incidents",
            help="Incidents that are not resolved.",
            column="alerting.incidents",
            value="incidents",
        ),
    ),
)

SNAPSHOT_AGE = Source(
    family=OWN,
    labels=("cluster",),
    select="""
    SELECT cluster, epoch(max(instant)) - epoch(max(observed_at)) AS age
    FROM progress_snapshots, clock
    GROUP BY ALL
    """,
    metrics=(
        Metric(
            name="tidemark_snapshot_age_seconds",
            help="Age of the newest snapshot whose numbers are here.",
            column="progress.snapshots.observed_at",
            value="age",
        ),
    ),
)

COLLECTION = Source(
    family=OWN,
    labels=("cluster",),
    select="""
    SELECT cluster, arg_max(duration_ms, observed_at) / 1000 AS duration
    FROM raw_snapshots
    GROUP BY ALL
    """,
    metrics=(
        Metric(
            name="tidemark_collect_duration_seconds",
            help="Duration of the newest snapshot.",
            column="raw.snapshots.duration_ms",
            value="duration",
        ),
    ),
)

PROBLEMS = Source(
    family=OWN,
    labels=("cluster",),
    select="SELECT cluster, sum(problems) AS problems FROM totals_problems GROUP BY ALL",
    metrics=(
        Metric(
            name="tidemark_collect_problems_total",
            help="What could not be read, since the server started.",
            column="raw.snapshots.problems",
            value="problems",
            kind=COUNTER,
        ),
    ),
)

NOTIFICATIONS = Source(
    family=OWN,
    labels=("channel", "outcome"),
    select="SELECT channel, outcome, notifications FROM totals_notifications",
    metrics=(
        Metric(
            name="tidemark_notifications_total",
            help="Notifications by what became of them: delivered, failed (an attempt) or "
            "withheld.",
            column="alerting.notifications",
            value="notifications",
            kind=COUNTER,
        ),
    ),
)

TICK = Source(
    family=OWN,
    labels=(),
    select="SELECT seconds FROM tick",
    metrics=(
        Metric(
            name="tidemark_tick_duration_seconds",
            help="From the start of the newest snapshot to the commit of its numbers.",
            column="progress.snapshots",
            value="seconds",
        ),
    ),
)

ROWS = Source(
    family=OWN,
    labels=("table",),
    select='SELECT "table", rows FROM table_rows',
    metrics=(
        Metric(name="tidemark_rows", help="Rows of a table.", column="every table", value="rows"),
    ),
)

BUILD = Source(
    family=OWN,
    labels=("version",),
    select="SELECT version, 1 AS one FROM build",
    metrics=(
        Metric(
            name="tidemark_build_info",
            help="1, with the version of Tidemark.",
            column="",
            value="one",
        ),
    ),
)

EXPORTS = Source(
    family=OWN,
    labels=("outcome",),
    select="SELECT outcome, 0 AS exports FROM exports",
    metrics=(
        Metric(
            name="tidemark_otlp_exports_total",
            help="Exports of all samples by OTLP by what became of them: delivered or failed.",
            column="",
            value="exports",
            kind=COUNTER,
        ),
    ),
)

SOURCES = (GROUPS, HEALTH, TOPICS, BROKERS, OBJECTIVES, DEAD_LETTERS, QUEUE, INCIDENTS)
"""Sources of metrics that change only when a table does."""

OF_ITSELF = (
    *(SNAPSHOT_AGE, COLLECTION, PROXIES, PROBLEMS, NOTIFICATIONS, TICK, ROWS, BUILD, EXPORTS),
)
"""Sources of metrics that change with the clock, or that have few samples."""
