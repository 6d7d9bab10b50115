"""Typed responses of brokers to bulk requests and of name servers, and their decoders.

Each ``decode_*`` is pure and raises `ValueError`, `KeyError`, `TypeError` or `AttributeError` for a
body of another request. Bodies are the same from 4.9 to 5.5 but for optional fields. A field that
a version does not have is None here, never 0.
"""

import re
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec

from tidemark.rocketmq.names import OffsetKey, client_version, parse_offset_key
from tidemark.rocketmq.records import Producer, Subscription
from tidemark.rocketmq.typed_values import (
    LONGEST_NAME,
    boolean,
    instant,
    instants,
    integer,
    object_of,
    optional,
    require_by_queue,
    short_text,
    short_texts,
    small,
    text,
)
from tidemark.rocketmq.wire.fastjson import loads

_Key = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
_Value = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_TABLE = msgspec.json.Decoder(dict[str, dict[_Key, _Value]])
_PLACE = b"<table>"
"""Placeholder in a body for a table that was taken out."""


class IntegerTable(dict[str, dict[int, int]]):
    """A table whose keys are known to have at most 32 bits, and its values at most 64."""


def loads_with_tables(body: bytes, names: Iterable[str]) -> Any:
    """Read one fastjson body whose members of these names are probably tables.

    Args:
        body: the body.
        names: of members. Each that is a table, and is proven to be, becomes an `IntegerTable`.

    Raises:
        FastjsonError: as `fastjson.loads`.
    """
    rest, tables = _without_tables(body, names)
    if tables:
        try:
            value = loads(rest)
        except ValueError:
            return loads(body)  # for the position in it
        if type(value) is dict and all(value.get(name) == _PLACE.decode() for name in tables):
            return value | tables
    return loads(body)


def _without_tables(body: bytes, names: Iterable[str]) -> tuple[bytes, dict[str, IntegerTable]]:
    """Return the body without its tables, and the tables; one that is not proven stays."""
    tables: dict[str, IntegerTable] = {}
    if b"\\" in body:
        return body, tables
    for name in names:
        mark = b'"%b":{"' % name.encode()
        start = body.find(mark)
        end = body.find(b"}}", start) + 2
        table = _table(body[start + len(mark) - 2 : end]) if 0 <= start < end else None
        if table is not None:
            tables[name] = table
            body = b'%b"%b":"%b"%b' % (body[:start], name.encode(), _PLACE, body[end:])
    return (body, tables) if body.count(_PLACE) == len(tables) else (body, {})


def _table(text: bytes) -> IntegerTable | None:
    r"""Return a table without backslashes that begins as one; None where it is not proven.

    Colons and commas get the quotes of the keys next to them. Where a key had some, msgspec refuses
    it, so the quotes in the text are those of names, and their number shows that none is missing.
    No key is there twice and no name holds a colon or comma: there are none beyond the result's.
    """
    if b'{"}' in text or b'"$ref"' in text:
        return None
    quoted = text.replace(b":", b'":').replace(b",", b',"')
    standard = quoted.replace(b'"":{', b'":{"').replace(b'},""', b'},"').replace(b'{"}', b"{}")
    try:
        decoded = _TABLE.decode(standard)
    except ValueError:
        return None
    names, sizes = len(decoded), list(map(len, decoded.values()))
    keys, filled = sum(sizes), names - sizes.count(0)
    colons, commas = names + keys, names - 1 + keys - filled
    is_proven = len(quoted) - len(text) == colons + commas and text.count(b'"') == 2 * names
    return IntegerTable(decoded) if is_proven else None


MAX_TOPICS = 100_000
"""Topics of one broker at most; each is at least one request."""

MAX_GROUPS = 100_000
"""Consumer groups of one broker at most; each is a request too."""

MAX_PROGRESS = 200_000
"""Groups on topics with commits at one broker at most; rows of each take 25 microseconds."""

MAX_QUEUES = 100_000
"""Queues of one topic at most: a configuration with more cannot be one of a real topic."""

MAX_QUEUES_OF_BROKER = 1_000_000
"""Most queues of all topics of one broker, a bound on the cost of its response."""


