"""Durable files: their content and names survive a power cut, which loses all unsynced writes.

A file's content survives when the file was synced, its name when its folder was. A file that names
another, such as a commit, is written only after both.
"""

import os
from io import BufferedWriter, FileIO
from pathlib import Path


class DurableFile(BufferedWriter):
    """A new file that survives a power cut once it is closed.

    Args:
        path: the file; its folder is made where it is missing.
    """

    def __init__(self, path: Path) -> None:
        make_folder(path.parent)
        super().__init__(FileIO(path, "wb"))
        self._path = path

    def close(self) -> None:
        """Sync content and name, then close; twice does no harm.

        Raises:
            OSError: the disk has not taken all of it.
        """
        if self.closed:
            return
        try:
            self.flush()
            os.fsync(self.fileno())
        finally:
            super().close()
        sync_folder(self._path.parent)


def sync_file(path: Path) -> None:
    """Make the content of a file survive a power cut, whichever process wrote it."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power cut: files created, renamed and removed there."""
    sync_file(path)


def make_folder(path: Path) -> None:
    """Make a folder and those above it where they are missing, so that they survive a power cut.

    Raises:
        OSError: one cannot be made.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)
