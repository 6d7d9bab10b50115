"""One line about a failure, from an exception and its causes."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

OURS = {"assets", "expectations", "orchestration", "spark", "tidemark"}
"""Packages whose errors explain themselves; the text of other errors starts with their type."""

LONGEST = 500

SERVER_GONE = "the Spark Connect server is gone"

_CALL = re.compile(r"An error occurred while calling \S+\s*:?\s*")
_GONE = re.compile(
    r'<_\w+ of RPC that terminated with:\s*status = StatusCode\.UNAVAILABLE\s*details = "([^"]*+)',
)
"""Text of gRPC's error about a server that does not respond; only Spark is called by gRPC."""

_CAUSED = re.compile(r"^[^\S\n]*+Caused by: (?!java\.net\.)(.+)$", re.MULTILINE)
"""The causes of an error in Java. A cause of its sockets names no server; the one above does."""

_OF_POSTGRESQL = re.compile(r"^org\.postgresql\.\S+: ")
_APPENDED = re.compile(
    r"\n[^\S\n]*+at |\[SQL: |\(Background on this error|JVM stacktrace:"
    r"|For further information visit "
)


class DamagedError(OSError):
    """A file cannot be used; the text names it, the reason and the remedy."""


class RefusedError(DamagedError):
    """An object store, or the network before it, refused a file, which may be whole."""


@contextmanager
def errors_only(logger_name: str) -> Iterator[None]:
    """Keep a logger of a library from lines below the level of errors."""
    logger = logging.getLogger(logger_name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def essence(text: str) -> str:
    """Return a failure's text in one line, without the stack or statement that libraries append."""
    if gone := _GONE.search(text):
        return essence(f"{SERVER_GONE}: {gone[1]}")
    if "Traceback (most recent call last)" in text:
        text = text.strip().splitlines()[-1]
    roots = _CAUSED.findall(text)
    if roots:
        text = _OF_POSTGRESQL.sub("PostgreSQL: ", roots[-1])
    line = " ".join(_APPENDED.split(_CALL.sub("", text), maxsplit=1)[0].split())
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."


def one_line(error: BaseException) -> str:
    """Return the failure in one line, with its type where the text does not explain itself.

    A failure of settings files names all mistakes, however many, because each must be mended.
    """
    if mistakes := getattr(error, "mistakes", ()):
        return "; ".join(" ".join(str(mistake).split()) for mistake in mistakes)
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{where}"
    text = essence(str(error))
    speaks_for_itself = type(error).__module__.split(".")[0] in OURS
    return text if text and speaks_for_itself else f"{type(error).__name__}: {text or 'no reason'}"
