"""The responses of one broker address in one snapshot, its clock, and further requests.

A reader sends the bulk requests in order and fills a `BrokerReading`, which contains responses as
they arrived. A missing response was not requested or did not arrive;
`tidemark.rocketmq.snapshot.assembly` makes no row of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self, TypeVar

from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.admin.deep_requests import TimeSpan
from tidemark.rocketmq.admin.pop import (
    POP_SINCE,
    PULL,
    LiteTopic,
    RequestModes,
    is_popped,
    read_lite_topic,
    request_mode,
)
from tidemark.rocketmq.admin.responses import (
    MAX_QUEUES,
    MAX_QUEUES_OF_BROKER,
    ConsumerConnection,
    ConsumerOffsetTable,
    ConsumeStats,
    QueueStats,
    SubscriptionGroupConfig,
    TopicConfig,
)
from tidemark.rocketmq.names import (
    LMQ_PREFIX,
    OffsetKey,
    TopicKind,
    is_system_group,
    names_of_lite_topic,
    topic_kind,
    version_order,
)
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import RemotingError, RequestCode

NEVER_CONSUMES = "TIDEMARK_NEVER_CONSUMES"
"""A group that does not exist, to read the clock. Nothing is stored under the name."""

EVERYWHERE = "SELF_TEST_TOPIC"
"""A topic of one queue and no messages that every broker has (`TopicConfigManager`)."""

MILLISECOND = timedelta(milliseconds=1)


@dataclass(slots=True, frozen=True)
class BrokerClock:
    """The skew by which a broker's clock is ahead of ours.

    Attributes:
        skew_ms: milliseconds; negative where it is behind.
        error_ms: milliseconds that this may be off: half of the round trip.
    """

    skew_ms: int
    error_ms: int


async def measured_clock(client: RemotingClient, address: str) -> BrokerClock | None:
    """Return the skew of a broker's clock; None where the broker does not report it.

    No other part of a snapshot depends on it, so a failure is no problem of the snapshot.
    """
    try:
        spans, at, half = await timed_spans(client, address, NEVER_CONSUMES, EVERYWHERE)
    except RemotingError:
        return None
    now = next((span.broker_now for span in spans.values() if span.broker_now), None)
    return None if now is None else BrokerClock((now - at) // MILLISECOND, -(-half // MILLISECOND))


async def timed_spans(
    client: RemotingClient, address: str, group: str, topic: str
) -> tuple[dict[int, TimeSpan], datetime, timedelta]:
    """Send request 303 and note its time.

    Returns:
        The response by queue id, the middle of the time it took, and half of that time.
    """
    sent = datetime.now(UTC)
    spans = await admin.time_spans(client, address, group, topic)
    half = (datetime.now(UTC) - sent) / 2
    return spans, sent + half, half


PULL_OFFSET_SINCE = version_order("V5_1_0")
TOPIC_LIST_SINCE = version_order("V5_3_2")
UNKNOWN_VERSION = version_order(None)
UNKNOWN_QUEUE = QueueStats(None, None, None)

MAX_FORMER_QUEUES = 4_096
"""Queues of a broker that its topics no longer have, whose offsets are requested at most: two
requests each."""

MOST_NAMED = 20
"""Topics with too many queues that have a problem of their own."""

LITE_PERMISSION = 6
"""Every lite topic may be read and written."""


@dataclass(slots=True, kw_only=True)
class BrokerReading:
    """The responses of one broker address.

    Attributes:
        broker: name of the broker group.
        broker_id: 0 for a master, or the id of a slave.
        address: ``host:port``.
        is_master: whether offsets are read here. A slave's offsets trail by up to a minute, so a
            lag read there would be false.
        deployment: broker and cluster names, which are system topics.
        cluster: the cluster that it should name as its own (26): the requested one, else the
            cluster in which the name server lists it; None where neither is known.
        taken_by: another broker that the name server lists at this address, which then gets no
            request.
        reported_version: the version that its responses carried.
        runtime: the broker's counters (28).
        config: the configuration, allow-listed keys only (26).
        offsets: consumer offsets (43); those of a slave are used for its pull offsets only.
        topics: topic configurations (21).
        groups: consumer group configurations (201).
        request_modes: by topic and group, the way of handing out messages (402), 5.x.
        connections: by group, its online members (203); None for none.
        consume_stats: by group and topic (208).
        topic_stats: by topic (202), with queues that only 30 and 31 report; None for a topic
            deleted since 21 was read.
        clock: its clock compared with ours; masters only.
        oversized_topics: topics left out because they have too many queues, with their number.
        lite_topics: lite topics with progress (200076), by the name of their light queue.
        lite_topics_left_out: lite topics with progress beyond the limit of a snapshot.
    """

    broker: str
    broker_id: int
    address: str
    is_master: bool
    deployment: frozenset[str] = frozenset()
    cluster: str | None = None
    taken_by: str | None = None
    reported_version: str | None = None
    runtime: dict[str, str] | None = None
    config: dict[str, str] | None = None
    offsets: ConsumerOffsetTable | None = None
    topics: dict[str, TopicConfig] | None = None
    groups: dict[str, SubscriptionGroupConfig] | None = None
    request_modes: RequestModes = field(default_factory=dict)
    connections: dict[str, ConsumerConnection | None] = field(default_factory=dict)
    consume_stats: dict[tuple[str, str], dict[int, ConsumeStats]] = field(default_factory=dict)
    topic_stats: dict[str, dict[int, QueueStats] | None] = field(default_factory=dict)
    clock: BrokerClock | None = None
    oversized_topics: dict[str, int] = field(default_factory=dict)
    lite_topics: dict[str, LiteTopic] = field(default_factory=dict)
    lite_topics_left_out: int = 0

    @property
    def responded(self) -> bool:
        """Whether this address responded to any request."""
        responses = (self.runtime, self.config, self.offsets, self.topics, self.groups)
        return any(response is not None for response in responses)

    @property
    def version(self) -> str | None:
        """The broker's version; from any response where the counters (28) are absent."""
        return (self.runtime or {}).get("brokerVersionDesc") or self.reported_version

    def emptied(self) -> Self:
        """Return the same address as if it had not responded."""
        cls = type(self)
        master, deployment = self.is_master, self.deployment
        return cls(
            broker=self.broker,
            broker_id=self.broker_id,
            address=self.address,
            is_master=master,
            deployment=deployment,
            cluster=self.cluster,
        )

    def drop_offsets(self) -> None:
        """Forget the consumer offsets; that the broker responded stays known."""
        if self.offsets is not None:
            self.offsets = ConsumerOffsetTable({}, None)

    def invalid_offsets(self) -> Iterator[tuple[str, str]]:
        """Yield (operation, message) for numbers that are not measurements.

        Offsets below 0 are passed on as read. In the offset table -1 is the broker's own sign for a
        queue without progress. The offsets of static topics are unknown, which is no failure: a
        snapshot of a cluster that has one is complete.
        """
        oversized = sorted(self.oversized_topics.items())
        for topic, number in oversized[:MOST_NAMED]:
            yield RequestCode.GET_ALL_TOPIC_CONFIG.name, f"{topic} has {number} queues: left out"
        if (more := len(oversized) - MOST_NAMED) > 0:
            message = f"{more} more topics are left out: a broker has {MAX_QUEUES_OF_BROKER} queues"
            yield RequestCode.GET_ALL_TOPIC_CONFIG.name, f"{message} at most"
        if (former := len(self._former_queues()) - MAX_FORMER_QUEUES) > 0:
            message = f"{former} commits on queues that their topics no longer have: left out"
            yield RequestCode.GET_ALL_CONSUMER_OFFSET.name, message
        table = self.offsets.offsets if self.offsets else {}
        numbered = [
            f"{queue_id} of {key.consumer_group} on {key.topic}"
            for key, offsets in table.items()
            for queue_id in offsets
            if queue_id < 0
        ]
        if numbered:
            message = f"{len(numbered)} queue ids below 0, such as {numbered[0]}"
            yield RequestCode.GET_ALL_CONSUMER_OFFSET.name, message
        committed = [
            f"{offset} of {key.consumer_group} on {key.topic} queue {queue_id}"
            for key, offsets in table.items()
            if offsets and min(offsets.values()) < -1
            for queue_id, offset in offsets.items()
            if offset < -1
        ]
        written = [
            f"{queue.min_offset} to {queue.max_offset} of {topic} queue {queue_id}"
            for topic, queues in self.topic_stats.items()
            for queue_id, queue in (queues or {}).items()
            if (queue.min_offset or 0) < 0 or (queue.max_offset or 0) < 0
        ]
        for code, texts in (
            (RequestCode.GET_ALL_CONSUMER_OFFSET, committed),
            (RequestCode.GET_TOPIC_STATS_INFO, written),
        ):
            if texts:
                yield code.name, f"{len(texts)} offsets below 0, such as {texts[0]}"

    def known_groups(self) -> set[str]:
        """Return the groups with a configuration or progress here, without RocketMQ's own."""
        configured = set(self.groups or ())
        progressed = {key.consumer_group for key in self.offsets.offsets} if self.offsets else set()
        return {group for group in configured | progressed if not is_system_group(group)}

    def kind(self, topic: str) -> TopicKind:
        """Return the kind of a topic of this broker."""
        return topic_kind(
            topic,
            groups=self.groups or {},
            topics=self.topics or {},
            deployment=self.deployment,
        )

    def request_mode(self, topic: str, group: str) -> str | None:
        """Return how this broker was set to serve a group, see `tidemark.rocketmq.admin.pop`."""
        default = (self.config or {}).get("defaultMessageRequestMode", PULL)
        return request_mode(topic, group, self.request_modes, default)

    def pops(self, topic: str, group: str) -> bool:
        """Return whether a group consumes a topic by POP, which has no pull offset."""
        default = (self.config or {}).get("defaultMessageRequestMode", PULL)
        return (
            is_popped(topic, group, self.request_modes, default)
            or self.kind(topic) is TopicKind.POP_RETRY
        )

    def consumed_topics(self, group: str | None = None) -> set[str]:
        """Return the topics with progress or a subscription, of one group or of all."""
        keys = self.offsets.offsets if self.offsets else ()
        topics = {key.topic for key in keys if group is None or key.consumer_group == group}
        connections = self.connections.values() if group is None else [self.connections.get(group)]
        for connection in connections:
            topics |= connection.subscriptions.keys() if connection else set()
        return topics

    def static_topics(self) -> dict[str, tuple[int, ...]]:
        """Return static topics (5.x: queues mapped over several brokers) with their queues here."""
        topics = (self.topics or {}).items()
        return {topic: it.hosted for topic, it in topics if it.hosted is not None}

    def leave_out_oversized_topics(self) -> None:
        """Move topics with impossible numbers of queues from `topics` to `oversized_topics`.

        The smallest topics stay, up to `MAX_QUEUES_OF_BROKER` queues in all.
        """
        total = 0
        topics = self.topics or {}
        for topic in sorted(topics, key=lambda topic: (topics[topic].read_queues, topic)):
            number = max(topics[topic].read_queues, topics[topic].write_queues)
            total += max(0, number)
            if not 0 <= number <= MAX_QUEUES or total > MAX_QUEUES_OF_BROKER:
                self.oversized_topics[topic] = number
                del topics[topic]

    def lite_topics_to_measure(self, limit: int) -> list[str]:
        """Return the lite topics that a group has progress on, by the names of their light queues.

        Only progress names them, because no broker lists a light queue (`LmqTopicConfigManager`).
        Other light queues are left out; only requests that may write would measure them.

        Args:
            limit: most topics, the first by name; `lite_topics_left_out` counts the others.
        """
        table = self.offsets.offsets if self.offsets else {}
        topics = sorted({key.topic for key in table if names_of_lite_topic(key.topic)})
        self.lite_topics_left_out = max(0, len(topics) - limit)
        return topics[:limit]

    def add_lite_topic(self, topic: str, lite_topic: LiteTopic) -> None:
        """Add a lite topic, which is a topic of one queue to whatever reads the reading."""
        self.lite_topics[topic] = lite_topic
        self.topic_stats[topic] = {0: lite_topic.queue}
        if self.topics is not None:
            self.topics[topic] = TopicConfig(
                topic=topic,
                read_queues=1,
                write_queues=1,
                perm=LITE_PERMISSION,
                message_type="LITE",
            )

    def leave_static_unknown(self) -> None:
        """Record the queues of static topics with unknown offsets."""
        for topic, queues in self.static_topics().items():
            self.topic_stats[topic] = dict.fromkeys(queues, UNKNOWN_QUEUE)

    def topics_to_measure(self) -> list[str]:
        """Return the topics to measure: all but RocketMQ's own that no group consumes."""
        if self.topics is None:
            consumed = self.consumed_topics()
            return sorted(topic for topic in consumed if not topic.startswith(LMQ_PREFIX))
        normal = {topic for topic in self.topics if self.kind(topic) is not TopicKind.SYSTEM}
        known = normal | (self.consumed_topics() & self.topics.keys())
        return sorted(known - self.static_topics().keys())

    def queues_to_measure(self) -> Iterator[tuple[str, int]]:
        """Yield (topic, queue id) of queues of consumed topics that 202 leaves out.

        Before 5.0 the response lists only queues that producers write to; where a topic has lost
        write queues, the others may still hold messages. No version lists the queues that a topic
        had before it shrank: a commit on them is all that names them.
        """
        former: dict[str, set[int]] = {}
        for topic, number in self._former_queues()[:MAX_FORMER_QUEUES]:
            former.setdefault(topic, set()).add(number)
        for topic in sorted(self.consumed_topics()):
            config, stats = (self.topics or {}).get(topic), self.topic_stats.get(topic)
            if config and stats is not None:
                absent = {*config.queues, *former.get(topic, ())} - stats.keys()
                yield from ((topic, number) for number in sorted(absent))

    def _former_queues(self) -> list[tuple[str, int]]:
        """Return (topic, queue id), in order, of commits beyond the queues of their topics."""
        pairs: set[tuple[str, int]] = set()
        for key, offsets in (self.offsets.offsets if self.offsets else {}).items():
            config = (self.topics or {}).get(key.topic)
            if config and config.hosted is None:
                number = max(config.read_queues, config.write_queues)
                pairs |= {
                    (key.topic, offset) for offset in offsets if number <= offset < MAX_QUEUES
                }
        return sorted(pairs)

    def is_at_end(self, topic: str, queue_id: int, offset: int | None) -> bool:
        """Return whether an offset is the end of its queue: nothing lies beyond it.

        A queue without an offset is at its end where it holds no message.
        """
        queue = (self.topic_stats.get(topic) or {}).get(queue_id)
        if queue is None or queue.max_offset is None:
            return False
        return (queue.min_offset if offset is None else offset) == queue.max_offset

    def _is_at_end(self, topic: str, group: str) -> bool:
        """Return whether a group is at the end of all queues of a topic."""
        committed = self.offsets.offsets.get(OffsetKey(topic, group), {}) if self.offsets else {}
        queues = self.topic_stats.get(topic) or {}
        offsets = {queue_id: committed.get(queue_id, -1) for queue_id in queues}
        return bool(offsets) and all(
            self.is_at_end(topic, queue_id, None if offset == -1 else offset)
            for queue_id, offset in offsets.items()
        )

    def pull_offset_requests(self) -> list[tuple[str, list[str]]]:
        """Return (group, topics) whose pull offsets only GET_CONSUME_STATS (208) reports.

        There are none where the offset table has them (5.5.0) or the broker keeps none (before
        5.1); for broadcasting groups, whose clients each pull for themselves; for POP; and where
        the commit is at the end of every queue, so that no message is left to hand out. From 5.3.2
        on a request takes many topics, so a group has one entry; before, it has one per topic.
        """
        if self.offsets is None or self.offsets.pull_offsets is not None:
            return []
        version = version_order(self.version)
        if UNKNOWN_VERSION < version < PULL_OFFSET_SINCE:
            return []
        progressed: dict[str, set[str]] = {}
        for key in self.offsets.offsets:
            progressed.setdefault(key.consumer_group, set()).add(key.topic)
        requests: list[tuple[str, list[str]]] = []
        measured = None if self.topics is None else self.topics.keys() - self.static_topics().keys()
        for group, connection in sorted(self.connections.items()):
            if connection is None or connection.message_model == "BROADCASTING":
                continue
            topics = sorted(progressed.get(group, set()) | connection.subscriptions.keys())
            topics = [
                topic
                for topic in topics
                if (measured is None or topic in measured)
                and not self.pops(topic, group)
                and not topic.startswith(LMQ_PREFIX)
                and not self._is_at_end(topic, group)
            ]
            if version >= TOPIC_LIST_SINCE:
                requests += [(group, topics)] if topics else []
            else:
                requests += [(group, [topic]) for topic in topics]
        return requests


