"""The cost of hostile name servers and brokers for a collector that has an honest cluster too.

``python -m bench.hostile_brokers [--before CHECKOUT] [--attack NAME]``. A real ``tidemark collect
--every`` collects one honest cluster and one hostile one, for each attack of
`bench.hostile_servers`; the descriptors of its process are limited to those that a shell grants.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from bench import hostile_servers, standin
from bench.report import machine, table, write_section
from tidemark.lab.large import Large

EVERY = 2.0
"""Seconds between two snapshots of either cluster."""

DESCRIPTORS = 1024
"""The limit that a shell, and systemd, give a process."""

HONEST = Large(topics=20, queues=4, groups=10, topics_per_group=2)
START_SECONDS = 120.0
"""Longest time of the first snapshot."""

ROOT = Path(__file__).parent.parent

COLLECT = "import sys; from tidemark.cli.main import main; main()"


@dataclass(kw_only=True)
class Cost:
    """Cost of one attack for the process that collects.

    Attributes:
        seconds: how long it was watched from the first snapshot on.
        honest: the lines about snapshots of the honest cluster.
        hostile: the same of the hostile one.
        problems: the messages of all problems of the hostile one's landed snapshots.
        complaints: what it wrote to standard error.
        memory: most MB.
        descriptors: most open ones.
        threads: most of them.
        processor: seconds.
    """

    seconds: float = 0.0
    honest: list[str] = field(default_factory=list)
    hostile: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    memory: float = 0.0
    descriptors: int = 0
    threads: int = 0
    processor: float = 0.0

    @property
    def complete(self) -> int:
        """Complete snapshots of the honest cluster."""
        return sum(" COMPLETE " in line for line in self.honest)

    @property
    def share(self) -> float:
        """The part of the honest cluster's intervals that have a complete snapshot."""
        return min(1.0, self.complete / max(1, int(self.seconds / EVERY)))


def measure(
    attack: str | None,
    snapshots: int = 3,
    longest: float = 60.0,
    checkout: Path = ROOT,
    descriptors: int = DESCRIPTORS,
) -> Cost:
    """Collect both clusters until the hostile one has so many snapshots.

    Args:
        attack: of `hostile_servers.ATTACKS`; None for the honest cluster alone.
        snapshots: of the hostile cluster.
        longest: seconds from the first snapshot on after which it ends in any case.
        checkout: the version that collects.
        descriptors: limit of the process.
    """
    with tempfile.TemporaryDirectory(prefix="tidemark-hostile-") as folder:
        home = Path(folder)
        with standin.serve(HONEST, brokers=1) as honest:
            if attack is None:
                return _collected(
                    home, {"honest": honest}, snapshots, longest, checkout, descriptors
                )
            with hostile_servers.serve(attack) as hostile:
                servers = {"honest": honest, "hostile": hostile}
                return _collected(home, servers, snapshots, longest, checkout, descriptors)


def _collected(
    home: Path,
    servers: dict[str, str],
    snapshots: int,
    longest: float,
    checkout: Path,
    descriptors: int,
) -> Cost:
    clusters = "".join(
        f"- {{name: {name}, namesrv: '{address}', deep_every: off}}\n"
        for name, address in servers.items()
    )
    (home / "clusters.yaml").write_text(f"clusters:\n{clusters}")
    environment = {key: text for key, text in os.environ.items() if "TIDEMARK_" not in key}
    environment |= {"TIDEMARK_HOME": str(home), "PYTHONPATH": str(checkout)}
    command = ["prlimit", f"--nofile={descriptors}", sys.executable, "-c", COLLECT]
    command += ["collect", "--every", f"{EVERY:g}s"]
    process = subprocess.Popen(
        command,
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    cost = Cost()
    readers = [
        threading.Thread(target=_sort, args=(stream, cost)) for stream in (process.stdout,)
    ] + [threading.Thread(target=_complain, args=(process.stderr, cost))]
    for reader in readers:
        reader.start()
    began = time.monotonic()
    watched = "hostile" if "hostile" in servers else "honest"
    first = None
    try:
        while len(getattr(cost, watched)) < snapshots:
            limit = began + START_SECONDS if first is None else first + longest
            if time.monotonic() > limit:
                break
            if process.poll() is not None:
                break
            _sample(process.pid, cost)
            if first is None and (cost.honest or cost.hostile):
                first = time.monotonic()
            time.sleep(0.1)
        cost.seconds = time.monotonic() - (first or began)
        _sample(process.pid, cost)
    finally:
        for _ in range(2):  # the second gives up what is under way
            process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for reader in readers:
            reader.join()
    cost.problems = [
        problem["message"]
        for file in (home / "landing" / "hostile").glob("*/*/*/snapshots.parquet")
        for row in pq.ParquetFile(file).read().to_pylist()
        for problem in row["problems"]
    ]
    return cost


def _sort(stream, cost: Cost) -> None:
    for line in stream:
        (cost.hostile if " hostile " in line else cost.honest).append(line.strip())


def _complain(stream, cost: Cost) -> None:
    for line in stream:
        cost.complaints.append(line.strip())


def _sample(pid: int, cost: Cost) -> None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        numbers = dict(line.split(":\t", 1) for line in status.splitlines())
        cost.memory = max(cost.memory, int(numbers["VmHWM"].split()[0]) / 1000)
        cost.threads = max(cost.threads, int(numbers["Threads"]))
        cost.descriptors = max(cost.descriptors, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()))
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        cost.processor = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, KeyError, ValueError):
        return  # it has just ended


def _row(attack: str, version: str, cost: Cost) -> list[object]:
    first = cost.hostile[0].split(": ", 1)[-1] if cost.hostile else "no snapshot"
    return [
        attack,
        version,
        f"{cost.complete} of {int(cost.seconds / EVERY)}",
        f"{cost.memory:.0f}",
        cost.descriptors,
        cost.threads,
        f"{cost.processor:.0f} in {cost.seconds:.0f}",
        f"`{first[:110]}`",
    ]


def main() -> None:
    """Measure every attack, and write the section of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of an older version")
    parser.add_argument("--attack", action="append", choices=sorted(hostile_servers.ATTACKS))
    parser.add_argument("--seconds", type=float, default=60.0, help="the longest per attack")
    options = parser.parse_args()
    versions = [("now", ROOT)]
    if options.before:
        versions.insert(0, ("before", options.before.resolve()))
    rows = []
    for attack in options.attack or (None, *hostile_servers.ATTACKS):
        for version, checkout in versions:
            cost = measure(attack, longest=options.seconds, checkout=checkout)
            rows.append(_row(attack or "none", version, cost))
            sys.stdout.write(" | ".join(map(str, rows[-1])) + "\n")
            sys.stdout.flush()
    head = ["attack", "version", "complete snapshots of the honest cluster, of whole intervals"]
    head += [
        "MB",
        "descriptors",
        "threads",
        "processor time, s",
        "first line about the hostile one",
    ]
    text = (
        "## Hostile name servers and brokers\n\n"
        f"`tidemark collect --every {EVERY:g}s` with an honest cluster and a hostile one, "
        f"{DESCRIPTORS} descriptors, until the third snapshot of the hostile one or for "
        f"{options.seconds:g} s from the first snapshot on; {machine()}. "
        "Made by `python -m bench.hostile_brokers`.\n\n"
    )
    if not options.attack:
        write_section("hostile brokers", text + table(head, rows))


if __name__ == "__main__":
    main()
