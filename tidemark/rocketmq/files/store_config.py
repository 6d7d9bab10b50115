"""The configuration files of a store, decoded as the responses that a broker gives from them.

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
from pathlib import Path
from typing import TypeVar

from tidemark.rocketmq.admin import responses
from tidemark.rocketmq.files.local_offsets import backup_of, read_rewritten
from tidemark.rocketmq.files.mapped_files import FileError, may_exist
from tidemark.rocketmq.names import SYSTEM_TOPICS
from tidemark.rocketmq.records import Problem
from tidemark.rocketmq.snapshot.broker_reading import BrokerReading
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
