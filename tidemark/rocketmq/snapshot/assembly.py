"""Assembly: from the readings of brokers to the rows of a snapshot. Pure: no network, no clock."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from typing import TypeVar

from tidemark.rocketmq.admin.broker_reports import kept
from tidemark.rocketmq.admin.pop import EVERYBODY
from tidemark.rocketmq.admin.responses import ConsumerConnection
from tidemark.rocketmq.names import LMQ_PREFIX, OffsetKey, is_system_group
from tidemark.rocketmq.records import (
    Broker,
    Client,
    ConsumerGroup,
    ConsumerOffset,
    QueueOffset,
    Snapshot,
    Subscription,
    Topic,
)
from tidemark.rocketmq.snapshot.broker_reading import BrokerReading
from tidemark.rocketmq.snapshot.online import Online, broadcasts, online_at, speaks_grpc
from tidemark.rocketmq.typed_values import instant, integer

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
            number, found_in = of_slave(queue_id, offset)
            if number is not None and end is not None:
                number = min(number, end)
                if number > (offset or 0) and (pull is None or number > pull):
                    pull, source = number, found_in
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
        consume_stats = stats.get(queue_id)
        if consume_stats is None or consume_stats.pull_offset in (None, NEVER_COMMITTED):
            return None, None
        if offset is None and consume_stats.pull_offset == 0 < consume_stats.broker_offset:
            # Neither committed nor pulled here: the broker reports 0 for want of a value.
            return None, None
        return consume_stats.pull_offset, CONSUME_STATS

    if reading.offsets and reading.offsets.pull_offsets is not None:
        table = reading.offsets.pull_offsets.get(key, {})
        return of_table
    stats = reading.consume_stats.get((key.consumer_group, key.topic), {})
    return of_consume_stats


Number = TypeVar("Number", int, float)

LiteSubscriptions = dict[tuple[str, str], dict[str, Subscription]]


def fill(
    snapshot: Snapshot, readings: Iterable[BrokerReading], online: Online | None = None
) -> None:
    """Write the rows of all tables into a snapshot, each sorted by its key.

    Args:
        snapshot: filled here.
        readings: the responses of brokers; their consumer offsets are dropped once rows have them.
        online: online members at any broker of the cluster; None where ``readings`` cover all.
    """
    readings = sorted(readings, key=lambda reading: (reading.broker, reading.broker_id))
    masters = [reading for reading in readings if reading.is_master]
    slaves = [reading for reading in readings if not reading.is_master]
    online = online_at(masters) if online is None else online
    snapshot.brokers = [broker_row(reading) for reading in readings]
    compare_replicas(snapshot.brokers)
    snapshot.clients = client_rows(online, lite_subscriptions(masters), connections_at(masters))
    for reading in masters:
        snapshot.queue_offsets += queue_rows(reading)
        own = [slave for slave in slaves if slave.broker == reading.broker]
        snapshot.consumer_offsets += consumer_rows(reading, own, online)
        for replica in (reading, *own):
            replica.drop_offsets()  # or large clusters need them and all rows at the same time
        snapshot.topics += topic_rows(reading)
        snapshot.consumer_groups += group_rows(reading)


def broker_row(reading: BrokerReading) -> Broker:
    """Return the row of one broker address; of an unreachable one only the name is known."""
    runtime, config = reading.runtime or {}, reading.config or {}
    retention = _whole(config, "fileReservedTime", 32)
    slave_read = config.get("slaveReadEnable")
    return Broker(
        broker=reading.broker,
        broker_id=reading.broker_id,
        address=reading.address,
        version=reading.version if reading.responded else None,
        role=config.get("brokerRole"),
        flush_mode=config.get("flushDiskType"),
        disk_ratio=_not_negative(_ratio(runtime, "commitLogDiskRatio")),
        dispatch_behind_bytes=_whole(runtime, "dispatchBehindBytes"),
        commit_log_min_offset=_not_negative(_whole(runtime, "commitLogMinOffset")),
        commit_log_max_offset=_not_negative(_whole(runtime, "commitLogMaxOffset")),
        earliest_stored_at=instant(_whole(runtime, "earliestMessageTimeStamp")),
        retention_hours=retention,
        slave_read_enabled=None if slave_read is None else slave_read == "true",
        put_tps=_ratio(runtime, "putTps"),
        get_tps=_first_ratio(runtime, "getTransferredTps", "getTransferedTps"),  # 5.x, 4.x
        config=reading.config,
        booted_at=instant(_whole(runtime, "bootTimestamp")),
        clock_skew_ms=reading.clock.skew_ms if reading.clock else None,
        clock_error_ms=reading.clock.error_ms if reading.clock else None,
        runtime=kept(reading.runtime),
        sends_waiting=_not_negative(_whole(runtime, "sendThreadPoolQueueSize")),
        send_wait_ms=_not_negative(_whole(runtime, "sendThreadPoolQueueHeadWaitTimeMills")),
        page_cache_lock_ms=_not_negative(_whole(runtime, "pageCacheLockTimeMills")),
        failed_writes=_not_negative(_whole(runtime, "putMessageFailedTimes")),
    )


def compare_replicas(rows: Iterable[Broker]) -> None:
    """Fill how many bytes slaves lack of the commit log of their masters.

    Args:
        rows: the brokers of one snapshot; a group without a master that responded has no number.
    """
    rows = list(rows)
    ends = {row.broker: row.commit_log_max_offset for row in rows if row.broker_id == 0}
    for row in rows:
        end, own = ends.get(row.broker), row.commit_log_max_offset
        if row.broker_id and end is not None and own is not None:
            # A slave that responds later may have got more by then than its master had.
            row.replica_behind_bytes = max(0, end - own)


def queue_rows(reading: BrokerReading) -> Iterator[QueueOffset]:
    """Yield one row per queue that GET_TOPIC_STATS_INFO reported."""
    for topic, stats in sorted(reading.topic_stats.items()):
        for queue_id, queue in sorted((stats or {}).items()):
            yield QueueOffset(
                broker=reading.broker,
                topic=topic,
                queue_id=queue_id,
                min_offset=queue.min_offset,
                max_offset=queue.max_offset,
                newest_stored_at=queue.newest_stored_at,
            )


def topic_rows(reading: BrokerReading) -> Iterator[Topic]:
    """Yield one row per topic of a master, RocketMQ's own too."""
    for topic, config in sorted((reading.topics or {}).items()):
        yield Topic(
            broker=reading.broker,
            topic=topic,
            read_queues=config.read_queues,
            write_queues=config.write_queues,
            perm=config.perm,
            message_type=config.message_type,
            kind=reading.kind(topic).value,
        )


