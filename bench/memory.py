"""Memory of a process that collects and lands snapshots of a large cluster.

``python -m bench.memory`` prints MB before, MB at most, and rows of progress. A module of its own,
because a benchmark that boots brokers imports twice as much as a collector does; the brokers here
are `bench.standin`, as no machine at hand boots so large ones.
"""

import sys
import tempfile
from pathlib import Path

from bench import standin
from tidemark.collection.memory import use_system_allocator
from tidemark.lab.large import Large
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.settings.home import Home

SIZE = Large(topics=2000, groups=1563, topics_per_group=8)
"""On two brokers some 200,000 rows of progress."""

SNAPSHOTS = 3
"""One after the other: memory that a snapshot leaves behind would show."""


def main() -> None:
    """Collect, land and print."""
    use_system_allocator()
    from tidemark.lake.landing import land  # imports Arrow

    rows = 0
    with standin.serve(SIZE, 2) as namesrv, tempfile.TemporaryDirectory() as folder:
        target = ClusterTarget(name_servers=(namesrv,), total_timeout=120, request_timeout=60)
        before = _largest_mb()
        for _ in range(SNAPSHOTS):
            snapshot = collect_snapshot(target)
            land(Home.of(Path(folder)), snapshot)
            rows = len(snapshot.consumer_offsets)
            del snapshot
    sys.stdout.write(f"{before} {_largest_mb()} {rows}\n")


def _largest_mb() -> int:
    """Largest resident set so far; of getrusage a child begins with its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM:")]
    return int(line.split()[1]) // 1024


if __name__ == "__main__":
    main()
