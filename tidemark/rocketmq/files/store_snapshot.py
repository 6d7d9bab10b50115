"""A broker's store folder as a snapshot, equal to a snapshot of the idle live broker.

The responses of the broker are rebuilt from its files and become rows in the same way
(`tidemark.rocketmq.snapshot.assembly`). Facts that only a running broker has stay unknown: online
members, queues without a commit of a group, pull offsets (except in files of 5.5.0), rates,
configuration.

``config/consumerOffset.json``, ``topics.json`` and ``subscriptionGroup.json`` are the bodies of
requests 43, 21 and 201 but for white space; ``delayOffset.json`` is that of 45. The static
topics (5.x) are in ``topicQueueMapping.json``, not in ``topics.json``. A broker with light
queues (``enableLmq=true``, `LmqConsumerOffsetManager`) keeps the progress of all groups in
``lmqConsumerOffset.json`` instead.
"""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, TypeVar

from tidemark.model.snapshots import SnapshotSource, SnapshotStatus
from tidemark.rocketmq.admin import responses
from tidemark.rocketmq.admin.responses import QueueStats, TopicConfig
from tidemark.rocketmq.files.local_offsets import backup_of, read_rewritten
from tidemark.rocketmq.files.mapped_files import FileError, may_exist
from tidemark.rocketmq.files.store_folder import BrokerStore, Extent, StoreState
from tidemark.rocketmq.names import SYSTEM_TOPICS
from tidemark.rocketmq.records import Broker, Problem, Snapshot
from tidemark.rocketmq.snapshot.assembly import fill
from tidemark.rocketmq.snapshot.broker_reading import BrokerReading
from tidemark.rocketmq.typed_values import instant, whole_milliseconds
from tidemark.rocketmq.wire.codes import RequestCode
from tidemark.rocketmq.wire.fastjson import loads

T = TypeVar("T")

READ = "READ"
"""Operation of a problem with a file whose content is known from elsewhere or not needed. Other
problems name the request that has no response."""

_MEMBERS = re.compile(r"rmq_sys_SYNC_BROKER_MEMBER_(.+)")


@dataclass(slots=True, kw_only=True)
class StoreConfig:
    """The files of ``config/`` about progress; None for a file that cannot be read.

    Attributes:
        offsets: progress of all groups, ``consumerOffset.json`` or ``lmqConsumerOffset.json``.
        topics: ``topics.json``.
        groups: ``subscriptionGroup.json``.
        delay_offsets: by delay level, the next message of ``SCHEDULE_TOPIC_XXXX`` (queue
            ``level - 1``) to be delivered, ``delayOffset.json``; None on brokers without.
        since_5: whether a broker from 5.0 on wrote them.
        is_of_slave: whether a slave wrote them: it stores the master's ``delayOffset.json`` as it
            came, in one line (`SlaveSynchronize`), where a master writes it in several.
        problems: files that could not be read.
    """

    offsets: responses.ConsumerOffsetTable | None = None
    topics: dict[str, responses.TopicConfig] | None = None
    groups: dict[str, responses.SubscriptionGroupConfig] | None = None
    delay_offsets: dict[int, int] | None = None
    since_5: bool = False
    is_of_slave: bool = False
    problems: list[Problem] = field(default_factory=list)

    @classmethod
    def of(cls, root: Path) -> "StoreConfig":
        """Read the files that exist, consumer offsets first."""
        config, folder = cls(), root / "config"

        def read(name: str, decode: Callable[[bytes], T], operation: RequestCode) -> T | None:
            try:
                item, wrong = read_rewritten(folder / name, decode)
            except FileError as error:
                config.problems.append(error.problem(operation.name))
                return None
            if wrong:
                config.problems.append(wrong.problem(f"{READ} {name}"))
            return item

        name = config._written_last(folder, "consumerOffset.json", "lmqConsumerOffset.json")
        offsets = read(name, _offsets, RequestCode.GET_ALL_CONSUMER_OFFSET)
        topics = read("topics.json", _topics, RequestCode.GET_ALL_TOPIC_CONFIG)
        config.groups = read(
            "subscriptionGroup.json",
            responses.decode_subscription_groups,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        )
        config.offsets, versioned = offsets or (None, False)
        config.topics, attributed = topics or (None, False)
        # Consumer offsets are written every 5 s by whatever broker runs, topics when they change.
        config.since_5 = versioned if offsets else attributed
        if config.topics is not None:
            path = folder / "topicQueueMapping.json"
            mapped = config._read_if_present(path, responses.decode_queue_mappings) or {}
            config.topics = responses.with_mappings(config.topics, mapped)
        delays = config._read_if_present(folder / "delayOffset.json", _delay_offsets)
        config.delay_offsets, config.is_of_slave = delays or (None, False)
        return config

    def _written_last(self, folder: Path, *names: str) -> str:
        """Return the file that the broker writes now; the other existing files are problems."""
        written = {name: at for name in names if (at := _written_at(folder / name)) is not None}
        last = max(written, key=written.__getitem__, default=names[0])
        for name in written.keys() - {last}:
            later = f"{last} was written later, by {written[last] - written[name]:.0f} s"
            left_over = FileError(folder / name, f"left over: {later}, and is read")
            self.problems.append(left_over.problem(f"{READ} {name}"))
        return last

    def _read_if_present(self, path: Path, decode: Callable[[bytes], T]) -> T | None:
        """Read a file that not every broker has: a slave has no delays, 4.9 no mappings."""
        present = None
        try:
            present, wrong = read_rewritten(path, decode)
        except FileError as error:
            wrong = error if may_exist(path) else None
        if wrong:
            self.problems.append(wrong.problem(f"{READ} {path.name}"))
        return present

    @property
    def cluster(self) -> str | None:
        """RocketMQ's name of the cluster: it has a topic, and another one for replies."""
        return _only(
            topic for topic in self.topics or () if f"{topic}_REPLY_TOPIC" in (self.topics or ())
        )

    @property
    def broker(self) -> str | None:
        """The broker group's name: it has a topic, from 5.0 on one more with its name in it."""
        topics = self.topics or {}
        members = (_MEMBERS.fullmatch(topic) for topic in topics)
        return _only(match[1] for match in members if match) or _only(
            topic
            for topic, config in topics.items()
            # 1: new topics inherit the configuration; apart from these only TBW102 has the bit.
            if config.perm & 1 and config.read_queues == config.write_queues == 1
            if topic != self.cluster and topic not in SYSTEM_TOPICS
        )

    def reading(self, broker: str, address: str, deployment: frozenset[str]) -> BrokerReading:
        """Return the responses that a broker would give from these files, without its queues."""
        return BrokerReading(
            broker=broker,
            broker_id=0,
            address=address,
            is_master=True,
            deployment=deployment,
            offsets=self.offsets,
            topics=self.topics,
            groups=self.groups,
        )


