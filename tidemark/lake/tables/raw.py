"""``raw.*``: reports of brokers, unchanged; `tidemark.rocketmq.records` has its rows."""

import pyarrow as pa

from tidemark.lake.schema import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    STRING_MAP,
    STRINGS,
    TIMESTAMP,
    Column,
    Table,
)
from tidemark.model.snapshots import SnapshotSource, SnapshotStatus

SNAPSHOT_ID = Column("snapshot_id", STRING, "start of the snapshot, UTC, milliseconds, and cluster")
OBSERVED_AT = Column("observed_at", TIMESTAMP, "start of the snapshot")
CLUSTER = Column("cluster", STRING, "cluster the brokers belong to")
BROKER = Column("broker", STRING, "broker group name")
BROKER_ID = Column("broker_id", BIGINT, "0 = master")
TOPIC = Column("topic", STRING, "topic")
QUEUE_ID = Column("queue_id", INT, "queue of the topic on this broker")
CONSUMER_GROUP = Column("consumer_group", STRING, "consumer group")
CLIENT_ID = Column("client_id", STRING, "member of the consumer group")
MIN_OFFSET = Column("min_offset", BIGINT, "first offset still stored")
MAX_OFFSET = Column("max_offset", BIGINT, "next offset to be written")
CONSUMER_OFFSET = Column(
    "consumer_offset", BIGINT, "committed: next offset to consume; NULL = never committed"
)
PULL_OFFSET = Column("pull_offset", BIGINT, "next offset to hand out; NULL = unknown")

SNAPSHOT = (SNAPSHOT_ID, OBSERVED_AT, CLUSTER)
"""The snapshot that a row belongs to: its id, instant and cluster."""

_PROBLEM = pa.struct(
    [("endpoint", STRING), ("operation", STRING), ("code", INT), ("message", STRING)]
)
_LEFT_OUT = pa.struct([("part", STRING), ("endpoint", STRING), ("items", BIGINT)])
_PROXY = pa.struct(
    [("endpoint", STRING), ("responded", pa.bool_()), ("members", BIGINT), ("groups", BIGINT)]
)
_SUBSCRIPTION = pa.struct(
    [
        ("topic", STRING),
        ("expression_type", STRING),
        ("expression", STRING),
        ("tags", STRINGS),
    ]
)

_PRODUCER = pa.struct(
    [
        ("producer_group", STRING),
        ("client_id", STRING),
        ("client_address", STRING),
        ("language", STRING),
        ("version", STRING),
        ("last_seen_at", TIMESTAMP),
    ]
)

SNAPSHOTS = Table(
    name="raw.snapshots",
    comment="One row per snapshot: when, of how much of the cluster, and its problems.",
    columns=(
        SNAPSHOT_ID,
        CLUSTER,
        Column("source", STRING, " | ".join(SnapshotSource)),
        OBSERVED_AT,
        Column("finished_at", TIMESTAMP, "end of the snapshot"),
        Column("status", STRING, " | ".join(SnapshotStatus)),
        Column("brokers_expected", INT, "addresses, masters and slaves, expected to respond"),
        Column("brokers_answered", INT, "addresses, masters and slaves, that responded"),
        Column("requests", INT, "requests sent"),
        Column("bytes", BIGINT, "bytes sent and received"),
        Column("duration_ms", BIGINT, "milliseconds from start to end"),
        Column("problems", pa.list_(_PROBLEM), "what could not be read, where and why"),
        Column(
            "left_out",
            pa.list_(_LEFT_OUT),
            "what limits left out; of a deep snapshot its turn comes in a later one",
        ),
        Column(
            "transport",
            STRING,
            "plain | tls | tls_unverified (certificates not verified); NULL without a connection",
        ),
        Column(
            "proxies_answered", INT, "proxies that reported online members; NULL = none requested"
        ),
        Column("brokers_read", STRINGS, "broker groups whose offsets this snapshot holds"),
        Column(
            "keys_read",
            STRING,
            "digest of the keys of its queue and consumer offsets: equal digests mean the "
            "same queues and groups",
        ),
        Column(
            "staleness_ms",
            BIGINT,
            "of files: milliseconds that their committed offsets may be old; NULL = read live",
        ),
        Column(
            "proxies",
            pa.list_(_PROXY),
            "proxies that were requested: remoting port, whether it responded, online clients that "
            "it reports, groups with one; proxies tell each other theirs, so numbers do not add "
            "up; NULL = none requested, or unknown",
        ),
    ),
    key=("snapshot_id",),
)

