"""``progress.*``: lag, delay, health and capacity, computed from the raw rows."""

import pyarrow as pa

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
from tidemark.lake.tables import raw
from tidemark.model.consumption import AssignmentState, Condition, DelaySource
from tidemark.model.health import Health, HealthReason

LAG = Column("lag", BIGINT, "unconsumed messages; negative only when ahead of the broker")
INFLIGHT = Column("inflight", BIGINT, "messages handed out and not yet consumed")
INFLIGHT_SOURCE = Column(
    "inflight_source",
    STRING,
    "offsets | client_cache | counters | broker_metrics: where inflight comes from",
)
AVAILABLE = Column("available", BIGINT, "messages not handed out yet")
LOST = Column("lost", BIGINT, "messages that expired before they were consumed")
READABLE_LAG = Column("readable_lag", BIGINT, "unconsumed messages in the retained range")
LAG_UPPER = Column(
    "lag_upper", BIGINT, "readable_lag, or the whole retained range of a queue without a commit"
)
DELAY_MS = Column(
    "delay_ms", BIGINT, "age in ms of the first unconsumed message in the retained range"
)
READY_DELAY_MS = Column(
    "ready_delay_ms",
    BIGINT,
    "age in ms of the first message not handed out; 0 when all are handed out",
)
READY_DELAY_IS_LOWER_BOUND = Column(
    "ready_delay_is_lower_bound",
    BOOLEAN,
    "whether ready_delay_ms is a lower bound; NULL where it is unknown",
)
SPANS = (
    Column("lag_span_ms", BIGINT, "lag as produce time, milliseconds"),
    Column("inflight_span_ms", BIGINT, "inflight as produce time, milliseconds"),
    Column("available_span_ms", BIGINT, "available as produce time, milliseconds"),
)
RATES = (
    Column(
        "produce_tps",
        DOUBLE,
        "messages written a second since the latest observation at least 10 s earlier",
    ),
    Column("consume_tps", DOUBLE, "messages consumed a second since then"),
    Column("pull_tps", DOUBLE, "messages handed out a second since then"),
)
DRAIN_SECONDS = Column(
    "drain_seconds", DOUBLE, "seconds until readable_lag is 0 at the present rates"
)
LOSS_IN_SECONDS = Column(
    "loss_in_seconds", DOUBLE, "seconds until the first unconsumed message may expire"
)
FILTERING = (
    Column("match_ratio", DOUBLE, "share of the unconsumed messages that pass the group's filter"),
    Column("match_method", STRING, "none | tag_sample | delivered_over_advanced"),
    Column("filtered_lag", BIGINT, "readable_lag that passes the group's filter, estimated"),
    Column("filtered_lag_low", BIGINT, "lower end of its 95 % interval; only from a sample"),
    Column("filtered_lag_high", BIGINT, "upper end of that interval"),
)

CONSUMPTION = (
    Column("consume_mode", STRING, "pull | pop (message by message); NULL = nothing shows it"),
    Column(
        "consume_kind",
        STRING,
        "row of the table of what numbers are: pull | broadcast_file | broadcast_broker | pop | "
        "pop_kv | pop_fifo | lite | mixed | unknown",
    ),
    Column(
        "lag_is_lower_bound",
        BOOLEAN,
        "whether messages that were handed out and not consumed are missing from lag",
    ),
)

