"""Snapshots of configured clusters, side by side, each with the collector's memory of it.

A snapshot never raises: a cluster that cannot be read gives a ``FAILED`` snapshot with the reason,
and has no effect on the snapshots of others.
"""

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from tidemark.collection.memory import Memory, sharing_descriptors
from tidemark.collection.turns import (
    CollectedElsewhereError,
    Standing,
    refuse_if_just_collected,
    turn,
)
from tidemark.host.shared import Shared
from tidemark.host.state import State
from tidemark.model.snapshots import SnapshotSource, SnapshotStatus
from tidemark.rocketmq.collector import collect
from tidemark.rocketmq.records import Problem, Snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions
from tidemark.rocketmq.typed_values import whole_milliseconds
from tidemark.settings.basics import SettingsError
from tidemark.settings.clusters import Cluster, fault_of_name

T = TypeVar("T")


async def in_own_thread(work: Callable[[], T], name: str) -> T:
    """Run some work in a new thread, and return its result.

    `asyncio.to_thread` has a few threads for all clusters, and work that hangs in one keeps the
    process from ending.

    Args:
        work: is called once.
        name: of the thread, in listings of the process.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # pyright: ignore[reportArgumentType]

    def run() -> None:
        result, raised = None, None
        try:
            result = work()
        except BaseException as error:
            raised = error
        try:
            loop.call_soon_threadsafe(settle, result, raised)
        except RuntimeError:  # the loop is closed, so no caller waits for the result
            return

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done


_log = logging.getLogger(__name__)


NAME_IT = "give the cluster another name by TIDEMARK_CLUSTER or in clusters.yaml"


class NeverReachedError(Exception):
    """A cluster without a usable name; nothing can be written down.

    It was never reached and has no configured name, or its name servers give none that can be used.
    """


TURN_SECONDS = 60.0
"""Longest wait for a snapshot of the same cluster by another process, which may hang."""

Read = Callable[[Cluster, ClusterTarget], Coroutine[Any, Any, Snapshot]]
"""Reads a cluster."""


async def read_in_own_thread(cluster: Cluster, target: ClusterTarget) -> Snapshot:
    """Read a cluster in a thread and an event loop of its own.

    Responses are decoded in the loop in which they arrive. In a common loop, large responses of one
    cluster would delay those of all others.
    """
    return await in_own_thread(lambda: asyncio.run(collect(target)), f"read {cluster.key}")


async def take_snapshot(
    shared: Shared,
    cluster: Cluster,
    priority_groups: Sequence[str] = (),
    read: Read = read_in_own_thread,
    since: datetime | None = None,
) -> Snapshot:
    """Take one snapshot of a cluster, with the brokers remembered from earlier ones.

    The snapshot is deep when the last deep one was long enough ago. One process at a time reads a
    cluster.

    Args:
        shared: leases, and the state with the memory.
        cluster: the cluster to read.
        priority_groups: groups whose clients a deep snapshot always requests, see `DeepOptions`.
        read: reads the cluster.
        since: when the caller began to wait for this; None where it did not. See
            `tidemark.collection.turns.refuse_if_just_collected`.

    Raises:
        CollectedElsewhereError: another process collects the cluster, or just did.
        NeverReachedError: it failed and not even the cluster's name is known.
        LeaseError: leases cannot be had.
        OSError: the memory cannot be written, as on a full disk.
    """
    key = cluster.key
    lease = await turn(shared.leases, key, TURN_SECONDS, lambda: Memory.of(shared.state, key))
    try:
        if since is not None:
            memory = await asyncio.to_thread(Memory.of, shared.state, key)
            refuse_if_just_collected(key, memory, since, datetime.now(UTC))
        return await _take_snapshot(shared.state, cluster, None, read, priority_groups)
    finally:
        if lease:
            lease.release()


class Collector:
    """Takes repeated snapshots of one cluster, and holds its lease meanwhile.

    Args:
        shared: leases, and the state with the memory.
        cluster: the cluster to read.
        every: seconds between two snapshots.
        read: reads the cluster.
    """

    def __init__(
        self, shared: Shared, cluster: Cluster, every: float, read: Read = read_in_own_thread
    ) -> None:
        self._state, self._cluster, self._every, self._read = shared.state, cluster, every, read
        key = cluster.key
        self._me = secrets.token_hex(8)
        self._standing = Standing(
            shared.leases, key, lambda: Memory.of(shared.state, key), self._me
        )

    async def take_snapshot(self, seconds: float) -> Snapshot:
        """Take the next snapshot.

        Args:
            seconds: its longest time, where the cluster's own limit is longer.

        Raises:
            CollectedElsewhereError: another process collects the cluster.
            NeverReachedError: it failed and not even the cluster's name is known.
            LeaseError: leases cannot be had, and this process did not collect before.
            OSError: the memory cannot be written, as on a full disk.
        """
        await self._standing.take(min(seconds, TURN_SECONDS))
        return await _take_snapshot(
            self._state, self._cluster, seconds, self._read, every=self._every, collector=self._me
        )

    def end(self) -> None:
        """Let another process collect the cluster."""
        self._standing.release()


async def _take_snapshot(
    state: State,
    cluster: Cluster,
    seconds: float | None,
    read: Read,
    priority_groups: Sequence[str] = (),
    **taken: Any,
) -> Snapshot:
    memory = await asyncio.to_thread(Memory.of, state, cluster.key)
    deep = cluster.deep(memory.deep_at, datetime.now(UTC), memory.deep_turns)
    deep = deep and replace(deep, priority_groups=tuple(priority_groups))
    snapshot = await _collect(cluster, memory, seconds, deep, read)
    if snapshot.status == SnapshotStatus.FAILED:
        # A name server that lists no broker which responds may be that of another cluster.
        given = snapshot.cluster if snapshot.brokers_answered else ""
        snapshot.cluster = cluster.name or memory.cluster or given
        if not snapshot.cluster:
            problem = snapshot.problems[0]
            raise NeverReachedError(f"{problem.endpoint}: {problem.operation}: {problem.message}")
    if reason := fault_of_name(snapshot.cluster):
        raise NeverReachedError(f"{cluster.key}: {reason}; {NAME_IT}")
    await asyncio.to_thread(memory.learn, snapshot, deep is not None, **taken)
    return snapshot


def take_snapshots(
    shared: Shared,
    clusters: Sequence[Cluster],
    priority_groups: Sequence[str] = (),
    read: Read = read_in_own_thread,
    report: Callable[[str], None] = lambda _: None,
    since: datetime | None = None,
) -> list[Snapshot]:
    """Take one snapshot of each cluster at the same time, for code without an event loop.

    Args:
        shared: see `take_snapshot`.
        clusters: the clusters to read.
        priority_groups: see `take_snapshot`.
        read: see `take_snapshot`.
        report: receives a line for each cluster that another process collects.
        since: see `take_snapshot`.

    Raises:
        NeverReachedError: no cluster gave a snapshot.
        LeaseError: leases cannot be had.
        OSError: the memory cannot be written.
    """
    outcomes: list[Snapshot | BaseException] = []

    async def take_all() -> None:
        # Not returned: asyncio.run of Python 3.11 would write out the whole result.
        tasks = (
            take_snapshot(shared, cluster, priority_groups, read, since)
            for cluster in sharing_descriptors(clusters)
        )
        outcomes.extend(await asyncio.gather(*tasks, return_exceptions=True))

    asyncio.run(take_all())
    snapshots = [outcome for outcome in outcomes if isinstance(outcome, Snapshot)]
    elsewhere = [outcome for outcome in outcomes if isinstance(outcome, CollectedElsewhereError)]
    for error in elsewhere:
        report(str(error))
    errors = [
        outcome
        for outcome in outcomes
        if isinstance(outcome, BaseException) and outcome not in elsewhere
    ]
    fatal = [error for error in errors if not isinstance(error, NeverReachedError)]
    for error in fatal or (errors if not snapshots and not elsewhere else ()):
        raise error
    return snapshots


async def _collect(
    cluster: Cluster,
    memory: Memory,
    seconds: float | None,
    deep: DeepOptions | None,
    read: Read,
) -> Snapshot:
    started = datetime.now(UTC)
    try:
        kin = await asyncio.to_thread(memory.kin, started, cluster.others)
        target = cluster.target(memory.remembered(started), kin=kin)
        target = replace(target, deep=deep, last_name=memory.cluster)
        return await read(cluster, _within(target, seconds))
    except SettingsError as error:
        return _failed(cluster, started, "settings", str(error))
    except Exception as error:
        # A mistake of ours that one cluster brings out must not cost the others their snapshot.
        _log.exception("reading %s", cluster.key)
        return _failed(cluster, started, "collect", f"{type(error).__name__}: {error}"[:300])


def _within(target: ClusterTarget, seconds: float | None) -> ClusterTarget:
    """Return the target with time limits that keep a snapshot within so many seconds."""
    if seconds is None:
        return target
    if target.deep is None:
        return replace(target, total_timeout=min(seconds, target.total_timeout))
    # Bulk requests come first and end long before; the limit covers them all the same.
    share = seconds / 2
    deep = replace(target.deep, total_timeout=min(share, target.deep.total_timeout))
    return replace(target, total_timeout=min(share, target.total_timeout), deep=deep)


def _failed(cluster: Cluster, started: datetime, operation: str, message: str) -> Snapshot:
    problem = Problem(endpoint=cluster.namesrv[0], operation=operation, code=None, message=message)
    started = whole_milliseconds(started)
    return Snapshot(
        cluster="",
        source=SnapshotSource.REMOTE,
        observed_at=started,
        finished_at=datetime.now(UTC),
        problems=[problem],
    )
