"""Cost of computation: one question in three engines, and whole hours of the past.

``make bench-compute`` or ``python -m bench.compute [--parts question hours] [--rounds N]
[--hours 1 6 24]``. All of it is about `bench.past.Past`, 16,000 group queues observed every
minute, and each part is written into its section of ``docs/benchmarks.md``. Engines run in
turns, because machines drift; that their results are the same is checked.
"""

import argparse
import importlib.metadata
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from bench import report
from bench.past import Past
from bench.questions import ENGINES, FORMS, OBSERVED
from bench.soak import TIDEMARK
from bench.tick import STAGES, stage_seconds, step_seconds
from orchestration.instance.dagster_home import prepare
from spark.session import engine
from tidemark.embedded import run_services
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

QUESTION_HOURS = 12

PARTS = ("question", "hours")
"""Parts of the bench that can be measured separately."""


def main() -> None:
    """Measures, and prints and writes each section when known: all of it takes half an hour."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=3, help="warm results of each engine")
    parser.add_argument("--hours", type=int, nargs="+", default=[1, 6, 24])
    options = parser.parse_args()
    _write("compute", _title())
    if "question" in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            _write("compute question", _question(Path(folder), options.rounds))
    if "hours" in options.parts:
        with tempfile.TemporaryDirectory() as folder, home_with_engine(Path(folder)) as home:
            _write("compute hours", _hours(home, options.hours))


def _write(section: str, text: str) -> None:
    sys.stdout.write(text + "\n\n")
    sys.stdout.flush()
    report.write_section(section, text)


def _title() -> str:
    past = Past(start=datetime.now(UTC))
    return (
        "## Computing\n\n"
        f"{past.group_queues:,} group queues ({past.groups} groups on {past.topics_per_group} "
        f"topics each), observed every minute; {report.machine()}, Spark "
        f"{_version('pyspark')}, DuckDB {_version('duckdb')}, Polars {_version('polars')}. "
        "Median (least to most) of turns. Made by `make bench-compute`."
    )


def _version(package: str) -> str:
    return importlib.metadata.version(package)


# The question


def _question(folder: Path, rounds: int) -> str:
    """Every engine and form, in turns; the first turn is cold."""
    past = Past(start=datetime(2026, 1, 1, 0, 0, 3, tzinfo=UTC))
    files = {form: folder / form for form in FORMS}
    rows = _write_files(past, files)
    combinations = [(name, form) for form in FORMS for name in ENGINES]
    seconds: dict[tuple[str, str], list[float]] = {combination: [] for combination in combinations}
    totals: list[Sequence[float]] = []
    with ExitStack() as stack:
        running = {
            (name, form): stack.enter_context(_engine_process(name, form, files[form]))
            for name, form in combinations
        }
        for _ in range(1 + rounds):
            for combination in combinations:
                measured = _run_once(running[combination])
                seconds[combination].append(measured["seconds"])
                totals.append(measured["totals"])
    _require_same(totals)
    size = {form: sum(it.stat().st_size for it in files[form].iterdir()) / 1e6 for form in FORMS}
    names = {
        "spark": "Spark, local[2]",
        "duckdb": "DuckDB, 2 threads",
        "polars": "Polars, 2 threads",
    }
    words = {"observed": "observations", "kept": "rows that hold the observation before"}
    table = report.table(
        ["engine", "files", "cold, s", "warm, s"],
        [
            [names[name], words[form], f"{value[0]:.1f}", report.spread(value[1:], ".1f")]
            for (name, form), value in seconds.items()
        ],
    )
    return (
        f"### Rates, lag and delay of every group and minute over {QUESTION_HOURS} hours\n\n"
        f"{rows:,} rows of Parquet ({size['observed']:.0f} MB; {size['kept']:.0f} MB with the "
        "observation before), to one row per minute, group and topic. All engines gave the same "
        f"totals.\n\n{table}"
    )


def _write_files(past: Past, files: Mapping[str, Path]) -> int:
    """Both forms of the rows, a file an hour; how many rows there are."""
    for folder in files.values():
        folder.mkdir()
    with duckdb.connect() as session:
        session.execute("SET TimeZone = 'UTC'")
        session.execute("SET threads = 2")
        for hour in range(QUESTION_HOURS):
            row = {table.short_name: rows for table, rows in past.rows(60 * hour, 60 * hour + 60)}
            for name in ("queue_offsets", "consumer_offsets"):
                session.register(name, row[name])
            to = files["observed"] / f"hour-{hour:02}.parquet"
            session.execute(
                "COPY (SELECT observed_at, cluster, broker, topic, queue_id, consumer_group, "
                "max_offset, consumer_offset FROM consumer_offsets JOIN queue_offsets "
                "USING (snapshot_id, observed_at, cluster, broker, topic, queue_id) "
                f"ORDER BY observed_at) TO '{to}' (COMPRESSION zstd)"
            )
            # The observation before the first of this hour lies in the hour before.
            hours = range(max(hour - 1, 0), hour + 1)
            near = [str(files["observed"] / f"hour-{at:02}.parquet") for at in hours]
            session.execute(f"CREATE OR REPLACE VIEW rows AS SELECT * FROM read_parquet({near})")
            to = files["kept"] / f"hour-{hour:02}.parquet"
            session.execute(
                f"COPY (SELECT * FROM ({OBSERVED}) WHERE observed_at >= "
                f"TIMESTAMPTZ '{past.instant(60 * hour)}' ORDER BY observed_at) "
                f"TO '{to}' (COMPRESSION zstd)"
            )
        counted = session.execute(f"SELECT count(*) FROM '{files['kept']}/*.parquet'").fetchone()
        assert counted
    return counted[0]


@contextmanager
def _engine_process(name: str, form: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a process in which one engine waits for the question."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.questions", name, form, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _run_once(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdin and process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"{process.args} ended without a result")
    return json.loads(line)


def _require_same(totals: Sequence[Sequence[float]]) -> None:
    """All results are equal but for the order in which real numbers were added."""
    for numbers in totals[1:]:
        if not all(
            math.isclose(*pair, rel_tol=1e-9) for pair in zip(numbers, totals[0], strict=True)
        ):
            raise SystemExit(f"engines differ: {numbers} and {totals[0]}")


# Hours of our own


@contextmanager
def home_with_engine(path: Path) -> Iterator[Home]:
    """A home with a warm engine."""
    home = Home.of(path)
    _use(home)
    prepare(home)
    run_services.up(Settings(home=home))
    try:
        yield home
    finally:
        run_services.down(home)


def tick(past: Past, lake: Lake, minute: int) -> tuple[float, dict[str, float]]:
    """Puts a minute and ticks: seconds on the clock, and of each step."""
    past.put(lake, minute, minute + 1)
    _use(lake.home)
    return command(["tick", "--no-collect"])


def _use(home: Home) -> None:
    """Makes it the home of the processes started from here on."""
    os.environ["TIDEMARK_HOME"] = str(home.path)
    os.environ["DAGSTER_HOME"] = str(home.dagster)


def command(arguments: Sequence[str]) -> tuple[float, dict[str, float]]:
    """Runs `tidemark`: seconds on the clock, and of each step of its run."""
    started = time.perf_counter()
    done = subprocess.run([str(TIDEMARK), *arguments], capture_output=True, text=True)
    wall = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(f"tidemark {arguments[0]} exited {done.returncode}: {done.stderr[-500:]}")
    return wall, step_seconds()


def _hours(home: Home, sizes: Sequence[int]) -> str:
    """Whole hours of a past computed in one run each, after two that warm the engine."""
    end = floor_hour(datetime.now(UTC)) - 4 * HOUR
    start = end - max(sizes) * HOUR
    past, lake = Past(start=start), Lake(home)
    for hour in range(max(sizes)):
        past.put(lake, 60 * hour, 60 * hour + 60)
    rows = []
    for hours in (sizes[0], sizes[0], *sizes):
        window = Window(start, start + hours * HOUR)
        instants = ["--from", window.start.isoformat(), "--to", window.end.isoformat()]
        wall, steps = command(["recompute", *instants])
        queues = past.group_queues * 60 * hours
        compute, validate = (stage_seconds(steps, STAGES[name]) for name in ("compute", "validate"))
        rows.append(
            [
                hours,
                f"{queues:,}",
                f"{wall:.0f}",
                f"{compute:.0f}",
                f"{validate:.0f}",
                f"{1e6 * wall / queues:.1f}",
                f"{_engine_gb(home):.1f}",
            ]
        )
    head = ["hours", "rows of queues", "wall, s", "compute, s", "validate, s", "µs a row"]
    table = report.table([*head, "engine's largest memory, GB"], rows[2:])
    return "### Whole hours of the past, one run each\n\n" + table


def _engine_gb(home: Home) -> float:
    """Largest resident set of the engine so far."""
    running = engine.running(home)
    assert running
    status = Path(f"/proc/{running.pid}/status").read_text().splitlines()
    (line,) = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1e6


if __name__ == "__main__":
    main()
