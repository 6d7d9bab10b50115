"""kill -9 of a tick at random moments: the next tick must leave the tables of an undisturbed run.

Each round lands one more minute of a made-up past, starts ``tidemark tick --no-collect``, kills it
at a random moment of its life and lets the next one finish. After every third kill all files of the
tables are joined first, so that what the killed tick wrote shares its files with what earlier ones
wrote. In the end every table must hold the rows that a home holds in which nobody killed anything.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.support.cluster_history import COMPUTED, Minute, put, text_of
from tidemark.embedded import run_services
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.lake.schema import Table
from tidemark.lake.tables import alerting, progress, raw
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

TIDEMARK = Path(sys.executable).with_name("tidemark")
COMPARED = (*raw.ALL, *COMPUTED, alerting.INCIDENTS, progress.SNAPSHOTS)
TICK_SECONDS = 900

KILLS_PER_COMPACTION = 3

CLUSTER = "struck"
"""Name of the made-up cluster, whose rows are compared; a home may hold other clusters too."""


def soak(
    disturbed: Lake, undisturbed: Lake, kills: int, seed: int, report: Callable[[str], None]
) -> list[str]:
    """Kills that many ticks.

    Args:
        disturbed: a lake in which ticks are killed.
        undisturbed: a lake without kills.
        kills: how many ticks to kill.
        seed: of the moments.
        report: called with what happens, one line each.

    Returns:
        Names of the tables that differ from those of the undisturbed run, at best none.

    Raises:
        RuntimeError: a tick that was not killed failed.
        CalledProcessError: a compaction failed.
    """
    start = floor_hour(datetime.now(UTC)) - 6 * HOUR
    # A broker is unreachable now and then, so that there are unknowns, quarantine and alerts too.
    minutes = [
        Minute(
            at=5 * number,
            unreachable="broker-b" if number % 3 == 2 else None,
            impossible=number % 3 == 1,
        )
        for number in range(kills)
    ]
    put(undisturbed.home, start, minutes, CLUSTER)
    whole = finish(started_tick(undisturbed.home))
    _killing(disturbed, start, minutes, whole, random.Random(seed), report)
    return [
        table.name for table in COMPARED if rows_of(disturbed, table) != rows_of(undisturbed, table)
    ]


def rows_of(lake: Lake, table: Table) -> list[str]:
    """The rows about the made-up cluster; some tables name it in a subject or an id only."""
    rows = lake.read(table)
    if table is alerting.INCIDENTS:
        rows = rows.drop_columns("written_at")  # by the clock of its writer
    return [row for row in text_of(rows) if CLUSTER in row]


def _killing(
    lake: Lake,
    start: datetime,
    minutes: list[Minute],
    whole: float,
    chance: random.Random,
    report: Callable[[str], None],
) -> None:
    for number, minute in enumerate(minutes, 1):
        put(lake.home, start, [minute], CLUSTER)
        moment = chance.uniform(0.1, 1.0) * whole
        process = started_tick(lake.home)
        try:
            process.wait(moment)
            report(f"{number}: done before it could be killed at {moment:.2f} s of {whole:.1f} s")
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            report(f"{number}: killed at {moment:.2f} s of {whole:.1f} s")
        if number % KILLS_PER_COMPACTION == 0:
            report(f"{number}: {_compact(lake.home)} files joined")
        # An engine gets faster: the next one's life is about as long as this one's.
        whole = finish(started_tick(lake.home))


def started_tick(home: Home) -> subprocess.Popen[str]:
    """Start a tick on landed snapshots; its errors are in ``tick.log`` of the home."""
    ours = ("TIDEMARK_", "DAGSTER_", "SPARK_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.Popen(
        [str(TIDEMARK), "tick", "--no-collect"],
        env=kept | {"TIDEMARK_HOME": str(home.path)},
        stdout=subprocess.DEVNULL,
        stderr=(home.path / "tick.log").open("w"),
        text=True,
    )


def _compact(home: Home) -> int:
    """Join the files of a home, in a process whose Spark session is no other's."""
    command = [sys.executable, "-m", "bench.compact", str(home.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


def finish(process: subprocess.Popen[str]) -> float:
    """Waits for the end of a tick; its seconds."""
    began = time.monotonic()
    code = process.wait(TICK_SECONDS)
    if code:
        raise RuntimeError(f"a tick that nobody killed ended with exit code {code}: see tick.log")
    return time.monotonic() - began


def print_line(text: str) -> None:
    """Print a line at once, also into a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def start_interruptible_programs() -> None:
    """Let programs that this one starts heed SIGINT, which a shell's background programs ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    """Runs the soak and exits 1 when a table differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options = parser.parse_args()
    print_line(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder:
        disturbed, undisturbed = (Lake(Home.of(Path(folder) / name)) for name in ("kills", "calm"))
        try:
            run_services.up(Settings(home=disturbed.home))
            run_services.up(Settings(home=undisturbed.home))
            differing = soak(disturbed, undisturbed, options.kills, options.seed, print_line)
        finally:
            run_services.down(disturbed.home)
            run_services.down(undisturbed.home)
    if differing:
        sys.exit(f"differ from an undisturbed run: {', '.join(differing)}")
    print_line(f"{options.kills} kills; {len(COMPARED)} tables equal those of an undisturbed run")


if __name__ == "__main__":
    main()
