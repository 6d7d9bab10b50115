"""Power cuts at random moments: the next start must recover, and lose nothing that was landed.

A home is recorded while it lands two snapshots, ticks, keeps its tables small and is backed up
(`bench.recorded_writes`). For each cut the home is given a content that its disk could have after a
loss of power at that moment. Then a tick starts, as after the boot. In the end every table must
hold the rows of a home whose power was never cut, each snapshot that had been acknowledged as
landed must be among them, and the folder of backups must hold a whole backup.
"""

import argparse
import random
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from bench.recorded_writes import Call, Disk, Lost, calls, put_in_place, record
from bench.soak import CLUSTER, COMPARED, finish, print_line, rows_of, started_tick
from orchestration.instance.dagster_home import prepare
from spark.session import engine
from spark.session.engine import Engine
from tests.support.cluster_history import Minute, put, snapshot
from tests.support.homes import dagster_job
from tests.support.homes import run as command
from tidemark.embedded import forking
from tidemark.lake.backup import Contents, check_files, contents_of
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.lake.landing import has_landed
from tidemark.lake.schema import Table
from tidemark.lake.tables import progress
from tidemark.settings.home import Home

BEFORE = (Minute(at=0), Minute(at=5, unreachable="broker-b"), Minute(at=10))
DURING = (Minute(at=15, impossible=True), Minute(at=20))
"""Snapshots that land while the home is recorded."""

REGIONS = ("tick", "maintenance", "backup")

MARKS = "marks"
"""File in which the recorded process writes begun and acknowledged operations."""


@dataclass
class Marks:
    """Operations under way and acknowledged at a moment of a record.

    Attributes:
        region: what was under way.
        landed: ids of the snapshots whose landing had returned.
        is_backed_up: whether the second backup had returned.
    """

    region: str = ""
    landed: set[str] = field(default_factory=set)
    is_backed_up: bool = False

    def read(self, call: Call, root: Path) -> None:
        """Apply the mark that a call has written into the file of marks."""
        if call.name == "write" and f"<{root / MARKS}>" in call.arguments[0]:
            kind, _, text = call.arguments[1].strip('"').removesuffix("\\n").partition(" ")
            if kind == "begin":
                self.region = text
            elif kind == "landed":
                self.landed.add(text)
            elif kind == "backup":
                self.is_backed_up = True


def do_what_is_recorded(root: Path, start: datetime) -> None:
    """Land, tick, keep small and back up, with an engine that is recorded too."""
    home = Home.of(root / "home")
    with (root / MARKS).open("ab", buffering=0) as marks:

        def mark(text: str) -> None:
            marks.write(f"{text}\n".encode())

        engine.up(home, CatalogConfig.of(home))
        try:
            mark("begin tick")
            for minute in DURING:
                put(home, start, [minute], CLUSTER)
                mark(f"landed {snapshot(start, minute, CLUSTER).snapshot_id}")
            finish(started_tick(home))
            mark("begin maintenance")
            dagster_job(home, "maintain")
            mark("begin backup")
            _back_up(home, root)
            mark("backup done")
            mark("begin end")
        finally:
            engine.down(home)


def _back_up(home: Home, root: Path) -> None:
    done = command(home, ["backup", str(root / "copy")])
    if done.returncode:
        raise RuntimeError(f"the backup failed: {done.stderr}")


