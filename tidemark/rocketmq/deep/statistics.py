"""A broker's own counters (315), of every replica: a slave counts the messages it hands out.

A counter that does not exist has counted nothing since the broker's start, which is a row of zeros.
A missing row means that no request was sent, or that the broker did not respond.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from tidemark.rocketmq.admin import deep_requests
from tidemark.rocketmq.admin.deep_requests import WINDOWS, Stats
from tidemark.rocketmq.admin.pop import POP_SINCE
from tidemark.rocketmq.deep.store_times import chosen
from tidemark.rocketmq.names import (
    POP_COUNTERS,
    StatsName,
    TopicKind,
    is_system_group,
    version_order,
)
from tidemark.rocketmq.records import BrokerStats, Snapshot
from tidemark.rocketmq.snapshot.broker_reading import BrokerReading
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.wire.client import RemotingClient

TOPIC_STATS = (StatsName.WRITTEN, "TOPIC_PUT_SIZE")
GROUP_STATS = (StatsName.SERVED, "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS")
LATENCY = "GROUP_GET_LATENCY"

AT_ONCE = 16
"""Requests under way at one address; each reads the broker's memory only."""

OF_COUNTS = 90
"""Percent of the limit without topics that counts of groups may take; latencies get the rest."""

NO_COUNTS = dict.fromkeys(WINDOWS, Stats(0, 0.0, 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """One counter: its name, its key, its topic and group."""

    name: str
    key: str
    topic: str
    consumer_group: str | None = None


@dataclass(slots=True, frozen=True)
class CounterSubjects:
    """The topics, queues and groups that the counters of one broker are about.

    Attributes:
        queues: by topic, its queue ids; RocketMQ's own topics left out.
        pairs: (topic, consumer group), consumed or subscribed to; RocketMQ's own groups left out.
    """

    queues: dict[str, list[int]]
    pairs: list[tuple[str, str]]

    @classmethod
    def of(cls, snapshot: Snapshot, master: BrokerReading) -> "CounterSubjects":
        """Return the subjects of the counters on the replicas of a master."""
        queues = {
            topic: sorted(stats)
            for topic, stats in sorted(master.topic_stats.items())
            # Brokers count messages of a lite topic at the topic that it belongs to.
            if stats is not None and master.kind(topic) not in (TopicKind.SYSTEM, TopicKind.LMQ)
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

    def counters(
        self, version: str | None, pairs: Iterable[tuple[str, str]] | None = None
    ) -> Iterator[Counter]:
        """Yield every counter but latencies; those of POP from 5.0 on.

        Args:
            version: of the broker.
            pairs: those to count; None for all.
        """
        names = names_of_pairs(version)
        for topic in self.queues:
            for name in TOPIC_STATS:
                yield Counter(name=name, key=topic, topic=topic)
        for topic, group in self.pairs if pairs is None else pairs:
            for name in names:
                yield Counter(name=name, key=f"{topic}@{group}", topic=topic, consumer_group=group)

    def latencies(self, served: set[str], by_queue: bool) -> Iterator[Counter]:
        """Yield latency counters of served pairs; by queue where the broker counts by queue."""
        for topic, group in self.pairs:
            pair = f"{topic}@{group}"
            if pair not in served:
                continue
            for key in [f"{queue}@{pair}" for queue in self.queues[topic]] if by_queue else [pair]:
                yield Counter(name=LATENCY, key=key, topic=topic, consumer_group=group)


def names_of_pairs(version: str | None) -> tuple[str, ...]:
    """Return the counters that a broker has of a group on a topic, but latencies."""
    return GROUP_STATS + (POP_COUNTERS if version_order(version) >= POP_SINCE else ())


@dataclass(slots=True, kw_only=True)
class StatsReader:
    """Reads the counters of one address.

    Attributes:
        limit: requests at most: topics come first, then groups with the largest lag, then
            latencies.
        lags: unconsumed messages by (topic, consumer group).
        turn: number of the deep snapshot, see `chosen`.
        left_out: counters that the limit left out, counted by `read`.
        rows: the counters, filled by `read`.
    """

    client: RemotingClient
    problems: Problems
    reading: BrokerReading
    limit: int
    lags: Mapping[tuple[str, str], int] = field(default_factory=dict)
    turn: int = 0
    left_out: int = 0
    rows: list[BrokerStats] = field(default_factory=list)
    _served: set[str] = field(default_factory=set)

    async def read(self, subjects: CounterSubjects) -> None:
        """Read every counter, then the latencies of the pairs that were served."""
        by_queue = (self.reading.config or {}).get("enableDetailStat") != "false"
        version = self.reading.version
        names = len(names_of_pairs(version))
        room = self.limit - len(subjects.queues) * len(TOPIC_STATS)
        ranked = sorted(subjects.pairs, key=lambda pair: (-self.lags.get(pair, 0), pair))
        if len(ranked) * names > room:
            room = room * OF_COUNTS // 100
        pairs = chosen(ranked, max(0, room // names), self.turn, key=tuple)
        self.left_out += (len(ranked) - len(pairs)) * names
        await self._read_all(list(subjects.counters(version, pairs)))
        await self._read_all(list(subjects.latencies(self._served, by_queue)))

    async def _read_all(self, counters: Sequence[Counter]) -> None:
        requests = chosen(counters, self.limit, self.turn, key=attrgetter("name", "key"))
        self.limit -= len(requests)
        self.left_out += len(counters) - len(requests)
        await self.client.paced(requests, self._read_counter, AT_ONCE)

    async def _read_counter(self, counter: Counter) -> None:
        with self.problems:
            broker_stats = await deep_requests.broker_stats(
                self.client, self.reading.address, counter.name, counter.key
            )
            if counter.name == StatsName.SERVED and broker_stats:
                self._served.add(counter.key)
            self.rows += [
                self._row(counter, *entry) for entry in (broker_stats or NO_COUNTS).items()
            ]

    def _row(self, counter: Counter, window: str, stats: Stats) -> BrokerStats:
        return BrokerStats(
            broker=self.reading.broker,
            broker_id=self.reading.broker_id,
            stats_name=counter.name,
            stats_key=counter.key,
            topic=counter.topic,
            consumer_group=counter.consumer_group,
            stats_window=window,
            sum=stats.sum,
            tps=stats.tps,
            avgpt=stats.avgpt,
        )
