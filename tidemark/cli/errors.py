"""Failures of commands, in one line: the failure, its place and the remedy."""

import shutil
from collections.abc import Sequence
from contextlib import suppress

from tidemark.settings.home import Home

FULL_BYTES = 2**20
"""Free space below which no commit fits on a disk."""


class CommandError(Exception):
    """A command cannot do its work; the text names the reason and the remedy."""


class MistakesError(CommandError):
    """A file or folder of settings has mistakes; each is one line of its own.

    Attributes:
        mistakes: the lines.
    """

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = tuple(mistakes)


def remedy_of_full_disk(home: Home) -> str:
    """Return an addition to a failure's line where the disk of the home is full, else ''.

    SQLite reports a full disk as an I/O error, or as a database that cannot be opened.
    """
    with suppress(OSError):
        if shutil.disk_usage(home.path).free < FULL_BYTES:
            return f"; the disk of {home.path} is full: make room, then the next tick goes on"
    return ""
