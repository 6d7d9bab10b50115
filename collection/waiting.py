"""Snapshots that the object store refused: they wait on this host and land later, in order."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from collection.memory import shortened
from lake.landing import Place, copy_landed, folder_name, land, landed, landing_of
from lake.landing_places import Disk
from rocketmq.records import Snapshot
from settings.home import Home


class WaitsError(OSError):
    """A snapshot could not be landed, and waits."""


class Waiting:
    """Lands the snapshots of one cluster, also later those that could not be landed at once.

    Without a home to wait in, as where the landing is a disk, a snapshot that cannot be landed is
    lost.
    """

    def __init__(self, place: Place, home: Home | None, key: str) -> None:
        """Nothing is read or written.

        Args:
            place: where snapshots land.
            home: has the folder in which they wait.
            key: the cluster.
        """
        self._landing = landing_of(place)
        self._home = home
        self._folders = threading.Lock()
        self._disk = Disk((home.waiting if home else Path()) / folder_name(shortened(key)))

    def land(self, snapshot: Snapshot) -> None:
        """Land a snapshot; it waits where others wait, or where it cannot be landed.

        Raises:
            WaitsError: it could not be landed, and waits.
            OSError: it could not be landed and cannot wait: it is lost.
        """
        if self.is_any():
            self._keep(snapshot)
            return
        try:
            land(self._landing, snapshot)
        except OSError as error:
            if not self._home:
                raise
            self._keep(snapshot)
            raise WaitsError(str(error)) from error

    def is_any(self) -> bool:
        """Return whether a snapshot waits."""
        return bool(self._home) and next(landed(self._disk), None) is not None

    def land_waiting(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> int:
        """Land the snapshots that wait, oldest first; return how many that were.

        Args:
            seconds: after which the others wait for the next time.
            clock: gives seconds.

        Raises:
            OSError: one cannot be landed; it and all later ones keep waiting.
        """
        if not self._home:
            return 0
        until, count = clock() + seconds, 0
        for item in sorted(landed(self._disk)):
            if count and clock() > until:
                break
            copy_landed(item, self._landing)
            with self._folders:  # or the folder is removed in which another snapshot is put
                self._disk.remove(item.path)
                self._disk.remove_empty(item.path.parent.parent)
            count += 1
        return count

    def _keep(self, snapshot: Snapshot) -> None:
        assert self._home
        self._home.make()
        with self._folders:
            land(self._disk, snapshot)