def group_rows(reading: BrokerReading) -> Iterator[ConsumerGroup]:
    """Yield one row per configured consumer group of a master, RocketMQ's own too."""
    for group, config in sorted((reading.groups or {}).items()):
        yield ConsumerGroup(
            broker=reading.broker,
            consumer_group=group,
            consume_enable=config.consume_enable,
            retry_max_times=config.retry_max_times,
            which_broker_when_slow=config.which_broker_when_slow,
            consume_orderly=config.consume_orderly,
            system=is_system_group(group),
        )


def lite_subscriptions(masters: Iterable[BrokerReading]) -> LiteSubscriptions:
    """Return subscriptions at all brokers by (group, client) and lite topic."""
    subscriptions: LiteSubscriptions = {}
    for reading in masters:
        for topic, lite in reading.lite_topics.items():
            for subscriber in lite.subscribers:
                subscriptions.setdefault(subscriber, {})[topic] = Subscription(
                    topic=topic, expression_type="TAG", expression="*", tags=[]
                )
    return subscriptions


def connections_at(masters: Iterable[BrokerReading]) -> dict[tuple[str, str], int]:
    """Return by group and client id its connections at one broker, the most of any.

    Proxies are no part of them: each also lists the connections that other proxies have.
    """
    most: dict[tuple[str, str], int] = {}
    for reading in masters:
        for group, connection in reading.connections.items():
            members = connection.connections if connection else []
            for client_id, count in Counter(member.client_id for member in members).items():
                most[group, client_id] = max(count, most.get((group, client_id), 0))
    return most


def client_rows(
    online: Online, lite: LiteSubscriptions, connections_of: dict[tuple[str, str], int]
) -> list[Client]:
    """Return one row per member of a group, over all brokers it is connected to.

    Processes with one client id are one member with several connections. Subscriptions are the
    group's (203 shows only those of the last heartbeat), and each member's own to lite topics.
    """
    rows: dict[tuple[str, str], Client] = {}
    for group, connections in online.items():
        subscriptions = _subscriptions(connections.values())
        for connection in connections.values():
            for member in connection.connections:
                subscribers = (group, member.client_id), (group, EVERYBODY)
                own, of_all = (lite.get(subscriber, {}) for subscriber in subscribers)
                is_grpc = speaks_grpc(member.client_id, connection.subscriptions)
                rows.setdefault(
                    (group, member.client_id),
                    Client(
                        consumer_group=group,
                        client_id=member.client_id,
                        client_address=member.client_address,
                        language=member.language,
                        version=None if is_grpc else member.version,
                        consume_type=connection.consume_type,
                        message_model=connection.message_model,
                        consume_from_where=connection.consume_from_where,
                        subscriptions=[*subscriptions, *_by_topic(own | of_all)],
                        connections=connections_of.get((group, member.client_id)),
                    ),
                )
    return [rows[key] for key in sorted(rows)]


