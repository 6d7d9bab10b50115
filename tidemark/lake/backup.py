"""Backup of everything that cannot be computed again, and its restoration.

A backup holds for each table the metadata of its newest version and every file that these name, so
it is whole although ticks remove and join files meanwhile. Files of a table never change: a second
backup into the same folder copies only new files, and removes those that it does not name. All
other files are written into a folder of their own, and replace those of an earlier backup at the
end.
"""

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from posixpath import normpath
from urllib.parse import unquote

import msgspec
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import Table as IcebergTable

from tidemark.host.leases import RUN
from tidemark.host.leases import TABLES as MAKING
from tidemark.host.processes import at_work_in
from tidemark.lake.catalog import Lake
from tidemark.lake.damaged_files import usable
from tidemark.lake.table_versions import VERSION
from tidemark.lake.tables import TABLES, raw
from tidemark.lake.upgrading import FOR_ITS_USER
from tidemark.settings.home import DEFAULT_HOME, Home, write_whole

CONTENTS = "backup.json"

UNFINISHED = "backup.unfinished"
"""Temporary folder of a running backup, whose files replace those of an earlier one at the end."""

REPLACED = ("landing", "home", "state")
"""Folders of a backup that a later one replaces as a whole."""

WAREHOUSE = "warehouse"

Proof = tuple[int, str]
"""Size and checksum of a file."""


class BackupError(Exception):
    """A backup cannot be made or restored; one line."""


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The contents of a backup, as its file ``backup.json`` states them.

    Attributes:
        program: the version of tidemark that made it.
        version: that of the tables.
        warehouse: where their files were; they are restored there, because Iceberg's metadata
            name files by their whole address.
        tables: full name to the address of its metadata.
        files: path in the backup of each file that the tables need, to its size and SHA-256.
    """

    program: str
    version: int
    warehouse: str
    tables: dict[str, str]
    files: dict[str, Proof] = field(default_factory=dict)


def check_folder(folder: Path) -> None:
    """Make sure that a folder is a new one, or one of an earlier backup.

    Raises:
        BackupError: it holds folders that a backup would replace, and none has been made there.
    """
    was_begun = (folder / CONTENTS).exists() or (folder / UNFINISHED).exists()
    others = [name for name in (*REPLACED, WAREHOUSE) if (folder / name).exists()]
    if others and not was_begun:
        raise BackupError(
            f"{folder} holds {others[0]} and no backup, which would replace it: name a new folder, "
            "or one of an earlier backup"
        )


def begin(folder: Path) -> dict[str, Proof]:
    """Make a folder ready for a backup; return the files of tables that an earlier one holds."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _complete(folder)
    shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
    (folder / UNFINISHED).mkdir()
    try:
        return contents_of(folder).files
    except BackupError:
        return {}


def finish(folder: Path, made: Contents) -> None:
    """Replace the files of an earlier backup by those just written, and record the contents.

    An interruption at any moment, also a power cut, leaves either the earlier backup or this one.
    """
    unfinished = folder / UNFINISHED
    for name in REPLACED:
        (unfinished / name).mkdir(exist_ok=True)
    os.sync()  # before the record: all files that it names must be on the disk
    # From here on any process that reads the backup completes it.
    write_whole(unfinished / CONTENTS, json.dumps(asdict(made), indent=1))
    _complete(folder)


def _complete(folder: Path) -> None:
    """Move the files of a backup into place, where it has written all of them."""
    unfinished = folder / UNFINISHED
    try:
        made = _read(unfinished / CONTENTS)
    except OSError:
        return
    for name in REPLACED:
        if (unfinished / name).exists():
            shutil.rmtree(folder / name, ignore_errors=True)
            (unfinished / name).rename(folder / name)
    os.sync()
    (unfinished / CONTENTS).rename(folder / CONTENTS)
    os.sync()
    _remove_others(folder, made.files)
    unfinished.rmdir()


def contents_of(folder: Path) -> Contents:
    """Return the contents of a backup.

    Raises:
        BackupError: the folder is no backup, or its file is damaged.
    """
    file = folder / CONTENTS
    try:
        _complete(folder)
        return _read(file)
    except OSError as error:
        raise BackupError(f"{folder} is no backup: {CONTENTS} cannot be read") from error
    except msgspec.MsgspecError as error:
        raise BackupError(f"{file} is damaged or edited: {error}; take another copy") from error


def _read(file: Path) -> Contents:
    return msgspec.json.decode(file.read_bytes(), type=Contents)


def check_files(folder: Path, contents: Contents) -> None:
    """Compare each file with its checksum; a backup of an older program names none.

    Raises:
        BackupError: one is missing or damaged.
    """
    wrong = [path for path, proof in contents.files.items() if proof_of(folder / path) != proof]
    if wrong:
        raise BackupError(
            f"{folder} is not whole: {len(wrong)} of {len(contents.files)} files are missing or "
            f"damaged, first {wrong[0]}; nothing was put back: take another copy of it"
        )


