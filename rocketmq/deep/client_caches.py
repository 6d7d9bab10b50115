"""Pull offsets from the message caches of clients, where no broker reports them (4.9).

A client reports the first and the last cached message of a queue, not the next offset it will pull.
The two agree while the last message that it pulled is still cached, which is certain in four cases:

- the cache is empty: the client's own commit is then the offset after the last message it pulled;
- the client consumes in order: it finishes the last message last;
- it caches more messages of a queue than it can work on, in their order: the last one waits;
- the cache reaches the end of the queue: nothing is left to be pulled.

In all other cases the last cached message is a lower bound only. A client stuck on one message may
have finished all later ones, so its pull offset is unknown.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rocketmq.admin.client_responses import MessageQueue, ProcessQueue, RunningInfo
from rocketmq.records import Client, Snapshot


class ClientPullOffset(NamedTuple):
    """The pull offset of one queue, from the cache of one client.

    Attributes:
        next_offset: the offset after the last message that the client is known to have pulled.
        is_exact: whether it is the pull offset; if not, it is the pull offset only where the queue
            ends there.
    """

    consumer_group: str
    queue: MessageQueue
    next_offset: int
    is_exact: bool = True


def client_pull_offsets(client: Client, info: RunningInfo) -> Iterator[ClientPullOffset]:
    """Yield the pull offsets that the report of a client (307) proves, or their lower bounds.

    Filtered topics yield none, because the broker also skips messages that it does not hand out.
    """
    if info.messages_at_once is None or client.language != "JAVA":
        return
    whole = {it.topic for it in client.subscriptions if it.expression in (None, "", "*")}
    for at, cache in info.queues.items():
        if at.topic not in whole or cache.popped or cache.dropped:
            continue
        found = _next_offset(cache, info)
        if found is not None:
            yield ClientPullOffset(client.consumer_group, at, *found)


def _next_offset(cache: ProcessQueue, info: RunningInfo) -> tuple[int, bool] | None:
    """Return the offset after the last message known to be pulled, and whether it is exact."""
    parts = (
        (cache.cached_messages, cache.cached_max_offset),
        (cache.in_order_messages or 0, cache.in_order_max_offset),
    )
    if cache.cached_messages is None or any(count and end is None for count, end in parts):
        return None
    ends = [end for count, end in parts if count and end is not None]
    if not ends:
        # A client that never committed reports 0, whatever it has pulled.
        commit = cache.commit_offset
        return None if commit is None else (commit, commit > 0)
    all_wait = cache.cached_messages > (info.messages_at_once or 0)
    return max(ends) + 1, all_wait or info.consume_orderly is True


def fill_pull_offsets(snapshot: Snapshot, reported: Iterable[ClientPullOffset]) -> None:
    """Fill pull offsets from client caches where no broker reported one.

    Clients report later than the ends of queues are read, so the values are capped at max offset. A
    value below the commit is left out: the group was reset to an earlier offset meanwhile.
    """
    furthest: dict[tuple[str, str, str, int], tuple[int, bool]] = {}
    for group, at, next_offset, is_exact in reported:
        key = at.broker, group, at.topic, at.queue_id
        furthest[key] = max((next_offset, is_exact), furthest.get(key, (0, False)))
    if not furthest:
        return
    ends = {(it.broker, it.topic, it.queue_id): it.max_offset for it in snapshot.queue_offsets}
    for row in snapshot.consumer_offsets:
        found = furthest.get((row.broker, row.consumer_group, row.topic, row.queue_id))
        end = ends.get((row.broker, row.topic, row.queue_id))
        if found is None or end is None or row.pull_offset is not None:
            continue
        next_offset, is_exact = found
        if next_offset < end and not is_exact:
            continue
        found = min(next_offset, end)
        if row.offset_store == "broker" and found >= (row.consumer_offset or 0):
            row.pull_offset, row.pull_source = found, "client_cache"