def _subscriptions(connections: Iterable[ConsumerConnection]) -> list[Subscription]:
    merged: dict[str, Subscription] = {}
    for connection in connections:
        merged = connection.subscriptions | merged
    return _by_topic(merged)


def _by_topic(subscriptions: dict[str, Subscription]) -> list[Subscription]:
    return [subscriptions[topic] for topic in sorted(subscriptions)]


def consumer_rows(
    reading: BrokerReading, slaves: list[BrokerReading], online: Online
) -> Iterator[ConsumerOffset]:
    """Yield the progress of every group on one master; its slaves add pull offsets only.

    Committed offsets are unchanged. A group online in cluster mode also has a row for each readable
    queue of its subscriptions without a commit. It has no such row where the offsets could not be
    read, because queues without a commit are unknown then.
    """
    if reading.offsets is None:
        return
    expected = _never_committed(reading, online)
    keys = reading.offsets.offsets.keys() | expected.keys()
    for key in sorted(keys, key=lambda key: (key.consumer_group, key.topic, key.broadcast)):
        if _is_superseded(key, keys, online):
            continue
        if reading.topics is not None and key.topic not in reading.topics:
            continue  # progress that outlived its topic; GET_CONSUME_STATS leaves it out likewise
        if key.topic.startswith(LMQ_PREFIX) and key.topic not in reading.topic_stats:
            continue  # a light queue that is not measured
        if key.topic in reading.topic_stats and reading.topic_stats[key.topic] is None:
            continue  # deleted while the snapshot was taken
        committed = reading.offsets.offsets.get(key, {})
        known = reading.topic_stats.get(key.topic)
        config = (reading.topics or {}).get(key.topic)
        readable = config.queues if config else ()
        pulls = pull_offsets(reading, slaves, key, online)
        store = "broker_broadcast" if key.broadcast else "broker"
        mode = reading.request_mode(key.topic, key.consumer_group)
        for queue_id in sorted(committed.keys() | expected.get(key, set())):
            # A queue that the topic no longer has, and that could not be measured. Where a readable
            # queue, or the whole topic, could not be, the row stays: its lag is unknown.
            if known is not None and queue_id not in known and queue_id not in readable:
                continue
            offset = committed.get(queue_id, NEVER_COMMITTED)
            offset = None if offset == NEVER_COMMITTED else offset
            pull, source = pulls(queue_id, offset)
            yield ConsumerOffset(
                broker=reading.broker,
                consumer_group=key.consumer_group,
                topic=key.topic,
                queue_id=queue_id,
                client_id=None,
                consumer_offset=offset,
                pull_offset=pull,
                pull_source=source,
                first_unconsumed_at=None,
                offset_store=store,
                request_mode=mode,
            )


def _never_committed(reading: BrokerReading, online: Online) -> dict[OffsetKey, set[int]]:
    """Return by key the queues that an online group in cluster mode should have progress on."""
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


def _is_superseded(key: OffsetKey, keys: Container[OffsetKey], online: Online) -> bool:
    """Return whether the progress belongs to a message model that the group no longer uses.

    A group that changed between cluster and broadcast mode leaves its old progress behind, and a
    queue can have one row only.
    """
    if OffsetKey(key.topic, key.consumer_group, not key.broadcast) not in keys:
        return False
    return key.broadcast != broadcasts(key.consumer_group, online)


def _whole(table: dict[str, str], key: str, bits: int = 64) -> int | None:
    try:
        return integer(int(table[key]), bits)
    except (KeyError, ValueError):
        return None


def _ratio(table: dict[str, str], key: str) -> float | None:
    """Return the first number of a value; of ``a b c`` that is the one over the last 10 s."""
    try:
        value = float(table[key].split()[0])
    except (KeyError, IndexError, ValueError):
        return None
    return value if abs(value) < float("inf") else None


def _first_ratio(table: dict[str, str], *keys: str) -> float | None:
    """Return the first number of the first key that has one: versions spell keys differently."""
    return next((ratio for key in keys if (ratio := _ratio(table, key)) is not None), None)


def _not_negative(value: Number | None) -> Number | None:
    return None if value is None or value < 0 else value