def proof_of(path: Path) -> Proof | None:
    """Return size and checksum of a file; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def write(target: Path, content: bytes) -> None:
    """Write a file so that a killed backup leaves none that is cut off."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(target)


def _remove_others(folder: Path, files: Collection[str]) -> None:
    """Remove left-overs of older or killed backups, which a restore would restore too."""
    # Contents before their folders.
    for path in sorted((folder / WAREHOUSE).rglob("*"), reverse=True):
        if path.is_dir():
            with suppress(OSError):  # not empty
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in files:
            path.unlink()


WAITS_SECONDS = 3600.0
"""Longest wait of a backup for the end of a run."""

SETTINGS = "*.y*ml"
"""Files of settings in a home."""

Report = Callable[[str], None]


def backup(
    lake: Lake,
    folder: Path,
    report: Report = lambda _: None,
    waiting: Report = lambda _: None,
) -> Contents:
    """Copy the tables, shared state, settings and Dagster's storage of the embedded size.

    Args:
        lake: the tables.
        folder: the target; files of a table that it contains are not copied again.
        report: receives a line for each part.
        waiting: receives the holder of the lease of runs, where this waits for it.

    Raises:
        BackupError: the folder is the home, or contains files that a backup would replace.
        DamagedError: a file cannot be read.
        LeaseError: a run has kept this waiting for `WAITS_SECONDS`.
    """
    if folder.resolve() == lake.home.path.resolve():
        raise BackupError(f"{folder} is the home itself: name a folder elsewhere")
    check_folder(folder)
    # Held to the end, because two backups into one folder would remove each other's files.
    with lake.shared.leases.acquire(RUN, WAITS_SECONDS, waiting):
        made = _copied(lake, folder, begin(folder), report)
        finish(folder, made)
    return made


def _copied(lake: Lake, folder: Path, known: Mapping[str, Proof], report: Report) -> Contents:
    """Copy everything into a folder in which a backup has begun; return its contents then."""
    unfinished = folder / UNFINISHED
    places, files = {}, {}
    for name in TABLES:
        table = lake.table(name)
        places[name] = table.metadata_location
        with usable(name):
            pairs = {
                path: _fetch(table.io, address, folder / path, known.get(path))
                for address in _files_of(table)
                for path in [_relative(lake, address)]
            }
        report(f"{name}: {len(pairs.keys() - known.keys())} new files")
        files |= pairs
    loaded = set(lake.read(raw.SNAPSHOTS, columns=("snapshot_id",))["snapshot_id"].to_pylist())
    _copy_pending(lake.home, unfinished / "landing", loaded)
    for name in lake.shared.state.names():
        text = lake.shared.state.read(name)
        if text is not None:
            write(unfinished / "state" / name, text.encode())
    _copy_home(lake.home, unfinished / "home")
    return Contents(
        program=version("tidemark"),
        version=VERSION,
        warehouse=lake.config.python["warehouse"],
        tables=places,
        files=files,
    )


def restore(lake: Lake, folder: Path, report: Report = lambda _: None) -> Contents:
    """Restore a backup where it was made, into a catalog without tables.

    A killed restore is repeated by a second call. No run and no process may create tables
    meanwhile. A table is restored last, so where one exists all other files were restored and stay
    as they are.

    Raises:
        BackupError: the folder is no backup, is not whole, or cannot be restored there; or
            processes use the home.
        LeaseError: leases cannot be had.
    """
    contents = contents_of(folder)
    check_files(folder, contents)
    _require_rest(lake)
    leases = lake.shared.leases
    with leases.acquire(RUN, WAITS_SECONDS), leases.acquire(MAKING, WAITS_SECONDS):
        _put_back(lake, folder, contents, report)
    return contents


def _require_rest(lake: Lake) -> None:
    """Check that no process uses the restored files, because it would keep the old ones open.

    Raises:
        BackupError: a process uses them.
    """
    at_work = [
        f"process {process.pid} ({' '.join(map(os.path.basename, process.cmdline()[1:3]))})"
        for process in at_work_in(lake.home.path, DEFAULT_HOME)
    ]
    if holders := at_work or lake.shared.leases.holders():
        raise BackupError(
            f"{lake.home.path} is in use by {', '.join(holders)}: stop daemon, collector, board "
            "and runs before a backup is put back"
        )


