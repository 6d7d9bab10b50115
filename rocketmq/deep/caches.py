"""How far brokers have handed out queues, from what clients hold: where no broker tells (4.9).

A client tells the first and the last message it holds of a queue, not the next one it will ask for.
The two agree only while the last one it was handed is still there. A client works on messages in
the order they came: as long as it holds more of a queue than it can be at work on, the last one
waits. Of a client stuck on one message that has finished all after it, nothing is known.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rocketmq.deep_answers import MessageQueue, RunningInfo
from rocketmq.rows import Client, Snapshot


class Handed(NamedTuple):
    """How far a queue was handed to a client.

    Attributes:
        next_offset: one after the last message it holds.
    """

    consumer_group: str
    queue: MessageQueue
    next_offset: int


def handed_to(client: Client, info: RunningInfo) -> Iterator[Handed]:
    """Of which queues a client tells it (307).

    Not of what it selects from: the broker has passed over messages that it was not handed.
    """
    if info.messages_at_once is None or client.language != "JAVA":
        return
    whole = {it.topic for it in client.subscriptions if it.expression in (None, "", "*")}
    for at, held in info.queues.items():
        if at.topic not in whole or held.popped or held.dropped or held.cached_max_offset is None:
            continue
        if (held.cached_messages or 0) > info.messages_at_once:
            yield Handed(client.consumer_group, at, held.cached_max_offset + 1)


def fill_pull_offsets(snapshot: Snapshot, handed: Iterable[Handed]) -> None:
    """Writes down what clients hold where no broker told how far it has handed out a queue.

    They were asked later than the ends of queues: what was handed out since does not count. One
    that holds less than what is committed was set back meanwhile, and tells nothing.
    """
    furthest: dict[tuple[str, str, str, int], int] = {}
    for group, at, next_offset in handed:
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
