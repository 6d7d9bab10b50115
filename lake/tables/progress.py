"""``progress.*``: what the raw rows mean."""

import pyarrow as pa

from lake.schema import BIGINT, BOOLEAN, DOUBLE, INT, STRING, STRINGS, TIMESTAMP, Column, Table
from lake.tables import raw

LAG = Column("lag", BIGINT, "unconfirmed messages; negative only when ahead of the broker")
INFLIGHT = Column("inflight", BIGINT, "handed out, not confirmed")
AVAILABLE = Column("available", BIGINT, "waiting to be pulled")
LOST = Column("lost", BIGINT, "expired before they were consumed")
READABLE_LAG = Column("readable_lag", BIGINT, "unconfirmed messages that can still be read")
LAG_UPPER = Column(
    "lag_upper", BIGINT, "readable_lag, or all stored messages of a queue never committed"
)
DELAY_MS = Column("delay_ms", BIGINT, "age of the first readable unconsumed message")
SPANS = (
    Column("lag_span_ms", BIGINT, "lag as produce time"),
    Column("inflight_span_ms", BIGINT, "inflight as produce time"),
    Column("available_span_ms", BIGINT, "available as produce time"),
)
RATES = (
    Column("produce_tps", DOUBLE, "messages written a second since the previous observation"),
    Column("consume_tps", DOUBLE, "messages confirmed a second since the previous observation"),
    Column("pull_tps", DOUBLE, "messages handed out a second since the previous observation"),
)
DRAIN_SECONDS = Column("drain_seconds", DOUBLE, "seconds until nothing readable is left")
LOSS_IN_SECONDS = Column(
    "loss_in_seconds", DOUBLE, "seconds until the first unconsumed message may expire"
)
FILTERING = (
    Column("match_ratio", DOUBLE, "share of the unread messages that the group asks for"),
    Column("match_method", STRING, "none | tag_sample | delivered_over_advanced"),
    Column("filtered_lag", BIGINT, "readable_lag that the group asks for, estimated"),
    Column("filtered_lag_low", BIGINT, "lower end of its 95 % interval, from a sample only"),
    Column("filtered_lag_high", BIGINT, "upper end of that interval"),
)

QUEUES = Table(
    "progress.queues",
    "One row per queue, group and snapshot: lag, delay and rates.",
    (
        *raw.SNAPSHOT,
        raw.BROKER,
        raw.TOPIC,
        raw.QUEUE_ID,
        raw.CONSUMER_GROUP,
        Column("client_id", STRING, "NULL but for broadcast"),
        raw.MIN_OFFSET,
        raw.MAX_OFFSET,
        raw.CONSUMER_OFFSET,
        raw.PULL_OFFSET,
        Column("pull_source", STRING, "where pull_offset comes from"),
        Column("offset_store", STRING, "broker | broker_broadcast | client_file"),
        LAG,
        INFLIGHT,
        AVAILABLE,
        LOST,
        READABLE_LAG,
        LAG_UPPER,
        Column("consumer_at", TIMESTAMP, "store time of the first readable unconsumed message"),
        Column("pull_at", TIMESTAMP, "store time of the message at pull_offset"),
        Column("newest_at", TIMESTAMP, "store time of message max_offset - 1"),
        DELAY_MS,
        *SPANS,
        Column("delay_source", STRING, "exact | interpolated | at_least"),
        Column("delay_error_ms", BIGINT, "how far delay_ms may be off"),
        *RATES,
        DRAIN_SECONDS,
        LOSS_IN_SECONDS,
        Column(
            "condition",
            STRING,
            "RECREATED | AHEAD_OF_BROKER | LOST | NEVER_COMMITTED | REWOUND | OK",
        ),
        Column("previous_max_offset", BIGINT, "max_offset at the previous observation"),
        Column("previous_consumer_offset", BIGINT, "consumer_offset at the previous observation"),
    ),
    key=(
        "observed_at",
        "cluster",
        "broker",
        "topic",
        "queue_id",
        "consumer_group",
        "client_id",
    ),
    nullable_key=("client_id",),
)

HEALTH = (
    Column(
        "health",
        STRING,
        "LOSING | UNKNOWN | STOPPED | BLOCKED | STALLED | FALLING_BEHIND | CATCHING_UP | IDLE | OK",
    ),
    Column("health_reason", STRING, "the queues and the numbers that health follows from"),
)

