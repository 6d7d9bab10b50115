"""Cost of `tidemark lag` and correctness of its delays, compared with `mqadmin`.

``python -m bench.lag [--rounds N] [--version V]`` boots a cluster with every group of the workload.

* Whole processes in turns, because machines drift: `tidemark lag`, `tidemark lag --no-delay` and
  `mqadmin consumerProgress`.
* The delay of each lagging group between two runs of ``mqadmin consumerProgress -g GROUP``, whose
  last time is the store time of the last *consumed* message of a queue. The oldest over the queues
  with a difference is the consumed neighbour of the message that our delay is about.
* ``--large``: 300 groups on 400 topics of two brokers, none online.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from bench import report
from bench.bare import exchange
from bench.collect import Cost
from bench.soak import TIDEMARK
from bench.tick import mqadmin
from tidemark.lab.cluster import LabCluster
from tidemark.lab.large import Large
from tidemark.lab.layout import free_port_base
from tidemark.settings.home import Home

WORKING_SECONDS = 45
"""Seconds for which the workload runs before the first measurement."""


class Delay(NamedTuple):
    """One group and topic: our delay, and mqadmin's last time before and after."""

    row: dict[str, Any]
    before: datetime | None
    after: datetime | None


def main() -> None:
    """Run the benchmark, print its tables and write them to the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--version", default="5.3.3")
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    text = (_large if options.large else _demo)(options.version, options.rounds)
    sys.stdout.write(text + "\n")
    report.write_section(f"lag {'large' if options.large else 'demo'}", text)


def _demo(version: str, rounds: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        cluster = LabCluster.up(Path(folder) / "lab", version=version, port_base=free_port_base())
        try:
            cluster.start_workload("all")
            time.sleep(WORKING_SECONDS)
            environment = _environment(folder)
            costs = _costs(version, cluster.namesrv, environment, rounds)
            delays = _delays(version, cluster.namesrv, environment)
        finally:
            cluster.down(graceful=False)
    return (
        f"## `tidemark lag` on the demo's cluster\n\nRocketMQ {version}, all groups of the "
        f"workload ({report.machine()}); seconds, in turns, median (least to most). Made by "
        f"`python -m bench.lag`.\n\n{costs}\n\nThe delay in seconds that follows from mqadmin's "
        "last time of the most delayed queue, before and after ours:\n\n" + _delay_table(delays)
    )


def _large(version: str, rounds: int) -> str:
    large = Large()
    with tempfile.TemporaryDirectory() as folder:
        cluster = LabCluster.up(
            Path(folder) / "lab", version, port_base=free_port_base(), files=large.files()
        )
        try:
            for broker in cluster.brokers:
                asyncio.run(exchange(broker.address, large.sends()))
            time.sleep(5)
            environment = _environment(folder)
            rows = _lag(cluster.namesrv, environment)
            costs = _costs(version, cluster.namesrv, environment, rounds)
        finally:
            cluster.down(graceful=False)
    known = [row for row in rows if row["delay_source"] == "exact"]
    return (
        f"## `tidemark lag` on a large cluster\n\nRocketMQ {version}, two masters, each with "
        f"{large.topics} topics of {large.queues} queues and {large.groups} groups on "
        f"{large.topics_per_group} topics each; seconds, in turns, median (least to most). "
        f"{len(known)} of {len(rows)} groups and topics have an exact delay.\n\n{costs}"
    )


def _environment(folder: str) -> dict[str, str]:
    return {**os.environ, "TIDEMARK_HOME": str(Home.of(Path(folder) / "home").path)}


def _costs(version: str, namesrv: str, environment: Mapping[str, str], rounds: int) -> str:
    """Measure the commands in turns, whole processes from outside."""
    ours = [str(TIDEMARK), "lag", "--namesrv", namesrv, "--format", "json"]
    commands = {
        "`tidemark lag`": ours,
        "`tidemark lag --no-delay`": [*ours, "--no-delay"],
        "`mqadmin consumerProgress`": mqadmin(version, namesrv),
    }
    costs = {name: Cost() for name in commands}
    os.environ.update(environment)
    for _ in range(rounds + 1):
        for name, command in commands.items():
            costs[name].run(command)
    rows = []
    for name, cost in costs.items():
        # The first round warms the page cache.
        ratios = [
            wall / mine
            for wall, mine in zip(cost.walls, costs["`tidemark lag`"].walls, strict=True)
        ]
        rows.append(
            [
                name,
                report.spread(cost.walls[1:]),
                report.spread(cost.cpus[1:]),
                report.spread(ratios[1:], ".1f"),
            ]
        )
    return report.table(["", "wall", "CPU", "wall over `tidemark lag`, pair by pair"], rows)


def _lag(namesrv: str, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    command = [str(TIDEMARK), "lag", "--namesrv", namesrv, "--format", "json"]
    done = subprocess.run(
        command, env=dict(environment), check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def _delays(version: str, namesrv: str, environment: Mapping[str, str]) -> list[Delay]:
    lagging = [row for row in _lag(namesrv, environment) if row["readable_lag"]]
    groups = sorted({row["consumer_group"] for row in lagging})
    delays = []
    for group in groups:
        before = _last_times(version, namesrv, group)
        ours = [row for row in _lag(namesrv, environment) if row["consumer_group"] == group]
        after = _last_times(version, namesrv, group)
        delays += [
            Delay(row, before.get(row["topic"]), after.get(row["topic"]))
            for row in ours
            if row["readable_lag"]
        ]
    return delays


def _last_times(version: str, namesrv: str, group: str) -> dict[str, datetime]:
    """Return the oldest last time of each topic's lagging queues, as mqadmin prints it."""
    command = [*mqadmin(version, namesrv), "-g", group]
    environment = {**os.environ, "TZ": "UTC"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return last_times(done.stdout)


def last_times(text: str) -> dict[str, datetime]:
    """Read the table of ``mqadmin consumerProgress -g``; a queue without a difference is left out.

    Topic, broker, queue, broker offset, consumer offset, client (optional), diff, inflight
    (optional), date and time.
    """
    instants: dict[str, datetime] = {}
    for line in text.splitlines():
        cells = line.split()
        if len(cells) < 7 or not cells[2].isdecimal() or cells[3] == cells[4]:
            continue
        try:
            at = datetime.strptime(" ".join(cells[-2:]), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        except ValueError:
            continue  # N/A: nothing was consumed of it
        if at.year > 1970:
            instants[cells[0]] = min(at, instants.get(cells[0], at))
    return instants


def _delay_table(delays: Sequence[Delay]) -> str:
    rows = []
    for delay in delays:
        row = delay.row
        observed = datetime.fromisoformat(row["observed_at"])
        cells = [
            "-" if at is None else f"{(observed - at).total_seconds():.1f}"
            for at in (delay.before, delay.after)
        ]
        milliseconds, error = row["delay_ms"], row["delay_error_ms"]
        rows.append(
            [
                row["consumer_group"],
                row["topic"],
                row["lag"],
                "-" if milliseconds is None else f"{milliseconds / 1000:.1f}",
                row["delay_source"] or "-",
                "-" if error is None else f"{error} ms",
                *cells,
            ]
        )
    headings = ["group", "topic", "lag", "delay", "source", "error", "before", "after"]
    return report.table(headings, rows)


if __name__ == "__main__":
    main()