BROKERS = Table(
    name="raw.brokers",
    comment="One row per broker address and snapshot; NULLs where it did not respond.",
    columns=(
        *SNAPSHOT,
        BROKER,
        BROKER_ID,
        Column("address", STRING, "host:port"),
        Column("version", STRING, "version that the broker reports"),
        Column("role", STRING, "ASYNC_MASTER | SYNC_MASTER | SLAVE"),
        Column("disk_ratio", DOUBLE, "share of the commit log's disk in use"),
        Column("dispatch_behind_bytes", BIGINT, "bytes not yet in the consume queues"),
        Column("commit_log_min_offset", BIGINT, "first physical offset still stored"),
        Column("commit_log_max_offset", BIGINT, "next physical offset to be written"),
        Column("earliest_stored_at", TIMESTAMP, "store time of the oldest message"),
        Column("retention_hours", INT, "hours a message is kept at least"),
        Column("slave_read_enabled", BOOLEAN, "whether slaves may serve reads"),
        Column("put_tps", DOUBLE, "messages written a second, 10 s window"),
        Column("get_tps", DOUBLE, "messages handed out a second, 10 s window"),
        Column("config", STRING_MAP, "allow-listed configuration keys"),
        Column("booted_at", TIMESTAMP, "when the broker was started, by its clock"),
        Column(
            "clock_skew_ms",
            BIGINT,
            "the broker's clock minus ours, milliseconds; raw instants stay as reported",
        ),
        Column("clock_error_ms", BIGINT, "error of clock_skew_ms: half of the round trip"),
        Column("runtime", STRING_MAP, "allow-listed keys of its runtime report, as it words them"),
        Column(
            "shut_down_cleanly",
            BOOLEAN,
            "of a store folder: whether it has no abort file; false also while the broker runs",
        ),
        Column(
            "checkpoint_log_at",
            TIMESTAMP,
            "of a store folder: store time up to which the commit log is on disk for certain",
        ),
        Column("checkpoint_queues_at", TIMESTAMP, "the same of the consume queues"),
        Column("checkpoint_index_at", TIMESTAMP, "the same of the index of message keys"),
        Column(
            "index_whole",
            BOOLEAN,
            "of a store folder: whether every index file serves after the next start; NULL where "
            "a broker that runs or died may still lose one",
        ),
        Column(
            "index_behind_bytes",
            BIGINT,
            "of a store folder: commit log from the last message with an entry in the index on",
        ),
        Column(
            "flush_mode",
            STRING,
            "SYNC_FLUSH | ASYNC_FLUSH: whether producers wait until a message is on the disk",
        ),
        Column(
            "light_queues",
            BIGINT,
            "of a master, deep snapshots: light queues, those of lite topics and others, from "
            "RocketMQ 5.5.0 on",
        ),
        Column(
            "offsets_behind",
            BIGINT,
            "of a slave, deep snapshots: messages that its copy of the consumer offsets is behind "
            "its master's; after a failover they are consumed again",
        ),
        Column(
            "offsets_missing",
            BIGINT,
            "of a slave, deep snapshots: consumer offsets of its master that its copy lacks",
        ),
        Column(
            "offsets_late",
            BIGINT,
            "of a slave, deep snapshots: consumer offsets in its copy that are below its master's; "
            "a slave that copies has some, for up to a minute",
        ),
        Column(
            "offsets_copied",
            BIGINT,
            "of a slave, deep snapshots: total of the consumer offsets in its copy",
        ),
        Column(
            "offsets_stand",
            BOOLEAN,
            "of a slave, deep snapshots: whether offsets_copied is that of the deep snapshot "
            "before, at which offsets were late already; NULL without one, or where that was less "
            "than two minutes before",
        ),
        Column("sends_waiting", BIGINT, "sends that wait for a thread of the broker"),
        Column(
            "send_wait_ms",
            BIGINT,
            "how long the first of them has waited; a broker refuses sends from "
            "waitTimeMillsInSendQueue on, 200 ms unless set",
        ),
        Column(
            "page_cache_lock_ms",
            BIGINT,
            "how long the present write has held the lock of the commit log; a broker refuses "
            "sends above osPageCacheBusyTimeOutMills, 1000 ms unless set",
        ),
        Column(
            "failed_writes",
            BIGINT,
            "messages that its store did not write since its start, such as too large ones; those "
            "that it refused before are not counted",
        ),
        Column(
            "replica_behind_bytes",
            BIGINT,
            "of a slave: bytes of its master's commit log that it lacks, with what the master "
            "wrote between both responses; NULL without a response of the master",
        ),
        Column(
            "replica_behind_ms",
            BIGINT,
            "of a slave: how long ago its master's commit log ended where its own ends now, "
            "interpolated between snapshots; NULL without an earlier one",
        ),
        Column(
            "replica_behind_is_lower_bound",
            BOOLEAN,
            "whether that was before the earliest remembered snapshot, so at least so long ago",
        ),
        Column(
            "producers_online",
            BIGINT,
            "of a master, deep snapshots: connections of producers that speak to it themselves, of "
            "all groups; those of gRPC clients are known to proxies only",
        ),
        Column(
            "producers",
            pa.list_(_PRODUCER),
            "the first thousand of them, by group and client",
        ),
        Column(
            "sends_refused",
            BIGINT,
            "of its metrics endpoint: send requests since its start that it refused as it was busy "
            "(SYSTEM_BUSY); those that it took out of its queue after waitTimeMillsInSendQueue are "
            "counted nowhere, so it is a lower bound; no topic is known",
        ),
        Column(
            "sends_failed",
            BIGINT,
            "of its metrics endpoint: send requests since its start with another code than those "
            "of a stored message and SYSTEM_BUSY; no topic is known",
        ),
        Column(
            "light_queue_limit",
            BIGINT,
            "how many light queues there may be (maxLmqConsumeQueueNum); messages to further ones "
            "are refused",
        ),
        Column(
            "lite_subscriptions",
            BIGINT,
            "of a master, deep snapshots: lite topics that members are subscribed to, once for "
            "each member, from RocketMQ 5.5.0 on",
        ),
    ),
    key=("snapshot_id", "broker", "broker_id"),
)

