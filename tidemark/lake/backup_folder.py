"""The folder of a backup: its contents, their checksums, and their replacement by a newer one.

Files of tables are added as they are copied, because a table never changes them. All other files
are written into a folder of their own, and replace those of an earlier backup at the end.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from tidemark.settings.home import write_whole

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
