"""Cost of `/metrics` with 20,000 groups on topics: the refresh, and a scrape over HTTP.

``python -m bench.metrics [--rows N] [--queues Q] [--rounds R]`` writes one observation of N rows
of `progress.groups` with Q queues each into a home of its own, starts `tidemark serve` on it and
scrapes it as Prometheus does.
"""

import argparse
import gzip
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from bench import report
from bench.soak import TIDEMARK
from tidemark.board.metrics.endpoint import Metrics
from tidemark.board.metrics.feed import Feed
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.schema import Table
from tidemark.lake.tables import progress, raw
from tidemark.settings.home import Home
from tidemark.settings.sections import MetricsSettings

CLUSTER = "bench"
TOPICS = 400
"""Topics that the groups read; names and numbers repeat as those of a real cluster do."""


def main() -> None:
    """Run the benchmark, print its table and write it to the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="groups on topics")
    parser.add_argument("--queues", type=int, default=8, help="queues of each")
    parser.add_argument("--rounds", type=int, default=10, help="scrapes of each kind")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemark-metrics-") as folder:
        home = Home.of(str(Path(folder) / "home"))
        _fill(Lake(home), options.rows, options.queues)
        rows = [_refreshed(home, options.rounds), *_served(home, options.rounds)]
    size = f"{options.rows:,} groups on topics with {options.queues} queues each"
    text = "\n\n".join(
        [
            "## Metrics",
            f"`python -m bench.metrics`: {size}, all families but queues.",
            f"{report.machine()}. Seconds: median (least to most).",
            report.table(("what", "seconds", "size"), rows),
        ]
    )
    sys.stdout.write(text + "\n")
    report.write_section("metrics", text)


def _fill(lake: Lake, rows: int, queues: int) -> None:
    at = datetime.now(UTC).replace(microsecond=0)
    names = [(f"team-{n % 97}-consumer-{n}", f"topic-{n % TOPICS}") for n in range(rows)]
    common: dict[str, Any] = {"observed_at": at, "snapshot_id": "s", "cluster": CLUSTER}
    for table in (raw.SNAPSHOTS, progress.SNAPSHOTS):
        row = common | {"source": "remote", "status": "COMPLETE", "duration_ms": 900}
        _write(lake, table, [row])
    groups = [
        common
        | {"consumer_group": group, "topic": topic, "lag": n * 7919 % 100_003, "inflight": n % 32}
        | {"available": n % 1000, "lost": 0, "readable_lag": n, "complete": True, "clients": 4}
        | {"delay_ms": n * 37 % 600_000, "ready_delay_ms": n * 13 % 60_000, "online": True}
        | {"produce_tps": n / 7, "consume_tps": n / 9, "drain_seconds": n / 3, "health": "OK"}
        | {"loss_in_seconds": 86_400.0, "filtered_lag": n, "retry_lag": 0, "dlq_messages": 0}
        | {"queues_unknown": 0, "message_model": "CLUSTERING"}
        for n, (group, topic) in enumerate(names)
    ]
    _write(lake, progress.GROUPS, groups)
    for first in range(0, rows, 5_000):
        _write(
            lake,
            progress.QUEUES,
            [
                common
                | {"consumer_group": group, "topic": topic, "queue_id": queue_id}
                | {"broker": "broker-a" if queue_id % 2 else "broker-b", "lag": first + queue_id}
                | {"consumer_offset": first * 31 + queue_id, "max_offset": first * 32 + queue_id}
                | {"delay_ms": first, "produce_tps": 1.5, "consume_tps": 1.25, "pull_tps": 1.0}
                for group, topic in names[first : first + 5_000]
                for queue_id in range(queues)
            ],
        )
    clients = [
        common
        | {"consumer_group": group, "client_id": f"10.0.{n % 250}.{i}@{n}", "language": "JAVA"}
        | {"client_address": f"10.0.{n % 250}.{i}:5{n % 9999}", "version": "V5_3_3"}
        | {"consume_type": "CONSUME_PASSIVELY"}
        for n, (group, _) in enumerate(names)
        for i in range(2)
    ]
    _write(lake, raw.CLIENTS, clients)


def _write(lake: Lake, table: Table, rows: list[dict[str, Any]]) -> None:
    names = table.column_names
    full = [{name: row.get(name) for name in names} for row in rows]
    lake.append(table, pa.Table.from_pylist(full, schema=table.arrow_schema()))


def _refreshed(home: Home, rounds: int) -> tuple[str, str, str]:
    store = Store(Lake(home))
    store.refresh()
    metrics = Metrics(MetricsSettings())
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        Feed(store.lake, metrics, "bench").refresh(store.newest)
        seconds.append(time.perf_counter() - started)
    samples = metrics.page().body.count(b"\n")
    return (
        "refresh, once for each tick, while scrapes run",
        report.spread(seconds),
        f"{samples:,} lines",
    )


def _served(home: Home, rounds: int) -> Iterator[tuple[str, str, str]]:
    with _server(home) as (address, process):
        for encoding in ("gzip", "identity"):
            seconds, sizes, whole = [], [], 0
            for _ in range(rounds):
                started = time.perf_counter()
                request = urllib.request.Request(address, headers={"Accept-Encoding": encoding})
                with urllib.request.urlopen(request, timeout=60) as response:
                    body = response.read()
                seconds.append(time.perf_counter() - started)
                sizes.append(len(body))
                whole = len(gzip.decompress(body)) if encoding == "gzip" else len(body)
            size = f"{statistics.median(sizes) / 1e6:.2f} MB"
            if encoding == "gzip":
                size += f" of {whole / 1e6:.1f} MB"
            yield f"scrape, {encoding}", report.spread(seconds), size
        memory = process.memory_info().rss / 2**20
        yield "memory of the server", "", f"{memory:.0f} MiB"


@contextmanager
def _server(home: Home) -> Iterator[tuple[str, psutil.Process]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(TIDEMARK), "serve", "--port", str(port)]
    environment = {**os.environ, "TIDEMARK_HOME": str(home.path)}
    address = f"http://127.0.0.1:{port}/metrics"
    with subprocess.Popen(command, env=environment) as process:
        try:
            _wait(address, process)
            yield address, psutil.Process(process.pid)
        finally:
            process.terminate()


def _wait(address: str, process: subprocess.Popen[bytes], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=30) as response:
                if b"rocketmq_consumer_lag_messages" in response.read():
                    return
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.2)
    raise SystemExit("tidemark serve did not respond: its log is above")


if __name__ == "__main__":
    main()
