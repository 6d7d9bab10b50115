"""Brokers and members as they are now: live snapshots, and diagnoses and plans of groups.

A cluster gets one snapshot by our clock within `SECONDS`, and a member at most one request, shared
by all who ask. A snapshot of a cluster that does not respond takes as long as its limits allow.
Snapshots are taken in threads of their own, and a request that waits takes no thread, so no other
request waits.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from tidemark.board.http_responses import ProblemError
from tidemark.collection.memory import Memory
from tidemark.host.state import State
from tidemark.live import allocation_plan
from tidemark.live.broker_times import ByOurClock, remove_skew
from tidemark.live.consume_modes import MODE_COLUMNS, Pair, remembered_modes
from tidemark.live.diagnosis import Diagnosis, Wish, diagnose, with_words
from tidemark.model.snapshots import SnapshotStatus
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.records import Snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.settings.clusters import Cluster

SECONDS = 5.0
"""Seconds for which one snapshot or diagnosis serves all requests."""

THREADS = 4
"""Clusters of which a snapshot is taken at once, and diagnoses that are made at once."""

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


WAITING_DIAGNOSES = 8
"""Diagnoses that run or wait at a time: each may take as long as members that hang."""

_KNOWN = 10_000
"""Members and diagnoses that are remembered; those of long ago are forgotten beyond it."""

Subject = tuple[str, str, str]
"""Key of a cluster, consumer group, and topic or ''."""


@dataclass
class _Made:
    """A diagnosis that is made, or was, and when it began."""

    diagnosis: Future[Diagnosis]
    at: float


class Diagnoses:
    """Makes diagnoses, and shares each for `SECONDS` among those who ask."""

    def __init__(self, live: LiveSnapshots) -> None:
        """Know how clusters are reached; nothing is requested yet."""
        self._live = live
        self._made: dict[Subject, _Made] = {}
        self._requested: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(THREADS, "board-diagnoses")

    async def of(
        self, name: str, group: str, topic: str, clients_first: Sequence[str] = ()
    ) -> Diagnosis:
        """Return a diagnosis of a group that began at most `SECONDS` ago.

        Args:
            name: the cluster.
            group: the consumer group.
            topic: one of its topics; empty for all.
            clients_first: members that are requested first.

        Raises:
            ProblemError: no such cluster is configured here, it cannot be read, it has no such
                group, or too many diagnoses run.
        """
        snapshot = await self._live.of(name)
        cluster = await self._live.cluster(name)
        require_group(snapshot, group)
        subject = (cluster.key, group, topic)
        made = self._made.get(subject)
        if made is None or self._is_old(made):
            made = self._begin(cluster, subject, snapshot, clients_first)
        return await asyncio.shield(asyncio.wrap_future(made.diagnosis))

    def _begin(
        self,
        cluster: Cluster,
        subject: Subject,
        snapshot: Snapshot,
        clients_first: Sequence[str],
    ) -> _Made:
        if sum(not made.diagnosis.done() for made in self._made.values()) >= WAITING_DIAGNOSES:
            raise ProblemError(
                503,
                f"{WAITING_DIAGNOSES} diagnoses are being made: try again",
                {"Retry-After": str(RETRY_SECONDS)},
            )
        key, group, topic = subject
        wish = Wish(
            consumer_group=group,
            topic=topic or None,
            client_reports=cluster.client_reports,
            message_lookup=cluster.looks_up_messages(),
            clients_first=clients_first,
            may_request=lambda client_id: self._may_request((key, client_id)),
        )
        running = self._pool.submit(self._diagnose, cluster, snapshot, wish)
        made = _Made(running, time.monotonic())
        self._made[subject] = made
        if len(self._made) > _KNOWN:
            self._made = {s: it for s, it in self._made.items() if not self._is_old(it)}
        return made

    def _diagnose(self, cluster: Cluster, snapshot: Snapshot, wish: Wish) -> Diagnosis:
        return diagnose(self._live.target(cluster), snapshot, wish)

    def _is_old(self, made: _Made) -> bool:
        running = made.diagnosis
        if not running.done():
            return False
        return running.exception() is not None or time.monotonic() - made.at >= SECONDS

    def _may_request(self, member: tuple[str, str]) -> bool:
        """Return whether a member's last request was long enough ago, and count this one."""
        with self._lock:
            now = time.monotonic()
            if now - self._requested.get(member, -SECONDS) < SECONDS:
                return False
            if len(self._requested) >= _KNOWN:
                known = self._requested.items()
                self._requested = {it: at for it, at in known if now - at < SECONDS}
            self._requested[member] = now
            return True


def require_group(snapshot: Snapshot, group: str) -> None:
    """Refuse a group that a snapshot does not have.

    Raises:
        ProblemError: 404.
    """
    rows = (*snapshot.consumer_offsets, *snapshot.clients)
    if not any(row.consumer_group == group for row in rows):
        raise ProblemError(404, f"{snapshot.cluster} has no group {group!r} now")


MOST = 10_000
"""More clients, and more queues on a broker, than any group has."""


class NewPlan(BaseModel):
    """The group as it would be."""

    model_config = ConfigDict(extra="forbid", strict=True)
    cluster: str
    consumer_group: str
    clients: int = Field(ge=1, le=MOST, description="members in the plan")
    strategy: str | None = Field(None, description="as now without one, AVG if that is unknown")
    queues: int | None = Field(
        None, ge=1, le=MOST, description="queues of each topic on each broker; as now without"
    )
    rooms: list[str] = Field(
        [], max_length=100, description="machine rooms, for strategies that use them"
    )


def planned(snapshot: Snapshot, wanted: NewPlan) -> dict[str, Any]:
    """Return the planned owners of queues; see `tidemark.live.allocation_plan.plan`.

    Raises:
        ProblemError: the group cannot be planned.
    """
    wish = allocation_plan.Wish(
        consumer_group=wanted.consumer_group,
        clients=wanted.clients,
        strategy=wanted.strategy.upper() if wanted.strategy else None,
        queues=wanted.queues,
        rooms=tuple(wanted.rooms),
    )
    try:
        return allocation_plan.plan(snapshot, wish)
    except allocation_plan.PlanError as error:
        raise ProblemError(409, str(error)) from error


def modes_of(queues: pa.Table, snapshot: Snapshot) -> dict[Pair, str]:
    """Return how groups consumed by the newest rows, for a snapshot that shows it no more.

    Args:
        queues: the newest rows of ``progress.queues`` of its cluster.
        snapshot: the snapshot.
    """
    known = queues.select(MODE_COLUMNS)
    distinct = known.group_by(list(MODE_COLUMNS)).aggregate([])
    return remembered_modes(distinct.to_pylist(), snapshot.observed_at)


def problems_of(snapshot: Snapshot) -> list[str]:
    """Return the problems of a snapshot and the parts that limits left out, one line each."""
    return [problem.line for problem in (*snapshot.problems, *snapshot.left_out)]


def plain(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as values of JSON, with its outcomes in words."""
    return with_words(asdict(diagnosis))