def cuts(
    root: Path, calm: Lake, warm: Engine, number: int, seed: int, report: Callable[[str], None]
) -> list[str]:
    """Cut the power that many times.

    Args:
        root: an empty folder, whose path has no blanks.
        calm: an empty lake in which nothing is cut.
        warm: an engine for the ticks that are not recorded.
        number: of cuts.
        seed: of the moments, and of what is lost.
        report: called with what happens, one line each.

    Returns:
        A line for each thing that is wrong, at best none.
    """
    chance = random.Random(seed)
    start = floor_hour(datetime.now(UTC)) - 6 * HOUR
    home = Home.of(root / "home")
    with _fork_server(calm.home) as server:

        def tick(home: Home) -> float:
            _use(home, warm, server)
            return finish(started_tick(home))

        for value in (calm.home, home):
            prepare(value)
            put(value, start, BEFORE, CLUSTER)
            tick(value)
        put(calm.home, start, DURING, CLUSTER)
        tick(calm.home)
        expected = {table: rows_of(calm, table) for table in COMPARED}
        _back_up(home, root)
        for used in home.engine.glob("*.json"):
            used.unlink()
        disk, log = Disk(root), root.with_suffix(".strace")
        began = time.monotonic()
        this = [sys.executable, "-m", "bench.power", "--record", str(root)]
        record([*this, "--start", start.isoformat()], log, cwd=Path(__file__).parents[1])
        result = list(calls(log, root))
        log.unlink()
        backed_up = contents_of(root / "copy")
        whole = deepcopy(disk)
        for call in result:
            whole.apply(call)
        report(
            f"{len(result)} calls in {time.monotonic() - began:.0f} s, of which "
            f"{sum(call.name in ('fsync', 'fdatasync') for call in result)} sync; files that the "
            f"record has otherwise: {[str(path.relative_to(root)) for path in whole.differences()]}"
        )
        wrong = []
        moments = _moments(result, root, number, chance)
        marks = Marks()
        for at, call in enumerate(result):
            disk.apply(call)
            marks.read(call, root)
            if at in moments:
                lost = chance.choice(list(Lost))
                put_in_place(root, disk.after_cut(lost, chance))
                began = time.monotonic()
                problems = _checked(root, start, marks, expected, backed_up, tick)
                where = f"cut at {at} of {len(result)}, in {marks.region}, {lost} left"
                report(
                    f"{where}: {'; '.join(problems) or 'whole'} ({time.monotonic() - began:.0f} s)"
                )
                wrong += [f"{where}: {problem}" for problem in problems]
    return wrong


def _moments(value: list[Call], root: Path, number: int, chance: random.Random) -> set[int]:
    """Return the positions of cuts: of each region as many."""
    regions: dict[str, list[int]] = {name: [] for name in REGIONS}
    marks = Marks()
    for at, call in enumerate(value):
        marks.read(call, root)
        if marks.region in regions:
            regions[marks.region].append(at)
    shares = Counter(REGIONS[item % len(REGIONS)] for item in range(number))
    return {at for name, share in shares.items() for at in chance.sample(regions[name], share)}


def _checked(
    root: Path,
    start: datetime,
    marks: Marks,
    expected: Mapping[Table, list[str]],
    backed_up: Contents,
    tick: Callable[[Home], float],
) -> list[str]:
    """Start again after a cut; return the faults that are found then."""
    home = Home.of(root / "home")
    problems = []
    for minute in DURING:
        made = snapshot(start, minute, CLUSTER)
        if not has_landed(home, made):
            if made.snapshot_id in marks.landed:
                problems.append(f"{made.snapshot_id} had landed and is lost")
            put(home, start, [minute], CLUSTER)
    try:
        tick(home)
        lake = Lake(home)
        computed = set(lake.read(progress.SNAPSHOTS)["snapshot_id"].to_pylist())
        problems += [f"{text} is not computed" for text in marks.landed - computed]
        problems += [
            f"{table} differs" for table in COMPARED if rows_of(lake, table) != expected[table]
        ]
        contents = contents_of(root / "copy")
        check_files(root / "copy", contents)
        if marks.is_backed_up and any(
            "/metadata/" not in path for path in contents.tables.values()
        ):
            problems.append("the backup that had returned is not there")
    except Exception as error:
        log = home.path / "tick.log"
        problems.append(f"{error} {log.read_text()[-800:] if log.exists() else ''}")
    return problems


@contextmanager
def _fork_server(home: Home) -> Iterator[forking.ForkServer]:
    prepare(home)
    try:
        yield forking.up(home)
    finally:
        forking.down(home)


def _use(home: Home, warm: Engine, server: forking.ForkServer) -> None:
    """Let a home use services that run elsewhere, in a session without its files."""
    home.engine.mkdir(parents=True, exist_ok=True)
    replace(warm, session_id=str(uuid.uuid4())).write(home.engine / "engine.json")
    server.write(home.engine / "fork_server.json")


def main() -> None:
    """Cuts the power and exits 1 where something is wrong afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--start", type=datetime.fromisoformat, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        do_what_is_recorded(options.record, options.start)
        return
    print_line(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="power-") as folder:
        root, calm = Path(folder) / "cut", Lake(Home.of(Path(folder) / "calm"))
        root.mkdir()
        warm = engine.up(Home.of(Path(folder) / "engine"), CatalogConfig.of(calm.home))
        try:
            wrong = cuts(root, calm, warm, options.cuts, options.seed, print_line)
        finally:
            warm.stop()
    if wrong:
        sys.exit("\n".join(wrong))
    print_line(f"{options.cuts} power cuts; {len(COMPARED)} tables equal those of a calm home")


if __name__ == "__main__":
    main()
