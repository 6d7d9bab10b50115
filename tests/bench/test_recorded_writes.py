"""The disk after a power cut, from a record of writes, compared with the writes."""

import random
import shutil
import sys
from datetime import UTC, datetime, timedelta

import pytest

from bench.recorded_writes import Disk, Lost, calls, put_in_place, record
from tests.support.cluster_history import PAST, put
from tests.support.homes import ROOT
from tidemark.lake import pyiceberg_patches
from tidemark.lake.catalog import Lake
from tidemark.lake.landing import landed
from tidemark.lake.loading import load
from tidemark.lake.recovery import recover
from tidemark.lake.tables import raw
from tidemark.settings.home import Home

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace records the writes")

START = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=20)

STEPS = """
import os, pathlib, shutil, sqlite3, sys
root = pathlib.Path(sys.argv[1])
with sqlite3.connect(root / "x.db") as made:
    made.execute("create table t (x)")
    made.executemany("insert into t values (?)", [(str(n) * 50,) for n in range(999)])
(root / "a").write_text("new")
(root / "a").rename(root / "b")
shutil.copyfile(root / "b", root / "c")
(root / "folder" / "deep").mkdir(parents=True)
(root / "folder" / "deep" / "d").write_text("x" * 9000)
(root / "folder").rename(root / "other")
synced = os.open(root / "synced", os.O_WRONLY | os.O_CREAT)
os.write(synced, b"kept")
os.fsync(synced)
os.write(synced, b" lost")
os.fsync(os.open(root, os.O_RDONLY))
(root / "c").unlink()
shutil.rmtree(root / "gone")
"""


def recorded(tmp_path, root, code, *arguments):
    """The disk before the recorded calls, and these calls."""
    disk, log = Disk(root), tmp_path / "log"
    record([sys.executable, "-c", code, str(root), *arguments], log, cwd=ROOT)
    return disk, list(calls(log, root))


def test_the_record_has_what_the_disk_has(tmp_path):
    root = tmp_path / "root"
    (root / "gone").mkdir(parents=True)
    (root / "gone" / "file").write_text("old")
    disk, item = recorded(tmp_path, root, STEPS)
    for call in item:
        disk.apply(call)
    assert disk.differences() == []
    chance = random.Random(1)
    nothing = disk.after_cut(Lost.NOTHING_LEFT, chance)
    assert nothing[root / "synced"] == b"kept"
    assert nothing[root / "b"] == b""
    assert nothing[root / "c"] == b""  # its removal was not synced
    assert nothing[root / "gone" / "file"] == b"old"
    assert root / "other" in nothing
    names = disk.after_cut(Lost.NAMES_LEFT, chance)
    assert names[root / "other" / "deep" / "d"] == b""
    assert root / "c" not in names
    assert names[root / "x.db"] == (root / "x.db").read_bytes()  # SQLite syncs what it commits


LOADS = """
import sys
from datetime import datetime
from pathlib import Path
from tidemark.lake.catalog import Lake
from tidemark.host.leases import RUN
from tidemark.lake.loading import load
from tidemark.settings.home import Home
from tests.support.cluster_history import PAST, put

root, start = Path(sys.argv[1]), datetime.fromisoformat(sys.argv[2])
lake = Lake(Home.of(root / "home"))
lake.shared.leases.acquire(RUN)
with (root / "marks").open("ab", buffering=0) as marks:
    for minute in PAST[2:4]:
        put(lake.home, start, [minute])
        marks.write(b"landed")
        load(lake)
"""


@pytest.mark.slow
def test_loads_survive_a_power_cut_at_any_moment(tmp_path, lake, monkeypatch):
    """Without Spark, so that six moments take seconds."""
    root = lake.home.path.parent
    put(lake.home, START, PAST[:2])
    load(lake)
    disk, item = recorded(tmp_path.parent, root, LOADS, START.isoformat())
    expected = sorted(map(repr, Lake(lake.home).read(raw.QUEUE_OFFSETS).to_pylist()))
    seed = random.randrange(1_000_000)
    chance, acknowledged = random.Random(seed), 2
    moments = set(chance.sample(range(len(item)), 6))
    for at, call in enumerate(item):
        disk.apply(call)
        if call.name == "write" and call.arguments[1] == '"landed"':
            acknowledged += 1
        if at not in moments:
            continue
        lost = chance.choice(list(Lost))
        put_in_place(root, disk.after_cut(lost, chance))
        monkeypatch.setattr(pyiceberg_patches, "_kept", {})
        again = Lake(Home.of(lake.home.path))
        recover(again, lambda _: None)
        where = f"seed {seed}, cut at {at} of {len(item)}, {lost} left"
        assert len(list(landed(again.home))) >= acknowledged, where
        for minute in PAST[2:4]:
            if not _has_landed(again, minute):
                put(again.home, START, [minute])
        load(again)
        assert sorted(map(repr, again.read(raw.QUEUE_OFFSETS).to_pylist())) == expected, where


def _has_landed(lake, minute):
    at = START + timedelta(minutes=minute.at)
    return any(item.observed_at == at for item in landed(lake.home))
