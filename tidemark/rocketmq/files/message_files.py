"""Files of messages: the commit log, and the consume queues that show what lies where in it.

``commitlog/`` has every message of a broker, one after the other. All entries of a consume queue
have the same length. ``consumequeue/<topic>/<queue id>/`` has one entry for each message, so an
entry's number is the message's offset; ``batchconsumequeue/`` (topics with ``queue.type=BatchCQ``,
from 5.0 on) one for each batch, which holds the offset of its first message.
"""

import struct
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import ClassVar

from tidemark.rocketmq.files.mapped_files import (
    Closable,
    FileError,
    MappedFiles,
    Segment,
    require_target,
)

MAGICS = frozenset({-626843481, -626843477})
"""The first number of a message: 0xDAA320A7, and 0xDAA320AB with long topic names from 5.1 on."""

BLANK = -875286124
"""0xCBD43194: nothing more in this file."""

_HEAD = struct.Struct(">ii")
_RECORD = struct.Struct(">iiiiiqqiq")
_TIME = struct.Struct(">q")
_BORN_HOST_V6 = 16
"""Bit of the system flag: the producer's address takes 20 bytes instead of 8."""

_READ = _RECORD.size + 20 + _TIME.size


@dataclass(slots=True, frozen=True, kw_only=True)
class Record:
    """The head of a message.

    Attributes:
        offset: where it lies in the commit log.
        size: its bytes, head included.
        queue_id: the queue of the message.
        queue_offset: its offset in that queue.
        stored_ms: when the broker stored it, milliseconds since 1970 by the broker's clock.
    """

    offset: int
    size: int
    queue_id: int
    queue_offset: int
    stored_ms: int


class CommitLog(MappedFiles):
    """The commit log of a store."""

    def __init__(self, root: Path) -> None:
        """List the files of the store in `root`.

        Raises:
            FileError: they cannot be listed.
        """
        super().__init__(root / "commitlog")

    @property
    def min_offset(self) -> int | None:
        """Start of the oldest file: messages before it have expired. None without files."""
        return self.segments[0].start if self.segments else None

    def faults(self) -> Iterator[FileError]:
        """Yield the faults of the sequence of files: one cut off, or one missing in between."""
        for segment, following in zip_longest(self.segments, self.segments[1:]):
            if segment.size < self.largest:
                reason = f"is cut off: {segment.size} bytes, {self.largest} are expected"
                yield FileError(segment.path, reason)
            elif following and segment.end != following.start:
                reason = f"ends at {segment.end}, the next file begins at {following.start}"
                yield FileError(segment.path, reason)

    def record(self, offset: int) -> Record | None:
        """Return the message that begins at an offset; None when none does.

        Raises:
            FileError: the file cannot be read.
        """
        head = self.read(offset, _READ)
        if len(head) < _RECORD.size:
            return None
        size, magic, _, queue_id, _, queue_offset, physical_offset, flag, _ = _RECORD.unpack_from(
            head
        )
        at = _RECORD.size + (20 if flag & _BORN_HOST_V6 else 8)
        # A file may have been reused, or the offset be wrong. Only a record that contains its own
        # offset is a message.
        if magic not in MAGICS or physical_offset != offset or len(head) < at + _TIME.size:
            return None
        (stored_ms,) = _TIME.unpack_from(head, at)
        return Record(
            offset=offset,
            size=size,
            queue_id=queue_id,
            queue_offset=queue_offset,
            stored_ms=stored_ms,
        )

    def next_record(self, offset: int) -> tuple[Record | None, int]:
        """Return the first message at or after a record boundary, and the start of the next one.

        Without a message, that is the end of the log.

        Raises:
            FileError: a file cannot be read.
        """
        while True:
            record = self.record(offset)
            if record is not None and record.size > 0:
                return record, offset + record.size
            head = self.read(offset, _HEAD.size)
            segment = self.segment_at(offset)
            if segment is None or len(head) < _HEAD.size or _HEAD.unpack(head)[1] != BLANK:
                return None, offset
            offset = segment.end

    def end_and_behind(self, dispatched: int) -> tuple[int | None, int | None]:
        """Return the end of the log, and the number of its bytes that no consume queue shows yet.

        Args:
            dispatched: end of the last message that a consume queue shows, a record boundary. Only
                later records are read, at most one file, because the log may have terabytes.

        Returns:
            None for unknown values: the files are missing, or the log has a gap.

        Raises:
            FileError: a file cannot be read.
        """
        if not self.segments or dispatched > self.segments[-1].end:
            return None, None
        newest = next(
            (item for item in reversed(self.segments) if self.record(item.start)), self.segments[0]
        )
        first, position = self.next_record(max(dispatched, self.segments[0].start))
        if first is None and position >= newest.start:
            return position, 0
        record, position = self.next_record(max(position, newest.start))
        while record is not None:
            record, position = self.next_record(position)
        return position, None if first is None else position - first.offset