@dataclass(slots=True, frozen=True, kw_only=True)
class TopicConfig:
    """The configuration of a topic on one broker.

    Attributes:
        message_type: from 5.0 on, where a user has declared it.
        hosted: ids of the queues of a static topic (5.x) here. Clients use these ids; counts and
            offsets of the broker belong to the queues to which they are mapped.
    """

    topic: str
    read_queues: int
    write_queues: int
    perm: int
    message_type: str | None = None
    hosted: tuple[int, ...] | None = None

    @property
    def queues(self) -> Sequence[int]:
        """Ids of all queues that consumers may read, whatever the permission."""
        return range(self.read_queues) if self.hosted is None else self.hosted

    @property
    def readable_queues(self) -> Sequence[int]:
        """Ids of the readable queues; none without read permission."""
        return self.queues if self.perm & 4 else ()


@dataclass(slots=True, frozen=True, kw_only=True)
class SubscriptionGroupConfig:
    """The configuration of a consumer group on one broker; ``consume_orderly`` from 5.0 on."""

    consumer_group: str
    consume_enable: bool | None
    retry_max_times: int | None
    which_broker_when_slow: int | None
    consume_orderly: bool | None = None


@dataclass(slots=True, frozen=True)
class ConsumerOffsetTable:
    """The progress of all groups on one broker (43).

    Attributes:
        offsets: next offset to consume, by queue id. A queue that never committed is absent, or
            has -1, which is the broker's own sign for that.
        pull_offsets: next offset to hand out, by queue id; None where the body has none.
            5.5.0 sends them; 5.5.1 leaves them out again by `transient`.
    """

    offsets: dict[OffsetKey, dict[int, int]]
    pull_offsets: dict[OffsetKey, dict[int, int]] | None


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumeStats:
    """The progress of a group on one queue (208).

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


@dataclass(slots=True, frozen=True, kw_only=True)
class Connection:
    """One client of a group, connected to the broker that responded."""

    client_id: str
    client_address: str | None
    language: str | None
    version: str | None


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerConnection:
    """A group that is online on one broker.

    All fields but ``connections`` come from the last heartbeat of any member, so differences
    between members do not show here.
    """

    connections: list[Connection]
    consume_type: str | None
    message_model: str | None
    consume_from_where: str | None
    subscriptions: dict[str, Subscription]


def decode_topic_list(body: bytes) -> list[str]:
    """Decode a body of 206 or 305."""
    return sorted(short_texts(object_of(loads(body)).get("topicList")))


def decode_topic_configs(body: bytes) -> dict[str, TopicConfig]:
    """Decode a 21 body."""
    mapping = object_of(loads(body))
    _require_at_most(MAX_TOPICS, "topics", object_of(mapping["topicConfigTable"]))
    configs = {
        short_text(topic): TopicConfig(
            topic=topic,
            read_queues=small(config["readQueueNums"]),
            write_queues=small(config["writeQueueNums"]),
            perm=small(config["perm"]),
            message_type=optional(short_text, (config.get("attributes") or {}).get("message.type")),
        )
        for topic, config in object_of(mapping["topicConfigTable"]).items()
    }
    return with_mappings(configs, _mappings(mapping.get("topicQueueMappingDetailMap")))


def decode_queue_mappings(body: bytes) -> dict[str, tuple[int, ...]]:
    """Decode a ``topicQueueMapping.json``: by static topic, its queues on that broker."""
    return _mappings(object_of(loads(body))["topicQueueMappingInfoMap"])


def with_mappings(
    configs: dict[str, TopicConfig], mappings: dict[str, tuple[int, ...]]
) -> dict[str, TopicConfig]:
    """Return the topics; those with mappings become static topics."""
    static = {
        topic: replace(configs[topic], hosted=hosted)
        for topic, hosted in mappings.items()
        if topic in configs
    }
    return configs | static


def _require_at_most(limit: int, things: str, table: Sized) -> None:
    if len(table) > limit:
        raise ValueError(f"{len(table)} {things} (limit {limit})")


def _mappings(table: Any) -> dict[str, tuple[int, ...]]:
    return {
        short_text(topic): tuple(map(small, object_of(mapping.get("hostedQueues") or {})))
        for topic, mapping in object_of(table or {}).items()
    }


def decode_subscription_groups(body: bytes) -> dict[str, SubscriptionGroupConfig]:
    """Decode a 201 body."""
    table = object_of(object_of(loads(body))["subscriptionGroupTable"])
    _require_at_most(MAX_GROUPS, "groups", table)
    return {
        short_text(group): SubscriptionGroupConfig(
            consumer_group=group,
            consume_enable=optional(boolean, config.get("consumeEnable")),
            retry_max_times=optional(small, config.get("retryMaxTimes")),
            which_broker_when_slow=optional(integer, config.get("whichBrokerWhenConsumeSlowly")),
            consume_orderly=optional(boolean, config.get("consumeMessageOrderly")),
        )
        for group, config in table.items()
    }


def decode_broker_runtime_info(body: bytes) -> dict[str, str]:
    """Decode a 28 body."""
    table = object_of(object_of(loads(body))["table"])
    return {str(key): text(str(value)) for key, value in table.items() if value is not None}


def decode_consumer_offsets(body: bytes) -> ConsumerOffsetTable:
    """Decode a 43 body; keys of another form than `OffsetKey` are left out, as in Java.

    ``lmqOffsetTable`` of brokers with light queues is left out too: it is of groups that are light
    themselves, and there may be one for every device.
    """
    mapping = object_of(loads_with_tables(body, ("offsetTable", "pullOffsetTable")))
    pulls = mapping.get("pullOffsetTable")
    return ConsumerOffsetTable(
        _offset_table(mapping["offsetTable"]),
        None if pulls is None else _offset_table(pulls),
    )


def decode_consumer_connection(body: bytes) -> ConsumerConnection:
    """Decode a 203 body."""
    mapping = object_of(loads(body))
    connections = [
        Connection(
            client_id=short_text(member["clientId"]),
            client_address=optional(short_text, member.get("clientAddr")),
            language=optional(short_text, member.get("language")),
            version=client_version(member.get("language"), optional(small, member.get("version"))),
        )
        for member in mapping.get("connectionSet") or ()
    ]
    table = object_of(mapping.get("subscriptionTable") or {})
    return ConsumerConnection(
        connections=sorted(connections, key=lambda connection: connection.client_id),
        consume_type=optional(short_text, mapping.get("consumeType")),
        message_model=optional(short_text, mapping.get("messageModel")),
        consume_from_where=optional(short_text, mapping.get("consumeFromWhere")),
        subscriptions={
            short_text(topic): subscription(topic, data) for topic, data in sorted(table.items())
        },
    )


INNER_PRODUCER = "CLIENT_INNER_PRODUCER"
"""The producer group that every Java client has for itself, consumers too."""


def decode_producers(body: bytes) -> list[Producer]:
    """Decode a 328 body, in order of group and client; without those of `INNER_PRODUCER`."""
    producers = [
        Producer(
            producer_group=short_text(group),
            client_id=short_text(member["clientId"]),
            # Java writes an address with the host's name before the slash, which is empty.
            client_address=short_text(member["remoteIP"]).rpartition("/")[2],
            language=optional(short_text, member.get("language")),
            version=client_version(member.get("language"), optional(small, member.get("version"))),
            last_seen_at=instant(member.get("lastUpdateTimestamp")),
        )
        for group, members in object_of(object_of(loads(body))["data"]).items()
        if group != INNER_PRODUCER
        for member in members
    ]
    return sorted(producers, key=lambda it: (it.producer_group, it.client_id))


def decode_consume_stats(body: bytes) -> dict[str, dict[int, ConsumeStats]]:
    """Decode a 208 body by topic and queue id."""
    consume_stats: dict[str, dict[int, ConsumeStats]] = {}
    for key, value in object_of(object_of(loads(body))["offsetTable"]).items():
        queue = dict(key)
        consume_stats.setdefault(short_text(queue["topic"]), {})[small(queue["queueId"])] = (
            ConsumeStats(
                broker_offset=integer(value["brokerOffset"]),
                consumer_offset=integer(value["consumerOffset"]),
                pull_offset=optional(integer, value.get("pullOffset")),
                last_consumed_at=instant(value.get("lastTimestamp")),
            )
        )
    return consume_stats


def decode_consumer_ids(body: bytes) -> list[str]:
    """Decode a 38 body."""
    return sorted(short_texts(object_of(loads(body)).get("consumerIdList")))


def _offset_table(table: Any) -> dict[OffsetKey, dict[int, int]]:
    is_proven = isinstance(table, IntegerTable)
    _require_at_most(MAX_PROGRESS, "groups on topics", object_of(table) if not is_proven else table)
    known: dict[OffsetKey, dict[int, int]] = {}
    for name, offsets in (table if is_proven else object_of(table)).items():
        if len(name) > LONGEST_NAME:  # it holds the names of a topic and a group
            short_text(name)
        key = parse_offset_key(name)
        if key:
            known[key] = offsets
    if not is_proven:
        require_by_queue(known.values())
    return known


def subscription(topic: str, data: dict[str, Any]) -> Subscription:
    """Decode a `SubscriptionData` object of a body."""
    return Subscription(
        topic=topic,
        expression_type=optional(short_text, data.get("expressionType")),
        expression=optional(text, data.get("subString")),
        tags=sorted(short_texts(data.get("tagsSet"))),
    )


class QueueStats(NamedTuple):
    """Range of a written queue; ``newest_stored_at`` is the store time of ``max_offset - 1``.

    A broker reports both offsets. They are None where the files of a store cannot be read.
    """

    min_offset: int | None
    max_offset: int | None
    newest_stored_at: datetime | None


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
    """Decode a 202 body by queue id; the body is about one topic.

    A snapshot needs thousands of these bodies. One pattern reads the form that brokers send. The
    parser reads every other form, and every body that the pattern cannot prove.

    Args:
        body: the body.
        topic: the requested topic.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: the body is not a 202 body, is about
            another topic, or lists a queue twice.
    """
    parts = _QUEUE.split(body)  # text before; per queue five values and the text after
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
    return parse_topic_stats(body, topic)


def parse_topic_stats(body: bytes, topic: str) -> dict[int, QueueStats]:
    """Decode a 202 body in any form through the parser; see `decode_topic_stats`."""
    stats = {}
    for key, value in object_of(object_of(loads(body))["offsetTable"]).items():
        queue = dict(key)
        if queue["topic"] != topic:
            raise ValueError(f"a response about topic {queue['topic']!r:.100}")
        queue_id = small(queue["queueId"])
        if queue_id in stats:
            raise ValueError(f"queue {queue_id} is listed twice")
        maximum = integer(value["maxOffset"])
        stored_at = instant(value.get("lastUpdateTimestamp")) if maximum > 0 else None
        stats[queue_id] = QueueStats(integer(value["minOffset"]), maximum, stored_at)
    return stats


MAX_LISTED = 20_000
"""Addresses that one name server lists at most, of all its clusters."""


@dataclass(slots=True, frozen=True, kw_only=True)
class BrokerGroup:
    """One broker group of 106: a master and its slaves.

    Attributes:
        broker: the name of the broker group.
        cluster: the cluster that the group reports it belongs to.
        addresses: ``host:port`` by broker id; 0 is the master.
        acting_master: whether its smallest id may act as master when 0 is gone (5.x).
    """

    broker: str
    cluster: str
    addresses: dict[int, str]
    acting_master: bool = False


@dataclass(slots=True, frozen=True)
class ClusterInfo:
    """All brokers that a name server lists; ``clusters`` maps a cluster to its broker names."""

    brokers: dict[str, BrokerGroup]
    clusters: dict[str, list[str]]

    def clusters_by_broker(self) -> dict[str, set[str]]:
        """Return the clusters of each broker name: more than one where two clusters share it.

        The addresses are those of whichever registered last.
        """
        values = {broker: {group.cluster} for broker, group in self.brokers.items()}
        for cluster, brokers in self.clusters.items():
            for broker in brokers:
                if broker in values:
                    values[broker].add(cluster)
        return values


def decode_broker_cluster_info(body: bytes) -> ClusterInfo:
    """Decode a 106 body."""
    mapping = object_of(loads(body))
    groups = object_of(mapping["brokerAddrTable"]).items()
    clusters = object_of(mapping["clusterAddrTable"]).items()
    info = ClusterInfo(
        {short_text(name): _broker_group(data) for name, data in groups},
        {short_text(name): short_texts(brokers) for name, brokers in clusters},
    )
    listed = sum(len(group.addresses) for group in info.brokers.values())
    named = sum(map(len, info.clusters.values()))
    for number, kind in ((listed, "broker addresses"), (named, "brokers of clusters")):
        if number > MAX_LISTED:
            raise ValueError(f"a list of {number} {kind} (limit {MAX_LISTED})")
    return info


def _broker_group(data: dict[str, Any]) -> BrokerGroup:
    addresses = {integer(int(number)): short_text(at) for number, at in data["brokerAddrs"].items()}
    acting = bool(data.get("enableActingMaster"))
    return BrokerGroup(
        broker=short_text(data["brokerName"]),
        cluster=short_text(data["cluster"]),
        addresses=addresses,
        acting_master=acting,
    )