QUEUE_OFFSETS = Table(
    name="raw.queue_offsets",
    comment="One row per queue and snapshot: its offsets.",
    columns=(
        *SNAPSHOT,
        BROKER,
        TOPIC,
        QUEUE_ID,
        MIN_OFFSET,
        MAX_OFFSET,
        Column("newest_stored_at", TIMESTAMP, "store time of message max_offset - 1"),
    ),
    key=("snapshot_id", "broker", "topic", "queue_id"),
)

CONSUMER_OFFSETS = Table(
    name="raw.consumer_offsets",
    comment="One row per queue, group and snapshot: its committed offset.",
    columns=(
        *SNAPSHOT,
        BROKER,
        CONSUMER_GROUP,
        TOPIC,
        QUEUE_ID,
        Column("client_id", STRING, "member; NULL except for broadcasting groups"),
        CONSUMER_OFFSET,
        PULL_OFFSET,
        Column(
            "pull_source",
            STRING,
            "consume_stats | consumer_offset_table | client_cache | queue_end (the commit is the "
            "end of the queue, so nothing is left to hand out)",
        ),
        Column(
            "first_unconsumed_at",
            TIMESTAMP,
            "store time of message consumer_offset, where requested",
        ),
        Column("offset_store", STRING, "broker | broker_broadcast | client_file"),
        Column(
            "request_mode",
            STRING,
            "pull | pop, as the broker was set to serve the group; NULL = nobody set it",
        ),
    ),
    key=("snapshot_id", "broker", "consumer_group", "topic", "queue_id", "client_id"),
    nullable_key=("client_id",),
)

TOPICS = Table(
    name="raw.topics",
    comment="One row per topic, broker and snapshot: its configuration.",
    columns=(
        *SNAPSHOT,
        BROKER,
        TOPIC,
        Column("read_queues", INT, "queues consumers read"),
        Column("write_queues", INT, "queues producers write"),
        Column("perm", INT, "bits: 4 read, 2 write, 1 inherit"),
        Column("message_type", STRING, "NORMAL | FIFO | DELAY | TRANSACTION | LITE, 5.x"),
        Column("kind", STRING, "normal | retry | dlq | pop_retry | system | lmq"),
    ),
    key=("snapshot_id", "broker", "topic"),
)

