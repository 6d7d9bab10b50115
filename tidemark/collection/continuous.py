"""Continuous collection: one snapshot of each cluster per interval, landed for the next tick.

It needs neither Spark nor the lake, so it continues while they are down; the next tick loads all
landed snapshots. Clusters are collected side by side, each at its own interval.
"""

import asyncio
import gc
import logging
import math
import random
import signal
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from tidemark.collection.memory import raise_limit, sharing_descriptors, shortened
from tidemark.collection.snapshots import (
    Collector,
    NeverReachedError,
    Read,
    in_own_thread,
    read_in_own_thread,
)
from tidemark.collection.turns import CollectedElsewhereError
from tidemark.host.failures import one_line
from tidemark.host.leases import LeaseError
from tidemark.host.shared import Shared
from tidemark.host.state import KeptState
from tidemark.lake.landing import Place, copy_landed, folder_name, land, landed, landing_of
from tidemark.lake.landing_places import Disk
from tidemark.rocketmq.records import Snapshot
from tidemark.settings.clusters import Cluster
from tidemark.settings.home import Home
from tidemark.settings.yaml_documents import printable


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


_log = logging.getLogger(__name__)

TIDY_SECONDS = 60.0

ALIVE_SECONDS = 60.0
"""How often a collector that waits for its next snapshot shows that it is alive. Probes restart one
that has not for five minutes, however long its interval is."""

Report = Callable[[str], None]

LANDING = 0.5
"""The part of an interval for which snapshots that waited are landed."""

MINUTE_MS = 60_000

IN_TIME = 0.9
"""The part of an interval after which a snapshot stops waiting, so that the next one is in time."""

JITTER, JITTER_SECONDS = 0.05, 0.5
"""How late a snapshot may start, as a part of the interval and in seconds: several collectors that
were started by the same clock do not send to the same broker in the same instant."""


async def collect_every(
    place: Place,
    shared: Shared,
    clusters: Sequence[Cluster],
    every: float,
    report: Report,
    warn: Report,
    read: Read = read_in_own_thread,
    alive: Callable[[], object] | None = None,
    waiting: Home | None = None,
) -> None:
    """Collect every cluster until SIGTERM or SIGINT; running snapshots are then finished.

    A second signal abandons running snapshots.

    Args:
        place: the landing.
        shared: leases and memories of the clusters.
        clusters: the clusters to collect.
        every: seconds between snapshots, for a cluster without an interval of its own.
        report: receives a line per snapshot.
        warn: receives a line per snapshot that could not be landed.
        read: reads a cluster.
        alive: called after each interval of a cluster, collected or not, and every
            `ALIVE_SECONDS` in between.
        waiting: the home in which snapshots wait that an object store refuses.
    """
    raise_limit()
    stop = asyncio.Event()
    kept = Shared(shared.leases, KeptState(shared.state, warn))
    watches = [
        asyncio.create_task(
            watch(
                place,
                kept,
                cluster,
                cluster.every or every,
                stop,
                report,
                warn,
                read,
                alive,
                waiting,
            )
        )
        for cluster in sharing_descriptors(clusters)
    ]

    tidying = asyncio.create_task(_tidy())

    def end() -> None:
        if stop.is_set():
            for task in watches:
                task.cancel()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    try:
        await asyncio.gather(*watches)
    except asyncio.CancelledError:
        warn("given up what was under way")
    finally:
        tidying.cancel()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def watch(
    place: Place,
    shared: Shared,
    cluster: Cluster,
    every: float,
    stop: asyncio.Event,
    report: Report,
    warn: Report,
    read: Read = read_in_own_thread,
    alive: Callable[[], object] | None = None,
    waiting: Home | None = None,
) -> None:
    """Collect one cluster at multiples of the interval, until it is stopped.

    A snapshot never starts before the previous one is landed. Multiples that it overran are left
    out, so snapshots neither overlap nor drift. While another process collects the cluster, this
    one waits, and reports that once.
    """
    collector = Collector(shared, cluster, every, read)
    landings = Landings(place, waiting, cluster.key, report, warn)
    try:
        await _watch(landings, collector, every, stop, alive)
    finally:
        landings.pool.shutdown(wait=False)
        collector.end()


