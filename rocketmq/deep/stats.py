"""A broker's own counters (315), of every replica: what a slave hands out is counted there.

A counter that does not exist has counted nothing since the broker's start: that is a row of zeros,
while no row at all says that nobody asked or that the broker did not answer.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from rocketmq import admin
from rocketmq.client import RemotingClient
from rocketmq.deep_answers import WINDOWS, Stats
from rocketmq.names import TopicKind, is_system_group, version_order
from rocketmq.pacing import paced
from rocketmq.pop import POP_SINCE
from rocketmq.problems import Problems
from rocketmq.reading import Reading
from rocketmq.rows import BrokerStats, Snapshot

TOPIC_STATS = ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE")
SERVED = "GROUP_GET_NUMS"
GROUP_STATS = (SERVED, "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS")
POP_STATS = ("GROUP_ACK_NUMS", "GROUP_CK_NUMS")
LATENCY = "GROUP_GET_LATENCY"

AT_ONCE = 16
"""Counters asked for at once at one address; each is a look into the broker's memory."""

NOTHING = dict.fromkeys(WINDOWS, Stats(0, 0.0, 0.0))


class Counter(NamedTuple):
    """One counter: its name, its key, and what it is about."""

    name: str
    key: str
    topic: str
    consumer_group: str | None = None


@dataclass(slots=True, frozen=True)
class Counted:
    """What the counters of one broker can be about.

    Attributes:
        queues: by topic, its queue ids; RocketMQ's own topics left out.
        pairs: (topic, consumer group), consumed or subscribed to; RocketMQ's own groups left out.
    """

    queues: dict[str, list[int]]
    pairs: list[tuple[str, str]]

    @classmethod
    def of(cls, snapshot: Snapshot, master: Reading) -> "Counted":
        """What there is to count on the replicas of a master."""
        queues = {
            topic: sorted(stats)
            for topic, stats in sorted(master.topic_stats.items())
            if stats is not None and master.kind(topic) is not TopicKind.SYSTEM
        }
        pairs = {
            (row.topic, row.consumer_group)
            for row in snapshot.consumer_offsets
            if row.broker == master.broker
        } | {
            (subscription.topic, client.consumer_group)
            for client in snapshot.clients
            for subscription in client.subscriptions
        }
        known = [
            pair for pair in sorted(pairs) if pair[0] in queues and not is_system_group(pair[1])
        ]
        return cls(queues, known)

    def counters(self, version: str | None) -> Iterator[Counter]:
        """Every counter but latencies; those of POP from 5.0 on."""
        names = GROUP_STATS
        if version_order(version) >= POP_SINCE:
            names += POP_STATS
        for topic in self.queues:
            for name in TOPIC_STATS:
                yield Counter(name, topic, topic)
        for topic, group in self.pairs:
            for name in names:
                yield Counter(name, f"{topic}@{group}", topic, group)

    def latencies(self, served: set[str], by_queue: bool) -> Iterator[Counter]:
        """Latencies of what was served at all; where it is broken down, of each queue."""
        for topic, group in self.pairs:
            pair = f"{topic}@{group}"
            if pair not in served:
                continue
            for key in [f"{queue}@{pair}" for queue in self.queues[topic]] if by_queue else [pair]:
                yield Counter(LATENCY, key, topic, group)


@dataclass(slots=True)
class StatsReader:
    """Asks one address for its counters.

    Attributes:
        limit: requests at most: topics come first, then groups, then latencies.
        rows: what was found, filled by `read`.
    """

    client: RemotingClient
    problems: Problems
    reading: Reading
    limit: int
    rows: list[BrokerStats] = field(default_factory=list)
    _served: set[str] = field(default_factory=set)

    async def read(self, counted: Counted) -> None:
        """Ask for every counter, then for the latencies of what was served."""
        by_queue = (self.reading.config or {}).get("enableDetailStat") != "false"
        await self._ask_all(counted.counters(self.reading.version))
        await self._ask_all(counted.latencies(self._served, by_queue))

    async def _ask_all(self, counters: Iterable[Counter]) -> None:
        chosen = list(islice(counters, self.limit))
        self.limit -= len(chosen)
        await paced(chosen, self._ask, AT_ONCE)

    async def _ask(self, counter: Counter) -> None:
        with self.problems:
            found = await admin.broker_stats(
                self.client, self.reading.address, counter.name, counter.key
            )
            if counter.name == SERVED and found:
                self._served.add(counter.key)
            self.rows += [self._row(counter, *entry) for entry in (found or NOTHING).items()]

    def _row(self, counter: Counter, window: str, stats: Stats) -> BrokerStats:
        return BrokerStats(
            self.reading.broker,
            self.reading.broker_id,
            counter.name,
            counter.key,
            counter.topic,
            counter.consumer_group,
            window,
            stats.sum,
            stats.tps,
            stats.avgpt,
        )
