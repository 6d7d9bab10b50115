"""The state in which a broker left its store: ``abort``, ``checkpoint``, index of message keys.

``abort`` exists from a broker's start to its clean shutdown. After a crash the broker trusts
``checkpoint``: it reads the commit log again from the store times there, and deletes the index
files that reach beyond them (`IndexService.load`), so that messages in them are found by key only
if the broker dispatches them again. The time of the index is written when a file is full.
"""

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Self

from tidemark.rocketmq.files.mapped_files import FileError, may_exist, reason_of
from tidemark.rocketmq.typed_values import instant

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
