"""What one broker said during one look, and the asking of it.

A `Reading` holds answers as they came; what is absent from it was not asked or not answered, and
`rocketmq.assembly` makes no row of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self, TypeVar

from rocketmq import admin
from rocketmq.answers import (
    ConsumerConnection,
    ConsumerOffsetTable,
    ConsumeStats,
    QueueStats,
    SubscriptionGroupConfig,
    TopicConfig,
)
from rocketmq.client import RemotingClient
from rocketmq.codes import RequestCode
from rocketmq.names import TopicKind, is_system_group, topic_kind, version_order
from rocketmq.pacing import paced
from rocketmq.pop import POP_SINCE, PULL, RequestModes, is_popped
from rocketmq.problems import Problems

T = TypeVar("T")

PULL_OFFSET_SINCE = version_order("V5_1_0")
TOPIC_LIST_SINCE = version_order("V5_3_2")
UNKNOWN_VERSION = version_order(None)
UNKNOWN_QUEUE = QueueStats(None, None, None)


@dataclass(slots=True)
class Reading:
    """The answers of one broker address.

    Attributes:
        broker: name of the broker group.
        broker_id: 0 for a master, or what a slave was given.
        address: ``host:port``.
        is_master: whether offsets are read here. A slave's offsets trail by up to a minute, so a
            lag read there would be false.
        deployment: broker and cluster names, which are system topics.
        taken_by: the broker that the name server lists at this address, where it is another: there
            is nothing to ask then.
        told_version: the version that its answers carried.
        runtime: the broker's counters (28).
        config: its configuration, allow-listed keys only (26).
        offsets: consumer offsets (43); of a slave for its pull offsets only.
        topics: topic configurations (21).
        groups: consumer group configurations (201).
        request_modes: by topic and group, how messages are handed out (402), 5.x.
        connections: by group, who is online (203); None for nobody.
        consume_stats: by group and topic (208).
        topic_stats: by topic (202), with queues that only 30 and 31 tell of; None for a topic
            deleted since 21 was read.
    """

    broker: str
    broker_id: int
    address: str
    is_master: bool
    deployment: frozenset[str] = frozenset()
    taken_by: str | None = None
    told_version: str | None = None
    runtime: dict[str, str] | None = None
    config: dict[str, str] | None = None
    offsets: ConsumerOffsetTable | None = None
    topics: dict[str, TopicConfig] | None = None
    groups: dict[str, SubscriptionGroupConfig] | None = None
    request_modes: RequestModes = field(default_factory=dict)
    connections: dict[str, ConsumerConnection | None] = field(default_factory=dict)
    consume_stats: dict[tuple[str, str], dict[int, ConsumeStats]] = field(default_factory=dict)
    topic_stats: dict[str, dict[int, QueueStats] | None] = field(default_factory=dict)

    @property
    def answered(self) -> bool:
        """Whether this address answered anything."""
        answers = (self.runtime, self.config, self.offsets, self.topics, self.groups)
        return any(answer is not None for answer in answers)

    @property
    def version(self) -> str | None:
        """The broker's version, also where its counters were not asked for or not told."""
        return (self.runtime or {}).get("brokerVersionDesc") or self.told_version

    def emptied(self) -> Self:
        """The same address as if it had not answered."""
        cls = type(self)
        return cls(self.broker, self.broker_id, self.address, self.is_master, self.deployment)

    def impossible(self) -> Iterator[tuple[str, str]]:
        """(operation, message) about what is no measurement.

        Offsets below 0 are passed on as they were read; in the offset table -1 is the broker's own
        sign for a queue without progress. Of static topics nothing is known.
        """
        for topic in sorted(self.static_topics()):
            message = "a static topic: its offsets are those of queues it is mapped to, not its own"
            yield f"{RequestCode.GET_TOPIC_STATS_INFO.name} {topic}", message
        table = self.offsets.offsets if self.offsets else {}
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
        for code, found in (
            (RequestCode.GET_ALL_CONSUMER_OFFSET, committed),
            (RequestCode.GET_TOPIC_STATS_INFO, written),
        ):
            if found:
                yield code.name, f"{len(found)} offsets below 0, such as {found[0]}"

    def known_groups(self) -> set[str]:
        """Groups with a configuration or with progress here, RocketMQ's own left out."""
        configured = set(self.groups or ())
        progressed = {key.consumer_group for key in self.offsets.offsets} if self.offsets else set()
        return {group for group in configured | progressed if not is_system_group(group)}

    def kind(self, topic: str) -> TopicKind:
        """What a topic of this broker is for."""
        return topic_kind(
            topic,
            groups=self.groups or {},
            topics=self.topics or {},
            deployment=self.deployment,
        )

    def pops(self, topic: str, group: str) -> bool:
        """Whether a group is handed messages of a topic one by one, without a pull offset."""
        default = (self.config or {}).get("defaultMessageRequestMode", PULL)
        return (
            is_popped(topic, group, self.request_modes, default)
            or self.kind(topic) is TopicKind.POP_RETRY
        )

    def consumed_topics(self, group: str | None = None) -> set[str]:
        """Topics with progress or a subscription, of one group or of all."""
        keys = self.offsets.offsets if self.offsets else ()
        topics = {key.topic for key in keys if group is None or key.consumer_group == group}
        connections = self.connections.values() if group is None else [self.connections.get(group)]
        for connection in connections:
            topics |= connection.subscriptions.keys() if connection else set()
        return topics

    def static_topics(self) -> dict[str, tuple[int, ...]]:
        """Topics whose queues are mapped to others, on several brokers (5.x); their queues here."""
        topics = (self.topics or {}).items()
        return {topic: it.hosted for topic, it in topics if it.hosted is not None}

    def leave_static_unknown(self) -> None:
        """Take the queues of static topics for there and their offsets for not known."""
        for topic, queues in self.static_topics().items():
            self.topic_stats[topic] = dict.fromkeys(queues, UNKNOWN_QUEUE)

    def topics_to_measure(self) -> list[str]:
        """Topics whose queues are read: all but RocketMQ's own, and of those what is consumed."""
        if self.topics is None:
            return sorted(self.consumed_topics())
        normal = {topic for topic in self.topics if self.kind(topic) is not TopicKind.SYSTEM}
        known = normal | (self.consumed_topics() & self.topics.keys())
        return sorted(known - self.static_topics().keys())

    def queues_to_measure(self) -> Iterator[tuple[str, int]]:
        """(topic, queue id) that can be read on consumed topics, and that 202 left out.

        Before 5.0 it tells only of queues that are written: those of a topic that was given fewer
        may hold messages still.
        """
        for topic in sorted(self.consumed_topics()):
            config, told = (self.topics or {}).get(topic), self.topic_stats.get(topic)
            if config and told is not None:
                untold = (number for number in config.queues if number not in told)
                yield from ((topic, number) for number in untold)

    def pulls_to_ask(self) -> list[tuple[str, list[str]]]:
        """(group, topics) whose pull offsets only GET_CONSUME_STATS (208) can tell.

        Nothing where the offset table told them already (5.5) or the broker has none (before 5.1);
        nothing for broadcasting groups, whose clients each pull for themselves, and of what is
        popped. One entry per group from 5.3.2 on, where a request takes many topics; before that
        one per topic.
        """
        if self.offsets is None or self.offsets.pull_offsets is not None:
            return []
        version = version_order(self.version)
        if UNKNOWN_VERSION < version < PULL_OFFSET_SINCE:
            return []
        progressed: dict[str, set[str]] = {}
        for key in self.offsets.offsets:
            progressed.setdefault(key.consumer_group, set()).add(key.topic)
        asked: list[tuple[str, list[str]]] = []
        measured = None if self.topics is None else self.topics.keys() - self.static_topics().keys()
        for group, connection in sorted(self.connections.items()):
            if connection is None or connection.message_model == "BROADCASTING":
                continue
            topics = sorted(progressed.get(group, set()) | connection.subscriptions.keys())
            topics = [
                topic
                for topic in topics
                if (measured is None or topic in measured) and not self.pops(topic, group)
            ]
            if version >= TOPIC_LIST_SINCE:
                asked += [(group, topics)] if topics else []
            else:
                asked += [(group, [topic]) for topic in topics]
        return asked


