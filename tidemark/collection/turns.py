"""Choice of the process that collects a cluster: the one that holds the cluster's lease.

A tick holds the lease for one snapshot, `tidemark collect --every` for as long as it runs. A
process without the lease does nothing while the holder's snapshots are fresh: two snapshots at
once would cost the brokers twice, and each would lose what the other learned. No process waits
for a holder that hangs, because a snapshot too many is better than none.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import monotonic

from tidemark.collection.memory import Memory, name_of
from tidemark.host.leases import Lease, LeaseError, Leases, UnreachableError

FRESH = timedelta(seconds=60)
"""Largest age of the newest snapshot of a holder that collects once."""

CLOSE = timedelta(seconds=30)
"""Age below which a run need not repeat a snapshot: half of the minute between two ticks."""

INTERVALS = 2
"""Largest age, in intervals, of the newest snapshot of a holder that collects continuously."""


class CollectedElsewhereError(Exception):
    """Another process collects the cluster, or just did; one line."""


async def turn(
    leases: Leases, key: str, seconds: float, memory: Callable[[], Memory], me: str = ""
) -> Lease | None:
    """Return the lease of a cluster, or None where its holder hangs.

    Args:
        leases: of the deployment.
        key: the configured cluster.
        seconds: the longest wait for a holder without a known fresh snapshot.
        memory: reads the memory of the cluster.
        me: the name of this collector in the memory.

    Raises:
        CollectedElsewhereError: the holder's newest snapshot is fresh.
        LeaseError: leases cannot be had.
        OSError: the memory cannot be read.
    """
    deadline = monotonic() + seconds
    while True:
        # In a thread: a server that does not respond must not stop the other clusters.
        lease = await asyncio.to_thread(leases.attempt, name_of(key))
        if lease is not None:
            return lease
        known = await asyncio.to_thread(memory)
        if me and known.collector == me:
            return None  # the holder has not collected since this one did in its place
        if is_fresh(known, datetime.now(UTC)):
            holder = await asyncio.to_thread(leases.holder, name_of(key))
            # Nobody holds it: it was released since the attempt, so another attempt may get it.
            if holder is not None:
                raise CollectedElsewhereError(f"{key} is collected by {holder}")
        elif monotonic() >= deadline:
            return None
        await asyncio.sleep(leases.poll_seconds)


def is_fresh(memory: Memory, now: datetime) -> bool:
    """Return whether the newest snapshot of a cluster is as young as its collector makes them.

    One far ahead is of a clock that was set back since, and proves nothing of its collector.
    """
    if memory.collected_at is None:
        return False
    longest = max(FRESH, INTERVALS * timedelta(seconds=memory.every or 0))
    return abs(now - memory.collected_at) < longest


def refuse_if_just_collected(key: str, memory: Memory, since: datetime, now: datetime) -> None:
    """Refuse a second snapshot of a cluster that was collected while this process waited.

    While a tick waits for another run, another process may collect for it. A snapshot of its own
    right after that would cost the brokers twice and show nothing new.

    Args:
        key: the configured cluster.
        memory: the memory of the cluster.
        since: when this process began to wait.
        now: the present.

    Raises:
        CollectedElsewhereError: the newest snapshot is younger than both.
    """
    collected = memory.collected_at
    if collected is not None and since <= collected <= now and now - collected < CLOSE:
        seconds = (now - collected).total_seconds()
        raise CollectedElsewhereError(f"{key} was collected {seconds:.1f} s ago, in the meantime")


class Standing:
    """The lease of a cluster for as long as one process collects it.

    While the server that keeps leases cannot be reached, the process that collects continues and no
    other begins: collection needs no database.
    """

    def __init__(self, leases: Leases, key: str, memory: Callable[[], Memory], me: str) -> None:
        self._leases, self._key, self._memory, self._me = leases, key, memory, me
        self._lease: Lease | None = None
        self._collects = False

    async def take(self, seconds: float) -> None:
        """Return when this process is to take the next snapshot.

        Args:
            seconds: see `turn`.

        Raises:
            CollectedElsewhereError: see `turn`.
            LeaseError: leases cannot be had, and this process did not collect before.
        """
        if self._lease is not None:
            try:
                await asyncio.to_thread(self._lease.confirm)
                return
            except LeaseError:
                self.release()
        try:
            self._lease = await turn(self._leases, self._key, seconds, self._memory, self._me)
        except CollectedElsewhereError:
            self._collects = False
            raise
        except (UnreachableError, OSError):
            if not self._collects:
                raise
        self._collects = True

    def release(self) -> None:
        """Let another process collect the cluster."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None
