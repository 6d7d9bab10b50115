"""Diagnoses of groups for people: at most one request to a member within `SECONDS`."""

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from tidemark.board.live_snapshots import SECONDS, THREADS, LiveSnapshots
from tidemark.board.responses import ProblemError
from tidemark.live.diagnosis import Diagnosis, Wish, diagnose
from tidemark.rocketmq.records import Snapshot
from tidemark.settings.clusters import Cluster

WAITING = 8
"""Diagnoses that run or wait at a time: each may take as long as members that hang."""

RETRY_SECONDS = 5

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
        if sum(not made.diagnosis.done() for made in self._made.values()) >= WAITING:
            raise ProblemError(
                503,
                f"{WAITING} diagnoses are being made: try again",
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