def _offsets(body: bytes) -> tuple[responses.ConsumerOffsetTable, bool]:
    """Decode the progress of all groups; a broker from 5.0 on writes a version with it."""
    return responses.decode_consumer_offsets(body), b'"dataVersion"' in body


def _topics(body: bytes) -> tuple[dict[str, responses.TopicConfig], bool]:
    """Decode all topics; a broker from 5.0 on writes attributes with them."""
    topic_configs = responses.decode_topic_configs(body)
    for topic, config in topic_configs.items():
        if (
            not 0 <= config.read_queues <= responses.MAX_QUEUES
            or not 0 <= config.write_queues <= responses.MAX_QUEUES
        ):
            raise ValueError(f"{topic} has {config.read_queues} and {config.write_queues} queues")
    return topic_configs, b'"attributes"' in body


def _delay_offsets(body: bytes) -> tuple[dict[int, int], bool]:
    """Decode the next delivery by level; the file of a slave has a single line."""
    table = loads(body)["offsetTable"]
    ints = {int(level): int(offset) for level, offset in table.items()}
    return ints, b"\n" not in body.strip()


def _written_at(path: Path) -> float | None:
    """Return when a file or its ``.bak`` was last written: a rewrite removes it for a moment."""
    times = []
    for place in (path, backup_of(path)):
        with suppress(OSError):
            times.append(place.stat().st_mtime)
    return max(times, default=None)


def _only(names: Iterable[str]) -> str | None:
    """Return the only name; None for no name or several."""
    texts = set(names)
    return texts.pop() if len(texts) == 1 else None


_COMMIT_LOG = "READ commitlog"
_STATE = "READ state"

SOME_SLAVE = 1
"""Stands for the id of a slave, which its files do not hold."""

STALENESS_MS = 5_000
"""Largest age of the commits in a master's files (`flushConsumerOffsetInterval`)."""

STALENESS_OF_SLAVE_MS = 60_000
"""Largest age of those of a slave: it copies the master's tables once a minute at least
(`SlaveSynchronize`)."""

Queue = tuple[str, int]
"""(topic, queue id)."""