_LARGEST_EXT_ADDRESS = -(2**31) - 1
"""Largest address in ``consumequeue_ext``; a larger value is a tag's code, a Java int."""

_SMALLEST_LONG = -(2**63)
_EXT = struct.Struct(">hqq")
_FILLER_SIZE = 2**31 - 1
"""Size in the entries put before the first message of a queue that begins in mid-file."""

_CHUNK = 4096
"""Entries read at a time while iterating."""


@dataclass(slots=True, kw_only=True)
class Entry:
    """One entry of a consume queue.

    Attributes:
        position: offset of its (first) message in the queue.
        messages: number of its messages: 1 except for batches.
        physical_offset: where they lie in the commit log.
        size: their bytes there.
        tags_code: Java hash of the tag, 0 without one (in ``SCHEDULE_TOPIC_XXXX``: when to deliver,
            milliseconds); None when it is in an ext file that lacks the entry.
        stored_ms: store time in milliseconds since 1970, where the entry has it.
    """

    position: int
    messages: int
    physical_offset: int
    size: int
    tags_code: int | None
    stored_ms: int | None


class ConsumeQueue(Closable):
    """One queue of one topic; close it after use."""

    unit: ClassVar[struct.Struct]

    def __init__(self, folder: Path) -> None:
        """List the folder; an absent folder is a queue without any message so far.

        Raises:
            FileError: it cannot be listed, or is a link without a target.
        """
        self.files = MappedFiles(folder)
        require_target(folder)
        self._end: int | None = None

    @abstractmethod
    def decode(self, number: int, unit: tuple[int, ...]) -> Entry | None:
        """Decode an entry of the file; None for a place that is not written."""

    @abstractmethod
    def entries(self, start: int, stop: int) -> Iterator[Entry]:
        """Yield the entries of messages in ``[start, stop)``, as far as there are any."""

    @abstractmethod
    def max_offset(self, file_size: int = 0) -> int:
        """Return the offset of the next message to be put here, 0 for a queue without files.

        Args:
            file_size: how long every file of such a queue is in this store, where that is known.

        Raises:
            FileError: the newest file is cut off or cannot be read.
        """

    @abstractmethod
    def min_offset(self, oldest: int, file_size: int = 0) -> int:
        """Return the offset of the first retained message; `max_offset` without one.

        Brokers store no such number; they search for it this way (`ConsumeQueue.correctMinOffset`).

        Args:
            oldest: begin of the commit log.
            file_size: as for `max_offset`.

        Raises:
            FileError: a file is cut off or cannot be read.
        """

    def close(self) -> None:
        """Close all open files."""
        self.files.close()

    def entry(self, position: int) -> Entry | None:
        """Return the entry of the message at an offset; None when there is none (any more)."""
        return next(self.entries(position, position + 1), None)

    def last(self, file_size: int = 0) -> Entry | None:
        """Return the newest entry."""
        end = self.end(file_size)
        return self.at(end - 1) if end else None

    # In numbers of entries

    @property
    def first(self) -> int:
        """Number of the oldest entry that a file may hold."""
        return self.files.segments[0].start // self.unit.size if self.files.segments else 0

    def at(self, number: int) -> Entry | None:
        """Return the entry of a number; None for a place that is not written."""
        content = self.files.read(number * self.unit.size, self.unit.size)
        if len(content) < self.unit.size:
            return None
        return self.decode(number, self.unit.unpack(content))

    def end(self, file_size: int = 0) -> int:
        """Return the number of the first entry that is not written; searched for once.

        Entries are written in order into files full of zeros, so in the newest file with any they
        are followed by zeros only.
        """
        if self._end is None:
            self._end = self._find_end(file_size)
        return self._end

    def _find_end(self, file_size: int) -> int:
        segments = self.files.segments
        written = (item for item in reversed(segments) if self.at(item.start // self.unit.size))
        newest = next(written, segments[0] if segments else None)
        if newest is None:
            return 0
        for segment in (newest, segments[-1]):
            self._require_whole(segment, file_size)
        low, high = newest.start // self.unit.size, newest.end // self.unit.size
        return bisect_left(range(low, high), True, key=lambda at: self.at(at) is None) + low

    def first_from(self, oldest: int, end: int) -> int:
        """Return the number of the first entry before `end` at `oldest` or later, or `end`."""
        segments = self.files.segments
        for segment, following in pairwise(segments):
            if segment.end != following.start:
                gap = f"ends at {segment.end}, the next file begins at {following.start}"
                raise FileError(segment.path, gap)

        def readable(number: int) -> bool:
            entry = self.at(number)
            # A filler has physical offset 0, which in a young commit log is valid.
            if entry is None or entry.size == _FILLER_SIZE:
                return False
            return entry.physical_offset >= oldest

        return bisect_left(range(self.first, end), True, key=readable) + self.first

    def units(self, start: int, stop: int) -> Iterator[Entry]:
        """Yield the entries of these numbers, in chunks, up to the first that is not written."""
        number, size = max(start, self.first), self.unit.size
        while number < stop:
            content = self.files.read(number * size, min(stop - number, _CHUNK) * size)
            whole = len(content) // size * size
            for unit in self.unit.iter_unpack(memoryview(content)[:whole]):
                entry = self.decode(number, unit)
                if entry is None:
                    return
                number += 1
                yield entry
            if not whole:
                return

    def _require_whole(self, segment: Segment, file_size: int) -> None:
        if not segment.size:
            raise FileError(segment.path, "is empty")
        if segment.size % self.unit.size or segment.size < file_size:
            expected = f", {file_size} are expected" if file_size else ""
            raise FileError(segment.path, f"is cut off: {segment.size} bytes{expected}")


class PlainConsumeQueue(ConsumeQueue):
    """One entry of 20 bytes for each message."""

    unit = struct.Struct(">qiq")

    def __init__(self, folder: Path, ext_folder: Path) -> None:
        """List the folders of the queue and, off by default, of its ext entries.

        Raises:
            FileError: one cannot be listed.
        """
        super().__init__(folder)
        self.ext = MappedFiles(ext_folder)

    def close(self) -> None:
        """Close all open files."""
        super().close()
        self.ext.close()

    def max_offset(self, file_size: int = 0) -> int:
        """See `ConsumeQueue.max_offset`."""
        return self.end(file_size)

    def min_offset(self, oldest: int, file_size: int = 0) -> int:
        """See `ConsumeQueue.min_offset`."""
        return self.first_from(oldest, self.end(file_size))

    def entries(self, start: int, stop: int) -> Iterator[Entry]:
        """See `ConsumeQueue.entries`."""
        return (entry for entry in self.units(start, stop) if entry.size != _FILLER_SIZE)

    def decode(self, number: int, unit: tuple[int, ...]) -> Entry | None:
        """See `ConsumeQueue.decode`."""
        physical_offset, size, tags_code = unit
        if physical_offset < 0 or size <= 0:
            return None
        known_tags_code, stored_ms = (
            (tags_code, None) if tags_code > _LARGEST_EXT_ADDRESS else self._extended(tags_code)
        )
        return Entry(
            position=number,
            messages=1,
            physical_offset=physical_offset,
            size=size,
            tags_code=known_tags_code,
            stored_ms=stored_ms,
        )

    def _extended(self, address: int) -> tuple[int | None, int | None]:
        content = self.ext.read(address - _SMALLEST_LONG, _EXT.size)
        if len(content) < _EXT.size:
            return None, None
        length, tags_code, stored_ms = _EXT.unpack(content)
        return (tags_code, stored_ms) if length >= _EXT.size else (None, None)


class BatchConsumeQueue(ConsumeQueue):
    """One entry of 46 bytes for each batch."""

    unit = struct.Struct(">qiqqqhii")

    def max_offset(self, file_size: int = 0) -> int:
        """See `ConsumeQueue.max_offset`."""
        last = self.last(file_size)
        return last.position + last.messages if last else 0

    def min_offset(self, oldest: int, file_size: int = 0) -> int:
        """See `ConsumeQueue.min_offset`."""
        end = self.end(file_size)
        first = self.first_from(oldest, end)
        entry = self.at(first) if first < end else None
        return entry.position if entry else self.max_offset(file_size)

    def entries(self, start: int, stop: int) -> Iterator[Entry]:
        """See `ConsumeQueue.entries`; the first batch may begin before `start`."""
        end = self.end()

        def after(number: int) -> bool:
            entry = self.at(number)
            return entry is not None and entry.position + entry.messages > start

        first = bisect_left(range(self.first, end), True, key=after) + self.first
        for entry in self.units(first, end):
            if entry.position >= stop:
                return
            yield entry

    def decode(self, number: int, unit: tuple[int, ...]) -> Entry | None:
        """See `ConsumeQueue.decode`."""
        physical_offset, size, tags_code, stored_ms, position, messages, _, _ = unit
        if physical_offset < 0 or size <= 0 or position < 0 or messages <= 0:
            return None
        return Entry(
            position=position,
            messages=messages,
            physical_offset=physical_offset,
            size=size,
            tags_code=tags_code,
            stored_ms=stored_ms,
        )
