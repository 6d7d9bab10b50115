"""The store folder of a broker (``storePathRootDir``) and the queues in it.

::

    commitlog/                          every message
    consumequeue/<topic>/<queue id>/    the position of each message of a queue
    consumequeue_ext/, batchconsumequeue/ likewise, for brokers and topics that use them
    config/*.json                       topics, groups, progress

Nothing is locked and nothing is written, so a broker may run meanwhile, or have been killed.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tidemark.rocketmq.files.commit_log import CommitLog
from tidemark.rocketmq.files.consume_queue import (
    BatchConsumeQueue,
    ConsumeQueue,
    Entry,
    PlainConsumeQueue,
)
from tidemark.rocketmq.files.mapped_files import (
    Closable,
    FileError,
    is_dangling,
    is_folder,
    reason_of,
    require_target,
)
from tidemark.rocketmq.records import QueueTag
from tidemark.rocketmq.typed_values import instant

PLAIN, EXT, BATCH = "consumequeue", "consumequeue_ext", "batchconsumequeue"

_ROCKSDB = ("CURRENT", "MANIFEST-*", "*.sst")
"""Files that every RocksDB folder has."""

_CONFIG_IN_ROCKSDB = ("consumerOffsets", "topics", "subscriptionGroups", "rdb")
"""Folders of ``config/`` for configuration in RocksDB (5.1.4), and for all of it in one (5.3.2).
Other folders prove nothing: the users and rights of 5.3 are always in RocksDB."""


@dataclass(slots=True, frozen=True)
class Extent:
    """The range of a written queue, from its files.

    Attributes:
        min_offset: offset of the first retained message; None without a commit log.
        max_offset: offset of the next message to be put.
        last: the newest entry; None for a queue that nothing was put into.
    """

    min_offset: int | None
    max_offset: int
    last: Entry | None


class BrokerStore(Closable):
    """A store folder; close it after use.

    Attributes:
        root: the folder.
        commit_log: its commit log.
        unlisted: topics whose queues could not be listed, with the reason.
    """

    def __init__(self, root: Path) -> None:
        """Open the folder.

        Raises:
            FileError: the folder is no store, or its data is not in files.
        """
        self.root = root
        _require_store(root)
        self.commit_log = CommitLog(root)
        self.unlisted: dict[str, FileError] = {}
        self._file_sizes = {PlainConsumeQueue: 0, BatchConsumeQueue: 0}
        # All files of a kind are equally long, or the broker would refuse to start.
        for topic, queue_id in self.queues():
            # A fault of a queue is reported when the queue is read.
            with suppress(FileError), self.queue(topic, queue_id) as queue:
                largest = max(self._file_sizes[type(queue)], queue.files.largest)
                self._file_sizes[type(queue)] = largest

    def close(self) -> None:
        """Close all open files."""
        self.commit_log.close()

    @property
    def has_queues(self) -> bool:
        """Whether there is a folder for consume queues; a new broker has none yet."""
        return any(is_folder(self.root / name) for name in (PLAIN, BATCH))

    def queues(self) -> Iterator[tuple[str, int]]:
        """(topic, queue id) of every queue that has a folder; see `unlisted`.

        Raises:
            FileError: the folder of all topics cannot be listed.
        """
        for kind in (PLAIN, BATCH):
            for topic in _folders(self.root / kind):
                try:
                    require_target(self.root / kind / topic)
                    names = _folders(self.root / kind / topic)
                except FileError as error:
                    self.unlisted[topic] = error
                    continue
                yield from ((topic, int(name)) for name in names if name.isdecimal())

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Open one queue; a queue without a folder is empty.

        Raises:
            FileError: its folder cannot be listed.
        """
        place = Path(topic, str(queue_id))
        of_batches = self.root / BATCH / place
        if is_folder(of_batches) or is_dangling(of_batches):
            return BatchConsumeQueue(of_batches)
        return PlainConsumeQueue(self.root / PLAIN / place, self.root / EXT / place)

    def extent(self, topic: str, queue_id: int) -> Extent:
        """Return how far a queue is written.

        Raises:
            FileError: one of its files is cut off or cannot be read.
        """
        with self.queue(topic, queue_id) as queue:
            size = self._file_sizes[type(queue)]
            last = queue.last(size)
            if last is None:
                # Also where the only file is blank: nothing was put, or all of it long ago.
                first = queue.max_offset(size)
                return Extent(first, first, None)
            if not self.commit_log.segments:
                self.commit_log.list_again()  # a new broker may have begun it meanwhile
            oldest = self.commit_log.min_offset
            minimum = None if oldest is None else queue.min_offset(oldest, size)
            return Extent(minimum, last.position + last.messages, last)

    def stored_at(self, topic: str, queue_id: int, offset: int) -> datetime | None:
        """Return the store time of the message at an offset of a queue; None without a message.

        Raises:
            FileError: a file cannot be read, or the commit log lacks the message.
        """
        with self.queue(topic, queue_id) as queue:
            entry = queue.entry(offset)
        if entry is None or entry.stored_ms is not None:
            return instant(entry.stored_ms) if entry else None
        log, place = self.commit_log, entry.physical_offset
        record = log.record(place)
        if record is None:
            # The broker may have begun or deleted a file since the log was listed.
            log.list_again()
            record = log.record(place)
        if record is None and log.min_offset is not None and place >= log.min_offset:
            segment = log.segment_before(place)
            reason = f"no message at {place}, where one of {topic} {queue_id} should be"
            raise FileError(segment.path if segment else log.folder, reason)
        return instant(record.stored_ms) if record else None

    def queue_tags(
        self, broker: str, topic: str, queue_id: int, start: int, stop: int
    ) -> Iterator[QueueTag]:
        """Yield the consume-queue entries of the messages in ``[start, stop)``.

        A batch is one entry, at the offset of its first message. Lazy, in bounded memory.

        Raises:
            FileError: a file cannot be read.
        """
        with self.queue(topic, queue_id) as queue:
            for entry in queue.entries(start, stop):
                yield QueueTag(
                    broker=broker,
                    topic=topic,
                    queue_id=queue_id,
                    position=entry.position,
                    tags_code=entry.tags_code,
                    physical_offset=entry.physical_offset,
                    size=entry.size,
                )


def _folders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted; none where it is absent.

    Links without a target are among them.
    """
    try:
        with os.scandir(folder) as entries:
            result = [entry for entry in entries if entry.is_dir() or is_dangling(Path(entry))]
            return sorted(entry.name for entry in result)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FileError(folder, error.strerror or "cannot be listed") from error


def _require_store(root: Path) -> None:
    if not is_folder(root):
        raise FileError(root, "no such folder")
    if next(root.glob("dledger-*"), None):
        reason = "a DLedger store: its commit log has another form; collect from the broker instead"
        raise FileError(root, reason)
    configs = (root / "config" / name for name in _CONFIG_IN_ROCKSDB)
    for folder in (*root.glob("*consumequeue*"), *configs):
        if is_folder(folder) and any(next(folder.glob(name), None) for name in _ROCKSDB):
            reason = "is RocksDB, no files to read; collect from the broker instead"
            raise FileError(root, f"{folder.relative_to(root)} {reason}")
    if not any(is_folder(root / name) for name in ("config", "commitlog", PLAIN)):
        try:
            (root / "config").lstat()
        except PermissionError as error:
            raise FileError(root, reason_of(error)) from error
        except FileNotFoundError:
            pass
        hint = f"; is it {root / 'store'}?" if is_folder(root / "store") else ""
        raise FileError(root, f"no store of a broker: no config, commitlog or {PLAIN} in it{hint}")
