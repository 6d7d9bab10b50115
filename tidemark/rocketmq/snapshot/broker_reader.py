"""Read one broker address: send its bulk requests in order and fill its reading."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.admin.pop import POP_SINCE, read_lite_topic
from tidemark.rocketmq.admin.queue_stats import QueueStats
from tidemark.rocketmq.names import version_order
from tidemark.rocketmq.snapshot.broker_reading import BrokerReading, measured_clock
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.wire.client import RemotingClient

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
