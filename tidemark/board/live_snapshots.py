"""Live snapshots by our clock, one per cluster within `SECONDS`, shared by all requests.

A snapshot of a cluster that does not respond takes as long as its limits allow. Snapshots are
taken in threads of their own, and a request that waits takes no thread, so no other request waits.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tidemark.board.responses import ProblemError
from tidemark.collection.memory import Memory
from tidemark.host.state import State
from tidemark.live.history_times import ByOurClock, remove_skew
from tidemark.model.snapshots import SnapshotStatus
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.settings.clusters import Cluster

SECONDS = 5.0
"""Seconds for which one snapshot serves all requests."""

THREADS = 4
"""Clusters of which a snapshot is taken at once."""

WAITING = 16
"""Requests that wait for snapshots of a cluster by one of its names."""

RETRY_SECONDS = 5
"""Seconds after which a refused request may be sent again."""


@dataclass
class _Last:
    """The newest snapshot of a cluster: taken, or being taken for some requests."""

    taken: Future[ByOurClock] | None = None
    taken_at: float = -SECONDS


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
        self._waiting: Counter[str] = Counter()
        self._pool = ThreadPoolExecutor(THREADS, "board-live")
        self._naming = ThreadPoolExecutor(1, "board-clusters")

    @property
    def names(self) -> list[str]:
        """The keys of the configured clusters."""
        return [cluster.key for cluster in self._configured()]

    async def of(self, name: str) -> ByOurClock:
        """Return a snapshot of a cluster that is at most `SECONDS` old.

        Raises:
            ProblemError: no such cluster is configured here, nothing of it could be read, or too
                many requests wait for it.
        """
        # A refusal comes before all that costs: clients may repeat it without a pause.
        if self._waiting[name] >= WAITING:
            raise ProblemError(
                503,
                f"{WAITING} requests wait for a snapshot of {name}: try again",
                {"Retry-After": str(RETRY_SECONDS)},
            )
        self._waiting[name] += 1
        try:
            cluster = await self.cluster(name)
            last = self._last.setdefault(cluster.key, _Last())
            snapshot = await asyncio.shield(asyncio.wrap_future(self._newest(cluster, last)))
        finally:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name]
        if snapshot.status == SnapshotStatus.FAILED:
            why = snapshot.problems[0].line if snapshot.problems else "nothing responded"
            raise ProblemError(503, f"{name} cannot be read now: {why}")
        return snapshot

    async def cluster(self, name: str) -> Cluster:
        """Return the configured cluster with a name.

        Raises:
            ProblemError: no such cluster is configured here.
        """
        # Finding it reads the state, which may be a database that does not respond. One at a time:
        # many that compute at once take the turns of the loop that serves probes.
        return await asyncio.wrap_future(self._naming.submit(self._named, name))

    def target(self, cluster: Cluster) -> ClusterTarget:
        """Return how a cluster is reached now, with the brokers that the collector remembers."""
        now = datetime.now(UTC)
        memory = Memory.of(self._state, cluster.key)
        return cluster.target(memory.remembered(now), kin=memory.kin(now, cluster.others))

    def _newest(self, cluster: Cluster, last: _Last) -> Future[ByOurClock]:
        """Return the snapshot of a cluster, which may still be being taken."""
        taken = last.taken
        is_old = time.monotonic() - last.taken_at >= SECONDS
        if taken is None or (taken.done() and (taken.exception() or is_old)):
            last.taken = taken = self._pool.submit(self._take, cluster, last)
        return taken

    def _take(self, cluster: Cluster, last: _Last) -> ByOurClock:
        try:
            return remove_skew(collect_snapshot(replace(self.target(cluster), counters=False)))
        finally:
            last.taken_at = time.monotonic()

    def _named(self, name: str) -> Cluster:
        clusters = self._configured()
        for cluster in clusters:
            if name in (cluster.key, Memory.of(self._state, cluster.key).cluster):
                return cluster
        unnamed = [
            cluster for cluster in clusters if Memory.of(self._state, cluster.key).cluster is None
        ]
        if len(clusters) == len(unnamed) == 1:
            # Its name is not known before its first snapshot; there is nothing to confuse it with.
            return clusters[0]
        known = ", ".join(cluster.key for cluster in clusters) or "none"
        raise ProblemError(404, f"{name!r} is not configured here; configured are: {known}")
