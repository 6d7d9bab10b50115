"""``tidemark collect --every 2s`` for an hour while brokers are killed, stopped and restarted.

``python -m bench.endurance [--minutes 60] [--every 2] [--seed N]``. It boots two brokers with every
group of the workload, strikes one of them at random moments, and reads what has landed: how long
nothing was seen, how long a broker was missing beyond its fault, and how the process grew.
"""

import argparse
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from bench.soak import TIDEMARK, print_line
from tidemark.lab import cluster as lab_cluster
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import free_port_base
from tidemark.lake.landing import landed
from tidemark.settings.home import Home

BROKERS = ("broker-a", "broker-b")
REST_SECONDS = (10.0, 40.0)
FAULT_SECONDS = (3.0, 25.0)
RSS_SECONDS = 10.0
WARM_UP = 0.1
"""The part of the run after which the process is taken to have all it needs."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One strike: a broker does not respond from `start` to `end`."""

    kind: str
    broker: str
    start: datetime
    end: datetime


@dataclass(frozen=True)
class LoadedSnapshot:
    """A landed snapshot, and the brokers whose queues it holds."""

    observed_at: datetime
    status: str
    brokers: frozenset[str]


def main() -> None:
    """Runs it and prints its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print_line(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder:
        home = Home.of(Path(folder) / "home")
        home.path.mkdir()
        cluster = LabCluster.up(Path(folder) / "lab", version="5.3.3", port_base=free_port_base())
        try:
            cluster.start_workload("all")
            process = _collector(home, cluster.namesrv, options.every)
            sizes: list[int] = []
            ended = threading.Event()
            watcher = threading.Thread(target=_weigh, args=(process.pid, sizes, ended))
            watcher.start()
            try:
                struck = _strike(
                    cluster, random.Random(options.seed), time.monotonic() + options.minutes * 60
                )
            finally:
                ended.set()
                watcher.join()
                process.send_signal(signal.SIGTERM)
                code = process.wait(60)
        finally:
            cluster.down(graceful=False)
        _report(_snapshots(home), struck, sizes, options.every, code)


def _collector(home: Home, namesrv: str, every: float) -> subprocess.Popen[bytes]:
    command = [str(TIDEMARK), "collect", "--every", f"{every}s", "--namesrv", namesrv]
    with (home.path / "collect.log").open("wb") as log:
        return subprocess.Popen(
            command,
            env={**os.environ, "TIDEMARK_HOME": str(home.path)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _weigh(pid: int, sizes: list[int], ended: threading.Event) -> None:
    """Resident bytes of a process, now and then."""
    process = psutil.Process(pid)
    while not ended.wait(RSS_SECONDS):
        sizes.append(process.memory_info().rss)


def _strike(cluster: LabCluster, chance: random.Random, until: float) -> list[Fault]:
    struck = []
    while time.monotonic() < until:
        time.sleep(chance.uniform(*REST_SECONDS))
        kind, broker = chance.choice(("killed", "stopped", "restarted")), chance.choice(BROKERS)
        seconds = chance.uniform(*FAULT_SECONDS)
        start = datetime.now(UTC)
        if kind == "killed":
            lab_cluster.kill(cluster, broker)
            time.sleep(seconds)
            lab_cluster.restart(cluster, broker)
        elif kind == "stopped":
            lab_cluster.stop(cluster, broker)
            time.sleep(seconds)
            lab_cluster.resume(cluster, broker)
        else:
            lab_cluster.restart(cluster, broker)
        struck.append(Fault(kind=kind, broker=broker, start=start, end=datetime.now(UTC)))
        print_line(f"{broker} {kind} for {(struck[-1].end - start).total_seconds():.1f} s")
    return struck


def _snapshots(home: Home) -> list[LoadedSnapshot]:
    snapshots = []
    for item in sorted(landed(home)):
        files = item.files()
        (header,) = pq.read_table(files["raw.snapshots"]).to_pylist()
        queues = files.get("raw.queue_offsets")
        brokers = pq.read_table(queues, columns=["broker"])["broker"].to_pylist() if queues else ()
        snapshots.append(LoadedSnapshot(item.observed_at, header["status"], frozenset(brokers)))
    return snapshots


def _report(
    snapshots: Sequence[LoadedSnapshot],
    struck: Sequence[Fault],
    sizes: Sequence[int],
    every: float,
    code: int,
) -> None:
    gaps = [
        (later.observed_at - snapshot.observed_at).total_seconds()
        for snapshot, later in pairwise(snapshots)
    ]
    begun = sizes[int(len(sizes) * WARM_UP) :]
    half = len(begun) // 2
    early, late = sum(begun[:half]) / half, sum(begun[half:]) / (len(begun) - half)
    hours = (snapshots[-1].observed_at - snapshots[0].observed_at) / timedelta(hours=1)
    complete = sum(snapshot.status == "COMPLETE" for snapshot in snapshots)
    print_line(
        f"{len(struck)} faults, {len(snapshots)} snapshots in {hours * 60:.0f} min, "
        f"{complete} COMPLETE"
    )
    print_line(f"between two snapshots: at most {max(gaps):.2f} s, with an interval of {every:g} s")
    print_line(
        f"a broker missing beyond its fault: at most {max(_missing(snapshots, struck)):.2f} s"
    )
    print_line(
        f"resident: {early / 2**20:.1f} MiB in the first half, {late / 2**20:.1f} in the second, "
        f"at most {max(sizes) / 2**20:.1f}"
    )
    print_line(f"SIGTERM: exit {code}")


def _missing(snapshots: Sequence[LoadedSnapshot], struck: Sequence[Fault]) -> list[float]:
    """Seconds from the end of each fault until its broker was seen again."""
    seconds = []
    for fault in struck:
        again = [
            snapshot.observed_at
            for snapshot in snapshots
            if snapshot.observed_at >= fault.end and fault.broker in snapshot.brokers
        ]
        if again:
            seconds.append((again[0] - fault.end).total_seconds())
    return seconds


if __name__ == "__main__":
    main()
