"""The home of a deployment, which holds all its files, and files that survive a power cut."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
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


DEFAULT_HOME = ".tidemark"
"""The home that no variable and no option names: a folder in the working directory."""


@dataclass(frozen=True)
class Home:
    """The folder that holds all of Tidemark's state.

    Attributes:
        path: absolute path of the folder; it need not exist yet.
    """

    path: Path

    @classmethod
    def of(cls, path: str | Path) -> "Home":
        """Return the home at a path."""
        return cls(Path(path).absolute())

    def make(self) -> Path:
        """Make the folder where it is missing, for its user alone, and return its path.

        Raises:
            OSError: it cannot be made.
        """
        if not self.path.is_dir():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
        return self.path

    @property
    def landing(self) -> Path:
        """Landed snapshots."""
        return self.path / "landing"

    @property
    def waiting(self) -> Path:
        """Snapshots that an object store has not taken yet."""
        return self.path / "waiting"

    @property
    def warehouse(self) -> Path:
        """Iceberg data and metadata files."""
        return self.path / "warehouse"

    @property
    def catalog(self) -> Path:
        """The SQLite file of the Iceberg catalog."""
        return self.path / "catalog.db"

    @property
    def dagster(self) -> Path:
        """Dagster's storage (``DAGSTER_HOME``)."""
        return self.path / "dagster"

    @property
    def engine(self) -> Path:
        """State and log of the warm engine."""
        return self.path / "engine"


UNFINISHED = ".part"
"""Suffix of files that are renamed when they are whole."""

LEFT_SECONDS = 600
"""Age from which no process writes an unfinished file any more; each takes seconds."""


def unfinished(path: Path) -> Path:
    """Return the hidden file of the same folder in which this process writes a file."""
    return path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")


def remove_unfinished(*folders: Path) -> None:
    """Remove the unfinished files in some folders that killed processes left.

    Ids of processes repeat in containers that share a volume, so their age decides.
    """
    for folder in folders:
        for path in folder.glob(f"*{UNFINISHED}"):
            with suppress(OSError):  # its writer has just finished it
                if time.time() - path.stat().st_mtime > LEFT_SECONDS:
                    path.unlink()


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a file atomically: a reader gets the whole old text or the whole new one.

    That holds after a power cut too, and the new text survives one once this has returned.

    Args:
        path: the file.
        text: its content.
        mode: its permissions, less the umask.

    Raises:
        OSError: it cannot be written; then it is as it was.
    """
    part = unfinished(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        with os.fdopen(os.open(part, flags, mode), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
