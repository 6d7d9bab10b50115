"""After a power cut a table returns to the version before, and later rows are computed again."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.cluster_history import PAST, put
from tidemark.host.leases import RUN
from tidemark.lake import pyiceberg_patches
from tidemark.lake.catalog import Lake
from tidemark.lake.durable_tables import path_of
from tidemark.lake.landing import landed
from tidemark.lake.loading import load
from tidemark.lake.recovery import recover
from tidemark.lake.tables import progress, raw
from tidemark.planning.history import pending_window

START = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=20)

BACKLOG = timedelta(hours=9)
"""Age of snapshots that were loaded long after they were landed."""


@pytest.fixture(params=[timedelta(0), BACKLOG], ids=["present", "backlog"])
def cut(lake, request):
    """Tables that a run which died has filled by two loads, marked as computed."""
    for minutes in (PAST[:2], PAST[2:3]):
        put(lake.home, START - request.param, minutes)
        load(lake)
    rows = lake.read(raw.SNAPSHOTS, columns=("snapshot_id", "observed_at", "cluster"))
    lake.upsert(progress.SNAPSHOTS, rows.to_pylist())
    lake.shared.leases.acquire(RUN).let_go()
    return lake


def newest_files(lake, table):
    """The metadata file of the newest version, its manifest list and its data files."""
    result = lake.table(table.name)
    snapshot = result.current_snapshot()
    data = [
        entry.data_file.file_path
        for manifest in snapshot.manifests(result.io)
        for entry in manifest.fetch_manifest_entry(result.io)
        if entry.snapshot_id == snapshot.snapshot_id
    ]
    places = [result.metadata_location, snapshot.manifest_list, data[0]]
    return [path_of(place) for place in places]


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.slow
@pytest.mark.parametrize("what", [0, 1, 2], ids=["metadata", "manifest list", "data"])
@pytest.mark.parametrize("lose", [emptied, zeroed, os.unlink])
def test_what_a_power_cut_took_is_loaded_again(cut, what, lose, fresh):
    before = sorted(map(repr, cut.read(raw.QUEUE_OFFSETS).to_pylist()))
    lose(newest_files(cut, raw.QUEUE_OFFSETS)[what])
    lines = []
    lake = fresh(cut)
    assert recover(lake, lines.append) == [raw.QUEUE_OFFSETS.name]
    assert len(lines) == 1
    assert "computed again" in lines[0]
    load(lake)
    assert sorted(map(repr, lake.read(raw.QUEUE_OFFSETS).to_pylist())) == before
    ids = lake.read(raw.SNAPSHOTS)["snapshot_id"].to_pylist()
    assert sorted(ids) == sorted(item.snapshot_id for item in landed(lake.home))
    window = pending_window(lake, START - BACKLOG)
    assert window and all(item.observed_at in window for item in landed(lake.home))


@pytest.fixture
def fresh(monkeypatch):
    """The same tables as a process sees them that has read no file before."""
    monkeypatch.setattr(pyiceberg_patches, "_kept", {})
    return lambda lake: pyiceberg_patches._kept.clear() or Lake(lake.home)


@pytest.mark.slow
def test_two_lost_versions_are_gone_back_over(cut, fresh):
    log = cut.table(raw.QUEUE_OFFSETS.name).metadata.metadata_log
    emptied(newest_files(cut, raw.QUEUE_OFFSETS)[2])
    emptied(path_of(log[-1].metadata_file))
    lake = fresh(cut)
    assert recover(lake, lambda _: None) == [raw.QUEUE_OFFSETS.name]
    assert lake.count(raw.QUEUE_OFFSETS, pending_window(lake, START - BACKLOG)) == 0


def test_nothing_changes_where_the_last_run_released_its_lease(cut, fresh):
    cut.shared.leases.acquire(RUN).release()
    emptied(newest_files(cut, raw.QUEUE_OFFSETS)[0])
    assert recover(fresh(cut), lambda _: None) == []


@pytest.mark.slow
def test_whole_tables_stay_as_they_are_after_a_killed_run(cut, fresh):
    places = {table: cut.table(table.name).metadata_location for table in raw.ALL}
    lake = fresh(cut)
    assert recover(lake, lambda _: None) == []
    assert places == {table: lake.table(table.name).metadata_location for table in raw.ALL}
    assert not lake.shared.leases.is_abandoned(RUN)


def test_a_landed_snapshot_is_synced_before_it_is_visible(lake, monkeypatch):
    """Each file, then the folder with their names, then the rename, then the folder around it."""
    done = []
    fsync, rename = os.fsync, Path.rename

    def synced(file):
        done.append(("sync", str(Path(f"/proc/self/fd/{file}").readlink())))
        fsync(file)

    def renamed(path, target):
        done.append(("rename", str(path)))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    put(lake.home, START, PAST[:1])
    (item,) = landed(lake.home)
    (at,) = [number for number, (what, _) in enumerate(done) if what == "rename"]
    unfinished = done[at][1]
    before = {path for what, path in done[:at] if what == "sync"}
    assert before >= {f"{unfinished}/{path.name}" for path in item.path.iterdir()} | {unfinished}
    assert ("sync", str(item.path.parent)) in done[at:]
