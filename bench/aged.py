"""Cost of a tick in a home where many clusters have a long history, and in a new home.

``python -m bench.aged [--days 90] [--clusters 30] [--groups 250] [--warm 4] [--ticks 5]``. Two
homes compute the same made-up minutes (`bench.past`) in turns. One of them already holds the past
of other clusters, in a thousand commits of each table. Then maintenance runs there, and a person
reads what it holds: `tidemark show` and pages of the board.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa

from bench import report
from bench.costs import ROOT, ROWS_OF_GROUP, Cost, Side, side
from bench.made_up import CLUSTER, DAY, MadeUp
from bench.pages import fetched, served
from bench.soak import print_line
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import raw
from tidemark.settings.home import Home

MINUTES_OF_COMMIT = 120
"""More than a thousand commits of each table in 90 days."""

RAW_MINUTES = 7 * DAY

READS = 5


@dataclass(frozen=True)
class Clusters:
    """Small clusters and their past.

    Attributes:
        count: how many.
        days: retention of computed rows.
        end: the newest minute.
    """

    count: int
    days: int
    end: datetime

    @property
    def one(self) -> MadeUp:
        """The cluster that all of them are like."""
        return MadeUp(
            groups=2,
            topics_per_group=2,
            topics=4,
            queues=4,
            days=self.days,
            queue_days=0,
            end=self.end,
        )

    def write(self, lake: Lake) -> None:
        """Write their past, oldest first."""
        for ago in range(self.days * DAY - MINUTES_OF_COMMIT, -1, -MINUTES_OF_COMMIT):
            for table, rows in self.one.history(ago, ago + MINUTES_OF_COMMIT):
                if table is not raw.SNAPSHOTS or ago < RAW_MINUTES:
                    lake.append(table, self._of_all(rows).cast(table.arrow_schema()))

    def _of_all(self, rows: pa.Table) -> pa.Table:
        """Return the rows of one cluster as those of each."""
        with duckdb.connect() as session:
            session.execute("SET TimeZone = 'UTC'")
            session.register("of_one", rows)
            name = f"'{CLUSTER}-' || number"
            renamed = f"{name} AS cluster, replace(snapshot_id, '{CLUSTER}', {name}) AS snapshot_id"
            text = f"SELECT of_one.* REPLACE ({renamed}) FROM of_one, range({self.count}) c(number)"
            return session.sql(text).to_arrow_table()


def main() -> None:
    """Measure, print each step, and write the section of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--clusters", type=int, default=30)
    parser.add_argument("--groups", type=int, default=250, help="of the cluster that ticks compute")
    parser.add_argument("--warm", type=int, default=4, help="ticks that are not counted")
    parser.add_argument("--ticks", type=int, default=5)
    options = parser.parse_args()
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    clusters = Clusters(options.clusters, options.days, start - timedelta(minutes=1))
    with ExitStack() as stack:
        new, old = (stack.enter_context(side(ROOT, start, options.groups)) for _ in range(2))
        began = time.monotonic()
        clusters.write(Lake(Home.of(old.home)))
        print_line(f"history written in {time.monotonic() - began:.0f} s")
        rows = _ticks((new, old), options.warm, options.ticks)
        read = [_maintained(old), *_reads(old, clusters)]
    text = "\n\n".join(
        [
            "## A tick after months of history",
            f"{options.groups * ROWS_OF_GROUP:,} group queues; in the old home {options.days} days "
            f"of {options.clusters} other clusters, observed every minute, in "
            f"{options.days * DAY // MINUTES_OF_COMMIT:,} commits of each table. Median (least to "
            f"most); {report.machine()}. By `python -m bench.aged`.",
            report.table(["", "processor time, s", "clock, s"], rows),
            report.table(["in the old home", "processor time, s", "clock, s"], read),
        ]
    )
    print_line(text)
    report.write_section("aged", text)


def _ticks(sides: Sequence[Side], warm: int, ticks: int) -> list[list[str]]:
    """Compute minutes in turns; return a row for each home, and one for the ratio."""
    for item in sides:
        item.tidemark("engine", "up")
    costs: list[tuple[Cost, ...]] = []
    for number in range(warm + ticks):
        for item in sides:
            item.put(number, number + 1)
        costs.append(tuple(item.tidemark("tick", "--no-collect") for item in sides))
        print_line(f"tick {number + 1}: {costs[-1]}")
    counted = costs[warm:]
    rows = [
        [f"a tick of {name}", *_spreads([pair[place] for pair in counted])]
        for place, name in enumerate(("a new home", "the old home"))
    ]
    ratios = [Cost(wall=old.wall / new.wall, cpu=old.cpu / new.cpu) for new, old in counted]
    return [*rows, ["old over new, pair by pair", *_spreads(ratios, ".2f")]]


def _spreads(costs: Sequence[Cost], form: str = ".1f") -> list[str]:
    cpus, walls = [cost.cpu for cost in costs], [cost.wall for cost in costs]
    return [report.spread(cpus, form), report.spread(walls, form)]


def _maintained(old: Side) -> list[str]:
    """Run maintenance once; return its cost."""
    cost = old.dagster("job", "execute", "-m", "orchestration.definitions", "-j", "maintain")
    return ["maintenance", f"{cost.cpu:.1f}", f"{cost.wall:.1f}"]


def _reads(old: Side, clusters: Clusters) -> Iterator[list[str]]:
    """Yield the cost of commands and pages that a person uses to read."""
    name = f"{CLUSTER}-{clusters.count - 1}"
    shown = ("show", "progress.groups", "--where", f"cluster='{name}'", "--limit", "20")
    yield [
        "`tidemark show progress.groups`",
        *_spreads([old.tidemark(*shown) for _ in range(READS)], ".2f"),
    ]
    group = f"/group?cluster={name}&group={clusters.one.name(0)}&topic={clusters.one.topic(0)}"
    with served(Home.of(old.home)) as (address, _, started):
        yield ["the board's start, until the first page", "", f"{started:.2f}"]
        for path in ("/", "/groups", f"{group}&range=24h", f"{group}&range=90d"):
            clocks = []
            for _ in range(READS):
                began = time.perf_counter()
                fetched(address + path)
                clocks.append(time.perf_counter() - began)
            yield [f"`{path}`", "", report.spread(clocks, ".2f")]


if __name__ == "__main__":
    main()
