"""Dagster's own home after thousands of empty ticks, with and without its history forgotten.

``python -m bench.history [--ticks 10000] [--days 1]``. One real tick with nothing to compute is
run. Its rows, its database and its files are then copied as further ticks, each a minute after the
one before, so a week passes in minutes. Once nothing is forgotten; once what is older than so many
days is, as the sensor `tidy` does it, every 30 ticks.
"""

import argparse
import os
import shutil
import sqlite3
import tempfile
import time
import uuid
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg

from bench.report import machine, table, write_section
from bench.soak import print_line
from orchestration.in_process import tick
from orchestration.instance.dagster_home import prepare
from orchestration.instance.runs import forget_runs, shrink
from orchestration.sensors import MOST_FORGOTTEN
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

MINUTE = timedelta(minutes=1)
FORGOTTEN_EVERY = 30
COPIED = {
    "history/runs/index.db": ("event_logs", "asset_event_tags", "asset_check_executions"),
    "history/runs.db": ("runs", "run_tags"),
}
"""Tables that have rows of a run, by file. Tags of events name the event, all others the run."""


@dataclass(frozen=True)
class Weight:
    """Size of a Dagster home: files, bytes, and bytes of the index of runs."""

    files: int
    size: int
    index: int

    @classmethod
    def of(cls, home: Home) -> "Weight":
        """Weigh a home; rows that are still in a journal count where they belong."""
        for path in (home.dagster / "history").rglob("*.db"):
            if path.name in ("index.db", "runs.db"):
                with closing(sqlite3.connect(path)) as database:
                    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sizes = [path.stat().st_size for path in home.dagster.rglob("*") if path.is_file()]
        return cls(len(sizes), sum(sizes), (home.dagster / "history/runs/index.db").stat().st_size)

    @property
    def cells(self) -> tuple[str, ...]:
        """As cells of a table."""
        return (f"{self.files:,}", f"{self.size / 2**20:,.0f}", f"{self.index / 2**20:,.0f}")


class Copies:
    """Copies of one run in the storage of a home, as if it had run again and again."""

    def __init__(self, home: Home, run_id: str) -> None:
        self._home, self._run_id = home, run_id
        self._shard = home.dagster / "history" / "runs" / f"{run_id}.db"
        with closing(sqlite3.connect(self._shard)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._databases = {
            name: sqlite3.connect(home.dagster / name, timeout=60, isolation_level=None)
            for name in COPIED
        }
        for database in self._databases.values():
            # How fast copies are made is not measured, and nothing is lost with them.
            database.execute("PRAGMA synchronous = OFF")

    def add(self, at: datetime) -> None:
        """Add a copy that ran at an instant."""
        run_id = str(uuid.uuid4())
        shutil.copyfile(self._shard, self._shard.with_name(f"{run_id}.db"))
        storage = self._home.dagster / "storage"
        shutil.copytree(storage / self._run_id, storage / run_id)
        text = at.replace(tzinfo=None).isoformat(sep=" ")
        for name, tables in COPIED.items():
            database = self._databases[name]
            database.execute("BEGIN IMMEDIATE")
            for item in tables:
                self._copy(database, item, run_id, text)
            database.execute("COMMIT")

    def _copy(self, database: sqlite3.Connection, name: str, run_id: str, at: str) -> None:
        fresh = {"run_id": run_id, "timestamp": at, "create_timestamp": at, "update_timestamp": at}
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({name})")]
        columns = [column for column in columns if column != "id"]
        if name == "asset_event_tags":
            where = "event_id IN (SELECT id FROM event_logs WHERE run_id = ?)"
        else:
            where = "run_id = ?"
        chosen = ", ".join(
            f":{column}"
            if column in fresh
            else "replace(run_body, :template, :run_id)"
            if column == "run_body"
            else f'"{column}"'
            for column in columns
        )
        if name == "asset_event_tags":
            chosen = chosen.replace('"event_id"', "(SELECT max(id) FROM event_logs)")
        names = ", ".join(f'"{column}"' for column in columns)
        where = where.replace("?", ":template")
        database.execute(
            f"INSERT INTO {name} ({names}) SELECT {chosen} FROM {name} WHERE {where}",
            fresh | {"template": self._run_id},
        )


def main() -> None:
    """Runs it and writes its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=10_000)
    parser.add_argument("--days", type=float, default=1)
    options = parser.parse_args()
    rows = []
    for days in (None, options.days):
        with tempfile.TemporaryDirectory() as folder:
            one, weight, spent = _live(Home.of(folder), options.ticks, days)
        kept = "for ever" if days is None else f"{days:g} day{'s' * (days != 1)}"
        cost = "" if spent is None else f"{spent * 1000:.1f}"
        rows.append((kept, *weight.cells, cost))
        print_line(f"{options.ticks} ticks, kept {kept}: {weight}; one: {one}")
    head = ("history is kept", "files", "MiB", "of it index.db", "ms to forget a tick")
    write_section(
        "history",
        f"## Dagster's history\n\n{options.ticks:,} ticks with nothing to compute, one a minute, "
        "in compressed time (`python -m bench.history`). "
        f"{machine()}.\n\n{table(head, rows)}",
    )


def _live(home: Home, ticks: int, days: float | None) -> tuple[Weight, Weight, float | None]:
    """Let a home tick; return its size after one tick and after all, and a tick's end."""
    prepare(home)
    os.environ.pop("TIDEMARK_NAMESRV", None)
    os.environ["DAGSTER_HOME"] = str(home.dagster)
    run_id = tick(Settings(home=home), collect=False)
    copies, one = Copies(home, run_id), Weight.of(home)
    start = datetime.now(UTC) - ticks * MINUTE
    forgotten, spent = 0, 0.0
    with dg.DagsterInstance.get() as instance:
        for number in range(1, ticks):
            copies.add(start + number * MINUTE)
            if days is not None and number % FORGOTTEN_EVERY == 0:
                before = start + number * MINUTE - timedelta(days=days)
                began = time.perf_counter()
                forgotten += forget_runs(instance, before, MOST_FORGOTTEN)
                spent += time.perf_counter() - began
            if number % 1000 == 0:
                print_line(f"{number} ticks: {Weight.of(home)}")
    shrink(home)
    return one, Weight.of(home), spent / forgotten if forgotten else None


if __name__ == "__main__":
    main()
