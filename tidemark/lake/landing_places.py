"""Places of landed snapshots: a folder on a disk, or a prefix of a bucket.

Both show a snapshot only when all of it is there. A disk renames its folder at the end. A bucket
has no such rename: there ``snapshots.parquet`` is written last, and a folder without it is nothing.
"""

import os
import re
import secrets
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType

from tidemark.settings.basics import SettingsError
from tidemark.settings.home import DurableFile, Home, make_folder, sync_folder
from tidemark.settings.sections import FILE, S3, CatalogSettings, ObjectStore

HEADER = "snapshots.parquet"
"""The last file of a snapshot."""

UNFINISHED_SECONDS = 86_400
"""Age at which no process can still be writing a hidden folder: a snapshot takes minutes."""

_UNFINISHED = re.compile(r"\.\d{8}T\d{9}Z-")  # others may have hidden folders there too

CONNECT_SECONDS, REQUEST_SECONDS = 5, 30

REQUESTS = 16  # to an object store at the same time

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


class Landing(ABC):
    """A tree of folders, one per landed snapshot.

    Attributes:
        root: its top.
    """

    root: PurePath

    @staticmethod
    def of(home: Home, settings: CatalogSettings) -> "Landing":
        """Return the landing of the settings; without one, the folder in the home.

        Raises:
            SettingsError: the settings name no place, or a tick could not use the home.
        """
        where = settings.landing
        if mistakes := settings.mistakes_of_home(home):
            raise SettingsError(mistakes)
        if not where:
            return Disk(home.landing)
        if where.startswith(f"{FILE}/"):
            return Disk(Path(where.removeprefix(FILE)))
        prefix = where.removeprefix(S3).strip("/")
        if not where.startswith(S3) or not prefix:
            raise SettingsError(["TIDEMARK_LANDING takes s3://BUCKET/PATH or file:///PATH"])
        return Bucket(PurePosixPath(prefix), settings.store)

    @abstractmethod
    def folders(self, parent: PurePath) -> list[str]:
        """Return the names of the folders in a folder, in order; none where it is missing."""

    @abstractmethod
    def files(self, folder: PurePath) -> list[str]:
        """Return the names of the files in a folder."""

    @abstractmethod
    def open(self, path: PurePath) -> Any:
        """Open a file for reading, as a context.

        Raises:
            RefusedError: an object store refuses it.
            OSError: it cannot be read.
        """

    @abstractmethod
    def writing(self, target: PurePath) -> Any:
        """Yield the folder to write a snapshot's files into; show them at the context's end.

        They survive a power cut from then on.

        Raises:
            OSError: they cannot be written; none is shown then.
        """

    @abstractmethod
    def write(self, path: PurePath, content: pa.Buffer) -> None:
        """Write a file as a whole."""

    @abstractmethod
    def sink(self, path: PurePath) -> Any:
        """Open a file for writing in parts."""

    @abstractmethod
    def is_finished(self, folder: PurePath) -> bool:
        """Return whether a folder that is listed holds a whole snapshot."""

    @abstractmethod
    def remove(self, folder: PurePath) -> None:
        """Remove a folder and its contents."""

    @abstractmethod
    def move(self, folder: PurePath, target: PurePath) -> None:
        """Move a snapshot's folder to another place of this landing.

        Raises:
            OSError: it cannot be moved.
        """

    @abstractmethod
    def remove_unfinished(self, hour: PurePath) -> None:
        """Remove hidden folders that killed processes left in the folder of an hour."""

    @abstractmethod
    def remove_empty(self, folder: PurePath) -> None:
        """Remove a folder and those in it where they hold no file."""

    def each(self, act: Callable[[_Item], _Found], items: Iterable[_Item]) -> Iterable[_Found]:
        """Act on each item; on an object store several at a time. The order stays."""
        return map(act, items)


