"""The records of a snapshot: one class per table of ``raw``, and the snapshot that holds them.

Field names are the column names of ``raw.*``. ``snapshot_id``, ``observed_at`` and ``cluster`` are
the same for all rows of a snapshot; `Snapshot.records` puts them in front. ``None`` means unknown,
never 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from textwrap import shorten
from typing import Any

from tidemark.model.snapshots import SnapshotStatus


@dataclass(slots=True, frozen=True, kw_only=True)
class Problem:
    """A failed request: where, which request, and why.

    Attributes:
        endpoint: ``host:port`` of the request; for files the path.
        operation: name of the request, e.g. ``GET_CONSUME_STATS g-orders``.
        code: the response code, None where no response came.
        message: the reason in one line.
    """

    endpoint: str
    operation: str
    code: int | None
    message: str

    @property
    def line(self) -> str:
        """The problem in one line for people; a long operation is shortened."""
        operation = shorten(self.operation, 120, placeholder=" ...")
        return f"{self.endpoint}: {operation}: {self.message}"


@dataclass(slots=True, frozen=True)
class LeftOut:
    """Number of items of one part of a snapshot that a limit left out.

    Attributes:
        part: ``lite_topics``, and of a deep snapshot ``clients`` | ``counters`` | ``tags`` |
            ``store_times``.
        endpoint: ``host:port`` that the limit is for; None for the cluster.
        items: lite topics, requests to clients, counters, queues, or groups on topics.
    """

    part: str
    endpoint: str | None
    items: int

    @property
    def line(self) -> str:
        """The missing items in one line for people, with the setting that limits them."""
        things, setting = _LIMITED[self.part]
        at = f" at {self.endpoint}" if self.endpoint else ""
        return f"{self.items} {things}{at} were left out ({setting} in clusters.yaml)"


_LIMITED = {
    "lite_topics": ("lite topics", "max_lite_topics"),
    "clients": ("requests to clients", "max_clients"),
    "counters": ("counters", "max_stats"),
    "tags": ("queues without a sample of tags", "max_tag_requests"),
    "store_times": ("groups on topics without store times", "max_store_times"),
}
"""The items that the limit of each part leaves out, and its name in ``clusters.yaml``."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Producer:
    """One connection of a producer group to a broker.

    Attributes:
        producer_group: its group, which has nothing to do with consumer groups.
        client_id: the client.
        client_address: ``host:port`` that the broker sees.
        language: of the client.
        version: of the client.
        last_seen_at: its last heartbeat, by the broker's clock; a client that died stays for 120 s.
    """

    producer_group: str
    client_id: str
    client_address: str | None
    language: str | None
    version: str | None
    last_seen_at: datetime | None


@dataclass(slots=True, frozen=True, kw_only=True)
class Proxy:
    """A RocketMQ Proxy in one snapshot.

    Attributes:
        endpoint: its remoting port, ``host:port``.
        responded: whether it reported online members.
        members: clients that it reports, of all groups of the cluster; None where it did not
            report those of every group. Proxies tell each other theirs (`HeartbeatSyncer`).
        groups: groups with a client that it reports; None likewise.
    """

    endpoint: str
    responded: bool
    members: int | None = None
    groups: int | None = None