def _put_back(lake: Lake, folder: Path, contents: Contents, report: Report) -> None:
    if contents.version > VERSION:
        raise BackupError(
            f"{folder} is of version {contents.version}, made by tidemark {contents.program}; "
            "install that"
        )
    warehouse = lake.config.python["warehouse"]
    if _full(warehouse) != _full(contents.warehouse):
        raise BackupError(
            f"{folder} was made of {contents.warehouse} and is put back there only, not into "
            f"{warehouse}: Iceberg's metadata name files by their whole address"
        )
    catalog = lake.unchecked_catalog
    there = {name: _place_of(catalog, name) for name in contents.tables}
    for name, place in there.items():
        if place not in (None, contents.tables[name]):
            raise BackupError(f"{name} exists already; a backup is put back into an empty catalog")
    if any(there.values()):
        report(
            "silences, settings and Dagster's storage stay as they are: they were put back before"
        )
    else:
        _put_back_warehouse(lake, folder, contents)
        _put_back_home(lake, folder)
        os.sync()  # before the tables: a restore that finds one leaves all this as it is
    for name in [name for name, place in there.items() if place is None]:
        catalog.create_namespace_if_not_exists(name.split(".")[0])
        catalog.register_table(name, contents.tables[name])
        report(name)


def _put_back_warehouse(lake: Lake, folder: Path, contents: Contents) -> None:
    io = load_file_io(dict(lake.config.python), contents.warehouse)
    warehouse = _full(contents.warehouse).rstrip("/")
    for path in sorted(path for path in (folder / "warehouse").rglob("*") if path.is_file()):
        address = f"{warehouse}/{path.relative_to(folder / 'warehouse').as_posix()}"
        with usable(address), io.new_output(address).create(overwrite=True) as output:
            output.write(path.read_bytes())


def _put_back_home(lake: Lake, folder: Path) -> None:
    home = lake.home.make()
    for database in (folder / "home").rglob("*.db"):
        # SQLite would apply the pages of a journal that is left there to the restored file.
        for journal in ("-wal", "-shm", "-journal"):
            place = home / database.relative_to(folder / "home")
            place.with_name(place.name + journal).unlink(missing_ok=True)
    shutil.copytree(folder / "home", home, dirs_exist_ok=True)
    home.chmod(FOR_ITS_USER)
    if (folder / "landing").is_dir():
        shutil.copytree(folder / "landing", lake.home.landing, dirs_exist_ok=True)
    state = folder / "state"
    for path in sorted(path for path in state.rglob("*") if path.is_file()):
        lake.shared.state.write(path.relative_to(state).as_posix(), path.read_text())


def _place_of(catalog: Catalog, name: str) -> str | None:
    try:
        return catalog.load_table(name).metadata_location
    except NoSuchTableError:
        return None


def _files_of(table: IcebergTable) -> Iterator[str]:
    """Yield each file that the newest metadata of a table name, also for older versions."""
    yield table.metadata_location
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield manifest.manifest_path
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                    if entry.data_file.file_path not in seen:
                        seen.add(entry.data_file.file_path)
                        yield entry.data_file.file_path


def _relative(lake: Lake, address: str) -> str:
    warehouse = _full(lake.config.python["warehouse"]).rstrip("/") + "/"
    if not _full(address).startswith(warehouse):
        raise BackupError(
            f"{address} lies outside of the warehouse {warehouse}; name that in which it lies with "
            "TIDEMARK_WAREHOUSE"
        )
    return f"warehouse/{_full(address).removeprefix(warehouse)}"


def _full(address: str) -> str:
    """Return an address with the slashes of an empty host, and with the shortest path on a disk.

    Spark leaves out these slashes, ``file:/X``, and Hadoop normalizes paths.
    """
    path = address.removeprefix("file:")
    shortest = normpath(f"/{path.lstrip('/')}")
    return address if path == address else f"file://{shortest}"


def _fetch(io: FileIO, address: str, target: Path, known: Proof | None) -> Proof:
    """Copy a file of a table, unless an older backup holds it; return its size and checksum."""
    # The size proves a known file, without a checksum: runs wait for the lease during the copy.
    proof = known or proof_of(target)
    if proof and target.exists() and target.stat().st_size == proof[0]:
        return proof
    with io.new_input(address).open() as source:
        content = source.read()
    write(target, content)
    return len(content), hashlib.sha256(content).hexdigest()


def _copy_pending(home: Home, target: Path, loaded: set[str]) -> None:
    """Copy the snapshots in the home's landing that no table holds yet."""
    for path in home.landing.glob("[!.]*/*/*/[!.]*"):
        if unquote(path.name) not in loaded:
            shutil.copytree(path, target / path.relative_to(home.landing))


def _copy_home(home: Home, target: Path) -> None:
    """Copy the files of settings, and the databases of Dagster as they are at one instant."""
    target.mkdir()
    for path in home.path.glob(SETTINGS):
        shutil.copy2(path, target / path.name)
    for path in (*home.dagster.rglob("*.db"), *home.dagster.glob(SETTINGS)):
        copy = target / path.relative_to(home.path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".db":
            shutil.copy2(path, copy)
            continue
        try:
            # Not made where it is missing: Dagster may have just forgotten the run of a database.
            source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)
        except sqlite3.OperationalError:
            if path.exists():
                raise
            continue
        with closing(source), closing(sqlite3.connect(copy)) as database:
            source.backup(database)