CONSUMER_GROUPS = Table(
    name="raw.consumer_groups",
    comment="One row per consumer group, broker and snapshot: its configuration.",
    columns=(
        *SNAPSHOT,
        BROKER,
        CONSUMER_GROUP,
        Column("consume_enable", BOOLEAN, "whether the broker serves the group"),
        Column("retry_max_times", INT, "attempts before the dead-letter queue"),
        Column("which_broker_when_slow", BIGINT, "broker id that serves a group far behind"),
        Column("consume_orderly", BOOLEAN, "ordered group, 5.x"),
        Column("system", BOOLEAN, "whether the group is RocketMQ's own"),
    ),
    key=("snapshot_id", "broker", "consumer_group"),
)

CLIENTS = Table(
    name="raw.clients",
    comment="One row per online member of a consumer group and snapshot.",
    columns=(
        *SNAPSHOT,
        CONSUMER_GROUP,
        CLIENT_ID,
        Column("client_address", STRING, "host:port the broker sees"),
        Column("language", STRING, "client language"),
        Column("version", STRING, "client version"),
        Column("consume_type", STRING, "CONSUME_ACTIVELY | CONSUME_PASSIVELY | CONSUME_POP"),
        Column("message_model", STRING, "CLUSTERING | BROADCASTING | LITE_SELECTIVE"),
        Column("consume_from_where", STRING, "where a new group starts"),
        Column("thread_count", INT, "consuming threads, where requested"),
        Column("allocation_strategy", STRING, "AVG, ...; an unknown class by its simple name"),
        Column("started_at", TIMESTAMP, "start of the client, where requested"),
        Column("subscriptions", pa.list_(_SUBSCRIPTION), "topics and filters"),
        Column("subscriptions_source", STRING, "group | client"),
        Column(
            "consume_orderly", BOOLEAN, "whether the client consumes in order, as it reports itself"
        ),
        Column("consume_batch_size", INT, "most messages of one listener call, where requested"),
        Column(
            "connections",
            INT,
            "connections with this client id at one broker, the most of any; NULL where only a "
            "proxy reports the member",
        ),
    ),
    key=("snapshot_id", "consumer_group", "client_id"),
)

CLIENT_QUEUES = Table(
    name="raw.client_queues",
    comment="One row per queue that a client holds and snapshot: the client's report of its cache.",
    columns=(
        *SNAPSHOT,
        CONSUMER_GROUP,
        CLIENT_ID,
        TOPIC,
        BROKER,
        QUEUE_ID,
        Column("commit_offset", BIGINT, "next offset to consume, as the client has it"),
        Column("cached_min_offset", BIGINT, "first message in the client's cache, 0 when empty"),
        Column("cached_max_offset", BIGINT, "last message in the client's cache, 0 when empty"),
        Column("cached_messages", BIGINT, "messages in the client's cache"),
        Column("cached_mib", BIGINT, "MiB in the client's cache"),
        Column("locked", BOOLEAN, "whether the client holds the lock of an ordered queue"),
        Column("dropped", BOOLEAN, "whether the client has given the queue up"),
        Column("last_pull_at", TIMESTAMP, "when the client last pulled, by its clock"),
        Column("last_consume_at", TIMESTAMP, "when it last finished a message, by its clock"),
        Column(
            "popped",
            BOOLEAN,
            "whether brokers hand out its messages by POP, to any member; queue -1 is then all of "
            "the topic's on a broker, and cached_messages those not acknowledged",
        ),
        Column("last_lock_at", TIMESTAMP, "when the client last got the lock of an ordered queue"),
        Column("unlock_tries", BIGINT, "failed attempts to give up the lock of a dropped queue"),
        Column(
            "in_order_messages",
            BIGINT,
            "messages of an ordered queue taken out of the cache to be consumed",
        ),
        Column(
            "most_messages",
            BIGINT,
            "cached messages above which the client does not pull; of popped ones those not "
            "acknowledged",
        ),
        Column("most_mib", BIGINT, "cached MiB above which the client does not pull"),
        Column(
            "widest_span",
            BIGINT,
            "offsets from the first to the last cached message above which the client does not "
            "pull; NULL of ordered consumption",
        ),
    ),
    key=("snapshot_id", "consumer_group", "client_id", "topic", "broker", "queue_id"),
)