@dataclass(frozen=True)
class Disk(Landing):
    """A folder of this host, or one that several hosts mount."""

    root: Path  # pyright: ignore[reportIncompatibleVariableOverride]

    def __str__(self) -> str:
        return str(self.root)

    def folders(self, parent: PurePath) -> list[str]:
        """See `Landing`."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return sorted(entry.name for entry in os.scandir(parent) if entry.is_dir())
        return []

    def files(self, folder: PurePath) -> list[str]:
        """See `Landing`."""
        with suppress(FileNotFoundError):
            return [entry.name for entry in os.scandir(folder) if entry.is_file()]
        return []

    def open(self, path: PurePath) -> Any:
        """See `Landing`."""
        return pa.OSFile(str(path))

    @contextmanager
    def writing(self, target: PurePath) -> Iterator[PurePath]:
        """See `Landing`."""
        # Hidden by a dot, next to its target to be renamed. In containers process ids repeat.
        unfinished = Path(target).with_name(f".{target.name}.{secrets.token_hex(3)}")
        make_folder(unfinished.parent)
        unfinished.mkdir()
        try:
            yield unfinished
            # The name is synced last, so that a visible folder is whole after a power cut.
            sync_folder(unfinished)
            unfinished.rename(target)
            sync_folder(unfinished.parent)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise

    def write(self, path: PurePath, content: pa.Buffer) -> None:
        """See `Landing`."""
        with DurableFile(Path(path)) as file:
            file.write(content)

    def sink(self, path: PurePath) -> Any:
        """See `Landing`."""
        return DurableFile(Path(path))

    def is_finished(self, folder: PurePath) -> bool:
        """See `Landing`: others may copy files one by one, the header last."""
        return (Path(folder) / HEADER).is_file()

    def remove(self, folder: PurePath) -> None:
        """See `Landing`."""
        shutil.rmtree(folder)

    def move(self, folder: PurePath, target: PurePath) -> None:
        """See `Landing`."""
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(folder).rename(target)

    def remove_unfinished(self, hour: PurePath) -> None:
        """See `Landing`."""
        for path in (Path(hour) / name for name in self.folders(hour) if _UNFINISHED.match(name)):
            with suppress(FileNotFoundError):  # its writer has just finished it
                if time.time() - path.stat().st_mtime > UNFINISHED_SECONDS:
                    self.remove(path)

    def remove_empty(self, folder: PurePath) -> None:
        """See `Landing`."""
        for path in (*(folder / name for name in self.folders(folder)), folder):
            with suppress(OSError):  # not empty
                Path(path).rmdir()


@dataclass(frozen=True)
class Bucket(Landing):
    """A prefix of a bucket; credentials are those of the platform (``AWS_...``).

    Attributes:
        root: bucket and prefix.
        options: how the object store is reached.
    """

    root: PurePosixPath  # pyright: ignore[reportIncompatibleVariableOverride]
    options: ObjectStore

    def __str__(self) -> str:
        return f"{S3}{self.root}"

    @cached_property
    def _files(self) -> FileSystem:
        from pyarrow.fs import S3FileSystem

        return S3FileSystem(
            region=self.options.region,
            endpoint_override=self.options.endpoint or None,
            force_virtual_addressing=not self.options.path_style,
            connect_timeout=CONNECT_SECONDS,
            request_timeout=REQUEST_SECONDS,
            allow_delayed_open=True,  # one request for a small file
        )

    @contextmanager
    def _used(self) -> Iterator[FileSystem]:
        # Imported here: it needs the libraries of the catalog, and a folder does without them.
        from tidemark.lake.damaged_files import usable

        with usable(f"the landing {self}"):
            yield self._files

    def _listed(self, folder: PurePath, kind: FileType) -> list[str]:
        with self._used() as files:
            file_info = files.get_file_info(FileSelector(str(folder), allow_not_found=True))
        return sorted(info.base_name for info in file_info if info.type == kind)

    def folders(self, parent: PurePath) -> list[str]:
        """See `Landing`."""
        return self._listed(parent, FileType.Directory)

    def files(self, folder: PurePath) -> list[str]:
        """See `Landing`."""
        return self._listed(folder, FileType.File)

    @contextmanager
    def open(self, path: PurePath) -> Iterator[Any]:
        """See `Landing`; the store may also refuse while the file is read."""
        from tidemark.lake.damaged_files import reached

        with self._used() as files:
            file = files.open_input_file(str(path))
        with file, reached(f"the landing {self}"):
            yield file

    @contextmanager
    def writing(self, target: PurePath) -> Iterator[PurePath]:
        """See `Landing`."""
        if self.is_finished(target):
            raise FileExistsError(17, "The snapshot has landed before", f"{S3}{target}")
        try:
            yield target
        except BaseException:
            with suppress(OSError):
                self.remove(target)
            raise

    def write(self, path: PurePath, content: pa.Buffer) -> None:
        """See `Landing`."""
        with self._used() as files, files.open_output_stream(str(path)) as stream:
            stream.write(content)

    @contextmanager
    def sink(self, path: PurePath) -> Iterator[Any]:
        """See `Landing`."""
        with self._used() as files, files.open_output_stream(str(path)) as stream:
            yield stream

    def is_finished(self, folder: PurePath) -> bool:
        """See `Landing`."""
        with self._used() as files:
            return files.get_file_info(str(folder / HEADER)).type == FileType.File

    def remove(self, folder: PurePath) -> None:
        """See `Landing`: the header, which makes it visible, goes first, so no half is loaded."""
        with self._used() as files:
            if self.is_finished(folder):
                files.delete_file(str(folder / HEADER))
            files.delete_dir(str(folder))

    def move(self, folder: PurePath, target: PurePath) -> None:
        """See `Landing`: the header, which makes it visible, is copied last and removed first."""
        with self._used() as files:
            for name in sorted(self.files(folder), key=lambda name: name == HEADER):
                files.copy_file(str(folder / name), str(target / name))
        self.remove(folder)

    def remove_unfinished(self, hour: PurePath) -> None:
        """See `Landing`: a bucket hides nothing, and a listing of folders shows left-overs."""

    def remove_empty(self, folder: PurePath) -> None:
        """See `Landing`."""
        with self._used() as files:
            file_info = files.get_file_info(FileSelector(str(folder), recursive=True))
            if not any(info.type == FileType.File for info in file_info):
                files.delete_dir(str(folder))

    def each(self, act: Callable[[_Item], _Found], items: Iterable[_Item]) -> Iterable[_Found]:
        """See `Landing`."""
        with ThreadPoolExecutor(REQUESTS) as pool:
            return list(pool.map(act, items))
