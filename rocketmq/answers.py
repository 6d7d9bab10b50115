"""What admin requests are answered with: the typed answers, and the bodies they are read from.

Each ``decode_*`` is pure and raises `ValueError`, `KeyError`, `TypeError` or `AttributeError` for a
body that is not its request's. Bodies are the same from 4.9 to 5.5 but for optional fields; a field
that a version does not have is None here, never 0.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rocketmq.fastjson import loads
from rocketmq.names import OffsetKey, client_version, parse_offset_key
from rocketmq.rows import Subscription

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

CONFIG_KEYS = frozenset(
    {
        "brokerClusterName",
        "brokerName",
        "brokerId",
        "brokerRole",
        "fileReservedTime",
        "deleteWhen",
        "diskMaxUsedSpaceRatio",
        "slaveReadEnable",
        "accessMessageInMemoryMaxRatio",
        "messageDelayLevel",
        "enableDetailStat",
        "storeType",
        "enableConsumeQueueExt",
        "enableRetryTopicV2",
        "useServerSideResetOffset",
        "estimateAccumulation",
        "metricsExporterType",
        "metricsPromExporterPort",
        "flushConsumerOffsetInterval",
    }
)
"""What is kept of a broker's configuration. Everything else is dropped while reading: a deployment
may have passwords and keys in it."""


@dataclass(slots=True, frozen=True)
class BrokerGroup:
    """One broker name in 106 or 105.

    Attributes:
        broker: the name of the group of master and slaves.
        cluster: the cluster it says it belongs to.
        addresses: ``host:port`` by broker id; 0 is the master.
        acting_master: whether its smallest id may act as master when 0 is gone (5.x).
    """

    broker: str
    cluster: str
    addresses: dict[int, str]
    acting_master: bool = False


@dataclass(slots=True, frozen=True)
class ClusterInfo:
    """Every broker a name server knows; ``clusters`` maps a cluster to its broker names."""

    brokers: dict[str, BrokerGroup]
    clusters: dict[str, list[str]]


@dataclass(slots=True, frozen=True)
class QueueData:
    """How a broker holds a topic, in a route; ``perm`` bits: 4 read, 2 write."""

    broker: str
    read_queues: int
    write_queues: int
    perm: int


@dataclass(slots=True, frozen=True)
class TopicRoute:
    """Where a topic lives."""

    brokers: dict[str, BrokerGroup]
    queues: list[QueueData]


@dataclass(slots=True, frozen=True)
class TopicConfig:
    """A topic as one broker holds it; ``message_type`` from 5.0 on, where it was declared."""

    topic: str
    read_queues: int
    write_queues: int
    perm: int
    message_type: str | None = None

    @property
    def readable_queues(self) -> range:
        """Ids of the queues consumers may read; none without read permission."""
        return range(self.read_queues if self.perm & 4 else 0)


@dataclass(slots=True, frozen=True)
class SubscriptionGroupConfig:
    """A consumer group as one broker holds it; ``consume_orderly`` from 5.0 on."""

    consumer_group: str
    consume_enable: bool | None
    retry_max_times: int | None
    which_broker_when_slow: int | None
    consume_orderly: bool | None = None


@dataclass(slots=True, frozen=True)
class ConsumerOffsetTable:
    """A broker's progress of all groups (43).

    Attributes:
        offsets: next offset to consume, by queue id. A queue that never committed is absent, or
            holds -1, which is the broker's own sign for that.
        pull_offsets: next offset to hand out, by queue id; None before 5.5 (not in the body).
    """

    offsets: dict[OffsetKey, dict[int, int]]
    pull_offsets: dict[OffsetKey, dict[int, int]] | None


@dataclass(slots=True, frozen=True)
class QueueStats:
    """How far a queue is written; ``newest_stored_at`` is the store time of ``max_offset - 1``.

    A broker tells both offsets; None where its files were read and cannot be.
    """

    min_offset: int | None
    max_offset: int | None
    newest_stored_at: datetime | None


@dataclass(slots=True, frozen=True)
class ConsumeStats:
    """A group on one queue (208).

    Attributes:
        broker_offset: next offset to be written.
        consumer_offset: next offset to consume; a queue that never committed shows 0 here.
        pull_offset: next offset to hand out, never below ``consumer_offset``; None before 5.1.
        last_consumed_at: store time of message ``consumer_offset - 1``, where it can be read.
    """

    broker_offset: int
    consumer_offset: int
    pull_offset: int | None
    last_consumed_at: datetime | None


@dataclass(slots=True, frozen=True)
class Connection:
    """One client of a group, connected to the broker asked."""

    client_id: str
    client_address: str | None
    language: str | None
    version: str | None


@dataclass(slots=True, frozen=True)
class ConsumerConnection:
    """A group that is online on one broker.

    All but ``connections`` is the group's, as its last heartbeat said: differences between members
    do not show here.
    """

    connections: list[Connection]
    consume_type: str | None
    message_model: str | None
    consume_from_where: str | None
    subscriptions: dict[str, Subscription]


def decode_broker_cluster_info(body: bytes) -> ClusterInfo:
    """Decode a 106 body."""
    found = object_of(loads(body))
    brokers = {name: _broker_group(data) for name, data in found["brokerAddrTable"].items()}
    return ClusterInfo(brokers, dict(found["clusterAddrTable"]))


def decode_topic_route(body: bytes) -> TopicRoute:
    """Decode a 105 body; its integer keys may be quoted (asked by a client from 4.9.4 on)."""
    found = object_of(loads(body))
    groups = [_broker_group(data) for data in found.get("brokerDatas") or ()]
    queues = [
        QueueData(data["brokerName"], data["readQueueNums"], data["writeQueueNums"], data["perm"])
        for data in found.get("queueDatas") or ()
    ]
    return TopicRoute({group.broker: group for group in groups}, queues)


def decode_topic_list(body: bytes) -> list[str]:
    """Decode a body of 206 or 305."""
    return sorted(object_of(loads(body)).get("topicList") or ())


def decode_topic_configs(body: bytes) -> dict[str, TopicConfig]:
    """Decode a 21 body."""
    table = object_of(object_of(loads(body))["topicConfigTable"])
    return {
        topic: TopicConfig(
            topic,
            integer(config["readQueueNums"]),
            integer(config["writeQueueNums"]),
            integer(config["perm"]),
            (config.get("attributes") or {}).get("message.type"),
        )
        for topic, config in table.items()
    }


def decode_subscription_groups(body: bytes) -> dict[str, SubscriptionGroupConfig]:
    """Decode a 201 body."""
    table = object_of(object_of(loads(body))["subscriptionGroupTable"])
    return {
        group: SubscriptionGroupConfig(
            group,
            config.get("consumeEnable"),
            config.get("retryMaxTimes"),
            config.get("whichBrokerWhenConsumeSlowly"),
            config.get("consumeMessageOrderly"),
        )
        for group, config in table.items()
    }


def decode_broker_config(body: bytes) -> dict[str, str]:
    """Decode a 26 body, Java properties; what is not in `CONFIG_KEYS` is not kept."""
    entries = (line.partition("=") for line in body.decode(errors="replace").splitlines())
    return {key.strip(): value.strip() for key, _, value in entries if key.strip() in CONFIG_KEYS}


def decode_broker_runtime_info(body: bytes) -> dict[str, str]:
    """Decode a 28 body."""
    table = object_of(object_of(loads(body))["table"])
    return {str(key): str(value) for key, value in table.items() if value is not None}


def decode_consumer_offsets(body: bytes) -> ConsumerOffsetTable:
    """Decode a 43 body; keys of another form than `OffsetKey` are left out, as Java does."""
    found = object_of(loads(body))
    pulls = found.get("pullOffsetTable")
    return ConsumerOffsetTable(
        _offset_table(object_of(found["offsetTable"])),
        None if pulls is None else _offset_table(object_of(pulls)),
    )


def decode_topic_stats(body: bytes) -> dict[int, QueueStats]:
    """Decode a 202 body, which is about one topic: the queue id is key enough."""
    table = object_of(object_of(loads(body))["offsetTable"])
    stats: dict[int, QueueStats] = {}
    for key, value in table.items():
        maximum = integer(value["maxOffset"])
        stored = instant(value.get("lastUpdateTimestamp")) if maximum > 0 else None
        stats[dict(key)["queueId"]] = QueueStats(integer(value["minOffset"]), maximum, stored)
    return stats


def decode_consumer_connection(body: bytes) -> ConsumerConnection:
    """Decode a 203 body."""
    found = object_of(loads(body))
    connections = [
        Connection(
            member["clientId"],
            member.get("clientAddr"),
            member.get("language"),
            client_version(member.get("language"), member.get("version")),
        )
        for member in found.get("connectionSet") or ()
    ]
    table = found.get("subscriptionTable") or {}
    return ConsumerConnection(
        sorted(connections, key=lambda connection: connection.client_id),
        found.get("consumeType"),
        found.get("messageModel"),
        found.get("consumeFromWhere"),
        {topic: subscription(topic, data) for topic, data in sorted(table.items())},
    )


def decode_consume_stats(body: bytes) -> dict[str, dict[int, ConsumeStats]]:
    """Decode a 208 body, by topic and queue id."""
    found: dict[str, dict[int, ConsumeStats]] = {}
    for key, value in object_of(object_of(loads(body))["offsetTable"]).items():
        queue = dict(key)
        found.setdefault(queue["topic"], {})[queue["queueId"]] = ConsumeStats(
            integer(value["brokerOffset"]),
            integer(value["consumerOffset"]),
            value.get("pullOffset"),
            instant(value.get("lastTimestamp")),
        )
    return found


def decode_consumer_ids(body: bytes) -> list[str]:
    """Decode a 38 body."""
    return sorted(object_of(loads(body)).get("consumerIdList") or ())


def instant(milliseconds: Any) -> datetime | None:
    """A Java timestamp as UTC; None for what RocketMQ writes when it has none (0, -1)."""
    if type(milliseconds) is not int or milliseconds <= 0:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def object_of(value: Any) -> dict[Any, Any]:
    """The value, when it is an object.

    Raises:
        TypeError: it is not.
    """
    if type(value) is not dict:
        raise TypeError(f"an object was expected, not {type(value).__name__}")
    return value


def integer(value: Any) -> int:
    """The value, when it is an integer.

    Raises:
        TypeError: it is not.
    """
    if type(value) is not int:
        raise TypeError(f"an integer was expected, not {type(value).__name__}")
    return value


def _broker_group(data: dict[str, Any]) -> BrokerGroup:
    addresses = {int(broker_id): str(at) for broker_id, at in data["brokerAddrs"].items()}
    acting = bool(data.get("enableActingMaster"))
    return BrokerGroup(data["brokerName"], data["cluster"], addresses, acting)


def _offset_table(table: dict[Any, Any]) -> dict[OffsetKey, dict[int, int]]:
    known: dict[OffsetKey, dict[int, int]] = {}
    for name, offsets in table.items():
        key = parse_offset_key(name)
        if key:
            known[key] = object_of(offsets)
    return known


def subscription(topic: str, data: dict[str, Any]) -> Subscription:
    """A `SubscriptionData` object of a body."""
    tags: list[str] = sorted(data.get("tagsSet") or ())
    return Subscription(topic, data.get("expressionType"), data.get("subString"), tags)
