"""The store folder of a broker (``storePathRootDir``) and the queues in it.

::

    commitlog/                          every message
    consumequeue/<topic>/<queue id>/    the position of each message of a queue
    consumequeue_ext/, batchconsumequeue/ likewise, for brokers and topics that use them
    config/*.json                       topics, groups, progress

Nothing is locked and nothing is written, so a broker may run meanwhile, or have been killed.

``abort`` exists from a broker's start to its clean shutdown. After a crash the broker trusts
``checkpoint``: it reads the commit log again from the store times there, and deletes the index
files that reach beyond them (`IndexService.load`), so that messages in them are found by key only
if the broker dispatches them again. The time of the index is written when a file is full.
"""

import os
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Self

from tidemark.rocketmq.files.mapped_files import (
    Closable,
    FileError,
    is_dangling,
    is_folder,
    may_exist,
    reason_of,
    require_target,
)
from tidemark.rocketmq.files.message_files import (
    BatchConsumeQueue,
    CommitLog,
    ConsumeQueue,
    Entry,
    PlainConsumeQueue,
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


ABORT, CHECKPOINT, INDEX = "abort", "checkpoint", "index"

_TIMES = struct.Struct(">qqq")
"""Beginning of ``checkpoint`` (`StoreCheckpoint`): commit log, consume queues, index."""

_HEADER = struct.Struct(">qqqqii")
"""Beginning of an index file (`IndexHeader`): first and last store time, first and last physical
offset, used hash slots, entries and one more."""

_ENTRY_BYTES = 20

_NAME = re.compile(r"\d{17}")
"""Name of an index file: when it was begun, local time of the broker, in milliseconds."""


@dataclass(slots=True, frozen=True)
class Checkpoint:
    """Store times up to which a broker has written all messages to disk."""

    log_at: datetime | None
    queues_at: datetime | None
    index_at: datetime | None


@dataclass(slots=True, frozen=True, kw_only=True)
class IndexFile:
    """The header of one index file; offsets and times are None while it is blank."""

    path: Path
    begins_at: datetime | None = None
    ends_at: datetime | None = None
    begin_offset: int | None = None
    end_offset: int | None = None


@dataclass(slots=True, kw_only=True)
class StoreState:
    """The state in which a broker left its store.

    Attributes:
        shut_down_cleanly: whether no ``abort`` exists; false also while the broker runs.
        checkpoint: None without the file.
        index_files: by time.
        faults: files that are damaged, and index files that the next start will delete.
    """

    shut_down_cleanly: bool
    checkpoint: Checkpoint | None = None
    index_files: list[IndexFile] = field(default_factory=list)
    faults: list[FileError] = field(default_factory=list)

    @classmethod
    def of(cls, root: Path) -> Self:
        """Read the state of a store folder; damaged files are among the faults."""
        state = cls(shut_down_cleanly=not may_exist(root / ABORT))
        try:
            state.checkpoint = _checkpoint(root / CHECKPOINT)
        except FileError as error:
            state.faults.append(error)
        for index_file in _index_files(root / INDEX):
            if isinstance(index_file, FileError):
                state.faults.append(index_file)
            else:
                state.index_files.append(index_file)
        return state

    @property
    def index_end(self) -> int | None:
        """The last physical offset with an entry; None without one."""
        ends = [
            index_file.end_offset
            for index_file in self.index_files
            if index_file.end_offset is not None
        ]
        return max(ends, default=None)

    def is_index_whole(self) -> bool | None:
        """Return whether every index file will serve after the next start; None without files.

        A running broker has not yet written its checkpoint, so of one it is unknown.
        """
        if any(fault.path.parent.name == INDEX for fault in self.faults):
            return False
        if not self.index_files:
            return None
        return True if self.shut_down_cleanly or not self.beyond_checkpoint() else None

    def beyond_checkpoint(self) -> list[IndexFile]:
        """Return the index files that a start after a crash deletes."""
        if self.shut_down_cleanly or self.checkpoint is None:
            return []
        until = self.checkpoint.index_at
        return [
            index_file
            for index_file in self.index_files
            if index_file.ends_at is not None and (until is None or index_file.ends_at > until)
        ]


def _checkpoint(path: Path) -> Checkpoint | None:
    try:
        with path.open("rb") as file:
            body = file.read(_TIMES.size)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(path, reason_of(error)) from error
    if len(body) < _TIMES.size:
        raise FileError(path, f"{len(body)} bytes, where a checkpoint has {_TIMES.size} or more")
    return Checkpoint(*map(instant, _TIMES.unpack(body)))


def _index_files(folder: Path) -> Iterator[IndexFile | FileError]:
    try:
        paths = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except FileNotFoundError:
        return
    except OSError as error:
        yield FileError(folder / INDEX, reason_of(error))
        return
    end = 0
    for path in paths:
        try:
            index_file = _index_file(path, end)
        except FileError as error:
            yield error
            continue
        end = max(end, index_file.end_offset or 0)
        yield index_file


def _index_file(path: Path, end_before: int) -> IndexFile:
    """Read the header of an index file.

    Raises:
        FileError: it cannot be read, or contradicts itself or the file before it.
    """
    try:
        with path.open("rb") as file:
            header, size = file.read(_HEADER.size), os.fstat(file.fileno()).st_size
    except OSError as error:
        raise FileError(path, reason_of(error)) from error
    if len(header) < _HEADER.size:
        raise FileError(path, f"{size} bytes, less than the header of an index file")
    first_ms, last_ms, first, last, _, count = _HEADER.unpack(header)
    if count <= 1 and last == 0:
        return IndexFile(path=path)
    if not 0 <= first_ms <= last_ms or not 0 <= first <= last:
        raise FileError(path, f"header from {first} to {last}, {first_ms} ms to {last_ms} ms")
    if first < end_before:
        raise FileError(path, f"begins at {first}, before the end {end_before} of the file before")
    if _HEADER.size + count * _ENTRY_BYTES > size:
        raise FileError(path, f"{size} bytes for {count} entries")
    return IndexFile(
        path=path,
        begins_at=instant(first_ms),
        ends_at=instant(last_ms),
        begin_offset=first,
        end_offset=last,
    )
