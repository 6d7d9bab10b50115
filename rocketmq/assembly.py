"""From what brokers said to the rows of a snapshot. Pure: no network, no clock."""

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TypeVar

from rocketmq.answers import ConsumerConnection
from rocketmq.names import OffsetKey, is_system_group
from rocketmq.reading import Reading
from rocketmq.rows import (
    Broker,
    Client,
    ConsumerGroup,
    ConsumerOffset,
    QueueOffset,
    Snapshot,
    Subscription,
    Topic,
)
from rocketmq.sharing import Online, online_at
from rocketmq.typed import instant, integer

PullOffset = Callable[[int, int | None], tuple[int | None, str | None]]
"""(queue id, consumer offset) -> (pull offset, its source)."""

Number = TypeVar("Number", int, float)

NEVER_COMMITTED = -1
"""The broker's own sign for a queue without progress (`ConsumerOffsetManager.queryOffset`)."""


def fill(snapshot: Snapshot, readings: Iterable[Reading], online: Online | None = None) -> None:
    """Write the rows of all tables into a snapshot, each sorted by its key.

    Args:
        snapshot: what is written into.
        readings: what brokers said.
        online: who is online at any broker of the cluster; None where these are all.
    """
    readings = sorted(readings, key=lambda reading: (reading.broker, reading.broker_id))
    masters = [reading for reading in readings if reading.is_master]
    slaves = [reading for reading in readings if not reading.is_master]
    online = online_at(masters) if online is None else online
    snapshot.brokers = [broker_row(reading) for reading in readings]
    snapshot.clients = client_rows(online)
    for reading in masters:
        snapshot.queue_offsets += queue_rows(reading)
        own = [slave for slave in slaves if slave.broker == reading.broker]
        snapshot.consumer_offsets += consumer_rows(reading, own, online)
        snapshot.topics += topic_rows(reading)
        snapshot.consumer_groups += group_rows(reading)


def broker_row(reading: Reading) -> Broker:
    """The row of one broker address, all unknown but its name when it did not answer."""
    runtime, config = reading.runtime or {}, reading.config or {}
    retention = _whole(config, "fileReservedTime", 32)
    slave_read = config.get("slaveReadEnable")
    return Broker(
        broker=reading.broker,
        broker_id=reading.broker_id,
        address=reading.address,
        version=runtime.get("brokerVersionDesc"),
        role=config.get("brokerRole"),
        disk_ratio=_not_negative(_ratio(runtime, "commitLogDiskRatio")),
        dispatch_behind_bytes=_whole(runtime, "dispatchBehindBytes"),
        commit_log_min_offset=_not_negative(_whole(runtime, "commitLogMinOffset")),
        commit_log_max_offset=_not_negative(_whole(runtime, "commitLogMaxOffset")),
        earliest_stored_at=instant(_whole(runtime, "earliestMessageTimeStamp")),
        retention_hours=retention,
        slave_read_enabled=None if slave_read is None else slave_read == "true",
        put_tps=_ratio(runtime, "putTps"),
        get_tps=_ratio(runtime, "getTransferredTps"),
        config=reading.config,
        booted_at=instant(_whole(runtime, "bootTimestamp")),
    )


def queue_rows(reading: Reading) -> Iterator[QueueOffset]:
    """One row per queue that GET_TOPIC_STATS_INFO told of."""
    for topic, stats in sorted(reading.topic_stats.items()):
        for queue_id, queue in sorted((stats or {}).items()):
            yield QueueOffset(
                reading.broker,
                topic,
                queue_id,
                queue.min_offset,
                queue.max_offset,
                queue.newest_stored_at,
            )


def topic_rows(reading: Reading) -> Iterator[Topic]:
    """One row per topic of a master, RocketMQ's own too."""
    for topic, config in sorted((reading.topics or {}).items()):
        yield Topic(
            reading.broker,
            topic,
            config.read_queues,
            config.write_queues,
            config.perm,
            config.message_type,
            reading.kind(topic).value,
        )