@dataclass(slots=True, kw_only=True)
class Broker:
    """One broker address, master or slave; an unreachable one has only the first three fields."""

    broker: str
    broker_id: int
    address: str
    version: str | None = None
    role: str | None = None
    disk_ratio: float | None = None
    dispatch_behind_bytes: int | None = None
    commit_log_min_offset: int | None = None
    commit_log_max_offset: int | None = None
    earliest_stored_at: datetime | None = None
    retention_hours: int | None = None
    slave_read_enabled: bool | None = None
    put_tps: float | None = None
    get_tps: float | None = None
    config: dict[str, str] | None = None
    booted_at: datetime | None = None
    clock_skew_ms: int | None = None
    clock_error_ms: int | None = None
    runtime: dict[str, str] | None = None
    shut_down_cleanly: bool | None = None
    checkpoint_log_at: datetime | None = None
    checkpoint_queues_at: datetime | None = None
    checkpoint_index_at: datetime | None = None
    index_whole: bool | None = None
    index_behind_bytes: int | None = None
    flush_mode: str | None = None
    light_queues: int | None = None
    light_queue_limit: int | None = None
    lite_subscriptions: int | None = None
    offsets_behind: int | None = None
    offsets_missing: int | None = None
    offsets_late: int | None = None
    offsets_copied: int | None = None
    offsets_stand: bool | None = None
    sends_waiting: int | None = None
    send_wait_ms: int | None = None
    page_cache_lock_ms: int | None = None
    failed_writes: int | None = None
    sends_refused: int | None = None
    sends_failed: int | None = None
    replica_behind_bytes: int | None = None
    replica_behind_ms: int | None = None
    replica_behind_is_lower_bound: bool | None = None
    producers_online: int | None = None
    producers: list[Producer] | None = None


@dataclass(slots=True, kw_only=True)
class QueueOffset:
    """One queue of one topic on one master: how far it is written."""

    broker: str
    topic: str
    queue_id: int
    min_offset: int | None
    max_offset: int | None
    newest_stored_at: datetime | None = None


@dataclass(slots=True, kw_only=True)
class ConsumerOffset:
    """The progress of one group on one queue; ``consumer_offset`` is None if it never committed.

    ``request_mode`` is how the broker was set to serve the group: ``pull`` | ``pop`` (402).
    """

    broker: str
    consumer_group: str
    topic: str
    queue_id: int
    client_id: str | None
    consumer_offset: int | None
    pull_offset: int | None = None
    pull_source: str | None = None
    first_unconsumed_at: datetime | None = None
    offset_store: str = "broker"
    request_mode: str | None = None


@dataclass(slots=True, kw_only=True)
class Topic:
    """The configuration of one topic on one master."""

    broker: str
    topic: str
    read_queues: int | None
    write_queues: int | None
    perm: int | None
    message_type: str | None
    kind: str


@dataclass(slots=True, kw_only=True)
class ConsumerGroup:
    """The configuration of one consumer group on one master."""

    broker: str
    consumer_group: str
    consume_enable: bool | None
    retry_max_times: int | None
    which_broker_when_slow: int | None
    consume_orderly: bool | None
    system: bool


@dataclass(slots=True, kw_only=True)
class Subscription:
    """The subscription of a member of a group to one topic."""

    topic: str
    expression_type: str | None
    expression: str | None
    tags: list[str]


@dataclass(slots=True, kw_only=True)
class Client:
    """One member of a consumer group that is online, over all brokers it is connected to."""

    consumer_group: str
    client_id: str
    client_address: str | None
    language: str | None
    version: str | None
    consume_type: str | None
    message_model: str | None
    consume_from_where: str | None
    thread_count: int | None = None
    allocation_strategy: str | None = None
    started_at: datetime | None = None
    subscriptions: list[Subscription] = field(default_factory=list)
    subscriptions_source: str | None = "group"
    consume_orderly: bool | None = None
    consume_batch_size: int | None = None
    connections: int | None = None


@dataclass(slots=True, kw_only=True)
class ClientQueue:
    """The state of one queue in a client, from its report (307); instants by the client's clock."""

    consumer_group: str
    client_id: str
    topic: str
    broker: str
    queue_id: int
    commit_offset: int | None
    cached_min_offset: int | None = None
    cached_max_offset: int | None = None
    cached_messages: int | None = None
    cached_mib: int | None = None
    locked: bool | None = None
    dropped: bool | None = None
    last_pull_at: datetime | None = None
    last_consume_at: datetime | None = None
    popped: bool = False
    last_lock_at: datetime | None = None
    unlock_tries: int | None = None
    in_order_messages: int | None = None
    most_messages: int | None = None
    most_mib: int | None = None
    widest_span: int | None = None


