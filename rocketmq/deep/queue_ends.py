"""Ends of queues, read again where a broadcasting client reports an offset beyond the first read.

The commits of brokers are read before the ends of queues, so no group seems to be ahead. Reports of
clients are requested last, as some clients take seconds to respond. So the ends of queues that they
have overtaken are read once more.
"""

from collections.abc import Mapping

from rocketmq.admin import requests as admin
from rocketmq.admin.queue_stats import QueueStats
from rocketmq.records import QueueOffset, Snapshot
from rocketmq.snapshot.problems import Problems
from rocketmq.wire.client import RemotingClient


def overtaken_queues(snapshot: Snapshot, broker: str) -> dict[str, list[QueueOffset]]:
    """Return by topic the queues of a broker whose known end a client has overtaken."""
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
    """Read the ends of the overtaken queues of a broker, one request (202) per topic."""
    for topic, queues in overtaken_queues(snapshot, broker).items():
        with problems:
            advance_ends(queues, await admin.topic_stats(client, address, topic) or {})


def advance_ends(queues: list[QueueOffset], ends: Mapping[int, QueueStats]) -> None:
    """Move the ends of queues forward, never back."""
    for queue in queues:
        now = ends.get(queue.queue_id)
        if now and (now.max_offset or 0) > (queue.max_offset or 0):
            queue.max_offset, queue.newest_stored_at = now.max_offset, now.newest_stored_at
