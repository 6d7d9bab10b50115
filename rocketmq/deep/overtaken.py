"""Queues that a broadcasting client has overtaken: it told its offset after their ends were read.

Brokers' own commits are read before the ends of queues, so that nobody seems to be ahead. Clients
are asked last, as some take seconds to answer; the ends of what they have consumed meanwhile are
read once more, and of nothing else.
"""

from collections.abc import Mapping

from rocketmq import admin
from rocketmq.answers import QueueStats
from rocketmq.client import RemotingClient
from rocketmq.problems import Problems
from rocketmq.rows import QueueOffset, Snapshot


def overtaken(snapshot: Snapshot, broker: str) -> dict[str, list[QueueOffset]]:
    """The queues of a broker that a client is ahead of, by topic."""
    ahead: dict[tuple[str, int], int] = {}
    for row in snapshot.consumer_offsets:
        if row.broker == broker and row.client_id is not None and row.consumer_offset is not None:
            key = row.topic, row.queue_id
            ahead[key] = max(row.consumer_offset, ahead.get(key, 0))
    found: dict[str, list[QueueOffset]] = {}
    for queue in snapshot.queue_offsets:
        offset = ahead.get((queue.topic, queue.queue_id), 0) if queue.broker == broker else 0
        if queue.max_offset is not None and offset > queue.max_offset:
            found.setdefault(queue.topic, []).append(queue)
    return found


async def read_ends_again(
    client: RemotingClient, problems: Problems, snapshot: Snapshot, broker: str, address: str
) -> None:
    """Reads the ends of the overtaken queues of a broker, one question (202) a topic."""
    for topic, queues in overtaken(snapshot, broker).items():
        with problems:
            move(queues, await admin.topic_stats(client, address, topic) or {})


def move(queues: list[QueueOffset], ends: Mapping[int, QueueStats]) -> None:
    """Moves the ends of queues forward, never back."""
    for queue in queues:
        now = ends.get(queue.queue_id)
        if now and (now.max_offset or 0) > (queue.max_offset or 0):
            queue.max_offset, queue.newest_stored_at = now.max_offset, now.newest_stored_at