GROUPS = Table(
    "progress.groups",
    "One row per group, topic and snapshot, also for what a silent broker hides.",
    (
        *raw.SNAPSHOT,
        raw.CONSUMER_GROUP,
        raw.TOPIC,
        LAG,
        INFLIGHT,
        AVAILABLE,
        LOST,
        READABLE_LAG,
        LAG_UPPER,
        Column("queues", INT, "queues, known or not"),
        Column("queues_unknown", INT, "queues nothing is known of now"),
        Column("queues_never_committed", INT, "queues without a committed offset"),
        Column("complete", BOOLEAN, "whether every queue is known"),
        Column("max_queue_lag", BIGINT, "largest lag of a queue"),
        Column("worst_broker", STRING, "broker of that queue"),
        Column("worst_queue_id", INT, "id of that queue"),
        DELAY_MS,
        *SPANS,
        *RATES,
        Column("skew", DOUBLE, "largest queue lag over the mean"),
        DRAIN_SECONDS,
        LOSS_IN_SECONDS,
        *FILTERING,
        Column("clients", INT, "online members subscribed to this topic"),
        Column("online", BOOLEAN, "whether any member is online; NULL = could not be asked"),
        Column("message_model", STRING, "CLUSTERING | BROADCASTING"),
        Column("consume_type", STRING, "CONSUME_ACTIVELY | CONSUME_PASSIVELY | CONSUME_POP"),
        Column("client_version", STRING, "lowest version of a member"),
        Column("retry_lag", BIGINT, "lag of the group's retry topic"),
        Column("dlq_messages", BIGINT, "messages in the group's dead-letter topic"),
        *HEALTH,
    ),
    key=("observed_at", "cluster", "consumer_group", "topic"),
)

SNAPSHOTS = Table(
    "progress.snapshots",
    "The snapshots whose numbers stand in progress.* and alerting.*; written last of all.",
    raw.SNAPSHOT,
    key=("snapshot_id",),
)

STRATEGY = Column("strategy", STRING, "how members share queues: AVG, ...; NULL = not known")

ASSIGNMENTS = Table(
    "progress.assignments",
    "One row per queue a group should consume and snapshot in which members told what they hold.",
    (
        *raw.SNAPSHOT,
        raw.CONSUMER_GROUP,
        raw.TOPIC,
        raw.BROKER,
        raw.QUEUE_ID,
        STRATEGY,
        Column("expected_client_id", STRING, "member the strategy gives the queue to"),
        Column("actual_client_id", STRING, "member that holds it, the first by name of several"),
        Column("state", STRING, "OK | UNOWNED | CONTESTED | MOVED | UNKNOWN"),
        Column("owners", STRINGS, "all members that hold it"),
        Column("previous_client_id", STRING, "who last held it, within the hour before"),
        Column("rebalanced", BOOLEAN, "whether other members held it then; NULL = not known"),
        Column(
            "strategy_skew",
            DOUBLE,
            "queues of the topic that its busiest member gets by the strategy, over the mean",
        ),
    ),
    key=("observed_at", "cluster", "consumer_group", "topic", "broker", "queue_id"),
)

IDLE_CLIENTS = Table(
    "progress.idle_clients",
    "One row per member that holds no queue at all, topic it subscribes to, and snapshot.",
    (
        *raw.SNAPSHOT,
        raw.CONSUMER_GROUP,
        raw.TOPIC,
        raw.CLIENT_ID,
        STRATEGY,
        Column("clients", INT, "members of the group"),
        Column("queues", INT, "queues of the topic"),
        Column(
            "reason",
            STRING,
            "MORE_CLIENTS_THAN_QUEUES | HASH_LUCK | NO_QUEUE_IN_ROOM | NOT_CONFIGURED | "
            "NO_READABLE_QUEUE | NOT_REBALANCED (the strategy gives it some) | UNKNOWN",
        ),
    ),
    key=("observed_at", "cluster", "consumer_group", "topic", "client_id"),
)

_FILTER = pa.struct([("topic", STRING), ("expression_type", STRING), ("expression", STRING)])
_MEMBER = pa.struct(
    [
        ("client_id", STRING),
        ("client_address", STRING),
        ("message_model", STRING),
        ("allocation_strategy", STRING),
        ("subscriptions", pa.list_(_FILTER)),
    ]
)

SUBSCRIPTIONS = Table(
    "progress.subscriptions",
    "One row per group and snapshot in which members told what they subscribe to.",
    (
        *raw.SNAPSHOT,
        raw.CONSUMER_GROUP,
        Column("consistent", BOOLEAN, "whether all members ask for the same; NULL = not all told"),
        Column(
            "difference",
            STRING,
            "first of TOPICS | EXPRESSION | EXPRESSION_TYPE | MESSAGE_MODEL | ALLOCATION_STRATEGY",
        ),
        Column("differences", STRINGS, "all of them"),
        Column("evidence", pa.list_(_MEMBER), "what each member told; no subscriptions = nothing"),
    ),
    key=("observed_at", "cluster", "consumer_group"),
)

TIMELINE = Table(
    "progress.timeline",
    "One row per queue and observation in which its max_offset had changed: how queues grew.",
    (
        raw.CLUSTER,
        raw.BROKER,
        raw.TOPIC,
        raw.QUEUE_ID,
        raw.MAX_OFFSET,
        Column("newest_stored_at", TIMESTAMP, "store time of message max_offset - 1, as told"),
        raw.OBSERVED_AT,
        Column("previous_max_offset", BIGINT, "max_offset at the observation before the change"),
        Column("previous_at", TIMESTAMP, "when that was, the last observation of its step"),
    ),
    key=("observed_at", "cluster", "broker", "topic", "queue_id"),
)