def read_store(
    folder: Path | str,
    *,
    cluster: str | None = None,
    broker: str | None = None,
    broker_id: int | None = None,
    observed_at: datetime | None = None,
) -> Snapshot:
    """Read a store folder, or a copy of one, once.

    Args:
        folder: the broker's ``storePathRootDir``.
        cluster: Tidemark's name of the cluster; None for RocketMQ's own name of it.
        broker: name of the broker group; None for the name that the topics imply.
        broker_id: id of the broker, 0 for a master; None for the id that the files imply: 0, or
            `SOME_SLAVE`.
        observed_at: the instant of the copy; None for now.

    Returns:
        A snapshot. It is ``COMPLETE``, or ``PARTIAL`` when a file could not be read. Its problems
        then name the file (``endpoint`` is the path), and the rest is read. Consumer offsets are
        read before queue offsets. ``first_unconsumed_at`` and ``newest_stored_at`` are exact.

    Raises:
        FileError: the folder is no store, contains RocksDB or DLedger, has no readable file, or
            does not imply a name that was not given.
    """
    root = Path(folder)
    started = datetime.now(UTC)
    at = whole_milliseconds((observed_at or started).astimezone(UTC))
    with BrokerStore(root) as store:
        config = StoreConfig.of(root)
        if config.offsets is None and config.topics is None and not store.has_queues:
            raise FileError(root, f"nothing to read: {config.problems[0].message}")
        cluster = cluster or config.cluster or _refuse_unnamed(root, "cluster")
        broker = broker or config.broker or _refuse_unnamed(root, "broker")
        if broker_id is None:
            broker_id = SOME_SLAVE if config.is_of_slave else 0
        snapshot = Snapshot(cluster=cluster, source=SnapshotSource.STORE, observed_at=at)
        snapshot.staleness_ms = STALENESS_OF_SLAVE_MS if broker_id else STALENESS_MS
        deployment = frozenset({broker, config.cluster or cluster})
        queues = _StoreQueues(store, config.problems)
        reading = config.reading(broker, str(root), deployment)
        queues.measure(reading, config.since_5)
        queues.drop_unavailable_store_times(reading, config.since_5)
        queues.add_invalid_offsets(reading)
        fill(snapshot, [reading])
        queues.add_store_times(snapshot, reading)
        queues.add_broker(snapshot.brokers[0])
        snapshot.brokers[0].broker_id = broker_id
        snapshot.brokers[0].role = "SLAVE" if broker_id else None
        queues.add_state(snapshot.brokers[0], StoreState.of(root))
    snapshot.problems = queues.problems
    snapshot.brokers_expected = snapshot.brokers_answered = 1
    snapshot.status = SnapshotStatus.PARTIAL if snapshot.problems else SnapshotStatus.COMPLETE
    snapshot.finished_at = at + (datetime.now(UTC) - started)
    return snapshot


def _refuse_unnamed(root: Path, what: str) -> NoReturn:
    reason = f"does not contain the {what}'s name: give it with --{what} NAME"
    raise FileError(root / "config" / "topics.json", reason)


