"""Services: processes of a home that outlive their command and are found by their state file."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self, TypeVar

import psutil

from tidemark.host.leases import Leases
from tidemark.host.processes import find
from tidemark.settings.home import write_whole

STOP_SECONDS = 20

LEASE_SECONDS = 600
"""Longest wait for another process that starts the same service."""


class NotStartedError(Exception):
    """A process did not come up; the text states its end in a few words."""


@dataclass(frozen=True, kw_only=True)
class Service(ABC):
    """A started process; each kind of service adds its own fields.

    Attributes:
        pid: its process.
        created: start time of that process, so that a reused id is never taken for it.
    """

    pid: int
    created: float

    @classmethod
    def read(cls, state: Path) -> Self | None:
        """Return the content of a state file, None without a readable one."""
        try:
            return cls(**json.loads(state.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    @classmethod
    def running(cls, state: Path) -> Self | None:
        """Return the service of a state file when it is alive and listening."""
        result = cls.read(state)
        return result if result and result.process() and result.listens() else None

    @abstractmethod
    def listens(self) -> bool:
        """Return whether it accepts requests by now."""

    def wait(self, seconds: float) -> None:
        """Wait until it listens.

        Raises:
            NotStartedError: it ended instead, or takes longer than that.
        """
        deadline = time.monotonic() + seconds
        while not self.listens():
            if self.process() is None:
                raise NotStartedError("ended while starting")
            if time.monotonic() > deadline:
                raise NotStartedError(f"did not listen within {seconds:g} s")
            time.sleep(0.1)

    def write(self, state: Path) -> None:
        """Write the state file, for this user only, as it may contain a token."""
        write_whole(state, json.dumps(asdict(self)), 0o600)

    def process(self) -> psutil.Process | None:
        """Its process, None when it has ended."""
        return find(self.pid, self.created)

    def stop(self) -> bool:
        """End it, by force if needed; return False when it had ended already."""
        process = self.process()
        if process is None:
            return False
        with suppress(psutil.NoSuchProcess):
            process.terminate()
            if not self._ends_within(STOP_SECONDS):
                process.kill()
                self._ends_within(STOP_SECONDS)
        return True

    def _ends_within(self, seconds: float) -> bool:
        # Not by waiting for its id to go: another process may be its parent and leave a zombie.
        deadline = time.monotonic() + seconds
        while self.process() is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True


S = TypeVar("S", bound=Service)


def bring_up(
    kind: type[S],
    leases: Leases,
    state: Path,
    start: Callable[[], S],
    down: Callable[[], object],
    seconds: float,
) -> S:
    """Start a service, or return the one that runs; of several callers at once only one starts it.

    A failure or an interruption on the way leaves no service running.

    Args:
        kind: of service.
        leases: of this host.
        state: its state file, whose name names the lease.
        start: starts its process.
        down: stops the service that the state file names, and removes its files.
        seconds: the longest time it may take.

    Raises:
        NotStartedError: when it does not come up.
    """
    with leases.acquire(f"{state.parent.name}/{state.stem}", LEASE_SECONDS):
        running = kind.running(state)
        if running:
            return running
        down()
        running = start()
        try:
            running.write(state)
            running.wait(seconds)
        except BaseException:
            running.stop()
            down()
            raise
        return running
