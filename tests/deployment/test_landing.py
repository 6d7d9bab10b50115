"""Landing in a bucket: the same rows as on a disk, and nothing is seen before it is whole."""

from datetime import UTC, datetime, timedelta
from unittest import mock

import pytest
from pyarrow.fs import FileType

from tests.support.cluster_history import Minute, snapshot
from tidemark.host.failures import DamagedError, RefusedError
from tidemark.lake import landing as landing_module
from tidemark.lake import loading
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.landing import folders, has_landed, land, landed, newest_landed
from tidemark.lake.landing_places import HEADER, Landing
from tidemark.lake.loading import load
from tidemark.lake.retention import remove_landed
from tidemark.lake.tables import progress, raw
from tidemark.rocketmq.records import TABLES
from tidemark.settings.basics import SettingsError
from tidemark.settings.home import Home
from tidemark.settings.sections import CatalogSettings, ObjectStore

pytestmark = pytest.mark.deployment

START = datetime(2026, 11, 19, 12, tzinfo=UTC)
ODD_NAMES = ["prod/eu", "..", "%", "a\nb", "生产 1"]


def settings(bucket, name, **other):
    options = ObjectStore(bucket.endpoint, path_style=True)
    return CatalogSettings(**{"landing": f"s3://lake/{name}", "store": options} | other)


@pytest.fixture
def lake(store, tmp_path):
    """A lake of the home whose snapshots land in a prefix of the test's own."""
    home = Home.of(tmp_path / "home")
    return Lake(home, CatalogConfig.of(home, settings(store, f"landings/{tmp_path.name}")))


def test_rows_are_those_that_a_disk_gives(lake, tmp_path):
    on_disk = Lake(Home.of(tmp_path / "other"))
    for minute in (2, 3, 61):
        for place in (lake.landing, on_disk.landing):
            land(place, snapshot(START, Minute(at=minute)))
    assert not lake.home.landing.exists()
    assert load(lake).rows == load(on_disk).rows
    for table in raw.ALL:
        texts, expected = (
            sorted(map(str, value.read(table).to_pylist())) for value in (lake, on_disk)
        )
        assert texts == expected, table.name
    assert load(lake).snapshots == []


def test_nothing_is_seen_before_its_last_file(lake, monkeypatch):
    seen, write = [], landing_module._write

    def writing(*arguments):
        write(*arguments)
        seen.append((len(list(landed(lake.landing))), newest_landed(lake.landing)))

    monkeypatch.setattr(landing_module, "_write", writing)
    taken = snapshot(START, Minute(at=1))
    land(lake.landing, taken)
    assert seen == [(0, {})] * len(TABLES)
    assert newest_landed(lake.landing) == {"past": taken.observed_at}
    assert has_landed(lake.landing, taken)
    with pytest.raises(OSError, match="landed before"):
        land(lake.landing, taken)


def test_a_collector_killed_in_between_leaves_nothing_that_loads(lake, store):
    taken = snapshot(START, Minute(at=1))
    path = land(lake.landing, taken)
    (store.folder.parent / path / HEADER).unlink()
    assert len(list(folders(lake.landing))) == 1
    assert load(lake).snapshots == []
    assert not has_landed(lake.landing, taken)
    assert remove_landed(lake, START + timedelta(days=1)) == 0
    assert list(folders(lake.landing)) == []


@pytest.mark.parametrize("at", ["open_input_file", "read"])
def test_a_refused_file_is_no_damaged_snapshot(lake, monkeypatch, at):
    """Whatever is rejected once is never read again, and nothing is wrong with it."""
    land(lake.landing, snapshot(START, Minute(at=1)))
    refusal = OSError("AWS Error SLOW_DOWN during GetObject operation: Please reduce your rate")

    def refuse(*_):
        raise refusal

    with monkeypatch.context() as patch:
        if at == "read":
            patch.setattr(loading.pq, "ParquetFile", refuse)
        else:
            files = mock.Mock(wraps=lake.landing._files, open_input_file=refuse)
            patch.setitem(vars(lake.landing), "_files", files)
        with pytest.raises(RefusedError, match=r"SLOW_DOWN.*; check the object store"):
            load(lake)
    loaded = load(lake)
    assert (len(loaded.snapshots), loaded.rejected) == (1, {})


