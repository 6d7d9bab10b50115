"""Queues of equally long files, each named by the offset of its first byte, and their errors.

Files are read with ``pread`` and not mapped: when a mapped file is truncated, the reader is
killed. The newest file, and the one allocated ahead of it, end in zeros that are not written yet.
"""

import os
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tidemark.rocketmq.records import Problem


class FileError(Exception):
    """A file or folder that cannot be read, or has another content than expected.

    Attributes:
        path: the file or folder.
        reason: the fault, in one line.
    """

    def __init__(self, path: Path, reason: str):
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason

    def problem(self, operation: str) -> Problem:
        """Return the error as a problem of a snapshot."""
        return Problem(
            endpoint=as_text(self.path), operation=operation, code=None, message=self.reason
        )


def reason_of(error: Exception) -> str:
    """Return why opening, reading or decoding failed, in one line without the path."""
    if isinstance(error, FileError):
        return error.reason
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def as_text(name: Path | str) -> str:
    r"""Return a path or a name in it as a table can hold it: a byte that is no UTF-8 as ``\xd6``.

    A JVM names folders in the encoding of its host, which is GBK on some.
    """
    return os.fsencode(name).decode(errors="backslashreplace")


class Closable(ABC):
    """Closes itself at the end of its ``with``."""

    @abstractmethod
    def close(self) -> None:
        """Close all open files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder that can be seen."""
    try:
        return path.is_dir()
    except OSError:
        return False


def may_exist(path: Path) -> bool:
    """Return whether a path exists, or cannot be seen."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def is_dangling(path: Path) -> bool:
    """Return whether a path is a link without a target, as to a disk that is not mounted."""
    return path.is_symlink() and not may_exist(path)


def require_target(folder: Path) -> None:
    """Refuse a link without a target, because its contents are unknown and not empty.

    Raises:
        FileError: the folder is such a link.
    """
    if is_dangling(folder):
        raise FileError(folder, "links to what is not there")


_NAME = re.compile(r"\d{20}")


@dataclass(slots=True, frozen=True)
class Segment:
    """One file of a queue.

    Attributes:
        path: the file.
        start: offset of its first byte in the queue.
        size: its length in bytes.
    """

    path: Path
    start: int
    size: int

    @property
    def end(self) -> int:
        """Offset after the last byte."""
        return self.start + self.size


class MappedFiles(Closable):
    """The files of one folder as one range of bytes; close it after use.

    Attributes:
        folder: the folder; it may be absent, then there are no files.
        segments: the files, by offset.
    """

    def __init__(self, folder: Path) -> None:
        """List the folder.

        Raises:
            FileError: the folder cannot be listed.
        """
        self.folder = folder
        self.segments = _segments(folder)
        self._open: tuple[Segment, int] | None = None

    def list_again(self) -> None:
        """List the folder again: files may have been created and deleted since.

        Raises:
            FileError: the folder cannot be listed.
        """
        self.segments = _segments(self.folder)

    def close(self) -> None:
        """Close the file that is open; the next read opens it again."""
        if self._open:
            os.close(self._open[1])
            self._open = None

    @property
    def largest(self) -> int:
        """Length of the largest file in bytes, 0 without files."""
        return max((segment.size for segment in self.segments), default=0)

    def segment_before(self, offset: int) -> Segment | None:
        """Return the last file that starts at an offset or before; it may end before the offset."""
        place = bisect_right(self.segments, offset, key=lambda segment: segment.start) - 1
        return self.segments[place] if place >= 0 else None

    def segment_at(self, offset: int) -> Segment | None:
        """Return the file that contains an offset; None where there is none."""
        segment = self.segment_before(offset)
        return segment if segment and offset < segment.end else None

    def read(self, offset: int, size: int) -> bytes:
        """Return at most `size` bytes from an offset on, fewer where the file ends.

        No bytes where there is no file: a broker deletes its oldest files while we read.

        Raises:
            FileError: the file cannot be read.
        """
        segment = self.segment_at(offset)
        if segment is None:
            return b""
        try:
            return os.pread(self._descriptor(segment), size, offset - segment.start)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise FileError(segment.path, error.strerror or "cannot be read") from error

    def _descriptor(self, segment: Segment) -> int:
        if self._open and self._open[0] is segment:
            return self._open[1]
        self.close()
        self._open = segment, os.open(segment.path, os.O_RDONLY)
        return self._open[1]


def _segments(folder: Path) -> list[Segment]:
    try:
        with os.scandir(folder) as entries:
            segments = sorted(_named_by_offset(entries), key=lambda segment: segment.start)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FileError(folder, error.strerror or "cannot be listed") from error
    if len(segments) > 1 and segments[-1].size == 0:
        segments.pop()  # just being created, or left behind by a broker that died
    return segments


def _named_by_offset(entries: Iterator[os.DirEntry[str]]) -> Iterator[Segment]:
    for entry in entries:
        if _NAME.fullmatch(entry.name):
            try:
                size = entry.stat().st_size
            except FileNotFoundError:
                continue  # expired between listing and reading its size
            yield Segment(Path(entry.path), int(entry.name), size)
