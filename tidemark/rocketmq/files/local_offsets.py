"""Offsets that broadcasting clients store in local files (`LocalFileOffsetStore`).

``<folder>/<client id>/<group>/offsets.json``, where the folder is ``~/.rocketmq_offsets`` of the
client's user, or its ``rocketmq.client.localOffsetStoreDir``. Queues that a client no longer owns
stay in its file with their old offsets. A client id may hold slashes, as of an instance that is
named after an address: then it is several folders deep.
"""

import os
import re
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from tidemark.model.snapshots import SnapshotSource, SnapshotStatus
from tidemark.rocketmq.files.mapped_files import FileError, as_text, reason_of
from tidemark.rocketmq.records import ConsumerOffset, Snapshot
from tidemark.rocketmq.typed_values import object_of, whole_milliseconds
from tidemark.rocketmq.wire.fastjson import loads

T = TypeVar("T")

PAUSES = (0.02, 0.1)
"""Seconds before each further attempt: a rewrite takes milliseconds."""

MAX_BYTES = 256 * 1024 * 1024
"""Far above any file of a real broker; a larger file is not read into memory."""

_COMMENT = re.compile(rb'/\*.*?\*/|//[^\n]*+|("(?:[^"\\]++|\\.)*+["\\]?|/\*.*+)', re.DOTALL)
"""A comment, or a string to keep (group 1), which may contain the signs of a comment.

A string or comment without an end extends to the end of the file. Retried from each later place,
the search would take time in the square of the file's size.
"""

UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)
"""Errors that reading and decoding raise for a missing or invalid file."""


def backup_of(path: Path) -> Path:
    """Return the path where RocketMQ keeps the previous content of a file."""
    return path.with_name(path.name + ".bak")


def read_rewritten(path: Path, decode: Callable[[bytes], T]) -> tuple[T, FileError | None]:
    """Read a file that may be rewritten meanwhile; if it cannot be read, its ``.bak``.

    Args:
        path: the file.
        decode: turns its bytes into the value; raises one of `UNREADABLE` for bad ones.

    Returns:
        The value, and the error of the file when the value comes from its ``.bak``.

    Raises:
        FileError: neither of the two can be read.
    """
    reason = ""
    for pause in (*PAUSES, None):
        try:
            return decode(_bytes(path)), None
        except UNREADABLE as error:
            reason = reason_of(error)
        if pause is None or not path.parent.is_dir():
            break
        time.sleep(pause)
    try:
        text = decode(_bytes(backup_of(path)))
    except UNREADABLE as error:
        more = f"{backup_of(path).name}: {reason_of(error)}"
        raise FileError(path, f"{reason}; {more}") from error
    return text, FileError(path, f"{reason}; read {backup_of(path).name} instead")


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        body = file.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes")
    body = body.removeprefix(BOM_UTF8)
    if b"/*" in body or b"//" in body:
        body = _COMMENT.sub(lambda match: match[1] or b" ", body)
    if not body.strip():
        raise ValueError("empty")
    return body


NAME = "offsets.json"
OPERATION = "READ " + NAME

STALENESS_MS = 5_000
"""Largest age of the offsets in a client's file (`persistConsumerOffsetInterval`)."""

MAX_DEPTH = 16
"""Folders inside each other; a link to a folder above would have no end."""

_ADDRESS = re.compile(r"\b(https?:)/(?!/)")
"""The two slashes of an address are one in a path."""

Queue = tuple[str, str, int]
"""(broker, topic, queue id)."""


