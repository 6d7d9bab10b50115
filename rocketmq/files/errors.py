"""What can be wrong with a file: one line, with its path."""

from pathlib import Path

from rocketmq.rows import Problem


class FileError(Exception):
    """A file or folder that cannot be read, or is not what it should be.

    Attributes:
        path: the file or folder.
        reason: what is wrong with it, in one line.
    """

    def __init__(self, path: Path, reason: str):
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason

    def problem(self, operation: str) -> Problem:
        """The entry of a snapshot that says so."""
        return Problem(str(self.path), operation, None, self.reason)


def reason_of(error: Exception) -> str:
    """A failure of opening, reading or decoding, in one line and without the path."""
    if isinstance(error, FileError):
        return error.reason
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
