"""Collecting again and again: one snapshot of each cluster an interval, landed, for weeks.

Neither Spark nor the lake is needed, so it goes on when they are down, and what has landed is
loaded by the next tick. Clusters are collected side by side, each at its own interval.
"""

import asyncio
import gc
import math
import random
import signal
from collections.abc import Callable, Sequence

from collection.snapshots import NeverReachedError, Read, in_this_process, take_snapshot
from lake.failures import one_line
from lake.landing import land
from rocketmq.records import Snapshot
from settings.clusters import Cluster
from settings.home import Home

TIDY_SECONDS = 60.0

Report = Callable[[str], None]

IN_TIME = 0.9
"""The part of an interval after which a snapshot stops waiting, so that the next one is in time."""

JITTER, JITTER_SECONDS = 0.05, 0.5
"""How late a snapshot may start, as a part of the interval and in seconds: several collectors that
were started by the same clock do not send to the same broker in the same instant."""


async def collect_every(
    home: Home,
    clusters: Sequence[Cluster],
    every: float,
    report: Report,
    warn: Report,
    read: Read = in_this_process,
) -> None:
    """Collect every cluster until SIGTERM or SIGINT; what is under way then is finished.

    A second signal gives up what is under way.

    Args:
        home: where snapshots land.
        clusters: what to collect.
        every: seconds between snapshots, of a cluster that sets none itself.
        report: receives a line per snapshot.
        warn: receives a line per snapshot that could not be landed.
        read: who reads a cluster.
    """
    stop = asyncio.Event()
    watches = [
        asyncio.create_task(watch(home, cluster, cluster.every or every, stop, report, warn, read))
        for cluster in clusters
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
    home: Home,
    cluster: Cluster,
    every: float,
    stop: asyncio.Event,
    report: Report,
    warn: Report,
    read: Read = in_this_process,
) -> None:
    """Collect one cluster at multiples of the interval, until it is stopped.

    A snapshot never starts before the one before is landed; multiples that it overran are left out,
    so snapshots neither overlap nor drift.
    """
    clock = asyncio.get_running_loop().time
    start, number = clock(), 0
    while not await _stopped_by(stop, start + number * every):
        if number:
            await asyncio.sleep(random.uniform(0, min(JITTER * every, JITTER_SECONDS)))
        await _collect_and_land(home, cluster, IN_TIME * every, report, warn, read)
        due, number = number + 1, next_multiple(number, clock() - start, every)
        if number > due:
            warn(f"{cluster.key}: left out {number - due} snapshots, the one before took too long")


def next_multiple(number: int, seconds: float, every: float) -> int:
    """The first multiple of the interval after this one that is not over yet."""
    return max(number + 1, math.ceil(seconds / every))


async def _tidy() -> None:
    """Collects garbage every minute.

    TLS connections end as cycles with large buffers; left to the garbage collector's own pace they
    made the process grow by a kilobyte a snapshot. What was imported is left out: it stays anyhow.
    """
    gc.freeze()
    while True:
        await asyncio.sleep(TIDY_SECONDS)
        gc.collect()


async def _collect_and_land(
    home: Home, cluster: Cluster, seconds: float, report: Report, warn: Report, read: Read
) -> None:
    try:
        snapshot = await take_snapshot(home, cluster, seconds, read=read)
        await asyncio.to_thread(land, home, snapshot)
    except NeverReachedError as error:
        warn(f"{cluster.key}: {one_line(error)}; trying again")
    except OSError as error:
        warn(
            f"{cluster.key}: a snapshot could not be landed in {home.landing}: {one_line(error)}; "
            "trying again"
        )
    else:
        report(snapshot_line(snapshot))


async def _stopped_by(stop: asyncio.Event, until: float) -> bool:
    """Wait until that loop time or until stopped; return whether it was stopped."""
    try:
        async with asyncio.timeout_at(until):
            await stop.wait()
    except TimeoutError:
        pass
    return stop.is_set()


def snapshot_line(snapshot: Snapshot) -> str:
    """A snapshot in one line: when, how much of it, and the first thing that went wrong."""
    lines = [problem.line for problem in snapshot.problems]
    more = f" ({len(lines) - 1} more)" if len(lines) > 1 else ""
    unsure = " tls_unverified" if snapshot.transport == "tls_unverified" else ""
    return (
        f"{snapshot.observed_at:%Y-%m-%dT%H:%M:%SZ} {snapshot.cluster} {snapshot.status}{unsure} "
        f"{snapshot.brokers_answered}/{snapshot.brokers_expected} brokers "
        f"{snapshot.count('queue_offsets')} queues {snapshot.requests} requests "
        f"{snapshot.duration_ms} ms" + (f": {lines[0]}{more}" if lines else "")
    )