class _StoreQueues:
    """The queues of a store, measured once.

    Attributes:
        problems: files that could not be read, each once per request.
    """

    def __init__(self, store: BrokerStore, problems: Iterable[Problem]) -> None:
        self.store = store
        self._problems = {(problem.endpoint, ""): problem for problem in problems}
        self._extents: dict[Queue, Extent | None] = {}
        self._queues_are_lost = False

    @property
    def problems(self) -> list[Problem]:
        return list(self._problems.values())

    def measure(self, reading: BrokerReading, since_5: bool) -> None:
        """Add to the reading the broker's responses about its queues.

        Queues without any message have no folder; queues with a broken file are unknown.
        """
        for queue in self.store.queues():
            self._extents[queue] = self._extent(queue)
        for topic, error in self.store.unlisted.items():
            self._add(error, f"{RequestCode.GET_TOPIC_STATS_INFO.name} {topic}")
        self._check_commit_log()
        reading.leave_static_unknown()
        consumed = reading.consumed_topics()
        for topic in reading.topics_to_measure():
            config = (reading.topics or {}).get(topic)
            reading.topic_stats[topic] = {
                queue_id: self._stats((topic, queue_id))
                for queue_id in self._queue_ids(topic, config, since_5 or topic in consumed)
            }

    def drop_unavailable_store_times(self, reading: BrokerReading, since_5: bool) -> None:
        """Leave out the newest store times that a broker before 5.0 does not report.

        For queues that are read and no longer written it reports the two offsets only.
        """
        for topic, stats in reading.topic_stats.items():
            config = (reading.topics or {}).get(topic)
            if since_5 or config is None or stats is None:
                continue
            for queue_id in stats.keys() - range(config.write_queues):
                stats[queue_id] = stats[queue_id]._replace(newest_stored_at=None)

    def add_invalid_offsets(self, reading: BrokerReading) -> None:
        """Add problems for numbers that are no offsets; the rows pass them on as read."""
        for operation, message in reading.invalid_offsets():
            key = reading.address, operation
            self._problems[key] = Problem(
                endpoint=reading.address, operation=operation, code=None, message=message
            )

    def add_store_times(self, snapshot: Snapshot, reading: BrokerReading) -> None:
        """Fill consumer rows with the store time of the first unconsumed message."""
        known: dict[tuple[Queue, int], datetime | None] = {}
        static = reading.static_topics()
        for row in snapshot.consumer_offsets:
            if row.topic in static:
                continue  # its files have other queue ids and offsets
            queue, offset = (row.topic, row.queue_id), row.consumer_offset
            extent = self._extents.get(queue)
            if extent is None or extent.min_offset is None or offset is None:
                continue
            if extent.min_offset <= offset < extent.max_offset:
                if (queue, offset) not in known:
                    known[queue, offset] = self._stored_at(queue, offset)
                row.first_unconsumed_at = known[queue, offset]

    def add_broker(self, row: Broker) -> None:
        """Fill the broker's row from its commit log."""
        log, extents = self.store.commit_log, self._extents.values()
        dispatched = max((_end(extent) for extent in extents if extent), default=0)
        try:
            row.commit_log_min_offset = log.min_offset
            row.commit_log_max_offset, behind = log.end_and_behind(dispatched)
            row.dispatch_behind_bytes = behind if all(extents) else None
            oldest = log.record(log.min_offset or 0)
            row.earliest_stored_at = instant(oldest.stored_ms) if oldest else None
        except FileError as error:
            self._add(error, _COMMIT_LOG)

    def add_state(self, row: Broker, state: StoreState) -> None:
        """Fill the broker's row with how it left the store."""
        row.shut_down_cleanly = state.shut_down_cleanly
        if state.checkpoint:
            row.checkpoint_log_at = state.checkpoint.log_at
            row.checkpoint_queues_at = state.checkpoint.queues_at
            row.checkpoint_index_at = state.checkpoint.index_at
        row.index_whole = state.is_index_whole()
        end, log_end = state.index_end, row.commit_log_max_offset
        if end is not None and log_end is not None:
            row.index_behind_bytes = max(0, log_end - end)
        for fault in state.faults:
            self._add(fault, _STATE)

    def _queue_ids(self, topic: str, config: TopicConfig | None, all_read: bool) -> list[int]:
        """Return the queues to measure; those with files where topics are unknown."""
        if config is None:
            return sorted(queue_id for name, queue_id in self._extents if name == topic)
        # Before 5.0 GET_TOPIC_STATS_INFO leaves out queues that are read and not written any more.
        readable = config.read_queues if all_read else 0
        return list(range(max(config.write_queues, readable)))

    def _stats(self, queue: Queue) -> QueueStats:
        if queue not in self._extents:
            # Never written to, or for the first time since the folders were listed.
            lost = queue[0] in self.store.unlisted or self._queues_are_lost
            self._extents[queue] = None if lost else self._extent(queue)
        extent = self._extents[queue]
        if extent is None:
            return QueueStats(None, None, None)
        newest = self._stored_at(queue, extent.max_offset - 1) if extent.last else None
        return QueueStats(extent.min_offset, extent.max_offset, newest)

    def _extent(self, queue: Queue) -> Extent | None:
        try:
            return self.store.extent(*queue)
        except FileError as error:
            self._add(error, f"{RequestCode.GET_TOPIC_STATS_INFO.name} {queue[0]}")
            return None

    def _stored_at(self, queue: Queue, offset: int) -> datetime | None:
        try:
            return self.store.stored_at(*queue, offset)
        except FileError as error:
            self._add(error, _COMMIT_LOG)
            return None

    def _check_commit_log(self) -> None:
        log = self.store.commit_log
        for fault in log.faults():
            self._add(fault, _COMMIT_LOG)
        if not log.segments and any(extent and extent.last for extent in self._extents.values()):
            reason = "no commit log here: oldest offsets and store times are unknown"
            self._add(FileError(log.folder, reason), _COMMIT_LOG)
        if not self.store.has_queues and log.record(log.min_offset or 0):
            self._queues_are_lost = True
            reason = "no consume queues here, though there are messages: offsets are unknown"
            self._add(FileError(self.store.root, reason), RequestCode.GET_TOPIC_STATS_INFO.name)

    def _add(self, error: FileError, operation: str) -> None:
        self._problems.setdefault((str(error.path), operation), error.problem(operation))


def _end(extent: Extent) -> int:
    return extent.last.physical_offset + extent.last.size if extent.last else 0