@dataclass(slots=True, kw_only=True)
class ClientTopic:
    """A client's statistics of one topic, from its report (307)."""

    consumer_group: str
    client_id: str
    topic: str
    pull_rt_ms: float | None
    pull_tps: float | None
    consume_rt_ms: float | None
    consume_ok_tps: float | None
    consume_failed_tps: float | None
    consume_failed_last_hour: int | None


@dataclass(slots=True, kw_only=True)
class BrokerStats:
    """One counter of one broker address over one window (315, or a line of stats.log)."""

    broker: str
    broker_id: int
    stats_name: str
    stats_key: str
    topic: str | None
    consumer_group: str | None
    stats_window: str
    sum: int | None
    tps: float | None
    avgpt: float | None


@dataclass(slots=True, kw_only=True)
class QueueTag:
    """One sampled consume-queue entry (321, or the consume-queue file)."""

    broker: str
    topic: str
    queue_id: int
    position: int
    tags_code: int | None
    physical_offset: int | None
    size: int | None


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumeStatsSample:
    """The progress of a group on one queue as 208 reports it, for a sample of groups.

    Attributes:
        consumer_offset: a queue that never committed shows 0 here.
    """

    broker: str
    consumer_group: str
    topic: str
    queue_id: int
    consumer_offset: int
    max_offset: int


@dataclass(slots=True, frozen=True, kw_only=True)
class BrokerMetric:
    """A group's lag on a topic by a broker's metrics endpoint, summed over the queues.

    Attributes:
        lag: ``rocketmq_consumer_lag_messages``; like the others None without a sample.
        inflight: ``rocketmq_consumer_inflight_messages``.
        ready: ``rocketmq_consumer_ready_messages``.
    """

    broker: str
    consumer_group: str
    topic: str
    lag: int | None = None
    inflight: int | None = None
    ready: int | None = None


@dataclass(slots=True)
class TopicMetric:
    """The report of a broker's metrics endpoint about a topic.

    Attributes:
        timing_messages: ``rocketmq_timing_messages``: stored, and waiting for their time.
    """

    broker: str
    topic: str
    timing_messages: int | None = None


