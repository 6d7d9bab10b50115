"""What admin requests are answered with: the typed answers, and the bodies they are read from.

Each ``decode_*`` is pure and raises `ValueError`, `KeyError`, `TypeError` or `AttributeError` for a
body that is not its request's. Bodies are the same from 4.9 to 5.5 but for optional fields; a field
that a version does not have is None here, never 0.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from rocketmq.fastjson import loads
from rocketmq.names import OffsetKey, client_version, parse_offset_key
from rocketmq.rows import Subscription
from rocketmq.typed import (
    boolean,
    instant,
    instants,
    integer,
    object_of,
    optional,
    require_by_queue,
    small,
    text,
    texts,
)


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
    """A topic as one broker holds it.

    Attributes:
        message_type: from 5.0 on, where it was declared.
        hosted: of a static topic (5.x) the ids of its queues here. Its clients know these, the
            broker's counts and offsets are those of the queues they are mapped to.
    """

    topic: str
    read_queues: int
    write_queues: int
    perm: int
    message_type: str | None = None
    hosted: tuple[int, ...] | None = None

    @property
    def queues(self) -> Sequence[int]:
        """Ids of the queues that consumers read where they may."""
        return range(self.read_queues) if self.hosted is None else self.hosted

    @property
    def readable_queues(self) -> Sequence[int]:
        """The same; none without read permission."""
        return self.queues if self.perm & 4 else ()


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


class QueueStats(NamedTuple):
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
    groups = object_of(found["brokerAddrTable"]).items()
    clusters = object_of(found["clusterAddrTable"]).items()
    return ClusterInfo(
        {text(name): _broker_group(data) for name, data in groups},
        {text(name): texts(brokers) for name, brokers in clusters},
    )


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
    return sorted(texts(object_of(loads(body)).get("topicList")))


def decode_topic_configs(body: bytes) -> dict[str, TopicConfig]:
    """Decode a 21 body."""
    found = object_of(loads(body))
    configs = {
        text(topic): TopicConfig(
            topic,
            small(config["readQueueNums"]),
            small(config["writeQueueNums"]),
            small(config["perm"]),
            optional(text, (config.get("attributes") or {}).get("message.type")),
        )
        for topic, config in object_of(found["topicConfigTable"]).items()
    }
    return with_mappings(configs, _mappings(found.get("topicQueueMappingDetailMap")))


def decode_queue_mappings(body: bytes) -> dict[str, tuple[int, ...]]:
    """Decode a ``topicQueueMapping.json``: by static topic, its queues on that broker."""
    return _mappings(object_of(loads(body))["topicQueueMappingInfoMap"])


def with_mappings(
    configs: dict[str, TopicConfig], mappings: dict[str, tuple[int, ...]]
) -> dict[str, TopicConfig]:
    """The same topics, those that have mappings as static ones."""
    static = {
        topic: replace(configs[topic], hosted=hosted)
        for topic, hosted in mappings.items()
        if topic in configs
    }
    return configs | static


def _mappings(table: Any) -> dict[str, tuple[int, ...]]:
    return {
        text(topic): tuple(map(small, object_of(mapping.get("hostedQueues") or {})))
        for topic, mapping in object_of(table or {}).items()
    }


def decode_subscription_groups(body: bytes) -> dict[str, SubscriptionGroupConfig]:
    """Decode a 201 body."""
    table = object_of(object_of(loads(body))["subscriptionGroupTable"])
    return {
        text(group): SubscriptionGroupConfig(
            group,
            optional(boolean, config.get("consumeEnable")),
            optional(small, config.get("retryMaxTimes")),
            optional(integer, config.get("whichBrokerWhenConsumeSlowly")),
            optional(boolean, config.get("consumeMessageOrderly")),
        )
        for group, config in table.items()
    }


def decode_broker_runtime_info(body: bytes) -> dict[str, str]:
    """Decode a 28 body."""
    table = object_of(object_of(loads(body))["table"])
    return {str(key): str(value) for key, value in table.items() if value is not None}


def decode_consumer_offsets(body: bytes) -> ConsumerOffsetTable:
    """Decode a 43 body; keys of another form than `OffsetKey` are left out, as Java does.

    ``lmqOffsetTable`` of brokers with light queues is left out too: there may be a group for every
    device, and no broker lists their topics (`LmqTopicConfigManager`), so nothing measures them.
    """
    found = object_of(loads(body))
    pulls = found.get("pullOffsetTable")
    return ConsumerOffsetTable(
        _offset_table(object_of(found["offsetTable"])),
        None if pulls is None else _offset_table(object_of(pulls)),
    )


_NAME = rb'[^"\\{}\x00-\x1f\x80-\xff]*+'
_INTEGER = rb"(-?(?:0|[1-9]\d{0,17}+))"
_QUEUE = re.compile(
    rb'\{"brokerName":"%b","queueId":(0|[1-9]\d{0,8}+),"topic":"(%b)"\}:'
    rb'\{"lastUpdateTimestamp":%b,"maxOffset":%b,"minOffset":%b\}'
    % (_NAME, _NAME, _INTEGER, _INTEGER, _INTEGER)
)
_BEFORE_QUEUES = b'{"offsetTable":{'
_BETWEEN_QUEUES = frozenset({b","})
_AFTER_QUEUES = re.compile(
    rb'\}(?:,"topicPutTps":(?:0|[1-9]\d{0,17}+)\.\d{1,17}+(?:E-?\d{1,2}+)?)?\}'
)
_queue_stats = partial(tuple.__new__, QueueStats)  # its own constructor takes twice as long


def decode_topic_stats(body: bytes, topic: str) -> dict[int, QueueStats]:
    """Decode a 202 body, which is about one topic: the queue id is key enough.

    Thousands of these make up a look, so the form that brokers send is read by one pattern; any
    other, and what does not add up, by the parser.

    Args:
        body: the body.
        topic: what was asked about; an answer about another is not one.
    """
    parts = _QUEUE.split(body)  # before, then five values and what follows of each queue
    if (
        parts[0] == _BEFORE_QUEUES
        and set(parts[6:-1:6]) <= _BETWEEN_QUEUES
        and _AFTER_QUEUES.fullmatch(parts[-1])
        and set(parts[2::6]) == {topic.encode()}
    ):
        tops = list(map(int, parts[4::6]))
        times = instants(map(int, parts[3::6]))
        if min(tops) <= 0:
            pairs = zip(times, tops, strict=True)
            times = [stored_at if top > 0 else None for stored_at, top in pairs]
        rows = zip(map(int, parts[5::6]), tops, times, strict=True)
        stats = dict(zip(map(int, parts[1::6]), map(_queue_stats, rows), strict=True))
        if len(stats) == len(tops):
            return stats
    return _parse_topic_stats(body, topic)


def _parse_topic_stats(body: bytes, topic: str) -> dict[int, QueueStats]:
    stats = {}
    for key, value in object_of(object_of(loads(body))["offsetTable"]).items():
        queue = dict(key)
        if queue["topic"] != topic:
            raise ValueError(f"an answer about topic {queue['topic']!r:.100}")
        queue_id = small(queue["queueId"])
        if queue_id in stats:
            raise ValueError(f"queue {queue_id} is told of twice")
        maximum = integer(value["maxOffset"])
        stored_at = instant(value.get("lastUpdateTimestamp")) if maximum > 0 else None
        stats[queue_id] = QueueStats(integer(value["minOffset"]), maximum, stored_at)
    return stats


def decode_consumer_connection(body: bytes) -> ConsumerConnection:
    """Decode a 203 body."""
    found = object_of(loads(body))
    connections = [
        Connection(
            text(member["clientId"]),
            optional(text, member.get("clientAddr")),
            optional(text, member.get("language")),
            client_version(member.get("language"), optional(small, member.get("version"))),
        )
        for member in found.get("connectionSet") or ()
    ]
    table = object_of(found.get("subscriptionTable") or {})
    return ConsumerConnection(
        sorted(connections, key=lambda connection: connection.client_id),
        optional(text, found.get("consumeType")),
        optional(text, found.get("messageModel")),
        optional(text, found.get("consumeFromWhere")),
        {text(topic): subscription(topic, data) for topic, data in sorted(table.items())},
    )


def decode_consume_stats(body: bytes) -> dict[str, dict[int, ConsumeStats]]:
    """Decode a 208 body, by topic and queue id."""
    found: dict[str, dict[int, ConsumeStats]] = {}
    for key, value in object_of(object_of(loads(body))["offsetTable"]).items():
        queue = dict(key)
        found.setdefault(text(queue["topic"]), {})[small(queue["queueId"])] = ConsumeStats(
            integer(value["brokerOffset"]),
            integer(value["consumerOffset"]),
            optional(integer, value.get("pullOffset")),
            instant(value.get("lastTimestamp")),
        )
    return found


def decode_consumer_ids(body: bytes) -> list[str]:
    """Decode a 38 body."""
    return sorted(texts(object_of(loads(body)).get("consumerIdList")))


def _broker_group(data: dict[str, Any]) -> BrokerGroup:
    addresses = {integer(int(number)): text(at) for number, at in data["brokerAddrs"].items()}
    acting = bool(data.get("enableActingMaster"))
    return BrokerGroup(text(data["brokerName"]), text(data["cluster"]), addresses, acting)


def _offset_table(table: dict[Any, Any]) -> dict[OffsetKey, dict[int, int]]:
    known: dict[OffsetKey, dict[int, int]] = {}
    for name, offsets in table.items():
        key = parse_offset_key(name)
        if key:
            known[key] = offsets
    require_by_queue(known.values())
    return known


def subscription(topic: str, data: dict[str, Any]) -> Subscription:
    """A `SubscriptionData` object of a body."""
    return Subscription(
        topic,
        optional(text, data.get("expressionType")),
        optional(text, data.get("subString")),
        sorted(texts(data.get("tagsSet"))),
    )
