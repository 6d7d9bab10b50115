"""JSON files that RocketMQ rewrites every few seconds, each with its previous content in ``.bak``.

How they are rewritten (`MixAll.string2File`): up to 5.3.3 the new text goes to ``.tmp``, the old to
``.bak``, the file is deleted and ``.tmp`` renamed; later the file is moved to ``.bak`` and written
again in place. A reader may find the file missing for a moment, and a part of it for another.

People edit these files. Like the broker's own reader (`RemotingSerializable.fromJson`, 4.9.7 to
5.5.1), this one accepts a byte order mark and comments.
"""

import re
import time
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rocketmq.files.errors import FileError, reason_of

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
        found = decode(_bytes(backup_of(path)))
    except UNREADABLE as error:
        more = f"{backup_of(path).name}: {reason_of(error)}"
        raise FileError(path, f"{reason}; {more}") from error
    return found, FileError(path, f"{reason}; read {backup_of(path).name} instead")


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        body = file.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes")
    body = body.removeprefix(BOM_UTF8)
    if b"/*" in body or b"//" in body:
        body = _COMMENT.sub(lambda found: found[1] or b" ", body)
    if not body.strip():
        raise ValueError("empty")
    return body