@dataclass(slots=True, kw_only=True)
class Snapshot:
    """Everything read from one cluster at one instant, and the problems.

    Attributes:
        cluster: Tidemark's name of the cluster.
        source: ``remote`` | ``store`` | ``local_offsets`` | ``stats_log``.
        observed_at: start of the snapshot, UTC, whole milliseconds.
        status: ``COMPLETE`` | ``PARTIAL`` | ``FAILED``.
        brokers_expected: addresses, masters and slaves, that should respond.
        brokers_answered: addresses that did.
        transport: ``plain`` | ``tls`` | ``tls_unverified``; None without a connection.
        proxies_answered: proxies that reported online members; None when none is configured.
        proxies: each of them, and those that did not respond; None when none was requested.
        part: distinguishes snapshots of parts of one cluster at one instant: for a line of
            ``stats.log`` the broker's name, with the id for a slave.
    """

    cluster: str
    source: str
    observed_at: datetime
    finished_at: datetime | None = None
    status: str = SnapshotStatus.FAILED
    brokers_expected: int = 0
    brokers_answered: int = 0
    requests: int = 0
    bytes: int = 0
    transport: str | None = None
    proxies_answered: int | None = None
    proxies: list[Proxy] | None = None
    staleness_ms: int | None = None
    problems: list[Problem] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    brokers: list[Broker] = field(default_factory=list)
    queue_offsets: list[QueueOffset] = field(default_factory=list)
    consumer_offsets: list[ConsumerOffset] = field(default_factory=list)
    topics: list[Topic] = field(default_factory=list)
    consumer_groups: list[ConsumerGroup] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    client_queues: list[ClientQueue] = field(default_factory=list)
    client_topics: list[ClientTopic] = field(default_factory=list)
    broker_stats: list[BrokerStats] = field(default_factory=list)
    queue_tags: list[QueueTag] = field(default_factory=list)
    consume_stats: list[ConsumeStatsSample] = field(default_factory=list)
    broker_metrics: list[BrokerMetric] = field(default_factory=list)
    topic_metrics: list[TopicMetric] = field(default_factory=list)
    part: str | None = None

    @property
    def snapshot_id(self) -> str:
        """``20261119T231500123Z-<cluster>[-<part>]``: start, UTC, milliseconds."""
        at = self.observed_at.astimezone(UTC)
        of = self.cluster if self.part is None else f"{self.cluster}-{self.part}"
        return f"{at:%Y%m%dT%H%M%S}{at.microsecond // 1000:03d}Z-{of}"

    @property
    def duration_ms(self) -> int | None:
        """Milliseconds from start to finish, None before the finish."""
        if self.finished_at is None:
            return None
        return round((self.finished_at - self.observed_at).total_seconds() * 1000)

    def header(self) -> dict[str, Any]:
        """Return the one row of ``raw.snapshots``."""
        return {
            "snapshot_id": self.snapshot_id,
            "cluster": self.cluster,
            "source": self.source,
            "observed_at": self.observed_at,
            "finished_at": self.finished_at,
            "status": self.status,
            "brokers_expected": self.brokers_expected,
            "brokers_answered": self.brokers_answered,
            "requests": self.requests,
            "bytes": self.bytes,
            "duration_ms": self.duration_ms,
            "transport": self.transport,
            "proxies_answered": self.proxies_answered,
            "proxies": self.proxies and [_plain(proxy) for proxy in self.proxies],
            "staleness_ms": self.staleness_ms,
            "problems": [_plain(problem) for problem in self.problems],
            "left_out": [_plain(item) for item in self.left_out],
        }

    def records(self, table: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of ``raw.<table>`` with their three common columns in front.

        Args:
            table: a name in `TABLES`.
        """
        common = {
            "snapshot_id": self.snapshot_id,
            "observed_at": self.observed_at,
            "cluster": self.cluster,
        }
        for row in getattr(self, table):
            yield common | _plain(row)

    def count(self, table: str) -> int:
        """Return the number of rows of ``raw.<table>``.

        Args:
            table: a name in `TABLES`.
        """
        return len(getattr(self, table))

    def batches(self, table: str) -> Iterator[dict[str, Any]]:
        """Yield all rows by column, `BATCH` rows at a time: half the time of rows, bounded memory.

        Args:
            table: a name in `TABLES`.
        """
        all_rows = getattr(self, table)
        for start in range(0, len(all_rows), BATCH):
            rows = all_rows[start : start + BATCH]
            columns: dict[str, list[Any]] = {
                "snapshot_id": [self.snapshot_id] * len(rows),
                "observed_at": [self.observed_at] * len(rows),
                "cluster": [self.cluster] * len(rows),
            }
            columns |= {name: list(map(attrgetter(name), rows)) for name in _names(type(rows[0]))}
            if nested := _NESTED.get(type(rows[0])):
                columns[nested] = [_plain_items(items) for items in columns[nested]]
            yield columns


BATCH = 16_384
"""Rows that are turned into columns at a time."""

SHALLOW = ("brokers", "queue_offsets", "consumer_offsets", "topics", "consumer_groups", "clients")
"""Tables that every snapshot fills, in bulk."""

DEEP = (
    *("client_queues", "client_topics", "broker_stats"),
    *("queue_tags", "consume_stats", "broker_metrics", "topic_metrics"),
)
"""Tables that only deep snapshots fill, one request per client or key."""

TABLES = (*SHALLOW, *DEEP)
"""The lists of rows a `Snapshot` holds; each lands as ``raw.<name>``."""


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


def _plain(row: Any) -> dict[str, Any]:
    """Return a row as a dictionary; `dataclasses.asdict` copies deeply, at ten times the cost."""
    plain = {name: getattr(row, name) for name in _names(type(row))}
    if nested := _NESTED.get(type(row)):
        plain[nested] = _plain_items(plain[nested])
    return plain


def _plain_items(items: list[Any] | None) -> list[dict[str, Any]] | None:
    return None if items is None else [_plain(item) for item in items]


_NESTED: dict[type, str] = {Client: "subscriptions", Broker: "producers"}
"""Records to their field that holds further records."""