T = TypeVar("T")


@dataclass(slots=True, frozen=True, kw_only=True)
class BrokerReader:
    """Sends the requests to one broker and fills its reading; failures go to the problems."""

    client: RemotingClient
    reading: BrokerReading
    problems: Problems
    counters: bool = True
    max_lite_topics: int = 0

    async def read(self) -> None:
        """Send every request that does not depend on other brokers.

        Consumer offsets are read before queue offsets, so that lag is never negative by a race.
        Pull offsets that need a request of their own are read last, when most groups need none.
        """
        if self.reading.taken_by:
            return
        # Counters take a 5.x broker 0.2 s (it walks its timer wheel), so nothing waits for them.
        # The clock comes first, because a request behind large responses has a long round trip.
        await asyncio.gather(self._clock(), self._runtime(), self._state())

    async def _state(self) -> None:
        whole = [self._config()]
        if self.reading.is_master:
            whole = [self._offsets(), self._topics(), self._groups(), *whole]
        await asyncio.gather(*whole)
        self.reading.reported_version = self.client.version_of(self.reading.address)
        if not self.reading.is_master or not self.reading.responded:
            return
        known = self.reading.known_groups()
        await asyncio.gather(self._request_modes(), self.read_connections(known))
        await self._each(self.reading.topics_to_measure(), self._topic_stats)
        await self._each(list(self.reading.queues_to_measure()), self._queue_ends)
        await self._each(self.reading.pull_offset_requests(), self._consume_stats)
        lite_topics = self.reading.lite_topics_to_measure(self.max_lite_topics)
        await self._each(lite_topics, self._lite_topic)

    async def read_connections(self, groups: Iterable[str]) -> None:
        """Request the online members of these groups (203)."""
        await self._each(sorted(groups), self._connection)

    async def read_pulls(self, master: BrokerReading) -> None:
        """Request the pull offsets of a slave that clients may read from.

        The slave does not report them to the master, whose own pull offset does not move meanwhile.
        The consumer offsets of a slave are old and are not used.
        """
        if (self.reading.config or {}).get("slaveReadEnable") != "true":
            return
        if master.offsets and master.offsets.pull_offsets is not None:
            await self._offsets()
        await self._each(master.pull_offset_requests(), self._consume_stats)

    async def _each(self, items: Iterable[T], send: Callable[[T], Awaitable[None]]) -> None:
        """Send one request per item; a task each would take more memory than the responses."""
        if unsent := await self.client.paced(items, send):
            self.problems.add_unsent(self.reading.address, unsent)

    async def _clock(self) -> None:
        if self.reading.is_master:
            self.reading.clock = await measured_clock(self.client, self.reading.address)

    async def _runtime(self) -> None:
        if not self.counters:
            return
        with self.problems:
            self.reading.runtime = await admin.broker_runtime_info(
                self.client, self.reading.address
            )

    async def _config(self) -> None:
        with self.problems:
            self.reading.config = await admin.broker_config(self.client, self.reading.address)

    async def _offsets(self) -> None:
        with self.problems:
            self.reading.offsets = await admin.consumer_offsets(self.client, self.reading.address)

    async def _topics(self) -> None:
        with self.problems:
            self.reading.topics = await admin.topic_configs(self.client, self.reading.address)
            self.reading.leave_out_oversized_topics()
            self.reading.leave_static_unknown()

    async def _groups(self) -> None:
        with self.problems:
            self.reading.groups = await admin.subscription_groups(self.client, self.reading.address)

    async def _request_modes(self) -> None:
        if version_order(self.reading.version) < POP_SINCE:
            return
        with self.problems:
            modes = await admin.request_modes(self.client, self.reading.address)
            self.reading.request_modes = modes or {}

    async def _connection(self, group: str) -> None:
        with self.problems:
            self.reading.connections[group] = await admin.consumer_connection(
                self.client, self.reading.address, group
            )

    async def _consume_stats(self, subject: tuple[str, list[str]]) -> None:
        group, topics = subject
        with self.problems:
            consume_stats = await admin.consume_stats(
                self.client, self.reading.address, group, topics
            )
            self.reading.consume_stats |= {
                (group, topic): it for topic, it in consume_stats.items()
            }

    async def _topic_stats(self, topic: str) -> None:
        with self.problems:
            self.reading.topic_stats[topic] = await admin.topic_stats(
                self.client, self.reading.address, topic
            )

    async def _lite_topic(self, topic: str) -> None:
        with self.problems:
            lite_topic = await read_lite_topic(self.client, self.reading.address, topic)
            if lite_topic is not None:
                self.reading.add_lite_topic(topic, lite_topic)

    async def _queue_ends(self, queue: tuple[str, int]) -> None:
        topic, queue_id = queue
        with self.problems:
            first = await admin.min_offset(self.client, self.reading.address, topic, queue_id)
            end = await admin.max_offset(self.client, self.reading.address, topic, queue_id)
            stats = self.reading.topic_stats[topic]
            config = (self.reading.topics or {}).get(topic)
            # A commit on a queue that never was names it too: its end is 0.
            is_queue = end > 0 or config is None or queue_id in config.queues
            if stats is not None and is_queue:
                # -1 where nothing was ever written: 202 reports 0 for such a queue.
                stats[queue_id] = QueueStats(0 if first == -1 else first, end, None)
