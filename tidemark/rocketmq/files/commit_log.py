"""The commit log: every message of a broker, one after the other, in ``commitlog/``."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tidemark.rocketmq.files.mapped_files import FileError, MappedFiles

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
