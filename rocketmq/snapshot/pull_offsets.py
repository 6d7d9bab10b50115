"""The pull offset of each queue of a group: the next offset that a broker hands out. Pure."""

from collections.abc import Callable

from rocketmq.names import OffsetKey
from rocketmq.snapshot.broker_reading import BrokerReading
from rocketmq.snapshot.online import Online, broadcasts

PullOffset = Callable[[int, int | None], tuple[int | None, str | None]]
"""(queue id, consumer offset) -> (pull offset, its source)."""

CONSUME_STATS = "consume_stats"
"""The source of pull offsets that a request of their own (208) reports."""

QUEUE_END = "queue_end"
"""The source where no request is needed: the commit is at the end of the queue."""

NEVER_COMMITTED = -1
"""The broker's own sign for a queue without progress (`ConsumerOffsetManager.queryOffset`)."""


def pull_offsets(
    reading: BrokerReading,
    slaves: list[BrokerReading],
    key: OffsetKey,
    online: Online,
) -> PullOffset:
    """Return the function that gives pull offset and source for each queue of a key.

    The pull offset is the largest over the replicas, because each counts only messages that it
    handed out itself. It is requested after the queues were read, so its value is limited to the
    max offset. An online group whose commit is the end of a queue needs no request. Broadcast and
    POP groups have no pull offset: each broadcasting client pulls for itself, and POP does not hand
    out a queue in order.

    Args:
        reading: the master.
        slaves: the other replicas of its broker group.
        key: a topic and group of the offset table.
        online: online members at any broker of the cluster.
    """
    group = key.consumer_group
    if key.broadcast or broadcasts(group, online) or reading.pops(key.topic, group):
        return lambda queue_id, offset: (None, None)
    of_master = _replica_pull_offsets(reading, key)
    of_slaves = [_replica_pull_offsets(slave, key) for slave in slaves]
    written = reading.topic_stats.get(key.topic) or {}
    is_online = reading.connections.get(group) is not None

    def furthest(queue_id: int, offset: int | None) -> tuple[int | None, str | None]:
        end = written[queue_id].max_offset if queue_id in written else None
        pull, source = of_master(queue_id, offset)
        if source == CONSUME_STATS and pull is not None and end is not None:
            pull = min(pull, end)
        if pull is None and is_online and reading.is_at_end(key.topic, queue_id, offset):
            pull, source = end, QUEUE_END
        for of_slave in of_slaves:
            found, found_in = of_slave(queue_id, offset)
            if found is not None and end is not None:
                found = min(found, end)
                if found > (offset or 0) and (pull is None or found > pull):
                    pull, source = found, found_in
        return pull, source

    return furthest


def _replica_pull_offsets(reading: BrokerReading, key: OffsetKey) -> PullOffset:
    """Return the function that gives pull offset and source from one replica.

    A broker keeps the pull offset in memory only. Where clients read from slaves, the master's
    value does not move and can lie behind the commit. GET_CONSUME_STATS then shows the commit. The
    table of 5.5.0 is passed on as read: only there `consumer_offset <= pull_offset` can be checked.
    """

    def of_table(queue_id: int, offset: int | None) -> tuple[int | None, str | None]:
        pull = table.get(queue_id, NEVER_COMMITTED)
        return (None, None) if pull == NEVER_COMMITTED else (pull, "consumer_offset_table")

    def of_consume_stats(queue_id: int, offset: int | None) -> tuple[int | None, str | None]:
        found = stats.get(queue_id)
        if found is None or found.pull_offset in (None, NEVER_COMMITTED):
            return None, None
        if offset is None and found.pull_offset == 0 < found.broker_offset:
            # Neither committed nor pulled here: the broker reports 0 for want of a value.
            return None, None
        return found.pull_offset, CONSUME_STATS

    if reading.offsets and reading.offsets.pull_offsets is not None:
        table = reading.offsets.pull_offsets.get(key, {})
        return of_table
    stats = reading.consume_stats.get((key.consumer_group, key.topic), {})
    return of_consume_stats