def test_a_cluster_may_have_any_name(lake):
    for name in ODD_NAMES:
        land(lake.landing, snapshot(START, Minute(at=1), cluster=name))
    assert sorted(item.cluster for item in landed(lake.landing)) == sorted(ODD_NAMES)
    assert newest_landed(lake.landing).keys() == set(ODD_NAMES)


def test_computed_snapshots_and_empty_days_are_removed(lake, store):
    paths = [land(lake.landing, snapshot(START, Minute(at=minute))) for minute in (1, 2, 1500)]
    items = sorted(landed(lake.landing))
    computed = [
        {"snapshot_id": item.snapshot_id, "observed_at": item.observed_at, "cluster": item.cluster}
        for item in items
    ]
    lake.append(progress.SNAPSHOTS, computed)
    assert remove_landed(lake, START + timedelta(days=1)) == 2
    assert list(landed(lake.landing)) == items[2:]
    left = [(store.folder.parent / path.parent.parent).exists() for path in paths]
    assert left == [False, False, True]


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"landing": "s3://nowhere/x"}, "s3://nowhere/x cannot be used: .*NO_SUCH_BUCKET"),
        ({"store": ObjectStore("http://127.0.0.1:1", path_style=True)}, "check the object store"),
    ],
)
def test_a_store_that_refuses_is_one_line(store, tmp_path, wrong, line):
    place = Landing.of(Home.of(tmp_path), settings(store, "refused", **wrong))
    with pytest.raises(DamagedError, match=line):
        land(place, snapshot(START, Minute(at=1)))


@pytest.mark.parametrize("where", ["lake/x", "s3://", "hdfs://a/b", "file://x"])
def test_a_place_of_another_kind_is_a_mistake(tmp_path, where):
    with pytest.raises(SettingsError, match="TIDEMARK_LANDING takes s3://BUCKET/PATH"):
        Landing.of(Home.of(tmp_path), CatalogSettings(landing=where))


def test_a_snapshot_removed_while_it_is_read_loads_when_it_lands_again(lake, monkeypatch):
    """The response to its last file is lost, so the collector removes it; a load has just begun."""
    taken, files, loads = snapshot(START, Minute(at=1)), lake.landing._files, []
    read = loading.read_landed

    def lose_response(path, content):
        with files.open_output_stream(str(path)) as stream:
            stream.write(content)
        raise OSError("AWS Error NETWORK_CONNECTION during PutObject operation: timed out")

    def load_first(path):
        def remove_first(item):
            if files.get_file_info(path).type == FileType.File:
                files.delete_file(path)
            return read(item)

        with monkeypatch.context() as patch:
            patch.setattr(loading, "read_landed", remove_first)
            loads.append(load(lake))
        if files.get_file_info(path).type == FileType.File:
            files.delete_file(path)

    with monkeypatch.context() as patch:
        patch.setitem(vars(lake.landing), "_files", mock.Mock(wraps=files, delete_file=load_first))
        patch.setattr(
            type(lake.landing), "write", lambda _, path, content: lose_response(path, content)
        )
        with pytest.raises(OSError, match="timed out"):
            land(lake.landing, taken)
    ((during,), other) = (loads, lake.read(raw.SNAPSHOTS))
    assert (during.snapshots, during.rejected, other.num_rows) == ([], {}, 0)
    land(lake.landing, taken)
    assert load(lake).snapshots == [taken.snapshot_id]
    assert lake.read(raw.SNAPSHOTS)["status"].to_pylist() == ["COMPLETE"]
