"""One snapshot that Spark tasks share, beside the same snapshot of one process, in the same run.

``make bench-shared`` or ``python -m bench.shared [--brokers N] [--tasks N] [--rounds N]``. It boots
brokers that hold `lab.large.Large` and a warm engine, takes snapshots in turns, compares every row
that the two landed, and writes its section of ``docs/benchmarks.md``.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from assets.shared_snapshot import SharedSnapshots
from bench import report
from collection.snapshots import Read, in_this_process
from lab.cluster import LabCluster
from lab.large import Large
from lab.layout import free_port_base
from lake.catalog_config import CatalogConfig
from lake.landing import land
from rocketmq.records import SHALLOW
from settings.clusters import Cluster
from settings.home import Home
from spark.session import engine
from spark.session.configuration import SparkResource, session_config

OF_A_SNAPSHOT = {"snapshot_id", "observed_at"}
MOVES = {"disk_ratio", "put_tps", "get_tps", "dispatch_behind_bytes"}
"""What a broker without traffic changes by itself."""


def main() -> None:
    """Measures, prints the section and writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=8)
    parser.add_argument("--tasks", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    large = Large()
    with tempfile.TemporaryDirectory() as folder:
        home = Home.of(Path(folder) / "home")
        cluster = LabCluster.up(
            Path(folder) / "lab",
            brokers=options.brokers,
            port_base=free_port_base(),
            files=large.files(),
        )
        started = engine.up(home, CatalogConfig.of(home))
        try:
            session = session_config(CatalogConfig.of(home), remote=started.remote)
            spark = SparkResource(spark_config=session)
            text = _measure(home, cluster.namesrv, options, SharedSnapshots(spark), large)
            spark.spark_session.stop()
        finally:
            engine.down(home)
            cluster.down(graceful=False)
    sys.stdout.write(text + "\n")
    report.write_section("shared", text)


def _measure(
    home: Home, namesrv: str, options: argparse.Namespace, shared: Read, large: Large
) -> str:
    limits = {"total_timeout": 60.0}
    one = Cluster((namesrv,), "one", limits=limits)
    many = Cluster((namesrv,), "many", limits=limits, spark_tasks=options.tasks)
    walls: dict[str, list[float]] = {"one": [], "many": []}
    rows = 0
    for number in range(options.rounds + 1):
        landed: dict[str, Path] = {}
        for cluster, read in ((one, in_this_process), (many, shared)):
            began = time.perf_counter()
            snapshot = asyncio.run(read(cluster, cluster.target()))
            landed[cluster.key] = land(home, snapshot)
            if number:  # the first round imports and warms up
                walls[cluster.key].append(time.perf_counter() - began)
            if snapshot.status != "COMPLETE":
                raise SystemExit(f"{snapshot.status}: {snapshot.problems[:3]}")
        differing = [it for it in SHALLOW if _rows(landed["one"], it) != _rows(landed["many"], it)]
        if differing:
            raise SystemExit(f"differ: {', '.join(differing)}")
        rows = sum(len(_rows(landed["many"], table)) for table in SHALLOW)
    ratios = [one / many for one, many in zip(walls["one"], walls["many"], strict=True)]
    return (
        f"## A snapshot that {options.tasks} Spark tasks share\n\n"
        f"{options.brokers} masters, each with {large.topics} topics of {large.queues} queues and "
        f"{large.groups} groups on {large.topics_per_group} topics each: {rows} rows, the same "
        "whoever read them. Brokers, engine and collectors on one machine "
        f"({report.machine()}), in turns; seconds from the first request to landed files, median "
        "(least to most). Made by `make bench-shared`.\n\n"
        + report.table(
            ["", "wall"],
            [
                ["one process", report.spread(walls["one"])],
                [f"{options.tasks} tasks", report.spread(walls["many"])],
            ],
        )
        + f"\n\nOne process over tasks, round by round: {report.spread(ratios, '.2f')}."
    )


def _rows(folder: Path, table: str) -> list[str]:
    """The rows of a landed table, in no order, without what differs between snapshots."""
    path = folder / f"{table}.parquet"
    if not path.exists():
        return []
    left_out = OF_A_SNAPSHOT | MOVES | {"cluster"}
    return sorted(
        str([(name, value) for name, value in row.items() if name not in left_out])
        for row in pq.read_table(path).to_pylist()
    )


if __name__ == "__main__":
    main()