def read_local_offsets(
    folder: Path | str, *, cluster: str, observed_at: datetime | None = None
) -> Snapshot:
    """Read every client's offsets below a folder, or below a copy of one, once.

    Args:
        folder: the one that holds a folder for each client.
        cluster: Tidemark's name of the cluster; the files do not contain it.
        observed_at: when a copy was taken; None for now.

    Returns:
        A snapshot of consumer offsets. A file that is missing or corrupt, or has no offsets, is a
        problem. Its ``.bak`` is then read instead, if that is valid; other files are still read.
        A folder that cannot be listed is a problem too. ``FAILED`` when no file could be read.

    Raises:
        FileError: there is no such folder, it cannot be listed, or no client's file is below it.
    """
    root = Path(folder)
    started = datetime.now(UTC)
    at = whole_milliseconds((observed_at or started).astimezone(UTC))
    snapshot = Snapshot(cluster=cluster, source=SnapshotSource.LOCAL_OFFSETS, observed_at=at)
    snapshot.staleness_ms = STALENESS_MS
    good = 0
    for path in _files(root, snapshot):
        if len(path.relative_to(root).parts) < len(("client id", "group", NAME)):
            stray = FileError(path, f"not below <client id>/<group>/: not read, nobody's {NAME}")
            snapshot.problems.append(stray.problem(OPERATION))
            continue
        try:
            offsets, wrong = read_rewritten(path, decode_offsets)
        except FileError as error:
            snapshot.problems.append(error.problem(OPERATION))
            continue
        good += 1
        if wrong:
            snapshot.problems.append(wrong.problem(OPERATION))
        snapshot.consumer_offsets += _rows(root, path, offsets)
    snapshot.status = (
        SnapshotStatus.FAILED
        if not good
        else SnapshotStatus.PARTIAL
        if snapshot.problems
        else SnapshotStatus.COMPLETE
    )
    snapshot.finished_at = snapshot.observed_at + (datetime.now(UTC) - started)
    return snapshot


def decode_offsets(body: bytes) -> dict[Queue, int]:
    """Decode an ``offsets.json``: the next offset to consume by queue.

    Raises:
        ValueError, KeyError, TypeError: the body is no such file.
    """
    queues: dict[Queue, int] = {}
    for key, offset in object_of(object_of(loads(body))["offsetTable"]).items():
        if not isinstance(key, tuple):
            raise ValueError(f"{key!r} is no queue")
        queue = dict(key)
        place = queue["brokerName"], queue["topic"], queue["queueId"]
        known = [type(part) for part in place] == [str, str, int] and all(place[:2])
        if not known or place[2] < 0:
            raise ValueError(f"{queue} is no queue")
        if type(offset) is not int or not 0 <= offset < 2**63:
            raise ValueError(f"{offset!r} is no offset ({place[1]} {place[2]})")
        queues[place] = offset
    return queues


def _files(root: Path, snapshot: Snapshot) -> list[Path]:
    """Return every offset file at any depth, also where only its ``.bak`` is left.

    Args:
        root: the folder of all clients.
        snapshot: gets a problem for each folder that cannot be listed, as one of another user.

    Raises:
        FileError: there is nothing to read.
    """
    names = {NAME, backup_of(Path(NAME)).name}
    files: list[Path] = []
    waiting = [(root, 0, _listed(root))]
    while waiting:
        folder, depth, entries = waiting.pop()
        if any(entry.name in names for entry in entries):
            files.append(folder / NAME)
        for entry in entries:
            if entry.name in names or not _is_folder(entry):
                continue
            inner = Path(entry.path)
            try:
                if depth >= MAX_DEPTH:
                    raise FileError(inner, f"deeper than {MAX_DEPTH} folders: not read")
                waiting.append((inner, depth + 1, _listed(inner)))
            except FileError as error:
                snapshot.problems.append(error.problem(OPERATION))
    if not files and not snapshot.problems:
        raise FileError(root, f"no <client id>/<group>/{NAME} below it")
    return sorted(files)


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileError(folder, "no such folder") from error
    except OSError as error:
        raise FileError(folder, reason_of(error)) from error


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return True  # listing it reports why it cannot be read


def _rows(root: Path, path: Path, offsets: dict[Queue, int]) -> Iterator[ConsumerOffset]:
    group = as_text(path.parent.name)
    client_id = _ADDRESS.sub(r"\1//", as_text(str(path.parent.parent.relative_to(root))))
    for (broker, topic, queue_id), offset in sorted(offsets.items()):
        yield ConsumerOffset(
            broker=broker,
            consumer_group=group,
            topic=topic,
            queue_id=queue_id,
            client_id=client_id,
            consumer_offset=offset,
            offset_store="client_file",
        )
