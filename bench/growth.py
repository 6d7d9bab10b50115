"""How the cost of a warm tick grows with the group queues of a cluster: fixed + linear.

``python -m bench.growth [--groups 25 250 2500] [--warm 4] [--ticks 3]``. Each size has a home, an
engine and a made-up past (`bench.past`) of its own. A straight line through the processor time of
the sizes, by least squares, gives what a tick costs whatever it holds, and what a row adds.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench import report
from bench.costs import ROOT, ROWS_OF_GROUP, Cost, Side, side
from bench.soak import print_line


@dataclass(frozen=True)
class Size:
    """Measurements at one size of the cluster.

    Attributes:
        rows: group queues.
        ticks: costs of warm ticks.
        memory: largest resident set of the engine so far, in GB.
    """

    rows: int
    ticks: Sequence[Cost]
    memory: float

    @property
    def cpu(self) -> float:
        """Seconds of processor time of a tick, the median."""
        return statistics.median(cost.cpu for cost in self.ticks)


def main() -> None:
    """Measure, print each size, and write the section of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[25, 250, 2500])
    parser.add_argument("--warm", type=int, default=4, help="ticks that are not counted")
    parser.add_argument("--ticks", type=int, default=3)
    options = parser.parse_args()
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    sizes = []
    for groups in options.groups:
        with side(ROOT, start, groups) as measured:
            sizes.append(_size(measured, options.warm, options.ticks))
        print_line(str(sizes[-1]))
    text = _section(sizes)
    print_line(text)
    report.write_section("growth", text)


def _size(measured: Side, warm: int, ticks: int) -> Size:
    measured.tidemark("engine", "up")
    costs = []
    for number in range(warm + ticks):
        measured.put(number, number + 1)
        costs.append(measured.tidemark("tick", "--no-collect"))
    return Size(measured.groups * ROWS_OF_GROUP, costs[warm:], _memory(measured.home))


def _memory(home: Path) -> float:
    """Return the largest resident set of a home's engine so far, in GB."""
    pid = json.loads((home / "engine" / "engine.json").read_text())["pid"]
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 2**20


def _section(sizes: Sequence[Size]) -> str:
    rows = [
        [
            f"{size.rows:,}",
            report.spread([cost.cpu for cost in size.ticks], ".1f"),
            report.spread([cost.wall for cost in size.ticks], ".1f"),
            f"{size.memory:.1f}",
        ]
        for size in sizes
    ]
    head = ["group queues", "processor time of a tick, s", "clock, s", "engine's memory, GB"]
    parts = [
        "## Growth of a tick",
        f"Warm ticks, median (least to most); {report.machine()}. By `python -m bench.growth`.",
        report.table(head, rows),
    ]
    if len(sizes) > 1:
        line = statistics.linear_regression([size.rows for size in sizes], [it.cpu for it in sizes])
        parts.append(
            f"The straight line through them: {line.intercept:.1f} s of processor time whatever a "
            f"tick holds, and {line.slope * 1e6:.0f} µs for each row."
        )
        points = {"a warm tick": [(size.rows, size.cpu) for size in sizes]}
        axes = ("group queues", "processor time, s")
        parts.append(report.plot("growth", "Processor time of a tick by size", axes, points, "log"))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