def group_rows(reading: Reading) -> Iterator[ConsumerGroup]:
    """One row per configured consumer group of a master, RocketMQ's own too."""
    for group, config in sorted((reading.groups or {}).items()):
        yield ConsumerGroup(
            reading.broker,
            group,
            config.consume_enable,
            config.retry_max_times,
            config.which_broker_when_slow,
            config.consume_orderly,
            is_system_group(group),
        )


def client_rows(online: Online) -> list[Client]:
    """One row per member of a group, over all brokers it is connected to.

    Subscriptions are the group's (203 shows those of the last heartbeat only).
    """
    rows: dict[tuple[str, str], Client] = {}
    for group, connections in online.items():
        subscriptions = _subscriptions(connections.values())
        for connection in connections.values():
            for member in connection.connections:
                rows.setdefault(
                    (group, member.client_id),
                    Client(
                        consumer_group=group,
                        client_id=member.client_id,
                        client_address=member.client_address,
                        language=member.language,
                        version=member.version,
                        consume_type=connection.consume_type,
                        message_model=connection.message_model,
                        consume_from_where=connection.consume_from_where,
                        subscriptions=subscriptions,
                    ),
                )
    return [rows[key] for key in sorted(rows)]


def _subscriptions(connections: Iterable[ConsumerConnection]) -> list[Subscription]:
    merged: dict[str, Subscription] = {}
    for connection in connections:
        merged = connection.subscriptions | merged
    return [merged[topic] for topic in sorted(merged)]


def consumer_rows(
    reading: Reading, slaves: list[Reading], online: Online
) -> Iterator[ConsumerOffset]:
    """The progress of every group on one master; its slaves only tell what they handed out.

    What is committed, as read; for a group online in cluster mode also each readable queue of its
    subscriptions that never committed. None at all when the offsets could not be read: then it is
    not known what never committed.
    """
    if reading.offsets is None:
        return
    expected = _never_committed(reading, online)
    keys = reading.offsets.offsets.keys() | expected.keys()
    for key in sorted(keys, key=lambda key: (key.consumer_group, key.topic, key.broadcast)):
        if _is_rival(key, keys, online):
            continue
        if reading.topics is not None and key.topic not in reading.topics:
            continue  # progress that outlived its topic; GET_CONSUME_STATS leaves it out likewise
        if key.topic in reading.topic_stats and reading.topic_stats[key.topic] is None:
            continue  # deleted while we looked
        committed = reading.offsets.offsets.get(key, {})
        known = reading.topic_stats.get(key.topic)
        config = (reading.topics or {}).get(key.topic)
        readable = config.queues if config else ()
        pulls = _pull_offsets(reading, slaves, key, online)
        store = "broker_broadcast" if key.broadcast else "broker"
        for queue_id in sorted(committed.keys() | expected.get(key, set())):
            # Left over from when the topic had more queues. Where a queue that can be read, or the
            # whole topic, could not be measured, the row stays, to be unknown.
            if known is not None and queue_id not in known and queue_id not in readable:
                continue
            offset = committed.get(queue_id, NEVER_COMMITTED)
            offset = None if offset == NEVER_COMMITTED else offset
            pull, source = pulls(queue_id, offset)
            yield ConsumerOffset(
                reading.broker,
                key.consumer_group,
                key.topic,
                queue_id,
                None,
                offset,
                pull,
                source,
                None,
                store,
            )


def _never_committed(reading: Reading, online: Online) -> dict[OffsetKey, set[int]]:
    """By key, the queues a group that is online in cluster mode should have progress on."""
    expected: dict[OffsetKey, set[int]] = {}
    for group, connections in online.items():
        if any(it.message_model != "CLUSTERING" for it in connections.values()):
            continue
        for connection in connections.values():
            for topic in connection.subscriptions:
                config = (reading.topics or {}).get(topic)
                if config:
                    expected[OffsetKey(topic, group)] = set(config.readable_queues)
    return expected


