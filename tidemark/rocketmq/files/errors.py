"""Errors of files: one line each, with the path."""

import os
from pathlib import Path

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
        return Problem(as_text(self.path), operation, None, self.reason)


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
