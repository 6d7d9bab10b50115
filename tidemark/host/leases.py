"""Leases: the right of one process to do a thing, on one host or on many.

A lease ends when its holder releases it or dies. `FileLeases` serve the processes of one host that
share a home, `tidemark.host.postgresql.PostgresqlLeases` those of all hosts that share a database.
"""

import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from filelock import FileLock, Timeout

from tidemark.settings.home import Home, write_whole

RUN = "run"
"""Lease that runs, upgrades and backups hold while they change or copy tables."""

INCIDENTS = "incidents"
NOTIFIER = "notifier"
SILENCES = "silences"
ANNOTATIONS = "annotations"
DECISIONS = "decisions"
ACTIONS = "actions"
REFUSALS = "refusals"
REPORTS = "reports"

TABLES = "tables"
"""Lease of the process that creates the tables that a catalog lacks."""


class LeaseError(Exception):
    """A lease cannot be had or was lost; one line."""


class HeldError(LeaseError):
    """Another process holds the lease."""


class LostError(LeaseError):
    """A lease ended under its holder: the server that keeps leases ended its connection."""


class UnreachableError(LeaseError):
    """The server that keeps leases cannot be reached."""


class Lease(ABC):
    """A lease that this process holds; leaving its context gives it back.

    Attributes:
        name: of the right.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def confirm(self) -> None:
        """Do nothing while this process holds the lease.

        Raises:
            LostError: it no longer does, and another may.
        """

    @abstractmethod
    def release(self) -> None:
        """Release the lease after its last use; a second call has no effect."""

    def let_go(self) -> None:
        """Give the right back as a process does that ends before all is done."""
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.release()
        else:
            self.let_go()


class Leases(ABC):
    """The leases of one deployment."""

    poll_seconds: float
    """Seconds between two attempts of a process that waits."""

    @abstractmethod
    def attempt(self, name: str) -> Lease | None:
        """Return the lease, or None where another process holds it, without waiting.

        Raises:
            LeaseError: where leases are kept cannot be reached.
        """

    def is_abandoned(self, name: str) -> bool:
        """Return whether the last holder of a lease may have ended without releasing it.

        A present holder has not released it either.
        """
        return True

    @abstractmethod
    def holders(self) -> list[str]:
        """Return the holders of leases of any name, each in a few words.

        Raises:
            LeaseError: where leases are kept cannot be reached.
        """

    @abstractmethod
    def holder(self, name: str) -> str | None:
        """Return the holder of a lease in a few words, for a message; None where it is free."""

    def acquire(
        self,
        name: str,
        seconds: float = 0.0,
        waiting: Callable[[str], None] | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Lease:
        """Return the lease once no other process holds it.

        Args:
            name: of the right.
            seconds: the longest wait.
            waiting: called once with the holder, where the lease is not free at once.
            meanwhile: called after each attempt that fails.

        Raises:
            HeldError: another process holds it all that time.
            LeaseError: where leases are kept cannot be reached.
        """
        deadline = time.monotonic() + seconds
        while (lease := self.attempt(name)) is None:
            # Nobody holds it: it was released since the attempt, so another attempt may get it.
            if (holder := self.holder(name)) is None:
                continue
            if waiting:
                waiting(holder)
                waiting = None
            meanwhile()
            if time.monotonic() >= deadline:
                raise HeldError(f"the lease {name!r} is held by {holder}")
            time.sleep(self.poll_seconds)
        return lease


def this_process() -> str:
    """Return how a lease names its holder."""
    return f"process {os.getpid()} on {socket.gethostname()}"


class FileLeases(Leases):
    """Leases as locked files of a home; the operating system frees those of a killed process."""

    poll_seconds = 0.05

    def __init__(self, home: Home) -> None:
        self._home = home

    def attempt(self, name: str) -> Lease | None:
        """See `Leases`.

        Raises:
            OSError: the file cannot be made.
        """
        path = self._home.make() / f"{name}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another thread of this process may release it.
        lock = FileLock(path, thread_local=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        with suppress(OSError):  # on a full disk only a message lacks the name
            write_whole(self._holder_file(name), this_process())
        return _FileLease(name, lock, path, self._holder_file(name))

    def is_abandoned(self, name: str) -> bool:
        """See `Leases`."""
        return self._holder_file(name).exists()

    def holders(self) -> list[str]:
        """See `Leases`."""
        entries = set()
        for path in self._home.path.rglob("*.lock"):
            name = path.relative_to(self._home.path).with_suffix("").as_posix()
            if _is_locked(path) and (holder := self.holder(name)) is not None:
                entries.add(holder)
        return sorted(entries)

    def holder(self, name: str) -> str | None:
        """See `Leases`."""
        with suppress(OSError):
            return self._holder_file(name).read_text()
        time.sleep(self.poll_seconds)  # between lock and name, a process takes or releases it
        with suppress(OSError):
            return self._holder_file(name).read_text()
        path = self._home.path / f"{name}.lock"
        return f"another process ({path})" if _is_locked(path) else None

    def _holder_file(self, name: str) -> Path:
        """Return the file that names the holder; the release of the lease removes it."""
        return self._home.path / f"{name}.holder"


class _FileLease(Lease):
    def __init__(self, name: str, lock: FileLock, path: Path, holder_file: Path) -> None:
        super().__init__(name)
        self._lock, self._path, self._holder_file = lock, path, holder_file
        self._file = _identity(path)

    def confirm(self) -> None:
        """A file stays locked until its process ends; another one in its place may be locked."""
        if _identity(self._path) != self._file:
            raise LostError(
                f"the lease {self.name!r} was lost: somebody removed {self._path}; another process "
                "may hold it by now"
            )

    def release(self) -> None:
        if self._lock.is_locked and _identity(self._path) == self._file:
            self._holder_file.unlink(missing_ok=True)
        self.let_go()

    def let_go(self) -> None:
        self._lock.release()


def _is_locked(path: Path) -> bool:
    if not path.exists():
        return False
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return True
    lock.release()
    return False


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
