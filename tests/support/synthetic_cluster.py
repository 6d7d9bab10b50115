"""A cluster that does not exist, whose snapshots fill every table that real ones may fill."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidemark.model.snapshots import SnapshotSource, SnapshotStatus
from tidemark.rocketmq.records import (
    Broker,
    BrokerStats,
    Client,
    ClientQueue,
    ClientTopic,
    ConsumerGroup,
    ConsumerOffset,
    QueueOffset,
    QueueTag,
    Snapshot,
    Subscription,
    Topic,
)

CLUSTER = "synthetic"
BROKERS = {"broker-a": "192.0.2.1:10911", "broker-b": "192.0.2.2:10911"}
"""Addresses that are reserved for documentation (RFC 5737)."""

QUEUES = 8
"""Queues of a topic on each broker."""

PRODUCED = 60
"""Messages a minute and queue."""


@dataclass(frozen=True)
class SyntheticCluster:
    """A cluster of two brokers.

    Attributes:
        start: instant of its first snapshot.
        topics: how many, the same on both brokers.
        groups: how many; each reads all topics.
    """

    start: datetime
    topics: int
    groups: int

    def snapshot(self, number: int) -> Snapshot:
        """Return its snapshot of a minute, counted from 0; every second one is a deep snapshot."""
        at = self.start + timedelta(minutes=number)
        made = Snapshot(
            cluster=CLUSTER,
            source=SnapshotSource.REMOTE,
            observed_at=at,
            finished_at=at + timedelta(milliseconds=50),
            status=SnapshotStatus.COMPLETE,
            brokers_expected=len(BROKERS),
            brokers_answered=len(BROKERS),
            transport="plain",
        )
        deep = number % 2 == 1
        for broker, address in BROKERS.items():
            made.brokers.append(
                Broker(
                    broker=broker,
                    broker_id=0,
                    address=address,
                    version="V5_3_3",
                    role="ASYNC_MASTER",
                    disk_ratio=0.4,
                    retention_hours=72,
                    config={"brokerName": broker},
                    booted_at=self.start - timedelta(days=3),
                )
            )
            self._add_queues(made, broker, number)
            if deep:
                self._add_reports(made, broker, number)
        made.clients += self._clients(deep=deep)
        return made

    def _add_queues(self, made: Snapshot, broker: str, number: int) -> None:
        end = 10_000 + PRODUCED * number
        newest = made.observed_at - timedelta(milliseconds=700)
        for topic in self._topic_names():
            made.topics.append(
                Topic(
                    broker=broker,
                    topic=topic,
                    read_queues=QUEUES,
                    write_queues=QUEUES,
                    perm=6,
                    message_type="NORMAL",
                    kind="normal",
                )
            )
            made.queue_offsets += [
                QueueOffset(
                    broker=broker,
                    topic=topic,
                    queue_id=queue,
                    min_offset=0,
                    max_offset=end + queue,
                    newest_stored_at=newest,
                )
                for queue in range(QUEUES)
            ]
        for group in self._group_names():
            retry = f"%RETRY%{group}"
            made.consumer_groups.append(
                ConsumerGroup(
                    broker=broker,
                    consumer_group=group,
                    consume_enable=True,
                    retry_max_times=16,
                    which_broker_when_slow=1,
                    consume_orderly=False,
                    system=False,
                )
            )
            made.queue_offsets.append(
                QueueOffset(
                    broker=broker,
                    topic=retry,
                    queue_id=0,
                    min_offset=0,
                    max_offset=3,
                    newest_stored_at=newest,
                )
            )
            # Some lag behind more than the last snapshot, so that messages are dated by history.
            made.consumer_offsets += [
                ConsumerOffset(
                    broker=broker,
                    consumer_group=group,
                    topic=topic,
                    queue_id=queue,
                    client_id=None,
                    consumer_offset=end - PRODUCED * (queue % 4),
                    pull_offset=end,
                    pull_source="consume_stats",
                )
                for topic in self._topic_names()
                for queue in range(QUEUES)
            ]

    def _add_reports(self, made: Snapshot, broker: str, number: int) -> None:
        """Add the rows that only a deep snapshot has, for the first group on the first topic."""
        group, topic, end = self._group_names()[0], self._topic_names()[0], 10_000
        client, key = f"192.0.2.10@{group}", f"{topic}@{group}"
        made.client_queues += [
            ClientQueue(
                consumer_group=group,
                client_id=client,
                topic=topic,
                broker=broker,
                queue_id=queue,
                commit_offset=end,
                cached_min_offset=end,
                cached_max_offset=end + 9,
                cached_messages=9,
                cached_mib=1,
            )
            for queue in range(QUEUES)
        ]
        made.client_topics.append(
            ClientTopic(
                consumer_group=group,
                client_id=client,
                topic=topic,
                pull_rt_ms=3.5,
                pull_tps=6.0,
                consume_rt_ms=12.0,
                consume_ok_tps=6.0,
                consume_failed_tps=0.0,
                consume_failed_last_hour=0,
            )
        )
        made.broker_stats += [
            BrokerStats(
                broker=broker,
                broker_id=0,
                stats_name=name,
                stats_key=key,
                topic=topic,
                consumer_group=group,
                stats_window="minute",
                sum=60,
                tps=1.0,
                avgpt=1.0,
            )
            for name, key, topic, group in (
                ("TOPIC_PUT_NUMS", topic, topic, None),
                ("GROUP_GET_NUMS", key, topic, group),
            )
        ]
        made.queue_tags += [
            QueueTag(
                broker=broker,
                topic=topic,
                queue_id=0,
                position=end + position,
                tags_code=65,
                physical_offset=4096,
                size=200,
            )
            for position in range(8)
        ]

    def _clients(self, *, deep: bool) -> Iterator[Client]:
        for group in self._group_names():
            yield Client(
                consumer_group=group,
                client_id=f"192.0.2.10@{group}",
                client_address="192.0.2.10:40000",
                language="JAVA",
                version="V5_3_3",
                consume_type="CONSUME_PASSIVELY",
                message_model="CLUSTERING",
                consume_from_where="CONSUME_FROM_LAST_OFFSET",
                thread_count=20 if deep else None,
                allocation_strategy="AVG" if deep else None,
                subscriptions=[
                    Subscription(topic=topic, expression_type="TAG", expression="*", tags=[])
                    for topic in (*self._topic_names(), f"%RETRY%{group}")
                ],
                subscriptions_source="client" if deep else "group",
            )

    def _topic_names(self) -> list[str]:
        return [f"topic-{number}" for number in range(self.topics)]

    def _group_names(self) -> list[str]:
        return [f"group-{number}" for number in range(self.groups)]
