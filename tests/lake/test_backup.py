"""A restored backup has every row, silence, setting and run of Dagster."""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from orchestration.instance.dagster_home import prepare
from tests.support.cluster_history import PAST, put
from tests.support.homes import run
from tidemark.alerting.delivery.silences import silence, silences
from tidemark.host.leases import RUN, LeaseError
from tidemark.host.leases import TABLES as MAKING
from tidemark.lake.backup import BackupError, backup, contents_of, finish, restore
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.landing import landed
from tidemark.lake.loading import load
from tidemark.lake.tables import TABLES, raw
from tidemark.settings.home import Home
from tidemark.settings.sections import CatalogSettings

pytestmark = pytest.mark.slow

START = floor_hour(datetime.now(UTC)) - 8 * HOUR


@pytest.fixture
def filled(lake, monkeypatch):
    """Tables with several versions, a landed snapshot, a silence, a setting, a run of Dagster."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("TIDEMARK_HOME", str(lake.home.path))
    for minutes in (PAST[:3], PAST[3:5]):
        put(lake.home, START, minutes)
        load(lake)
    hour = Window(START, START + HOUR)
    lake.replace(raw.TOPICS, hour, lake.read(raw.TOPICS, hour))
    put(lake.home, START, PAST[5:6])
    silence(lake.shared, {"topic": ("x",)}, datetime.now(UTC) + timedelta(days=1), "eve", "why")
    (lake.home.path / "clusters.yaml").write_text("clusters: []\n")
    with dg.DagsterInstance.from_config(str(prepare(lake.home))) as instance:
        instance.add_run(
            dg.DagsterRun(
                job_name="tick",
                run_id="11111111-1111-1111-1111-111111111111",
                status=dg.DagsterRunStatus.SUCCESS,
            )
        )
    return lake


def contents(lake):
    rows = {name: sorted(map(repr, lake.read(table).to_pylist())) for name, table in TABLES.items()}
    loaded = set(lake.read(raw.SNAPSHOTS)["snapshot_id"].to_pylist())
    pending = {item.snapshot_id for item in landed(lake.home)} - loaded
    return rows, pending, silences(lake.shared.state)


def put_back(lake, copy):
    """The lake of a home that was lost and restored."""
    shutil.rmtree(lake.home.path)
    restore(Lake(lake.home), copy)
    return Lake(lake.home)


def test_a_home_that_was_lost_is_put_back(filled, tmp_path):
    before = contents(filled)
    assert before[0]["raw.queue_offsets"]
    made = run(filled.home, ["backup", str(tmp_path / "copy")])
    assert made.returncode == 0, made.stderr
    shutil.rmtree(filled.home.path)
    done = run(filled.home, ["restore", str(tmp_path / "copy")])
    assert done.returncode == 0, done.stderr
    again = Lake(filled.home)
    assert filled.home.path.stat().st_mode & 0o777 == 0o700
    assert contents(again) == before
    assert (filled.home.path / "clusters.yaml").read_text() == "clusters: []\n"
    assert len(load(again).snapshots) == 1, "what was landed and not loaded"
    with dg.DagsterInstance.from_config(str(filled.home.dagster)) as instance:
        assert [dagster_run.job_name for dagster_run in instance.get_runs()] == ["tick"]


def test_a_second_backup_copies_only_what_is_new(filled, tmp_path):
    lines = []
    backup(filled, tmp_path / "copy")
    load(filled)
    backup(filled, tmp_path / "copy", lines.append)
    new = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    assert new["quality.results"] == 0 and 0 < new["raw.topics"] <= 6
    before = contents(filled)
    assert contents(put_back(filled, tmp_path / "copy")) == before


def test_files_that_the_newest_backup_does_not_name_leave_the_folder(filled, tmp_path):
    """A daily backup into one folder grew by every file that a table ever had."""
    copy = tmp_path / "copy"
    backup(filled, copy)
    left_by_a_kill = copy / "warehouse" / "raw" / "topics" / "data" / "x" / "a.parquet.unfinished"
    left_by_a_kill.parent.mkdir()
    left_by_a_kill.write_bytes(b"PAR1")
    load(filled)
    made = backup(filled, copy)
    paths = [path for path in (copy / "warehouse").rglob("*") if path.is_file()]
    assert {path.relative_to(copy).as_posix() for path in paths} == made.files.keys()
    assert not left_by_a_kill.parent.exists()


def test_nothing_is_put_back_over_tables_or_elsewhere(filled, tmp_path):
    with pytest.raises(BackupError, match="is no backup"):
        restore(filled, tmp_path)
    backup(filled, tmp_path / "copy")
    load(filled)
    with pytest.raises(BackupError, match="exists already; a backup is put back into an empty"):
        restore(filled, tmp_path / "copy")
    elsewhere = run(type(filled.home).of(tmp_path / "other"), ["restore", str(tmp_path / "copy")])
    assert elsewhere.returncode == 1
    assert "is put back there only, not into" in elsewhere.stderr


def test_tables_that_spark_has_written_are_copied(filled, tmp_path):
    """Spark names files of a disk ``file:/X``, PyIceberg names them ``file:///X``."""
    name = raw.TOPICS.name
    place = filled.table(name).metadata_location
    filled.catalog.drop_table(name)
    filled.catalog.register_table(name, place.replace("file:///", "file:/"))
    before = contents(filled)
    backup(filled, tmp_path / "copy")
    assert contents(put_back(filled, tmp_path / "copy")) == before