CLIENT_TOPICS = Table(
    name="raw.client_topics",
    comment="One row per topic a client consumes and snapshot: the client's own statistics.",
    columns=(
        *SNAPSHOT,
        CONSUMER_GROUP,
        CLIENT_ID,
        TOPIC,
        Column("pull_rt_ms", DOUBLE, "milliseconds of a pull"),
        Column("pull_tps", DOUBLE, "messages pulled a second"),
        Column("consume_rt_ms", DOUBLE, "milliseconds of consuming"),
        Column("consume_ok_tps", DOUBLE, "messages consumed a second"),
        Column("consume_failed_tps", DOUBLE, "messages failed a second"),
        Column("consume_failed_last_hour", BIGINT, "messages failed in the last hour"),
    ),
    key=("snapshot_id", "consumer_group", "client_id", "topic"),
)

BROKER_STATS = Table(
    name="raw.broker_stats",
    comment="One row per counter, window, broker address and snapshot: the broker's own "
    "statistics.",
    columns=(
        *SNAPSHOT,
        BROKER,
        BROKER_ID,
        Column("stats_name", STRING, "TOPIC_PUT_NUMS, GROUP_GET_NUMS, ..."),
        Column("stats_key", STRING, "what is counted: topic, or topic@group"),
        TOPIC,
        CONSUMER_GROUP,
        Column("stats_window", STRING, "minute | hour | day"),
        Column("sum", BIGINT, "total over the window"),
        Column("tps", DOUBLE, "total a second over the window"),
        Column("avgpt", DOUBLE, "average per call"),
    ),
    key=("snapshot_id", "broker", "broker_id", "stats_name", "stats_key", "stats_window"),
)

QUEUE_TAGS = Table(
    name="raw.queue_tags",
    comment="One row per sampled consume-queue entry and snapshot, to estimate filtering from.",
    columns=(
        *SNAPSHOT,
        BROKER,
        TOPIC,
        QUEUE_ID,
        Column("position", BIGINT, "index in the consume queue: the message's offset"),
        Column("tags_code", BIGINT, "hash of the message's tag, 0 without one"),
        Column("physical_offset", BIGINT, "where the message lies in the commit log"),
        Column("size", INT, "bytes of the message"),
    ),
    key=("snapshot_id", "broker", "topic", "queue_id", "position"),
)

CONSUME_STATS = Table(
    name="raw.consume_stats",
    comment="One row per group and queue of a sample: its offsets from a second request.",
    columns=(
        *SNAPSHOT,
        BROKER,
        CONSUMER_GROUP,
        TOPIC,
        QUEUE_ID,
        Column("consumer_offset", BIGINT, "committed offset; 0 also without a commit"),
        MAX_OFFSET,
    ),
    key=("snapshot_id", "broker", "consumer_group", "topic", "queue_id"),
)

BROKER_METRICS = Table(
    name="raw.broker_metrics",
    comment="One row per group, topic and broker whose metrics endpoint was read: what it "
    "reports of them.",
    columns=(
        *SNAPSHOT,
        BROKER,
        CONSUMER_GROUP,
        TOPIC,
        Column("lag", BIGINT, "rocketmq_consumer_lag_messages: in flight and ready"),
        Column("inflight", BIGINT, "rocketmq_consumer_inflight_messages"),
        Column("ready", BIGINT, "rocketmq_consumer_ready_messages"),
    ),
    key=("snapshot_id", "broker", "consumer_group", "topic"),
)

TOPIC_METRICS = Table(
    name="raw.topic_metrics",
    comment="One row per topic and broker whose metrics endpoint was read: what it reports of "
    "the topic.",
    columns=(
        *SNAPSHOT,
        BROKER,
        TOPIC,
        Column(
            "timing_messages",
            BIGINT,
            "rocketmq_timing_messages: stored, and not due yet",
        ),
    ),
    key=("snapshot_id", "broker", "topic"),
)

ALL = (
    SNAPSHOTS,
    BROKERS,
    QUEUE_OFFSETS,
    CONSUMER_OFFSETS,
    TOPICS,
    CONSUMER_GROUPS,
    CLIENTS,
    CLIENT_QUEUES,
    CLIENT_TOPICS,
    BROKER_STATS,
    QUEUE_TAGS,
    CONSUME_STATS,
    BROKER_METRICS,
    TOPIC_METRICS,
)