QUEUES = Table(
    name="progress.queues",
    comment="One row per queue, group and snapshot: lag, delay and rates.",
    columns=(
        *raw.SNAPSHOT,
        raw.BROKER,
        raw.TOPIC,
        raw.QUEUE_ID,
        raw.CONSUMER_GROUP,
        Column("client_id", STRING, "member; NULL except for broadcasting groups"),
        raw.MIN_OFFSET,
        raw.MAX_OFFSET,
        raw.CONSUMER_OFFSET,
        raw.PULL_OFFSET,
        Column("pull_source", STRING, "where pull_offset comes from"),
        Column("offset_store", STRING, "broker | broker_broadcast | client_file"),
        Column(
            "queue_offsets_at",
            TIMESTAMP,
            "of clients' files: the snapshot that min_offset and max_offset were read in; NULL = "
            "this one, or none within 10 minutes where max_offset is NULL",
        ),
        LAG,
        INFLIGHT,
        AVAILABLE,
        LOST,
        READABLE_LAG,
        LAG_UPPER,
        Column(
            "consumer_at",
            TIMESTAMP,
            "store time of the first unconsumed message in the retained range",
        ),
        Column("pull_at", TIMESTAMP, "store time of the message at pull_offset"),
        Column("newest_at", TIMESTAMP, "store time of message max_offset - 1"),
        DELAY_MS,
        READY_DELAY_MS,
        READY_DELAY_IS_LOWER_BOUND,
        Column(
            "ready_delay_source",
            STRING,
            f"{' | '.join(DelaySource)}: how pull_at is known; NULL where it is not",
        ),
        *SPANS,
        Column("delay_source", STRING, " | ".join(DelaySource)),
        Column("delay_error_ms", BIGINT, "largest error of delay_ms, milliseconds"),
        *RATES,
        DRAIN_SECONDS,
        LOSS_IN_SECONDS,
        Column(
            "condition",
            STRING,
            " | ".join(Condition),
        ),
        *CONSUMPTION,
        INFLIGHT_SOURCE,
        Column(
            "consume_mode_at",
            TIMESTAMP,
            "when members, counters or topics last showed consume_mode; remembered for 24 hours",
        ),
        Column(
            "priority_rank",
            INT,
            "of a POP group on a topic with priorities: how many queues of the broker are consumed "
            "before this one; NULL where queues have no order",
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

HEALTH_QUEUE = pa.struct(
    [
        *(("broker", STRING), ("queue_id", INT), ("client_id", STRING)),
        *(("lost", BIGINT), ("lost_before", BIGINT)),
        *(("committed", BIGINT), ("committed_before", BIGINT), ("unconsumed", BIGINT)),
        *(("pulled", BIGINT), ("pulled_before", BIGINT)),
        *(("cached", BIGINT), ("cached_by", STRING)),
        *(("cache_limit", STRING), ("cache_reached", BIGINT), ("cache_most", BIGINT)),
    ]
)
"""A queue that a reason of health names; ``before`` is the first or lowest observation."""

HEALTH_FACTS = pa.struct(
    [
        *(("observations", INT), ("span_ms", BIGINT), ("known", INT)),
        *(("lag", BIGINT), ("lag_before", BIGINT), ("lost", BIGINT), ("lost_before", BIGINT)),
        *(("in_flight", BIGINT), ("in_flight_before", BIGINT), ("acks_counted", BOOLEAN)),
        ("redelivered_tps", DOUBLE),
        *(("rising_steps", INT), ("steps", INT)),
        *(("rise_seconds", DOUBLE), ("rise_messages", DOUBLE)),
        *(("queues_named", INT), ("queues", pa.list_(HEALTH_QUEUE))),
    ]
)
"""Facts that reasons of health state; `tidemark.model.health.FACTS` lists those of each reason."""

HEALTH = (
    Column("health", STRING, " | ".join(Health)),
    Column("health_reason", STRING, "queues and numbers that health is derived from"),
    Column(
        "queues_flow_controlled",
        INT,
        "queues that clients do not pull because a limit of their caches is reached, by the newest "
        "reports of health's observations; NULL without a report",
    ),
    Column("health_reason_code", STRING, " | ".join(HealthReason)),
    Column(
        "health_facts",
        HEALTH_FACTS,
        "numbers and queues of health_reason: those that its code states, the others are NULL",
    ),
)

GROUPS = Table(
    name="progress.groups",
    comment="One row per group, topic and snapshot, also where a broker is unreachable.",
    columns=(
        *raw.SNAPSHOT,
        raw.CONSUMER_GROUP,
        raw.TOPIC,
        LAG,
        INFLIGHT,
        AVAILABLE,
        LOST,
        READABLE_LAG,
        LAG_UPPER,
        Column("queues", INT, "queues, known and unknown"),
        Column("queues_unknown", INT, "queues without an observation in this snapshot"),
        Column("queues_never_committed", INT, "queues without a committed offset"),
        Column("complete", BOOLEAN, "whether every queue is known"),
        Column("max_queue_lag", BIGINT, "largest lag of a queue"),
        Column("worst_broker", STRING, "broker of that queue"),
        Column("worst_queue_id", INT, "id of that queue"),
        DELAY_MS,
        Column(
            "delay_is_lower_bound",
            BOOLEAN,
            "whether delay_ms is a lower bound: a known queue with unconsumed messages has a delay "
            "that is at_least or unknown; NULL where delay_ms is unknown",
        ),
        READY_DELAY_MS,
        READY_DELAY_IS_LOWER_BOUND,
        *SPANS,
        *RATES,
        Column("skew", DOUBLE, "largest queue lag over the mean"),
        DRAIN_SECONDS,
        LOSS_IN_SECONDS,
        *FILTERING,
        *CONSUMPTION,
        INFLIGHT_SOURCE,
        Column(
            "inflight_witness",
            BIGINT,
            "messages in flight by the brokers' metrics endpoints, which may count too few or "
            "twice; NULL = not read",
        ),
        Column(
            "ack_tps",
            DOUBLE,
            "messages certainly acknowledged a second in the last minute, as brokers count for "
            "POP: acknowledgements less checkpoints, because renewals count as both",
        ),
        Column(
            "acknowledged",
            BOOLEAN,
            "whether a message was acknowledged in that minute, of which brokers take a sample "
            "every 10 s: true and false are certain of it, NULL = the counters do not tell",
        ),
        Column(
            "clients",
            INT,
            "online members subscribed to this topic; NULL where none is known to, and a member "
            "reports no subscription",
        ),
        Column("online", BOOLEAN, "whether any member is online; NULL = unknown"),
        Column(
            "registered",
            BOOLEAN,
            "whether a broker that holds commits of the group has its configuration; NULL where "
            "one of these did not report its groups",
        ),
        Column(
            "duplicate_client_ids",
            INT,
            "client ids that two connections at one broker share; of the whole group",
        ),
        Column(
            "mixed_members",
            BOOLEAN,
            "whether remoting and gRPC members consume at once; of the whole group",
        ),
        Column("message_model", STRING, "CLUSTERING | BROADCASTING | LITE_SELECTIVE"),
        Column("consume_type", STRING, "CONSUME_ACTIVELY | CONSUME_PASSIVELY | CONSUME_POP"),
        Column("client_version", STRING, "lowest version of a member"),
        Column("retry_lag", BIGINT, "lag of the group's retry topics, those of POP included"),
        Column(
            "retry_lag_is_lower_bound",
            BOOLEAN,
            "whether messages that were popped from a retry topic and not acknowledged are missing "
            "from retry_lag; NULL where nothing shows how one of these topics is consumed",
        ),
        Column(
            "redelivered_tps",
            DOUBLE,
            "messages a second that came back for another attempt: written to the group's retry "
            "topics since the previous observation",
        ),
        Column(
            "redelivered_share",
            DOUBLE,
            "redelivered_tps over the messages a second written to the group's other topics; NULL "
            "where none is written",
        ),
        Column("dlq_messages", BIGINT, "messages in the group's dead-letter topic"),
        Column(
            "unreachable_messages",
            BIGINT,
            "messages that the group has not consumed and no consumer is told of: in queues whose "
            "id is not below read_queues; no part of lag",
        ),
        *HEALTH,
    ),
    key=("observed_at", "cluster", "consumer_group", "topic"),
)

SNAPSHOTS = Table(
    name="progress.snapshots",
    comment="The snapshots that progress.* and alerting.* hold the numbers of; written last.",
    columns=raw.SNAPSHOT,
    key=("snapshot_id",),
)

STRATEGY = Column("strategy", STRING, "how members share queues: AVG, ...; NULL = unknown")

ASSIGNMENTS = Table(
    name="progress.assignments",
    comment="One row per queue and snapshot with member reports: who should hold it, and who does.",
    columns=(
        *raw.SNAPSHOT,
        raw.CONSUMER_GROUP,
        raw.TOPIC,
        raw.BROKER,
        raw.QUEUE_ID,
        STRATEGY,
        Column("expected_client_id", STRING, "member that the strategy assigns the queue to"),
        Column("actual_client_id", STRING, "member that holds it; of several the first by name"),
        Column("state", STRING, " | ".join(AssignmentState)),
        Column("owners", STRINGS, "all members that hold it"),
        Column("previous_client_id", STRING, "member that last held it within the hour before"),
        Column("rebalanced", BOOLEAN, "whether another member held it then; NULL = unknown"),
        Column(
            "strategy_skew",
            DOUBLE,
            "queues of the topic that the strategy assigns to its busiest member, over the mean",
        ),
    ),
    key=("observed_at", "cluster", "consumer_group", "topic", "broker", "queue_id"),
)

IDLE_CLIENTS = Table(
    name="progress.idle_clients",
    comment="One row per member without any queue, topic that it subscribes to, and snapshot.",
    columns=(
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
            "NO_READABLE_QUEUE | NOT_REBALANCED (the strategy assigns it some) | UNKNOWN",
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
    name="progress.subscriptions",
    comment="One row per group and snapshot with subscriptions that members reported.",
    columns=(
        *raw.SNAPSHOT,
        raw.CONSUMER_GROUP,
        Column(
            "consistent",
            BOOLEAN,
            "whether all members subscribe to the same; NULL = not all reported",
        ),
        Column(
            "difference",
            STRING,
            "first of TOPICS | EXPRESSION | EXPRESSION_TYPE | MESSAGE_MODEL | ALLOCATION_STRATEGY",
        ),
        Column("differences", STRINGS, "all differences"),
        Column(
            "evidence",
            pa.list_(_MEMBER),
            "what each member reported; without subscriptions = no report",
        ),
    ),
    key=("observed_at", "cluster", "consumer_group"),
)

PEAKS = Table(
    name="progress.peaks",
    comment="One row per hour, group and topic: the largest rate of production of the hour.",
    columns=(
        Column("observed_at", TIMESTAMP, "start of the hour"),
        raw.CLUSTER,
        raw.CONSUMER_GROUP,
        raw.TOPIC,
        Column("hour_of_week", INT, "hours since Monday 00:00 UTC, 0 to 167"),
        Column("peak_tps", DOUBLE, "largest produce_tps of the hour, before any filter"),
        Column("peak_at", TIMESTAMP, "first observation with that rate"),
    ),
    key=("observed_at", "cluster", "consumer_group", "topic"),
)

OBJECTIVES = Table(
    name="progress.objectives",
    comment="One row per hour, group, topic and objective that is declared for them: good, bad and "
    "unknown minutes, and what they leave of the error budget.",
    columns=(
        Column("hour", TIMESTAMP, "start of the hour"),
        *raw.SNAPSHOT,
        raw.CONSUMER_GROUP,
        raw.TOPIC,
        Column("objective", STRING, "name of the objective"),
        Column("measure", STRING, "delay | lag: the number that it bounds"),
        Column("threshold", DOUBLE, "delay in milliseconds or lag in messages; more of it is bad"),
        Column("target", DOUBLE, "share of the window's minutes that must not be bad"),
        Column("window_hours", INT, "hours over which the target holds"),
        Column("good", INT, "minutes whose observations are all known and within the threshold"),
        Column(
            "bad",
            INT,
            "minutes in which an observation, or a lower bound of it, was above the threshold",
        ),
        Column(
            "unknown",
            INT,
            "all other minutes, from the start of the hour to its end or to the present",
        ),
        Column("bad_before", BIGINT, "bad minutes of the earlier hours of the window"),
        Column("unknown_before", BIGINT, "unknown minutes of these hours"),
        Column(
            "budget_left",
            DOUBLE,
            "share of the bad minutes that the window may have which is left; below 0 when there "
            "were more",
        ),
        Column(
            "burn_rate_1h",
            DOUBLE,
            "bad share of the known minutes of the last hour over the share that may be bad; at 1 "
            "the budget lasts for the window; NULL = no minute is known",
        ),
        Column("burn_rate_6h", DOUBLE, "the same of the last six hours"),
        Column(
            "minutes",
            STRING,
            "a sign for each counted minute from the start of the hour: + good, - bad, ? unknown; "
            "NULL in hours that were counted before 0.3",
        ),
    ),
    key=("hour", "cluster", "consumer_group", "topic", "objective"),
)

BASELINE_MEASURES = ("delay_ms", "lag", "produce_tps", "consume_tps")
"""The columns of ``progress.groups`` of which ``progress.baselines`` has the usual values."""

BASELINES = Table(
    name="progress.baselines",
    comment="One row per hour, group and topic: the usual values at this hour of the week, from "
    "the four weeks before and not from the hour itself.",
    columns=(
        Column("hour", TIMESTAMP, "start of the hour that the values are usual for"),
        raw.CLUSTER,
        raw.CONSUMER_GROUP,
        raw.TOPIC,
        Column("hour_of_week", INT, "hours since Monday 00:00 UTC, 0 to 167"),
        Column("weeks", INT, "earlier weeks with an observation around this hour, 1 to 4"),
        *(
            Column(f"{measure}_{name}", DOUBLE, comment)
            for measure in BASELINE_MEASURES
            for name, comment in (
                (
                    "median",
                    f"median of the weeks' median {measure}; NULL = too few weeks",
                ),
                ("low", f"second lowest of the weeks' 5th percentiles of {measure}"),
                ("high", f"second highest of the weeks' 95th percentiles of {measure}"),
            )
        ),
    ),
    key=("hour", "cluster", "consumer_group", "topic"),
    instant="hour",
)

TIMELINE = Table(
    name="progress.timeline",
    comment="One row per queue and observation at which its max_offset had changed.",
    columns=(
        raw.CLUSTER,
        raw.BROKER,
        raw.TOPIC,
        raw.QUEUE_ID,
        raw.MAX_OFFSET,
        Column(
            "newest_stored_at",
            TIMESTAMP,
            "store time of message max_offset - 1, as the broker reports it",
        ),
        raw.OBSERVED_AT,
        Column("previous_max_offset", BIGINT, "max_offset at the observation before the change"),
        Column("previous_at", TIMESTAMP, "instant of that observation"),
        Column("source", STRING, "source of both snapshots; NULL = remote"),
    ),
    key=("observed_at", "cluster", "broker", "topic", "queue_id"),
)

THROUGHPUT = Table(
    name="progress.throughput",
    comment="One row per counter, window and deep snapshot or log: sums over all masters and "
    "slaves.",
    columns=(
        *raw.SNAPSHOT,
        Column("stats_name", STRING, "TOPIC_PUT_NUMS, GROUP_GET_NUMS, ..."),
        Column("stats_key", STRING, "what is counted: topic, or topic@group"),
        raw.TOPIC,
        raw.CONSUMER_GROUP,
        Column("stats_window", STRING, "minute | hour | day"),
        Column("tps_master", DOUBLE, "total a second over masters"),
        Column("tps_replicas", DOUBLE, "total a second over slaves; NULL = none reported"),
        Column("tps", DOUBLE, "total a second over masters and slaves"),
        Column("sum", BIGINT, "total over the window, masters and slaves"),
        Column("avgpt", DOUBLE, "average per call"),
        Column(
            "tps_observed", DOUBLE, "messages a second over the same window, from observed offsets"
        ),
        Column("served_by_replicas", DOUBLE, "share of tps that slaves served"),
        Column(
            "slaves_serve_because",
            STRING,
            "of GROUP_GET_NUMS: why masters send readers to slaves, how far behind and within "
            "which share of memory they serve; NULL where slaves served none",
        ),
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
        ("batch_size", INT),
    ]
)
_DRAIN = pa.struct([("clients", INT), ("drain_seconds", DOUBLE)])

CAPACITY = Table(
    name="progress.capacity",
    comment="One row per group, topic and snapshot with statistics that members reported.",
    columns=(
        *raw.SNAPSHOT,
        raw.CONSUMER_GROUP,
        raw.TOPIC,
        Column("clients", INT, "online members subscribed to this topic"),
        Column("clients_told", INT, "members that reported their statistics"),
        Column("threads", BIGINT, "consuming threads of the members that reported"),
        Column("threads_per_client", DOUBLE, "mean consuming threads of a member that reported"),
        Column("batch_size", INT, "most messages of a listener call; the largest of the members"),
        Column("consume_tps", DOUBLE, "messages a second that they consumed, with failures"),
        Column("consume_tps_per_client", DOUBLE, "messages a second that one of them consumed"),
        Column("consume_rt_ms", DOUBLE, "milliseconds of a listener call"),
        Column(
            "is_ordered",
            BOOLEAN,
            "whether queues are consumed in order, one thread each, as members report themselves",
        ),
        Column(
            "wait_share",
            DOUBLE,
            "share of a listener call that waits: measured time less configured computing time",
        ),
        Column(
            "best_threads",
            DOUBLE,
            "cores x (wait + compute) / compute of a client; NULL unless both are set",
        ),
        Column("capacity_tps_per_client", DOUBLE, "messages a second that one member can consume"),
        Column(
            "capacity_tps", DOUBLE, "messages a second that all members with queues can consume"
        ),
        Column(
            "peak_tps",
            DOUBLE,
            "largest produce rate of messages that pass the filter, within 7 days",
        ),
        Column("peak_at", TIMESTAMP, "when that was; progress.peaks has every hour of the week"),
        Column(
            "clients_needed",
            BIGINT,
            "members that the peak requires at a use of at most use_limit",
        ),
        Column("use_limit", DOUBLE, "largest share of their capacity that these use at the peak"),
        Column(
            "needed_drain_seconds",
            DOUBLE,
            "seconds to drain the present lag with clients_needed members, at present production",
        ),
        Column(
            "measured_messages",
            BIGINT,
            "messages that consume_rt_ms is measured over: those of the reports of 30 minutes",
        ),
        Column(
            "reason",
            STRING,
            "why capacity is NULL: BLOCKED | STALLED | STOPPED (the group consumes nothing) | "
            "FEW_MESSAGES (too few are measured) | NO_THREADS (no member reports its threads)",
        ),
        Column("queues", INT, "queues of the topic"),
        Column(
            "queues_needed",
            BIGINT,
            "queues that the peak requires: one for each member, of an ordered group one for each "
            "thread",
        ),
        Column(
            "queues_limit",
            STRING,
            "clients | threads: what more of helps no further than the queues; threads of an "
            "ordered group",
        ),
        Column("capacity_limit_tps", DOUBLE, "messages a second that the queues allow at the most"),
        Column("drain_by_clients", pa.list_(_DRAIN), "seconds to drain by number of members"),
        Column("members", pa.list_(_CARRIED), "what each member reported, and could consume"),
    ),
    key=("observed_at", "cluster", "consumer_group", "topic"),
)

EVENTS = Table(
    name="progress.events",
    comment="One row per event of a queue of a group, or of a broker, between two observations.",
    columns=(
        raw.SNAPSHOT_ID,
        Column("observed_at", TIMESTAMP, "first observation after the event"),
        raw.CLUSTER,
        raw.BROKER,
        Column("topic", STRING, "topic; NULL = the whole broker"),
        Column("queue_id", INT, "queue of the topic on this broker; NULL = all of them"),
        Column("consumer_group", STRING, "consumer group; NULL = all of them"),
        Column(
            "client_id",
            STRING,
            "member: of REBALANCED the new owner; else NULL but for broadcasting groups and for "
            "events that members report",
        ),
        Column(
            "kind",
            STRING,
            "REWOUND | SKIPPED | LOST | RECREATED | AHEAD_OF_BROKER | DISAPPEARED | FIRST_COMMIT | "
            "BROKER_DOWN | REBALANCED | PULL_EXPIRED | ORDER_LOCK_LOST | SERVED_BY_SLAVE | "
            "SHRUNK (a topic has fewer read_queues)",
        ),
        Column("from_offset", BIGINT, "offset before; of LOST the first expired message"),
        Column("to_offset", BIGINT, "offset after; of LOST the first retained message"),
        Column(
            "messages",
            BIGINT,
            "messages that are consumed again, or expired unconsumed; of REBALANCED, PULL_EXPIRED "
            "and ORDER_LOCK_LOST those handed out and not confirmed, which may be consumed twice; "
            "of SHRUNK those in queues that consumers no longer read",
        ),
        Column("likely_cause", STRING, "cause that the evidence suggests; NULL = none"),
        Column("previous_at", TIMESTAMP, "last observation before the event"),
        Column("previous_client_id", STRING, "of REBALANCED: the owner before"),
        Column(
            "unowned_ms",
            BIGINT,
            "of REBALANCED: ms since the first observation without an owner, 0 without one",
        ),
        Column("evidence", STRING, "numbers that the event follows from"),
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

_OF_BROKER = pa.struct(
    [("broker", STRING), ("read_queues", INT), ("write_queues", INT), ("perm", INT)]
)

TOPICS = Table(
    name="progress.topics",
    comment="One row per topic and snapshot, over all brokers; topics of RocketMQ itself have "
    "none.",
    columns=(
        *raw.SNAPSHOT,
        raw.TOPIC,
        Column("kind", STRING, "normal | retry | dlq | pop_retry | lmq; NULL = not reported"),
        Column("message_type", STRING, "as brokers declare it: NORMAL, FIFO, ...; NULL = none do"),
        Column("brokers", INT, "broker groups that have the topic, unreachable ones included"),
        Column(
            "complete",
            BOOLEAN,
            "whether every queue of every broker is known, and who may read it",
        ),
        Column("queues", INT, "queues with known offsets"),
        Column("messages", BIGINT, "messages in the retained range of the known queues"),
        Column(
            "unreadable_messages",
            BIGINT,
            "those of them that no consumer can read, whatever its group",
        ),
        Column(
            "unreadable_reason",
            STRING,
            "NO_READ_PERMISSION | BEYOND_READ_QUEUES (the queue id is not below read_queues); the "
            "first of several; NULL where all can be read",
        ),
        Column("produce_tps", DOUBLE, "messages written a second since the previous observation"),
        Column(
            "oldest_at",
            TIMESTAMP,
            "store time of the oldest retained message; of retry and dead-letter topics only",
        ),
        Column(
            "oldest_at_is_upper_bound",
            BOOLEAN,
            "whether the oldest message was stored at oldest_at or earlier, not just then",
        ),
        Column("newest_at", TIMESTAMP, "store time of the newest message"),
        Column(
            "added_last_hour",
            BIGINT,
            "messages written within the last hour; of retry and dead-letter topics only",
        ),
        Column(
            "timing_messages",
            BIGINT,
            "delayed messages that wait for their time; only from brokers' metrics endpoints",
        ),
        Column("read_queues", INT, "queues that consumers read on each broker; NULL = they differ"),
        Column("write_queues", INT, "queues that producers write on each; NULL = they differ"),
        Column("perm", INT, "bits: 4 read, 2 write, 1 inherit; NULL = brokers differ"),
        Column("by_broker", pa.list_(_OF_BROKER), "the same of each broker that reported them"),
    ),
    key=("observed_at", "cluster", "topic"),
)

ALL = (
    QUEUES,
    GROUPS,
    TOPICS,
    ASSIGNMENTS,
    IDLE_CLIENTS,
    SUBSCRIPTIONS,
    SNAPSHOTS,
    TIMELINE,
    PEAKS,
    OBJECTIVES,
    BASELINES,
    EVENTS,
    THROUGHPUT,
    CAPACITY,
)
