"""The deep part of a snapshot, added after its bulk part: order, limits and merging."""

import asyncio
from collections.abc import Iterable
from itertools import chain
from operator import attrgetter
from typing import TypeVar

from rocketmq.deep.client_caches import fill_pull_offsets
from rocketmq.deep.client_reports import ClientReader, GroupLags, broadcast_rows, reporting_groups
from rocketmq.deep.consume_stats import ConsumeStatsReader, pairs
from rocketmq.deep.master_reader import MasterReader
from rocketmq.deep.queue_ends import read_ends_again
from rocketmq.deep.statistics import CounterSubjects, StatsReader
from rocketmq.deep.store_times import StoreTimeReader
from rocketmq.deep.tags import TagReader, filtered_ranges
from rocketmq.deep.unconsumed import lags_by_pair, unconsumed
from rocketmq.records import LeftOut, Snapshot
from rocketmq.snapshot.broker_reading import BrokerReading
from rocketmq.snapshot.deep_options import DeepOptions
from rocketmq.snapshot.online import Online, homes
from rocketmq.snapshot.problems import Problems
from rocketmq.snapshot.sharing import Exchange
from rocketmq.wire.client import RemotingClient

R = TypeVar("R", bound=MasterReader)

ORDER = {
    "consumer_offsets": ("broker", "consumer_group", "topic", "queue_id"),
    "client_queues": ("consumer_group", "client_id", "topic", "broker", "queue_id"),
    "client_topics": ("consumer_group", "client_id", "topic"),
    "broker_stats": ("broker", "broker_id", "stats_name", "stats_key"),
    "queue_tags": ("broker", "topic", "queue_id", "position"),
    "consume_stats": ("broker", "consumer_group", "topic", "queue_id"),
}
"""The sort key of each table: responses come in any order."""


async def read_deep(
    client: RemotingClient,
    snapshot: Snapshot,
    readings: Iterable[BrokerReading],
    options: DeepOptions,
    problems: Problems,
    online: Online,
    exchange: Exchange,
) -> None:
    """Fill the tables `records.DEEP` and the columns that only single requests can fill.

    Store times come first and alone. Progress has hardly moved then, and nothing delays responses
    that are compared with a clock.

    Args:
        client: the transport; it must allow requests to clients if the options include them.
        snapshot: already filled with its bulk part.
        readings: the readings that the bulk part was filled from.
        options: limits.
        problems: where failures go.
        online: who is online at any broker.
        exchange: with the other parts of a shared snapshot.
    """
    responded = [reading for reading in readings if reading.responded]
    masters = {reading.broker: reading for reading in responded if reading.is_master}
    behind = list(unconsumed(snapshot))

    def of_each(kind: type[R], limit: int) -> list[R]:
        return [
            kind(client, problems, broker, master.address, limit, options.turn)
            for broker, master in masters.items()
        ]

    times = of_each(StoreTimeReader, options.max_store_times)
    for reader in times:
        clock = masters[reader.broker].clock
        reader.set_clock(clock.skew_ms if clock else None)
    await asyncio.gather(*(reader.read(behind, online) for reader in times))
    lags = lags_by_pair(behind)
    stats = [
        StatsReader(
            client,
            problems,
            reading,
            options.max_stats,
            lags.get(reading.broker, {}),
            options.turn,
        )
        for reading in responded
        if reading.broker in masters
    ]
    tags = of_each(TagReader, options.max_tag_requests)
    samples = of_each(ConsumeStatsReader, options.max_consume_stats)
    parts = [
        reader.read(CounterSubjects.of(snapshot, masters[reader.reading.broker]))
        for reader in stats
    ]
    parts += [
        reader.read(filtered_ranges(snapshot, behind, reader.broker), options.tag_sample_size)
        for reader in tags
    ]
    parts += [reader.read(pairs(snapshot, reader.broker)) for reader in samples]
    clients = None
    if options.client_reports:
        addresses = {
            member: masters[broker].address
            for member, broker in homes(online).items()
            if broker in masters
        }
        clients = ClientReader(
            client, problems, snapshot, options.max_clients, addresses, options.turn
        )
        of_parts = await exchange(GroupLags.of(behind))
        groups = reporting_groups(of_parts, options.groups, options.priority_groups)
        parts.append(clients.read(groups))
    await asyncio.gather(*parts)
    found = (clients.broadcast_reports, clients.pull_offsets) if clients else ([], [])
    of_all_parts = await exchange(found)
    for reports, _ in of_all_parts:
        snapshot.consumer_offsets += broadcast_rows(snapshot, reports)
    fill_pull_offsets(snapshot, chain.from_iterable(pulls for _, pulls in of_all_parts))
    await asyncio.gather(
        *(
            read_ends_again(client, problems, snapshot, broker, master.address)
            for broker, master in masters.items()
        )
    )
    left_out = [
        *(("clients", None, clients.left_out) for clients in [clients] if clients),
        *(("counters", reader.reading.address, reader.left_out) for reader in stats),
        *(("tags", reader.address, reader.left_out) for reader in tags),
        *(("store_times", reader.address, reader.left_out) for reader in times),
    ]
    snapshot.left_out = [LeftOut(*each) for each in left_out if each[2]]
    snapshot.broker_stats = [row for reader in stats for row in reader.rows]
    snapshot.queue_tags = [row for reader in tags for row in reader.rows]
    snapshot.consume_stats = [row for reader in samples for row in reader.rows]
    for table, names in ORDER.items():
        getattr(snapshot, table).sort(key=attrgetter(*names))
