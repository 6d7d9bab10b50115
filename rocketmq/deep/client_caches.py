"""Pull offsets from the message caches of clients, where no broker reports them (4.9).

A client reports the first and the last cached message of a queue, not the next offset it will pull.
The two agree only while the last message that it pulled is still cached. A client consumes messages
in their order. While it caches more messages of a queue than it can work on, the last one waits. A
client stuck on one message may have finished all later ones: its pull offset is unknown.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rocketmq.admin.deep_responses import MessageQueue, RunningInfo
from rocketmq.records import Client, Snapshot


class ClientPullOffset(NamedTuple):
    """The pull offset of one queue, from the cache of one client.

    Attributes:
        next_offset: the offset after the last cached message.
    """

    consumer_group: str
    queue: MessageQueue
    next_offset: int


def client_pull_offsets(client: Client, info: RunningInfo) -> Iterator[ClientPullOffset]:
    """Yield the pull offsets that the report of a client (307) proves.

    Filtered topics yield none: the broker also skips messages that it does not hand out.
    """
    if info.messages_at_once is None or client.language != "JAVA":
        return
    whole = {it.topic for it in client.subscriptions if it.expression in (None, "", "*")}
    for at, cache in info.queues.items():
        last = cache.cached_max_offset
        if at.topic not in whole or cache.popped or cache.dropped or last is None:
            continue
        if (cache.cached_messages or 0) > info.messages_at_once:
            yield ClientPullOffset(client.consumer_group, at, last + 1)


def fill_pull_offsets(snapshot: Snapshot, reported: Iterable[ClientPullOffset]) -> None:
    """Fill pull offsets from client caches where no broker reported one.

    Clients report later than the ends of queues are read, so the values are capped at max offset. A
    value below the commit is left out: the group was reset to an earlier offset meanwhile.
    """
    furthest: dict[tuple[str, str, str, int], int] = {}
    for group, at, next_offset in reported:
        key = at.broker, group, at.topic, at.queue_id
        furthest[key] = max(next_offset, furthest.get(key, 0))
    if not furthest:
        return
    ends = {(it.broker, it.topic, it.queue_id): it.max_offset for it in snapshot.queue_offsets}
    for row in snapshot.consumer_offsets:
        found = furthest.get((row.broker, row.consumer_group, row.topic, row.queue_id))
        end = ends.get((row.broker, row.topic, row.queue_id))
        if found is None or end is None or row.pull_offset is not None:
            continue
        found = min(found, end)
        if row.offset_store == "broker" and found >= (row.consumer_offset or 0):
            row.pull_offset, row.pull_source = found, "client_cache"