class _Once:
    """A report that leaves out a line which repeats the one before."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._last = ""

    def __call__(self, line: str) -> None:
        if line and line != self._last:
            self._report(line)
        self._last = line


class Landings:
    """Lands the snapshots of one cluster, and reports each.

    Attributes:
        key: the cluster.
        report: receives a line per snapshot.
        warn: receives a line per snapshot that is lost.
        once: receives a line when a fault begins.
        pool: the thread that lands waiting snapshots, so that they never take threads of other
            clusters.
    """

    def __init__(
        self, place: Place, waiting: Home | None, key: str, report: Report, warn: Report
    ) -> None:
        self.key, self.report, self.warn = key, report, warn
        self.pool = ThreadPoolExecutor(1, "land-waiting")
        self.once, self._refused, self._clock = _Once(warn), _Once(warn), _Once(warn)
        self._place, self._waiting = place, Waiting(place, waiting, key)

    def land(self, snapshot: Snapshot) -> None:
        """Land a snapshot, or let it wait."""
        self._clock(clock_line(snapshot))
        where = f"{self.key}: a snapshot could not be landed in {landing_of(self._place)}"
        try:
            self._waiting.land(snapshot)
        except WaitsError as error:
            self._refused(f"{where}: {one_line(error)}; it and those behind it wait on this host")
        except OSError as error:
            self.warn(f"{where}: {one_line(error)}; trying again")
            return
        self.report(snapshot_line(snapshot))

    def land_waiting(self, seconds: float) -> None:
        """Land waiting snapshots, for some seconds."""
        with suppress(OSError):  # reported when the first of them had to wait
            if landed := self._waiting.land_waiting(seconds):
                self.report(f"{self.key}: {landed} snapshots that waited have landed")
                self._refused("")


async def _watch(
    landings: Landings,
    collector: Collector,
    every: float,
    stop: asyncio.Event,
    alive: Callable[[], object] | None,
) -> None:
    loop = asyncio.get_running_loop()
    clock, start, number = loop.time, loop.time(), 0
    landing = None
    while not await _stopped_by(stop, start + number * every, alive):
        if number:
            await asyncio.sleep(random.uniform(0, min(JITTER * every, JITTER_SECONDS)))
        await _collect_and_land(landings, collector, IN_TIME * every)
        if alive:
            alive()
        if landing is None or landing.done():
            # Not waited for: a bucket that does not respond takes longer than an interval.
            landing = loop.run_in_executor(landings.pool, landings.land_waiting, LANDING * every)
        due, number = number + 1, next_multiple(number, clock() - start, every)
        if number > due:
            landings.warn(
                f"{landings.key}: left out {number - due} snapshots, the one before took too long"
            )
    if landing is not None:
        await landing


def next_multiple(number: int, seconds: float, every: float) -> int:
    """Return the first multiple of the interval after this one that is not over yet."""
    return max(number + 1, math.ceil(seconds / every))


async def _tidy() -> None:
    """Collect garbage every minute.

    TLS connections end as cycles with large buffers. At the garbage collector's own pace they made
    the process grow by a kilobyte a snapshot. Imported objects are left out, because they stay.
    """
    gc.freeze()
    while True:
        await asyncio.sleep(TIDY_SECONDS)
        gc.collect()


async def _collect_and_land(landings: Landings, collector: Collector, seconds: float) -> None:
    try:
        snapshot = await collector.take_snapshot(seconds)
        await in_own_thread(partial(landings.land, snapshot), f"land {landings.key}")
    except CollectedElsewhereError as error:
        landings.once(f"{one_line(error)}; standing by")
    except LeaseError as error:
        landings.once(f"{landings.key}: {one_line(error)}; trying again")
    except NeverReachedError as error:
        landings.warn(f"{landings.key}: {one_line(error)}; trying again")
    except Exception as error:
        # A mistake of ours that one snapshot brings out must not end the collection of the others.
        if not isinstance(error, OSError):
            _log.exception("collecting %s", landings.key)
        landings.warn(f"{landings.key}: a snapshot is lost: {one_line(error)}; trying again")
    else:
        landings.once("")


async def _stopped_by(
    stop: asyncio.Event, until: float, alive: Callable[[], object] | None
) -> bool:
    """Wait until that loop time or until stopped; return whether it was stopped."""
    clock = asyncio.get_running_loop().time
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(until, clock() + ALIVE_SECONDS)):
                await stop.wait()
        if stop.is_set() or clock() >= until:
            return stop.is_set()
        if alive:
            alive()


def clock_line(snapshot: Snapshot) -> str:
    """Return a line where this host's clock is whole minutes off all brokers; else ''."""
    skews = [row.clock_skew_ms for row in snapshot.brokers if row.clock_skew_ms is not None]
    minutes = round(statistics.median(skews) / MINUTE_MS) if skews else 0
    if not minutes or any(round(skew / MINUTE_MS) != minutes for skew in skews):
        return ""
    side = "behind" if minutes > 0 else "ahead of"
    return (
        f"{snapshot.cluster}: the clock of this host is {abs(minutes)} min {side} those of all "
        f"brokers ({len(skews)}): synchronize it, snapshots have its time"
    )


def snapshot_line(snapshot: Snapshot) -> str:
    """Return a snapshot in one line: instant, status, numbers and its first problem."""
    lines = [problem.line for problem in snapshot.problems]
    more = f" ({len(lines) - 1} more)" if len(lines) > 1 else ""
    unsure = " tls_unverified" if snapshot.transport == "tls_unverified" else ""
    return printable(
        f"{snapshot.observed_at:%Y-%m-%dT%H:%M:%SZ} {snapshot.cluster} {snapshot.status}{unsure} "
        f"{snapshot.brokers_answered}/{snapshot.brokers_expected} brokers "
        f"{snapshot.count('queue_offsets')} queues {snapshot.requests} requests "
        f"{snapshot.duration_ms} ms" + (f": {lines[0]}{more}" if lines else "")
    )