THROUGHPUT = Table(
    "progress.throughput",
    "One row per counter, window and instant of a deep look or of logs: all brokers' replicas.",
    (
        *raw.SNAPSHOT,
        Column("stats_name", STRING, "TOPIC_PUT_NUMS, GROUP_GET_NUMS, ..."),
        Column("stats_key", STRING, "what is counted: topic, or topic@group"),
        raw.TOPIC,
        raw.CONSUMER_GROUP,
        Column("stats_window", STRING, "minute | hour | day"),
        Column("tps_master", DOUBLE, "counted a second on masters"),
        Column("tps_replicas", DOUBLE, "counted a second on slaves; NULL where none told"),
        Column("tps", DOUBLE, "counted a second on all"),
        Column("sum", BIGINT, "counted over the window on all"),
        Column("avgpt", DOUBLE, "average per call"),
        Column("tps_observed", DOUBLE, "messages a second over the same window, by our offsets"),
        Column("served_by_replicas", DOUBLE, "share of tps that slaves counted"),
    ),
    key=("observed_at", "cluster", "stats_name", "stats_key", "stats_window"),
)

_CARRIED = pa.struct(
    [
        ("client_id", STRING),
        ("threads", BIGINT),
        ("queues", BIGINT),
        ("consume_tps", DOUBLE),
        ("consume_rt_ms", DOUBLE),
        ("capacity_tps", DOUBLE),
    ]
)
_DRAIN = pa.struct([("clients", INT), ("drain_seconds", DOUBLE)])

CAPACITY = Table(
    "progress.capacity",
    "One row per group and topic that members told their statistics of, and snapshot.",
    (
        *raw.SNAPSHOT,
        raw.CONSUMER_GROUP,
        raw.TOPIC,
        Column("clients", INT, "online members subscribed to this topic"),
        Column("clients_told", INT, "of them those that told their statistics"),
        Column("threads", BIGINT, "consuming threads of those that told"),
        Column("threads_per_client", DOUBLE, "consuming threads of one of them on average"),
        Column("consume_tps", DOUBLE, "messages a second they consumed, failures too"),
        Column("consume_tps_per_client", DOUBLE, "messages a second one of them consumed"),
        Column("consume_rt_ms", DOUBLE, "milliseconds of a listener call"),
        Column("is_ordered", BOOLEAN, "whether queues are consumed in order, one thread each"),
        Column(
            "best_threads",
            DOUBLE,
            "cores x (wait + compute) / compute of a client; NULL unless both are set",
        ),
        Column("capacity_tps_per_client", DOUBLE, "messages a second one member can carry"),
        Column("capacity_tps", DOUBLE, "messages a second all members that get queues can carry"),
        Column(
            "peak_tps", DOUBLE, "largest rate written within the hour, without what is filtered"
        ),
        Column("clients_needed", BIGINT, "members that the peak takes"),
        Column("queues", INT, "queues: more members than these get nothing"),
        Column("capacity_limit_tps", DOUBLE, "messages a second with a member for each queue"),
        Column("drain_by_clients", pa.list_(_DRAIN), "seconds to drain with so many members"),
        Column("members", pa.list_(_CARRIED), "what each told, and could carry"),
    ),
    key=("observed_at", "cluster", "consumer_group", "topic"),
)

EVENTS = Table(
    "progress.events",
    "One row per thing that happened to a queue of a group, or to a broker, between observations.",
    (
        raw.SNAPSHOT_ID,
        Column("observed_at", TIMESTAMP, "the first observation after it happened"),
        raw.CLUSTER,
        raw.BROKER,
        Column("topic", STRING, "topic; NULL = the whole broker"),
        Column("queue_id", INT, "queue of the topic on this broker; NULL = the whole broker"),
        Column("consumer_group", STRING, "consumer group; NULL = the whole broker"),
        Column("client_id", STRING, "NULL but for broadcast"),
        Column(
            "kind",
            STRING,
            "REWOUND | SKIPPED | LOST | RECREATED | AHEAD_OF_BROKER | DISAPPEARED | FIRST_COMMIT | "
            "BROKER_DOWN",
        ),
        Column("from_offset", BIGINT, "where the offset was; of LOST the first lost message"),
        Column("to_offset", BIGINT, "where it is; of LOST the first readable message"),
        Column("messages", BIGINT, "to be consumed again, or not consumed and gone"),
        Column("likely_cause", STRING, "what the evidence says; NULL = it says nothing"),
        Column("previous_at", TIMESTAMP, "the last observation before it happened"),
    ),
    key=(
        "cluster",
        "broker",
        "topic",
        "queue_id",
        "consumer_group",
        "client_id",
        "observed_at",
        "kind",
    ),
    nullable_key=("topic", "queue_id", "consumer_group", "client_id"),
)

ALL = (
    QUEUES,
    GROUPS,
    ASSIGNMENTS,
    IDLE_CLIENTS,
    SUBSCRIPTIONS,
    SNAPSHOTS,
    TIMELINE,
    EVENTS,
    THROUGHPUT,
    CAPACITY,
)
