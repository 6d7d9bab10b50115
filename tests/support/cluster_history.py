"""A cluster's past made up minute by minute, with everything in it that goes wrong in real ones.

Offsets follow from the time alone, so every number is known in advance and two homes that land
the same minutes hold the same bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemark.lake.catalog import Lake
from tidemark.lake.landing import Place, land
from tidemark.lake.tables import TABLES, alerting, progress, quality
from tidemark.rocketmq.records import (
    Broker,
    BrokerMetric,
    BrokerStats,
    Client,
    ClientQueue,
    ClientTopic,
    ConsumerGroup,
    ConsumerOffset,
    ConsumeStatsSample,
    LeftOut,
    Problem,
    QueueOffset,
    QueueTag,
    Snapshot,
    Subscription,
    Topic,
    TopicMetric,
)

CLUSTER = "past"
BROKERS = {"broker-a": "10.0.0.1:10911", "broker-b": "10.0.0.2:10911"}
QUEUES = 3
"""Queues of topic ``orders`` on each broker."""

PRODUCED = 60
"""Messages a minute and queue."""

GONE_AT = 7
"""The commit that members of g-gone left on each queue."""

COMPUTED = (
    progress.QUEUES,
    progress.GROUPS,
    progress.TOPICS,
    progress.ASSIGNMENTS,
    progress.IDLE_CLIENTS,
    progress.SUBSCRIPTIONS,
    progress.THROUGHPUT,
    progress.CAPACITY,
    progress.PEAKS,
    progress.OBJECTIVES,
    progress.BASELINES,
    progress.EVENTS,
    quality.QUARANTINE,
    alerting.ALERTS,
    progress.TIMELINE,
)
"""The tables that a recomputation must give again, row by row."""


@dataclass(frozen=True, kw_only=True)
class Minute:
    """One snapshot of the past, with its faults.

    Attributes:
        at: minutes after the start of the history.
        unreachable: a broker that does not respond.
        corrupt: whether its landed files are damaged.
        impossible: whether it holds rows that cannot be measurements.
        broken: whether a pull offset lies behind the committed one.
        deep: whether clients got requests for what only they know.
    """

    at: float
    unreachable: str | None = None
    corrupt: bool = False
    impossible: bool = False
    broken: bool = False
    deep: bool = True


RECREATED_AT = 64.0
"""From this minute on, topic ``orders`` of broker-a has been deleted and created again."""

REBALANCED_AT = 30.0
"""From this minute on, one member of g-fast holds every queue."""

PAST = (
    Minute(at=2),
    Minute(at=5),
    Minute(at=9, unreachable="broker-b"),
    Minute(at=40),
    Minute(at=60, deep=False),
    Minute(at=65),
    Minute(at=67, impossible=True),
    Minute(at=115, corrupt=True),
    Minute(at=121, unreachable="broker-b"),
    Minute(at=122, broken=True),
    Minute(at=150),
    Minute(at=179.999),
)
"""Three hours: gaps, a broker unreachable twice, a topic created again, rows that cannot be."""


def offsets(minute: float, broker: str, queue_id: int) -> tuple[int, int]:
    """First and next offset of a queue of ``orders``."""
    start = RECREATED_AT if broker == "broker-a" and minute >= RECREATED_AT else -30.0
    written = int((minute - start) * PRODUCED) + queue_id
    return max(0, written - 5000), written


def snapshot(start: datetime, minute: Minute, cluster: str = CLUSTER) -> Snapshot:
    """Return the snapshot of a collector that many minutes after `start`."""
    at = start + timedelta(minutes=minute.at)
    at = at.replace(microsecond=at.microsecond // 1000 * 1000)
    answering = [broker for broker in BROKERS if broker != minute.unreachable]
    made = Snapshot(
        cluster=cluster,
        source="remote",
        observed_at=at,
        finished_at=at + timedelta(milliseconds=45),
        status="PARTIAL" if minute.unreachable else "COMPLETE",
        brokers_expected=len(BROKERS),
        brokers_answered=len(answering),
        requests=40,
        bytes=123_456,
        transport="plain",
    )
    for broker, address in BROKERS.items():
        if broker in answering:
            _response(made, broker, address, minute.at)
            if minute.deep:
                _deep(made, broker, minute.at)
        else:
            made.brokers.append(Broker(broker=broker, broker_id=0, address=address))
            reason = "no response within 3.0 s"
            made.problems.append(
                Problem(
                    endpoint=address, operation="GET_ALL_CONSUMER_OFFSET", code=None, message=reason
                )
            )
    made.clients += _clients(minute.deep)
    if minute.deep:
        made.client_queues += _queues_of_fast(minute.at)
        made.left_out.append(LeftOut("clients", None, 2))
    if minute.impossible:
        _spoil(made)
    if minute.broken:
        row = made.consumer_offsets[0]
        row.pull_offset = (row.consumer_offset or 0) - 5
    return made


def _response(made: Snapshot, broker: str, address: str, minute: float) -> None:
    at = made.observed_at
    made.brokers.append(
        Broker(
            broker=broker,
            broker_id=0,
            address=address,
            version="V5_3_3",
            role="ASYNC_MASTER",
            disk_ratio=0.4,
            dispatch_behind_bytes=0,
            commit_log_min_offset=0,
            commit_log_max_offset=10_000_000,
            retention_hours=72,
            put_tps=6.0,
            get_tps=6.0,
            config={"brokerName": broker},
            booted_at=at - timedelta(days=3),
        )
    )
    retry = "%RETRY%g-fast"
    made.topics += [
        Topic(
            broker=broker,
            topic="orders",
            read_queues=QUEUES,
            write_queues=QUEUES,
            perm=6,
            message_type="NORMAL",
            kind="normal",
        ),
        Topic(
            broker=broker,
            topic="silence",
            read_queues=1,
            write_queues=1,
            perm=6,
            message_type="NORMAL",
            kind="normal",
        ),
        Topic(
            broker=broker,
            topic=retry,
            read_queues=1,
            write_queues=1,
            perm=6,
            message_type=None,
            kind="retry",
        ),
    ]
    made.consumer_groups += [
        ConsumerGroup(
            broker=broker,
            consumer_group=group,
            consume_enable=True,
            retry_max_times=16,
            which_broker_when_slow=1,
            consume_orderly=False,
            system=False,
        )
        for group in ("g-fast", "g-slow", "g-hung", "g-gone")
    ]
    made.queue_offsets += [
        QueueOffset(broker=broker, topic="silence", queue_id=0, min_offset=0, max_offset=0),
        QueueOffset(
            broker=broker,
            topic=retry,
            queue_id=0,
            min_offset=0,
            max_offset=7,
            newest_stored_at=at - timedelta(minutes=1),
        ),
        QueueOffset(
            broker=broker,
            topic="%DLQ%g-fast",
            queue_id=0,
            min_offset=1,
            max_offset=4,
            newest_stored_at=at - timedelta(minutes=2),
        ),
        QueueOffset(
            broker=broker,
            topic="RMQ_SYS_TRACE_TOPIC",
            queue_id=0,
            min_offset=0,
            max_offset=9,
            newest_stored_at=at,
        ),
    ]
    made.consumer_offsets += [
        ConsumerOffset(
            broker=broker,
            consumer_group="g-fast",
            topic=retry,
            queue_id=0,
            client_id=None,
            consumer_offset=5,
            pull_offset=6,
            pull_source="consume_stats",
        ),
        ConsumerOffset(
            broker=broker,
            consumer_group="TOOLS_CONSUMER",
            topic="orders",
            queue_id=0,
            client_id=None,
            consumer_offset=5,
            pull_offset=6,
            pull_source="consume_stats",
        ),
    ]
    for queue_id in range(QUEUES):
        low, high = offsets(minute, broker, queue_id)
        newest = at - timedelta(milliseconds=700)
        made.queue_offsets.append(
            QueueOffset(
                broker=broker,
                topic="orders",
                queue_id=queue_id,
                min_offset=low,
                max_offset=high,
                newest_stored_at=newest,
            )
        )
        read = {
            "g-fast": (high - queue_id % 2, high),
            "g-slow": (low + (high - low) // 2, high - 3),
            "g-hung": (None, None),
            # Its members are gone, so its commit stands while messages expire.
            "g-gone": (GONE_AT, None),
        }
        made.consumer_offsets += [
            ConsumerOffset(
                broker=broker,
                consumer_group=group,
                topic="orders",
                queue_id=queue_id,
                client_id=None,
                consumer_offset=committed,
                pull_offset=pulled,
                pull_source=source,
            )
            for group, (committed, pulled) in read.items()
            for source in [None if pulled is None else "consume_stats"]
        ]
        made.consumer_offsets.append(
            ConsumerOffset(
                broker=broker,
                consumer_group="g-broadcast",
                topic="orders",
                queue_id=queue_id,
                client_id=None,
                consumer_offset=high - 2,
                offset_store="broker_broadcast",
            )
        )


def _deep(made: Snapshot, broker: str, minute: float) -> None:
    """Add a slow client's report of one queue, and the broker's counters and stored times of it."""
    low, high = offsets(minute, broker, 0)
    committed = low + (high - low) // 2
    client = "10.0.1.0@g-slow"
    made.client_queues.append(
        ClientQueue(
            consumer_group="g-slow",
            client_id=client,
            topic="orders",
            broker=broker,
            queue_id=0,
            commit_offset=committed,
            cached_min_offset=committed,
            cached_max_offset=high - 4,
            cached_messages=9,
            cached_mib=1,
        )
    )
    made.consume_stats.append(
        ConsumeStatsSample(
            broker=broker,
            consumer_group="g-slow",
            topic="orders",
            queue_id=0,
            consumer_offset=committed,
            max_offset=high,
        )
    )
    made.broker_metrics.append(
        BrokerMetric(broker=broker, consumer_group="g-slow", topic="orders", ready=0)
    )
    made.topic_metrics.append(TopicMetric(broker, "orders", timing_messages=0))
    if broker == "broker-a":
        made.client_topics.append(
            ClientTopic(
                consumer_group="g-slow",
                client_id=client,
                topic="orders",
                pull_rt_ms=3.5,
                pull_tps=6.0,
                consume_rt_ms=120.0,
                consume_ok_tps=2.0,
                consume_failed_tps=0.0,
                consume_failed_last_hour=0,
            )
        )
        # A slave that serves g-slow: its master knows nothing of it.
        made.broker_stats += [
            BrokerStats(
                broker=broker,
                broker_id=1,
                stats_name="GROUP_GET_NUMS",
                stats_key="orders@g-slow",
                topic="orders",
                consumer_group="g-slow",
                stats_window=window,
                sum=90,
                tps=1.5,
                avgpt=3.0,
            )
            for window in ("minute", "hour")
        ]
    made.broker_stats += [
        BrokerStats(
            broker=broker,
            broker_id=0,
            stats_name="TOPIC_PUT_NUMS",
            stats_key="orders",
            topic="orders",
            consumer_group=None,
            stats_window="minute",
            sum=180,
            tps=3.0,
            avgpt=1.0,
        ),
        BrokerStats(
            broker=broker,
            broker_id=0,
            stats_name="GROUP_GET_NUMS",
            stats_key="orders@g-slow",
            topic="orders",
            consumer_group="g-slow",
            stats_window="hour",
            sum=60,
            tps=0.1,
            avgpt=2.0,
        ),
    ]
    # Every third message has tag A.
    made.queue_tags += [
        QueueTag(
            broker=broker,
            topic="orders",
            queue_id=0,
            position=position,
            tags_code=65 if position % 3 == 0 else 67,
            physical_offset=4096,
            size=200,
        )
        for position in range(committed, committed + 30)
    ]


def _queues_of_fast(minute: float) -> Iterator[ClientQueue]:
    """Yield the queues of g-fast: two of three members have a broker each, then the first has both.

    They keep the queues of a broker that does not respond.
    """
    for broker in BROKERS:
        number = 1 if broker == "broker-b" and minute < REBALANCED_AT else 0
        for queue_id in range(QUEUES):
            _, high = offsets(minute, broker, queue_id)
            client = f"10.0.1.{number}@g-fast"
            yield ClientQueue(
                consumer_group="g-fast",
                client_id=client,
                topic="orders",
                broker=broker,
                queue_id=queue_id,
                commit_offset=high,
            )


def _clients(deep: bool) -> Iterator[Client]:
    for group, model, count in (
        ("g-fast", "CLUSTERING", 3),
        ("g-slow", "CLUSTERING", 1),
        ("g-hung", "CLUSTERING", 1),
        ("g-broadcast", "BROADCASTING", 2),
    ):
        topics = ["orders", f"%RETRY%{group}"] if model == "CLUSTERING" else ["orders"]
        reports = deep and group in ("g-fast", "g-slow")
        for number in range(count):
            yield Client(
                consumer_group=group,
                client_id=f"10.0.1.{number}@{group}",
                client_address=f"10.0.1.{number}:40000",
                language="JAVA",
                version="V5_3_3",
                consume_type="CONSUME_PASSIVELY",
                message_model=model,
                consume_from_where="CONSUME_FROM_LAST_OFFSET",
                thread_count=20 if reports else None,
                allocation_strategy="AVG" if reports else None,
                subscriptions=[
                    Subscription(
                        topic=topic,
                        expression_type="TAG",
                        expression=f"A||B{number}" if reports else "*",
                        tags=[],
                    )
                    for topic in topics
                ],
                subscriptions_source="client" if reports else "group",
            )


def _spoil(made: Snapshot) -> None:
    """Negative offsets, a queue whose first offset lies behind its last, duplicates of both kinds.

    On broker-a, queue 0: written before 0. On broker-b: queue 0 twice with the same content, queue
    1 twice with different content, and g-slow's row of queue 2 negative.
    """
    queues = {(row.broker, row.topic, row.queue_id): row for row in made.queue_offsets}
    queues["broker-a", "orders", 0].max_offset = -1
    made.queue_offsets.append(replace(queues["broker-b", "orders", 0]))
    conflicting = queues["broker-b", "orders", 1]
    made.queue_offsets.append(replace(conflicting, max_offset=(conflicting.max_offset or 0) + 9))
    for row in made.consumer_offsets:
        if (row.broker, row.consumer_group, row.queue_id) == ("broker-b", "g-slow", 2):
            row.consumer_offset = -7


def put(place: Place, start: datetime, minutes: Sequence[Minute], cluster: str = CLUSTER) -> None:
    """Lands minutes of the past in a home, or in a landing elsewhere."""
    for minute in minutes:
        path = land(place, snapshot(start, minute, cluster))
        if minute.corrupt:
            damage(path / "queue_offsets.parquet")


def damage(file: Path) -> None:
    """Cuts a file in half, as a full disk would."""
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def rows(lake: Lake, table: str, **equal: Any) -> list[dict[str, Any]]:
    """Rows of a table about this cluster with these values, in the order of its key."""
    declared = TABLES[table]
    if "cluster" in declared.column_names:
        equal = {"cluster": CLUSTER} | equal
    entries = [
        row
        for row in lake.read(declared).to_pylist()
        if all(row[name] == value for name, value in equal.items())
    ]
    return sorted(entries, key=lambda row: [str(row[name]) for name in declared.key])


def computed(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """All rows of the computed tables."""
    return {table.name: rows(lake, table.name) for table in COMPUTED}


def text_of(table: pa.Table) -> list[str]:
    """The rows as sorted text, for comparing tables whatever their order."""
    return sorted(repr(row) for row in table.to_pylist())
