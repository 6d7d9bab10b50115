"""Our metrics against those of rocketmq-exporter and of the broker itself, at the same minute.

``python -m bench.metrics_compared CHECKOUT [--version V]`` boots one broker with the whole workload
and its own metrics endpoint, lets the exporter of a built checkout collect, stops the producers
and reads all three between two of the exporter's cycles. Ours are the rows of `tidemark lag`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from prometheus_client.parser import text_string_to_metric_families

from bench import report
from bench.exporter import built
from bench.soak import TIDEMARK
from tidemark.board.metrics.endpoint import Facts, Metrics
from tidemark.lab import jars
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import free_port_base
from tidemark.lake.tables import progress
from tidemark.settings.sections import MetricsSettings

WORKING_SECONDS = 45
"""Seconds for which the workload runs before the first read."""

CYCLES_SECONDS = 150
"""Longest time of the exporter to its first whole cycle, and to the next."""

Values = dict[tuple[str, str], float]
"""Values by group and topic."""

COLUMNS = (
    ("lag, broker", "rocketmq_consumer_lag_messages", "consumer_group"),
    ("lag, exporter", "rocketmq_group_diff", "group"),
    ("lag, ours", "rocketmq_consumer_lag_messages", "consumer_group"),
    ("delay, broker", "rocketmq_consumer_lag_latency", "consumer_group"),
    ("delay, exporter", "rocketmq_group_get_latency_by_storetime", "group"),
    ("delay, ours", "rocketmq_consumer_lag_latency", "consumer_group"),
)


def main() -> None:
    """Run the comparison, print its table and write it to the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=built, help="a built checkout of rocketmq-exporter")
    parser.add_argument("--version", default="5.3.3")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemark-compared-") as folder:
        rows = _compared(options.checkout, options.version, Path(folder))
    head = ["group on topic", *(name for name, _, _ in COLUMNS)]
    text = "\n\n".join(
        [
            "## Metrics compared with the exporter's",
            f"`python -m bench.metrics_compared`: RocketMQ {options.version}, one broker, "
            "producers stopped, all read within one cycle of the exporter. Messages, and "
            "seconds of delay; empty is no sample.",
            report.table(head, rows),
            "The broker has no sample of a group with nobody online (g-gone), the exporter none of "
            "a group that never committed (g-hung).",
        ]
    )
    sys.stdout.write(text + "\n")
    report.write_section("metrics compared", text)


def _compared(jar: Path, version: str, folder: Path) -> list[list[str]]:
    port = free_port_base()
    config = {"metricsExporterType": "PROM", "metricsPromExporterPort": str(port)}
    config["metricsPromExporterHost"] = "127.0.0.1"
    cluster = LabCluster.up(
        folder / "lab", version, brokers=1, port_base=free_port_base(), config=config
    )
    try:
        cluster.start_workload("all", 20.0)
        time.sleep(WORKING_SECONDS)
        cluster.stop_producers()
        with _exporter(jar, cluster.namesrv, folder) as address:
            _until(lambda: "rocketmq_group_diff{" in _text(address), "the exporter's first cycle")
            ours = _ours(cluster.namesrv)
            broker, exporter = (
                _text(f"http://127.0.0.1:{port}/metrics"),
                _text(address),
            )
    finally:
        cluster.down()
    return list(_rows((broker, exporter, ours, broker, exporter, ours)))


def _rows(pages: tuple[str, ...]) -> Iterator[list[str]]:
    columns = [
        _values(page, name, label) for page, (_, name, label) in zip(pages, COLUMNS, strict=True)
    ]
    for key in sorted({key for column in columns for key in column}):
        group, topic = key
        if topic.startswith("%RETRY%"):
            continue
        cells = [column.get(key) for column in columns]
        lags, delays = cells[:3], cells[3:]
        yield [
            f"{group} on {topic}",
            *("" if lag is None else f"{lag:.0f}" for lag in lags),
            *("" if delay is None else f"{delay / 1000:.1f}" for delay in delays),
        ]


def _values(page: str, name: str, label: str) -> Values:
    """Return the largest sample of each group and topic; the broker's names may have a unit."""
    values: Values = {}
    for family in text_string_to_metric_families(page):
        if family.name not in (name, f"{name}_milliseconds"):
            continue
        for sample in family.samples:
            key = sample.labels[label], sample.labels["topic"]
            values[key] = max(sample.value, values.get(key, sample.value))
    return values


def _ours(namesrv: str) -> str:
    command = [str(TIDEMARK), "lag", "--namesrv", namesrv, "--format", "json"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    schema = progress.GROUPS.arrow_schema()
    common = {"cluster": "lab", "observed_at": datetime.now(UTC), "snapshot_id": "now"}
    rows = [
        {name: row.get(name) for name in schema.names}
        | common
        | {"complete": row.get("lag") is not None}
        for row in json.loads(printed.stdout)
    ]
    metrics = Metrics(MetricsSettings())
    metrics.refresh({progress.GROUPS.name: pa.Table.from_pylist(rows, schema=schema)}, Facts())
    return metrics.page().body.decode()


@contextmanager
def _exporter(jar: Path, namesrv: str, folder: Path) -> Iterator[str]:
    port = free_port_base()
    command = [jars.find("java"), f"-Duser.home={folder}", "-jar", str(jar)]
    command += [f"--rocketmq.config.namesrvAddr={namesrv}"]
    command += [f"--server.port={port}", f"--grpc.server.port={port + 1}"]
    with (
        (folder / "exporter.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            yield f"http://127.0.0.1:{port}/metrics"
        finally:
            process.kill()


def _text(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as response:
        return response.read().decode()


def _until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + CYCLES_SECONDS
    while time.monotonic() < deadline:
        try:
            if is_so():
                return
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.5)
    raise SystemExit(f"not within {CYCLES_SECONDS} s: {what}")


if __name__ == "__main__":
    main()
