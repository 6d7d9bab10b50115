"""The deep part of a snapshot, added after its bulk part: order, limits and merging."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.admin.pop import LITE_SINCE, read_lite_numbers
from tidemark.rocketmq.deep.broker_metrics import read_broker_metrics
from tidemark.rocketmq.deep.client_reports import (
    ClientReader,
    GroupLags,
    broadcast_rows,
    fill_pull_offsets,
    popping_groups,
    reporting_groups,
)
from tidemark.rocketmq.deep.offsets import (
    ConsumeStatsReader,
    pairs,
    read_ends_again,
    read_slave_offsets,
)
from tidemark.rocketmq.deep.statistics import CounterSubjects, StatsReader
from tidemark.rocketmq.deep.store_times import (
    MasterReader,
    StoreTimeReader,
    TagReader,
    Unconsumed,
    filtered_ranges,
    lags_by_pair,
    unconsumed,
)
from tidemark.rocketmq.names import version_order
from tidemark.rocketmq.records import LeftOut, Snapshot
from tidemark.rocketmq.snapshot.broker_reading import BrokerReading
from tidemark.rocketmq.snapshot.online import Online, homes
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.snapshot.target import DeepOptions
from tidemark.rocketmq.wire.client import RemotingClient

R = TypeVar("R", bound=MasterReader)

MOST_PRODUCERS = 1_000
"""Producers of a broker that a snapshot names at most; it counts all."""

ORDER = {
    "consumer_offsets": ("broker", "consumer_group", "topic", "queue_id"),
    "client_queues": ("consumer_group", "client_id", "topic", "broker", "queue_id"),
    "client_topics": ("consumer_group", "client_id", "topic"),
    "broker_stats": ("broker", "broker_id", "stats_name", "stats_key"),
    "queue_tags": ("broker", "topic", "queue_id", "position"),
    "consume_stats": ("broker", "consumer_group", "topic", "queue_id"),
    "broker_metrics": ("broker", "consumer_group", "topic"),
    "topic_metrics": ("broker", "topic"),
}
"""The sort key of each table, because responses arrive in any order."""


async def read_deep(
    client: RemotingClient,
    snapshot: Snapshot,
    readings: Iterable[BrokerReading],
    options: DeepOptions,
    problems: Problems,
    online: Online,
) -> None:
    """Fill the tables `records.DEEP` and the columns that only single requests can fill.

    Store times are requested first and alone. Progress has hardly moved then, and no other request
    delays responses that are compared with a clock.

    Args:
        client: the transport; it must allow requests to clients if the options include them.
        snapshot: already filled with its bulk part.
        readings: the readings that the bulk part was filled from.
        options: limits.
        problems: receives failed requests.
        online: the online members at any broker.
    """
    responded = [reading for reading in readings if reading.responded]
    masters = {reading.broker: reading for reading in responded if reading.is_master}
    deep = _DeepSnapshot(
        client=client, snapshot=snapshot, masters=masters, options=options, problems=problems
    )
    behind = list(unconsumed(snapshot))
    times = await deep.read_store_times(behind, online)
    stats = deep.stats_readers(responded, lags_by_pair(behind))
    tags = deep.of_each(TagReader, options.max_tag_requests)
    samples = deep.of_each(ConsumeStatsReader, options.max_consume_stats)
    parts = [
        *(
            stats_reader.read(CounterSubjects.of(snapshot, masters[stats_reader.reading.broker]))
            for stats_reader in stats
        ),
        *(
            tag_reader.read(
                filtered_ranges(snapshot, behind, tag_reader.broker), options.tag_sample_size
            )
            for tag_reader in tags
        ),
        *(
            consume_stats_reader.read(pairs(snapshot, consume_stats_reader.broker))
            for consume_stats_reader in samples
        ),
    ]
    if options.broker_metrics:
        parts.append(deep.add_broker_metrics())
    parts += [deep.add_producers(), deep.add_lite_numbers()]
    slaves = [it for it in responded if not it.is_master and it.broker in masters]
    addresses = [slave.address for slave in slaves]
    parts.append(read_slave_offsets(client, problems, snapshot, addresses))
    clients = None
    if options.client_reports:
        clients = deep.client_reader(online)
        groups = reporting_groups(
            GroupLags.of(behind),
            options.groups,
            options.priority_groups,
            popping_groups(snapshot),
        )
        parts.append(clients.read(groups))
    await asyncio.gather(*parts)
    await deep.merge_client_reports(clients)
    left_out = [
        *(("clients", None, clients.left_out) for clients in [clients] if clients),
        *(("counters", reader.reading.address, reader.left_out) for reader in stats),
        *(("tags", reader.address, reader.left_out) for reader in tags),
        *(("store_times", reader.address, reader.left_out) for reader in times),
    ]
    snapshot.left_out += [LeftOut(*item) for item in left_out if item[2]]
    snapshot.broker_stats = [row for reader in stats for row in reader.rows]
    snapshot.queue_tags = [row for reader in tags for row in reader.rows]
    snapshot.consume_stats = [row for reader in samples for row in reader.rows]
    for table, names in ORDER.items():
        getattr(snapshot, table).sort(key=attrgetter(*names))


@dataclass(frozen=True, kw_only=True)
class _DeepSnapshot:
    """Client, snapshot and options that all readers of one deep snapshot share.

    Attributes:
        client: the transport.
        snapshot: the snapshot that is filled.
        masters: the masters that responded, by broker.
        options: limits.
        problems: where failures go.
    """

    client: RemotingClient
    snapshot: Snapshot
    masters: dict[str, BrokerReading]
    options: DeepOptions
    problems: Problems

    def of_each(self, kind: type[R], limit: int) -> list[R]:
        """Return a reader of each master."""
        turn = self.options.turn
        return [
            kind(
                client=self.client,
                problems=self.problems,
                broker=broker,
                address=master.address,
                limit=limit,
                turn=turn,
            )
            for broker, master in self.masters.items()
        ]

    async def read_store_times(
        self, behind: Sequence[Unconsumed], online: Online
    ) -> list[StoreTimeReader]:
        """Read the store times of first unconsumed messages; return their readers."""
        readers = self.of_each(StoreTimeReader, self.options.max_store_times)
        for reader in readers:
            clock = self.masters[reader.broker].clock
            reader.set_clock(clock.skew_ms if clock else None)
        await asyncio.gather(*(reader.read(behind, online) for reader in readers))
        return readers

    def stats_readers(
        self, responded: Iterable[BrokerReading], lags: Mapping[str, Mapping[tuple[str, str], int]]
    ) -> list[StatsReader]:
        """Return a reader of counters for each replica of a master that responded."""
        return [
            StatsReader(
                client=self.client,
                problems=self.problems,
                reading=reading,
                limit=self.options.max_stats,
                lags=lags.get(reading.broker, {}),
                turn=self.options.turn,
            )
            for reading in responded
            if reading.broker in self.masters
        ]

    async def add_broker_metrics(self) -> None:
        """Read the metrics endpoints of the masters into the snapshot."""
        metrics = await read_broker_metrics(self.client, self.masters.values(), self.problems)
        self.snapshot.broker_metrics = metrics.groups
        self.snapshot.topic_metrics = metrics.topics
        for row in self.snapshot.brokers:
            master = self.masters.get(row.broker)
            sends = metrics.sends.get(row.broker)
            if master and row.address == master.address and sends:
                row.sends_refused, row.sends_failed = sends.refused, sends.failed

    async def add_producers(self) -> None:
        """Read the producers that are connected to the masters into the rows of brokers."""
        rows = {row.address: row for row in self.snapshot.brokers}

        async def read(address: str) -> None:
            with self.problems:
                producers = await admin.producers(self.client, address)
                if producers is not None:
                    rows[address].producers_online = len(producers)
                    rows[address].producers = producers[:MOST_PRODUCERS]

        await asyncio.gather(*(read(master.address) for master in self.masters.values()))

    async def add_lite_numbers(self) -> None:
        """Read what masters hold for lite topics into the rows of brokers."""
        rows = {row.address: row for row in self.snapshot.brokers}

        async def read(address: str) -> None:
            with self.problems:
                numbers = await read_lite_numbers(self.client, address)
                if numbers is not None:
                    rows[address].light_queues = numbers.light_queues
                    rows[address].light_queue_limit = numbers.limit
                    rows[address].lite_subscriptions = numbers.subscriptions

        masters = [it for it in self.masters.values() if version_order(it.version) >= LITE_SINCE]
        await asyncio.gather(*(read(master.address) for master in masters))

    def client_reader(self, online: Online) -> ClientReader:
        """Return the reader of reports, which brokers forward to their members."""
        addresses = {
            member: self.masters[broker].address
            for member, broker in homes(online, self.masters).items()
        }
        return ClientReader(
            client=self.client,
            problems=self.problems,
            snapshot=self.snapshot,
            limit=self.options.max_clients,
            addresses=addresses,
            turn=self.options.turn,
        )

    async def merge_client_reports(self, clients: ClientReader | None) -> None:
        """Fill offsets that only clients report, and read ends of queues that they are beyond."""
        if clients:
            rows = broadcast_rows(self.snapshot, clients.broadcast_reports)
            self.snapshot.consumer_offsets += rows
            fill_pull_offsets(self.snapshot, clients.pull_offsets)
        await asyncio.gather(
            *(
                read_ends_again(self.client, self.problems, self.snapshot, broker, master.address)
                for broker, master in self.masters.items()
            )
        )
