"""A deep look: after the rest of a snapshot was read, what takes a question each."""

import asyncio
from collections.abc import Iterable
from itertools import chain
from operator import attrgetter
from typing import TypeVar

from rocketmq.client import RemotingClient
from rocketmq.deep.caches import fill_pull_offsets
from rocketmq.deep.clients import Behind, ClientReader, broadcast_rows, groups_to_ask
from rocketmq.deep.consume_stats import ConsumeStatsReader, pairs
from rocketmq.deep.master_reader import MasterReader
from rocketmq.deep.options import DeepOptions
from rocketmq.deep.overtaken import read_ends_again
from rocketmq.deep.stats import Counted, StatsReader
from rocketmq.deep.store_times import StoreTimeReader
from rocketmq.deep.tags import TagReader, filtered_ranges
from rocketmq.deep.unread import unread
from rocketmq.problems import Problems
from rocketmq.reading import Reading
from rocketmq.rows import Snapshot
from rocketmq.sharing import Exchange, Online, homes

R = TypeVar("R", bound=MasterReader)

ORDER = {
    "consumer_offsets": ("broker", "consumer_group", "topic", "queue_id"),
    "client_queues": ("consumer_group", "client_id", "topic", "broker", "queue_id"),
    "client_topics": ("consumer_group", "client_id", "topic"),
    "broker_stats": ("broker", "broker_id", "stats_name", "stats_key"),
    "queue_tags": ("broker", "topic", "queue_id", "position"),
    "consume_stats": ("broker", "consumer_group", "topic", "queue_id"),
}
"""What the rows of a table are sorted by: answers come in any order."""


async def look_deep(
    client: RemotingClient,
    snapshot: Snapshot,
    readings: Iterable[Reading],
    options: DeepOptions,
    problems: Problems,
    online: Online,
    exchange: Exchange,
) -> None:
    """Fill `rows.DEEP` and what else only single questions tell.

    Store times come first and alone: progress has hardly moved then, and nothing delays answers
    that are compared with a clock.

    Args:
        client: the transport, with permission to ask clients if the options want that.
        snapshot: filled with all else.
        readings: what it was filled from.
        options: limits.
        problems: where failures go.
        online: who is online at any broker.
        exchange: with the other parts of the look.
    """
    answered = [reading for reading in readings if reading.answered]
    masters = {reading.broker: reading for reading in answered if reading.is_master}
    behind = list(unread(snapshot))

    def of_each(kind: type[R], limit: int) -> list[R]:
        return [
            kind(client, problems, broker, master.address, limit)
            for broker, master in masters.items()
        ]

    times = of_each(StoreTimeReader, options.max_store_times)
    await asyncio.gather(*(reader.read(behind, online) for reader in times))
    stats = [
        StatsReader(client, problems, reading, options.max_stats)
        for reading in answered
        if reading.broker in masters
    ]
    tags = of_each(TagReader, options.max_tag_requests)
    samples = of_each(ConsumeStatsReader, options.max_consume_stats)
    parts = [reader.read(Counted.of(snapshot, masters[reader.reading.broker])) for reader in stats]
    parts += [
        reader.read(filtered_ranges(snapshot, behind, reader.broker), options.tag_sample_size)
        for reader in tags
    ]
    parts += [reader.read(pairs(snapshot, reader.broker)) for reader in samples]
    clients = None
    if options.ask_clients:
        addresses = {
            member: masters[broker].address
            for member, broker in homes(online).items()
            if broker in masters
        }
        clients = ClientReader(client, problems, snapshot, options.max_clients, addresses)
        lags = await exchange(Behind.of(behind))
        parts.append(clients.read(groups_to_ask(lags, options.groups, options.watched)))
    await asyncio.gather(*parts)
    of_all = await exchange((clients.told, clients.handed) if clients else ([], []))
    for told, _ in of_all:
        snapshot.consumer_offsets += broadcast_rows(snapshot, told)
    fill_pull_offsets(snapshot, chain.from_iterable(handed for _, handed in of_all))
    await asyncio.gather(
        *(
            read_ends_again(client, problems, snapshot, broker, master.address)
            for broker, master in masters.items()
        )
    )
    snapshot.broker_stats = [row for reader in stats for row in reader.rows]
    snapshot.queue_tags = [row for reader in tags for row in reader.rows]
    snapshot.consume_stats = [row for reader in samples for row in reader.rows]
    for table, names in ORDER.items():
        getattr(snapshot, table).sort(key=attrgetter(*names))
