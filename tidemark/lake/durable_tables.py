"""Tables on a disk that survive a power cut.

The catalog names a table's metadata file, which names all others. PyIceberg's files are synced
before the catalog names them (`DurableFileIO`). Spark syncs nothing, so its files are synced after
its commit and before the next commit of Python (`sync_versions`). A power cut in between may damage
only a commit on which no other is based: `tidemark.lake.recovery` returns to the version before it.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.manifest import DataFile, ManifestEntryStatus
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot

from tidemark.settings.home import DurableFile, sync_file
from tidemark.settings.sections import FILE


class DurableFileIO(PyArrowFileIO):
    """PyIceberg's files, of which those on a disk are synced when they are closed."""

    def new_output(self, location: str) -> PyArrowFile:
        """Return a file to write; one of a disk survives a power cut once it is closed."""
        output = super().new_output(location)
        if path_of(location) is not None:
            output.__class__ = _DurableOutput
        return output


class _DurableOutput(PyArrowFile):
    def create(self, overwrite: bool = False) -> Any:
        """Create the file.

        Raises:
            FileExistsError: it exists, and is not to be overwritten.
        """
        if not overwrite and self.exists():
            raise FileExistsError(f"Cannot create file, already exists: {self.location}")
        return DurableFile(Path(self._path))


def path_of(location: str) -> Path | None:
    """Return the path of a file's address; None for one that is not on a disk."""
    if location.startswith("/"):
        return Path(location)
    # Spark leaves out the slashes of an empty host.
    scheme = FILE.partition("/")[0]
    return Path(f"/{location[len(scheme) :].lstrip('/')}") if location.startswith(scheme) else None


def added_files(table: IcebergTable, snapshot: Snapshot) -> Iterator[DataFile]:
    """Yield the data files that a version of a table added."""
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id == snapshot.snapshot_id:
            for entry in manifest.fetch_manifest_entry(table.io):
                if entry.status == ManifestEntryStatus.ADDED:
                    yield entry.data_file


def sync_versions(table: IcebergTable, since: int | None) -> None:
    """Make the versions of a table after another one survive a power cut.

    Args:
        table: the table at its newest version; of one in a bucket nothing is to be done.
        since: id of the version from which on; None for all.
    """
    locations = [table.metadata_location]
    snapshot = table.current_snapshot()
    while snapshot is not None and snapshot.snapshot_id != since:
        locations.append(snapshot.manifest_list)
        locations += [
            manifest.manifest_path
            for manifest in snapshot.manifests(table.io)
            if manifest.added_snapshot_id == snapshot.snapshot_id
        ]
        locations += [file.file_path for file in added_files(table, snapshot)]
        parent = snapshot.parent_snapshot_id
        snapshot = table.metadata.snapshot_by_id(parent) if parent is not None else None
    sync_files(locations)


def sync_files(locations: Iterable[str]) -> None:
    """Make files and their names survive a power cut, as files in a bucket do by themselves.

    Args:
        locations: their addresses; some may be gone, if their version has expired meanwhile.
    """
    paths = [path for path in map(path_of, locations) if path is not None]
    folders = {folder for path in paths for folder in (path.parent, path.parent.parent)}
    for path in (*paths, *sorted(folders)):
        with suppress(FileNotFoundError):
            sync_file(path)
