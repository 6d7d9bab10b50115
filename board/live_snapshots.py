"""Snapshots taken now, at most one a cluster and `SECONDS`, whoever requests it."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from board.responses import ProblemError
from collection.memory import Memory
from lake.state import State
from rocketmq.collector import collect_snapshot
from rocketmq.records import Snapshot
from settings.clusters import Cluster

SECONDS = 5.0
"""Seconds for which one snapshot serves everybody who requests one."""


@dataclass
class _Last:
    lock: threading.Lock = field(default_factory=threading.Lock)
    taken_at: float = -SECONDS
    snapshot: Snapshot | None = None


class LiveSnapshots:
    """The newest live snapshot of each configured cluster."""

    def __init__(self, state: State, configured: Callable[[], Sequence[Cluster]]) -> None:
        """Know how clusters are reached.

        Args:
            state: where the collector remembers brokers.
            configured: returns the clusters, as they are configured now.
        """
        self._state = state
        self._configured = configured
        self._last: dict[str, _Last] = {}
        self._lock = threading.Lock()

    def of(self, name: str) -> Snapshot:
        """Return a snapshot of a cluster that is at most `SECONDS` old.

        Raises:
            ProblemError: no such cluster is configured here, or nothing of it could be read.
        """
        cluster = self._named(name)
        with self._lock:
            last = self._last.setdefault(cluster.key, _Last())
        with last.lock:
            if last.snapshot is None or time.monotonic() - last.taken_at >= SECONDS:
                now = datetime.now(UTC)
                memory = Memory.of(self._state, cluster.key)
                target = cluster.target(memory.remembered(now), kin=memory.kin(now, cluster.others))
                last.snapshot = collect_snapshot(replace(target, counters=False))
                last.taken_at = time.monotonic()
            snapshot = last.snapshot
        if snapshot.status == "FAILED":
            why = snapshot.problems[0].line if snapshot.problems else "nothing responded"
            raise ProblemError(503, f"{name} cannot be read now: {why}")
        return snapshot

    def _named(self, name: str) -> Cluster:
        found = self._configured()
        for cluster in found:
            if name in (cluster.key, Memory.of(self._state, cluster.key).cluster):
                return cluster
        unnamed = [each for each in found if Memory.of(self._state, each.key).cluster is None]
        if len(found) == len(unnamed) == 1:
            # Its name is not known before its first snapshot; there is nothing to confuse it with.
            return found[0]
        known = ", ".join(cluster.key for cluster in found) or "none"
        raise ProblemError(404, f"{name!r} is not configured here; configured are: {known}")