@pytest.mark.parametrize("way", ["{}/x/../w", "{}//w/"])
def test_a_warehouse_is_the_same_however_its_path_is_written(tmp_path, way):
    """Hadoop writes the shortest path; of such a warehouse no backup could be made."""
    home = Home.of(tmp_path / "home")
    settings = CatalogSettings(warehouse=f"file://{way.format(tmp_path)}")
    lake = Lake(home, CatalogConfig.of(home, settings))
    put(home, START, PAST[:1])
    load(lake)
    name = raw.TOPICS.name
    place = f"file:{tmp_path}/w/" + lake.table(name).metadata_location.split("/w/")[1].lstrip("/")
    lake.catalog.drop_table(name)
    lake.catalog.register_table(name, place)
    before = contents(lake)
    backup(lake, tmp_path / "copy")
    shutil.rmtree(home.path)
    shutil.rmtree(tmp_path / "w")
    shorter = CatalogConfig.of(home, CatalogSettings(warehouse=f"file://{tmp_path}/w"))
    restore(Lake(home, shorter), tmp_path / "copy")
    assert contents(Lake(home, shorter)) == before


def test_what_was_done_since_outlives_a_second_restore(filled, tmp_path):
    """The tables are those of the backup; the silence is not, and was overwritten."""
    backup(filled, tmp_path / "copy")
    shutil.rmtree(filled.home.path)
    again = Lake(filled.home)
    restore(again, tmp_path / "copy")
    until = datetime.now(UTC) + timedelta(days=1)
    silence(again.shared, {"topic": ("y",)}, until, "eve", "why")
    (filled.home.path / "clusters.yaml").write_text("clusters: [] # mine\n")
    before = contents(again)
    lines = []
    restore(again, tmp_path / "copy", lines.append)
    assert contents(again) == before and len(before[2]) == 2
    assert (filled.home.path / "clusters.yaml").read_text() == "clusters: [] # mine\n"
    assert lines[0].startswith("silences, settings and Dagster's storage stay as they are")


def test_a_restore_that_was_killed_puts_back_the_rest(filled, tmp_path):
    backup(filled, tmp_path / "copy")
    before = contents(filled)
    shutil.rmtree(filled.home.path)

    def kill(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(Lake(filled.home), tmp_path / "copy", kill)
    restore(Lake(filled.home), tmp_path / "copy")
    assert contents(Lake(filled.home)) == before


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("version", "two", "Expected `int`, got `str` - at `$.version`"),
        ("version", None, "Expected `int`, got `null` - at `$.version`"),
        ("tables", [], "Expected `object`, got `array` - at `$.tables`"),
        ("files", {"a": [1]}, "Expected `array` of length 2 - at `$.files[...]`"),
    ],
)
def test_an_edited_backup_file_is_one_line_with_its_place(lake, tmp_path, name, value, wrong):
    text = {"program": "1", "version": 2, "warehouse": "w", "tables": {}, "files": {}}
    file = tmp_path / "backup.json"
    file.write_text(json.dumps(text | {name: value}))
    with pytest.raises(BackupError) as error:
        restore(lake, tmp_path)
    assert str(error.value) == (f"{file} is damaged or edited: {wrong}; take another copy")