@dataclass(slots=True, frozen=True)
class Reader:
    """Asks one broker and fills its reading; failures go to the problems."""

    client: RemotingClient
    reading: Reading
    problems: Problems
    counters: bool = True

    async def read(self) -> None:
        """Ask everything that does not depend on other brokers.

        Consumer offsets come first and queue offsets last, so that a lag is never negative by race;
        pull offsets lie between, so that they are never behind the one or ahead of the other.
        """
        if self.reading.taken_by:
            return
        # Its counters take a 5.x broker 0.2 s (it counts through its timer wheel): nothing waits.
        await asyncio.gather(self._runtime(), self._state())

    async def _state(self) -> None:
        whole = [self._config()]
        if self.reading.is_master:
            whole = [self._offsets(), self._topics(), self._groups(), *whole]
        await asyncio.gather(*whole)
        self.reading.told_version = self.client.version_of(self.reading.address)
        if not self.reading.is_master:
            return
        known = self.reading.known_groups()
        await asyncio.gather(self._request_modes(), self.read_connections(known))
        await self._each(self.reading.pulls_to_ask(), self._consume_stats)
        await self._each(self.reading.topics_to_measure(), self._topic_stats)
        await self._each(list(self.reading.queues_to_measure()), self._queue_ends)

    async def read_connections(self, groups: Iterable[str]) -> None:
        """Ask who of these groups is online here."""
        await self._each(sorted(groups), self._connection)

    async def read_pulls(self, master: Reading) -> None:
        """Ask a slave that clients may read from how far it has handed messages out.

        The master does not hear of that: its own pull offset stands still meanwhile. Consumer
        offsets of a slave are old, and nothing is taken of them.
        """
        if (self.reading.config or {}).get("slaveReadEnable") != "true":
            return
        if master.offsets and master.offsets.pull_offsets is not None:
            await self._offsets()
        await self._each(master.pulls_to_ask(), self._consume_stats)

    async def _each(self, items: Iterable[T], ask: Callable[[T], Awaitable[None]]) -> None:
        """Ask for each; a task for every one of thousands would take more memory than answers."""
        await paced(items, ask, self.client.in_flight)

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
            self.reading.leave_static_unknown()

    async def _groups(self) -> None:
        with self.problems:
            self.reading.groups = await admin.subscription_groups(self.client, self.reading.address)

    async def _request_modes(self) -> None:
        if version_order(self.reading.version) < POP_SINCE:
            return
        with self.problems:
            found = await admin.request_modes(self.client, self.reading.address)
            self.reading.request_modes = found or {}

    async def _connection(self, group: str) -> None:
        with self.problems:
            self.reading.connections[group] = await admin.consumer_connection(
                self.client, self.reading.address, group
            )

    async def _consume_stats(self, asked: tuple[str, list[str]]) -> None:
        group, topics = asked
        with self.problems:
            found = await admin.consume_stats(self.client, self.reading.address, group, topics)
            self.reading.consume_stats |= {(group, topic): it for topic, it in found.items()}

    async def _topic_stats(self, topic: str) -> None:
        with self.problems:
            self.reading.topic_stats[topic] = await admin.topic_stats(
                self.client, self.reading.address, topic
            )

    async def _queue_ends(self, queue: tuple[str, int]) -> None:
        topic, queue_id = queue
        with self.problems:
            first = await admin.min_offset(self.client, self.reading.address, topic, queue_id)
            end = await admin.max_offset(self.client, self.reading.address, topic, queue_id)
            told = self.reading.topic_stats[topic]
            if told is not None:
                # -1 where nothing was ever written: 202 says 0 of such a queue.
                told[queue_id] = QueueStats(0 if first == -1 else first, end, None)