def _is_rival(key: OffsetKey, keys: Container[OffsetKey], online: Online) -> bool:
    """Whether the other one of a cluster's and a broadcast's progress is the group's own now.

    A group that changed its model leaves the progress of the old one behind, and a queue can have
    one row only.
    """
    if OffsetKey(key.topic, key.consumer_group, not key.broadcast) not in keys:
        return False
    return key.broadcast != _broadcasts(key.consumer_group, online)


def _broadcasts(consumer_group: str, online: Online) -> bool:
    connections = online.get(consumer_group, {}).values()
    return any(connection.message_model == "BROADCASTING" for connection in connections)


def _pull_offsets(
    reading: Reading,
    slaves: list[Reading],
    key: OffsetKey,
    online: Online,
) -> PullOffset:
    """What tells the next offset to hand out, and where it was read, for the queues of a key.

    The largest over the replicas: each knows what it handed out itself. A slave is asked after the
    queues were read; what it handed out since does not count. Clients of a broadcasting group each
    pull for themselves, and one that pops is not handed queues in order: there is no such offset.
    """
    group = key.consumer_group
    if key.broadcast or _broadcasts(group, online) or reading.pops(key.topic, group):
        return lambda queue_id, offset: (None, None)
    of_master = _pull_offsets_of(reading, key)
    of_slaves = [_pull_offsets_of(slave, key) for slave in slaves]
    if not of_slaves:
        return of_master
    written = reading.topic_stats.get(key.topic) or {}

    def furthest(queue_id: int, offset: int | None) -> tuple[int | None, str | None]:
        pull, source = of_master(queue_id, offset)
        for tell in of_slaves:
            found, found_in = tell(queue_id, offset)
            end = written[queue_id].max_offset if queue_id in written else None
            if found is not None and end is not None:
                found = min(found, end)
                if found > (offset or 0) and (pull is None or found > pull):
                    pull, source = found, found_in
        return pull, source

    return furthest


def _pull_offsets_of(reading: Reading, key: OffsetKey) -> PullOffset:
    """The same of one replica.

    A broker keeps it in memory only, and with reads from slaves that of the master stands still:
    then it lies behind the commit. GET_CONSUME_STATS shows the commit instead; the table of 5.5 is
    taken as read, for here alone `consumer_offset <= pull_offset` can be judged.
    """

    def of_table(queue_id: int, offset: int | None) -> tuple[int | None, str | None]:
        pull = table.get(queue_id, NEVER_COMMITTED)
        return (None, None) if pull == NEVER_COMMITTED else (pull, "consumer_offset_table")

    def of_consume_stats(queue_id: int, offset: int | None) -> tuple[int | None, str | None]:
        found = stats.get(queue_id)
        if found is None or found.pull_offset is None:
            return None, None
        if offset is None and found.pull_offset == 0 < found.broker_offset:
            # Neither committed nor pulled here: shown as 0 for want of a value.
            return None, None
        return found.pull_offset, "consume_stats"

    if reading.offsets and reading.offsets.pull_offsets is not None:
        table = reading.offsets.pull_offsets.get(key, {})
        return of_table
    stats = reading.consume_stats.get((key.consumer_group, key.topic), {})
    return of_consume_stats


def _whole(table: dict[str, str], key: str, bits: int = 64) -> int | None:
    try:
        return integer(int(table[key]), bits)
    except (KeyError, ValueError):
        return None


def _ratio(table: dict[str, str], key: str) -> float | None:
    """The first number of a value: of ``a b c`` that over the last 10 s."""
    try:
        value = float(table[key].split()[0])
    except (KeyError, IndexError, ValueError):
        return None
    return value if abs(value) < float("inf") else None


def _not_negative(value: Number | None) -> Number | None:
    return None if value is None or value < 0 else value