@pytest.mark.parametrize("is_missing", [True, False])
def test_a_backup_that_is_not_whole_is_not_put_back(filled, tmp_path, is_missing):
    """Otherwise it is restored, and the first read of the table finds the missing file."""
    copy = tmp_path / "copy"
    backup(filled, copy)
    damaged = max((copy / "warehouse").rglob("*.parquet"), key=lambda path: path.stat().st_size)
    whole = damaged.read_bytes()
    damaged.unlink() if is_missing else damaged.write_bytes(whole[::-1])
    shutil.rmtree(filled.home.path)
    done = run(filled.home, ["restore", str(copy)])
    assert done.returncode == 1 and "is not whole: 1 of " in done.stderr
    assert str(damaged.relative_to(copy)) in done.stderr
    assert not filled.home.catalog.exists() and not filled.home.warehouse.exists()
    damaged.write_bytes(whole)
    assert run(filled.home, ["restore", str(copy)]).returncode == 0


def test_a_later_backup_mends_a_damaged_file(filled, tmp_path):
    backup(filled, tmp_path / "copy")
    damaged = next((tmp_path / "copy" / "warehouse").rglob("*.parquet"))
    damaged.write_bytes(b"")
    backup(filled, tmp_path / "copy")
    before = contents(filled)
    assert contents(put_back(filled, tmp_path / "copy")) == before


def test_tables_are_put_back_while_no_run_changes_them(filled, tmp_path):
    backup(filled, tmp_path / "copy")
    shutil.rmtree(filled.home.path)
    lake, held = Lake(filled.home), []

    def during(_: str) -> None:
        held.extend(lake.shared.leases.attempt(name) for name in (RUN, MAKING))

    restore(lake, tmp_path / "copy", during)
    assert held and not any(held)


def test_a_backup_names_the_run_that_it_waits_for(filled, tmp_path):
    lease, waited = filled.shared.leases.acquire(RUN), []

    def end_of_run(holder: str) -> None:
        waited.append(holder)
        lease.release()

    backup(filled, tmp_path / "copy", waiting=end_of_run)
    assert len(waited) == 1 and waited[0].startswith("process ")


@pytest.mark.parametrize("name", ["home", "landing", "state", "warehouse"])
def test_a_folder_of_others_is_not_replaced(lake, tmp_path, name):
    """``tidemark backup /`` removed the folders of all users."""
    theirs = tmp_path / "theirs" / name / "eve" / "letter"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("dear")
    # At once, although a run is under way for which a backup waits.
    refused = pytest.raises(BackupError, match=f"holds {name} and no backup")
    with lake.shared.leases.acquire(RUN), refused:
        backup(lake, tmp_path / "theirs")
    assert theirs.read_text() == "dear"


def test_a_backup_ends_before_another_begins(filled, tmp_path, monkeypatch):
    """Each would remove the files of the other from the folder."""

    def end(folder, made):
        with pytest.raises(LeaseError), filled.shared.leases.acquire(RUN, 0):
            pass
        finish(folder, made)

    monkeypatch.setattr("tidemark.lake.backup.finish", end)
    backup(filled, tmp_path / "copy")
    assert contents_of(tmp_path / "copy").tables.keys() == TABLES.keys()


def test_the_home_is_no_place_for_its_backup(filled):
    """The snapshots that wait in its landing were removed."""
    before = contents(filled)
    (filled.home.path / "backup.json").write_text("{}")
    with pytest.raises(BackupError, match="is the home itself"):
        backup(filled, filled.home.path / "warehouse" / "..")
    assert before[1] and contents(filled) == before


def test_a_killed_backup_leaves_the_earlier_one_whole(filled, tmp_path, monkeypatch):
    """Its settings and landing were removed first, and a restore did not notice."""
    backup(filled, tmp_path / "copy")
    before = contents(filled)
    load(filled)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copy2", lambda *_: pytest.fail("the disk is full"))
        with pytest.raises(pytest.fail.Exception):
            backup(filled, tmp_path / "copy")
    assert contents(put_back(filled, tmp_path / "copy")) == before
    assert (filled.home.path / "clusters.yaml").read_text() == "clusters: []\n"


