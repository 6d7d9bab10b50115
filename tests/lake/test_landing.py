"""Landing: a visible snapshot is whole, and a failed one leaves no files behind."""

import os
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest

from tests.support.cluster_history import Minute, snapshot
from tidemark.lake import landing
from tidemark.lake.landing import folder, land, landed
from tidemark.lake.tables import TABLES
from tidemark.rocketmq import records as rows
from tidemark.rocketmq.records import TABLES as ROW_TABLES
from tidemark.rocketmq.records import Snapshot
from tidemark.settings.home import Home

START = datetime(2026, 11, 19, 12, tzinfo=UTC)


@pytest.fixture
def home(tmp_path):
    return Home.of(tmp_path / "home")


@pytest.mark.parametrize("batch", [rows.BATCH, 3])
def test_a_landed_snapshot_has_every_row_in_its_folder(home, batch, monkeypatch):
    monkeypatch.setattr(rows, "BATCH", batch)
    taken = snapshot(START, Minute(at=2))
    path = land(home, taken)
    assert path == home.landing / "past/2026-11-19/12/20261119T120200000Z-past"
    for name in (*ROW_TABLES, "snapshots"):
        result = pq.ParquetFile(path / f"{name}.parquet").read()
        assert result.schema.names == TABLES[f"raw.{name}"].column_names
        expected = [taken.header()] if name == "snapshots" else list(taken.records(name))
        assert len(expected) == result.num_rows
        shared = expected[0].keys()
        assert [{key: row[key] for key in shared} for row in _plain(result)] == expected


def _plain(table):
    plain = table.to_pylist()
    for row in plain:
        if row.get("config") is not None:
            row["config"] = dict(row["config"])
    return plain


def test_it_is_seen_with_its_instant_and_cluster(home):
    land(home, snapshot(START, Minute(at=2)))
    (item,) = landed(home)
    assert (item.snapshot_id, item.cluster) == ("20261119T120200000Z-past", "past")
    assert item.observed_at == datetime(2026, 11, 19, 12, 2, tzinfo=UTC)
    assert set(item.files()) == {f"raw.{name}" for name in (*ROW_TABLES, "snapshots")}


def test_a_table_without_rows_has_no_file(home):
    path = land(home, Snapshot(cluster="past", source="remote", observed_at=START))
    assert [file.name for file in path.iterdir()] == ["snapshots.parquet"]


def test_clusters_with_dashes_keep_their_name(home):
    land(home, snapshot(START, Minute(at=1), cluster="eu-west-1"))
    assert [item.cluster for item in landed(home)] == ["eu-west-1"]


ODD_NAMES = ["prod/eu", ".x", "..", "../../outside", "/dev/null/x", "%", "a%2Fb", "a\nb", "生产 1"]
"""Names of clusters as a name server may report them: any text."""


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_cluster_may_have_any_name(home, tmp_path, name):
    taken = snapshot(START, Minute(at=1), cluster=name)
    path = land(home, taken)
    assert path.resolve().parents[3] == home.landing.resolve()
    assert [entry.name for entry in tmp_path.iterdir()] == ["home"]
    (item,) = landed(home)
    assert (item.cluster, item.snapshot_id) == (name, taken.snapshot_id)
    assert (item.path, item.observed_at) == (path, taken.observed_at)
    assert folder(home, name, taken.observed_at, taken.snapshot_id) == path


def test_names_that_differ_land_apart(home):
    names = [*ODD_NAMES, "prod", "eu", "%2Ex", "生产%201"]
    paths = {land(home, snapshot(START, Minute(at=1), cluster=name)) for name in names}
    assert len(paths) == len(names)
    assert sorted(item.cluster for item in landed(home)) == sorted(names)


def test_nothing_is_seen_before_the_rename(home, monkeypatch):
    seen = []
    write = landing._write

    def writing(*arguments):
        write(*arguments)
        seen.append(len(list(landed(home))))

    monkeypatch.setattr(landing, "_write", writing)
    land(home, snapshot(START, Minute(at=1)))
    assert seen == [0] * len(ROW_TABLES)
    assert len(list(landed(home))) == 1


@pytest.mark.parametrize("position", range(len(ROW_TABLES) + 1))
def test_a_write_that_fails_leaves_nothing(home, monkeypatch, position):
    calls = iter(range(100))

    def failing(write):
        def act(*arguments):
            if next(calls) == position:
                raise OSError(28, "No space left on device", str(arguments[1]))
            write(*arguments)

        return act

    for name in ("_write", "_write_header"):
        monkeypatch.setattr(landing, name, failing(getattr(landing, name)))
    with pytest.raises(OSError, match="No space left"):
        land(home, snapshot(START, Minute(at=1)))
    assert list(landed(home)) == []
    assert [path for path in home.landing.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("pid", [4711, os.getpid()], ids=["another", "our own"])
def test_a_landing_that_was_killed_is_not_listed(home, pid):
    """The folder remains because rmtree did not run, but its leading dot hides it.

    In a container the next process has the id of the killed one, and could not land.
    """
    path = land(home, snapshot(START, Minute(at=1)))
    path.rename(path.with_name(f".{path.name}.{pid}"))
    assert list(landed(home)) == []
    land(home, snapshot(START, Minute(at=1)))
    assert len(list(landed(home))) == 1


@pytest.mark.parametrize("name", ["notes", "20261119T1202Z-past", "20269919T120200000Z-past"])
def test_other_folders_are_not_taken_for_snapshots(home, name):
    path = folder(home, "past", START, name)
    path.mkdir(parents=True)
    assert list(landed(home)) == []


def test_folder_names_give_the_newest_of_each_cluster(home):
    assert landing.newest_landed(home) == {}
    for cluster, minutes in {"past": (1, 59, 61), "prod/eu": (1400, 3)}.items():
        for minute in minutes:
            land(home, snapshot(START, Minute(at=minute), cluster))
    newest = landing.newest_landed(home)
    assert newest == {
        "past": START + timedelta(minutes=61),
        "prod/eu": START + timedelta(minutes=1400),
    }
    until = START + timedelta(minutes=60)
    early = {"past": START + timedelta(minutes=59), "prod/eu": START + timedelta(minutes=3)}
    assert landing.newest_landed(home, until) == early


def test_a_file_is_no_snapshot(home):
    path = folder(home, "past", START, "20261119T120200000Z-past")
    path.parent.mkdir(parents=True)
    path.touch()
    assert list(landed(home)) == []


def test_the_same_snapshot_does_not_land_over_itself(home):
    land(home, snapshot(START, Minute(at=1)))
    with pytest.raises(OSError):
        land(home, snapshot(START, Minute(at=1)))
    (item,) = landed(home)
    assert pq.ParquetFile(item.path / "snapshots.parquet").read().num_rows == 1


def test_an_unwritable_folder_is_named_in_the_error(home):
    """A file is in the place of the folder, because root may write to read-only folders."""
    home.path.mkdir()
    home.landing.touch()
    with pytest.raises(OSError) as failure:
        land(home, snapshot(START, Minute(at=1)))
    assert str(home.landing) in str(failure.value.filename)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to read-only folders")
def test_a_read_only_folder_is_an_error(home):
    home.landing.mkdir(parents=True)
    home.landing.chmod(0o500)
    with pytest.raises(PermissionError):
        land(home, snapshot(START, Minute(at=1)))
    assert list(landed(home)) == []