def test_a_first_backup_that_was_killed_is_made_by_the_next(filled, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        backup(filled, tmp_path / "copy", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    backup(filled, tmp_path / "copy")
    before = contents(filled)
    assert contents(put_back(filled, tmp_path / "copy")) == before


def test_a_removed_text_leaves_the_next_backup(filled, tmp_path):
    filled.shared.state.write("collector/old.json", "{}")
    backup(filled, tmp_path / "copy")
    filled.shared.state.remove("collector/old.json")
    backup(filled, tmp_path / "copy")
    assert put_back(filled, tmp_path / "copy").shared.state.read("collector/old.json") is None


def test_a_database_that_dagster_has_just_removed_is_not_made(filled, tmp_path):
    listed = filled.home.dagster / "history" / "runs" / "listed.db"
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.symlink_to(tmp_path / "removed")
    backup(filled, tmp_path / "copy")
    assert not (tmp_path / "removed").exists()


def test_a_journal_that_is_left_there_changes_nothing_that_is_put_back(filled, tmp_path):
    """A database whose process was killed has its last pages in a journal next to it."""
    copy = tmp_path / "copy"
    backup(filled, copy)
    before = sorted(path.name for path in (copy / "home" / "dagster").rglob("*.db"))
    shutil.rmtree(filled.home.path)
    home = filled.home.make()
    for database in (copy / "home").rglob("*.db"):
        place = home / database.relative_to(copy / "home")
        place.parent.mkdir(parents=True, exist_ok=True)
        _leave_journal(database, place)
    restore(Lake(filled.home), copy)
    for database in (copy / "home").rglob("*.db"):
        place = home / database.relative_to(copy / "home")
        assert not place.with_name(f"{place.name}-wal").exists()
        with closing(sqlite3.connect(place)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert "later" not in {
                row[0] for row in connection.execute("SELECT name FROM sqlite_master")
            }
    assert before
    with dg.DagsterInstance.from_config(str(filled.home.dagster)) as instance:
        assert len(instance.get_runs()) == 1


def _leave_journal(database, place):
    """Make a database whose newest table is in its journal only, as a killed process does."""
    code = (
        "import os, sqlite3, sys\n"
        "made = sqlite3.connect(sys.argv[1])\n"
        "made.execute('PRAGMA journal_mode = WAL')\n"
        "made.execute('CREATE TABLE later (x)')\n"
        "made.executemany('INSERT INTO later VALUES (?)', [('x' * 900,)] * 99)\n"
        "made.commit()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    shutil.copyfile(database, place)
    subprocess.run([sys.executable, "-c", code, str(place)], check=False)
    assert place.with_name(f"{place.name}-wal").stat().st_size


def test_nothing_is_put_back_beside_a_process_that_uses_the_home(filled, tmp_path):
    copy = tmp_path / "copy"
    backup(filled, copy)
    code = "import time; print('up', flush=True); time.sleep(600)"
    for command in (
        ["tidemark", "--home", str(filled.home.path), "serve"],
        ["dagster-daemon", "run"],
    ):
        script = tmp_path / command[0]
        script.write_text(code)
        other = subprocess.Popen(
            [sys.executable, str(script), *command[1:]],
            stdout=subprocess.PIPE,
            env={"TIDEMARK_HOME": str(filled.home.path)},
        )
        assert other.stdout
        other.stdout.readline()
        with pytest.raises(BackupError, match=rf"in use by process {other.pid} \({command[0]}"):
            restore(Lake(filled.home), copy)
        other.kill()
        other.wait()


def test_nothing_is_put_back_while_a_lease_is_held(filled, tmp_path):
    copy = tmp_path / "copy"
    backup(filled, copy)
    with (
        filled.shared.leases.acquire("collector/127.0.0.1"),
        pytest.raises(BackupError, match="in use by process"),
    ):
        restore(Lake(filled.home), copy)
    # The last run died: that nobody holds its lease must stay known.
    filled.shared.leases.acquire(RUN).let_go()
    assert filled.shared.leases.holders() == []
    assert filled.shared.leases.is_abandoned(RUN)


def test_a_backup_that_ended_while_it_took_the_place_of_another_is_completed(
    filled, tmp_path, monkeypatch
):
    """After a power cut too: it is the one before or the new one, and nothing in between."""
    copy = tmp_path / "copy"
    backup(filled, copy)
    load(filled)
    loaded = contents(filled)
    renames = Path.rename
    done = []

    def interrupted(path, target):
        done.append(path)
        if len(done) == 2:
            raise KeyboardInterrupt
        return renames(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        backup(filled, copy)
    monkeypatch.undo()
    shutil.rmtree(filled.home.path)
    lake = Lake(filled.home)
    restore(lake, copy)
    assert contents(lake) == loaded
