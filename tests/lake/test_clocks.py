"""Instants of wrong clocks: refused where they enter, and last where they are stored already."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import snapshots as of_pyiceberg

from tests.support.board_home import now, rows_of, snapshot_id
from tests.support.cluster_history import Minute, put
from tidemark.lake.catalog import CLOCK_PUT_BACK, Lake
from tidemark.lake.landing import aside, landed
from tidemark.lake.landing_places import HEADER
from tidemark.lake.loading import load
from tidemark.lake.query import select
from tidemark.lake.retention import TRUSTED, present
from tidemark.lake.tables import progress, raw

DAY = timedelta(days=1)
NOW = now()


def moved(lake: Lake, path: Path, to: datetime) -> str:
    """Renames a landed snapshot as if it were of another instant; returns its new id."""
    name = snapshot_id(to, path.name.partition("Z-")[2]).replace(f"{to:%Y}", f"{to.year:04}", 1)
    day = path.parents[2] / f"{to.year:04}-{to:%m-%d}" / f"{to:%H}"
    day.mkdir(parents=True, exist_ok=True)
    for file in path.glob("*.parquet"):
        rows = pq.ParquetFile(file).read()
        for column, value in (("snapshot_id", name), ("observed_at", to)):
            place = rows.column_names.index(column)
            field = rows.schema.field(place)
            rows = rows.set_column(place, field, pa.array([value] * rows.num_rows, field.type))
        pq.write_table(rows, file)
    shutil.move(path, day / name)
    return name


@pytest.mark.parametrize(
    "to",
    [
        datetime(1, 1, 1, 5, tzinfo=UTC),
        datetime(1970, 1, 1, 0, 3, tzinfo=UTC),
        NOW + timedelta(hours=2),
        NOW + 30 * DAY,
        datetime(9999, 12, 31, 23, 59, tzinfo=UTC),
    ],
    ids=("year 1", "1970", "2 hours ahead", "30 days ahead", "year 9999"),
)
def test_a_landed_snapshot_of_a_wrong_clock_is_set_aside_and_others_are_loaded(lake, to):
    put(lake.home, NOW - timedelta(hours=1), [Minute(at=0), Minute(at=1)])
    first, second = landed(lake.home)
    wrong = moved(lake, Path(first.path), to)
    report = load(lake)
    assert report.snapshots == [second.snapshot_id]
    assert list(report.set_aside) == [wrong] and "it lies" in report.set_aside[wrong]
    assert lake.read(raw.SNAPSHOTS)["snapshot_id"].to_pylist() == [second.snapshot_id]
    (kept,) = aside(lake.home)
    assert (kept.snapshot_id, kept.observed_at, kept.cluster) == (wrong, to, "past")
    assert HEADER in kept.landing.files(kept.path)
    assert load(lake).set_aside == {}


def test_few_snapshots_of_a_cluster_stay_set_aside(lake, monkeypatch):
    monkeypatch.setattr("tidemark.lake.landing.MOST_ASIDE", 2)
    put(
        lake.home,
        NOW - timedelta(hours=1),
        [Minute(at=0), Minute(at=1), Minute(at=2), Minute(at=3)],
    )
    first, *others = landed(lake.home)
    moved(lake, Path(first.path), NOW + 30 * DAY)
    load(lake)
    wrong = [moved(lake, Path(it.path), NOW + (31 + n) * DAY) for n, it in enumerate(others)]
    assert list(load(lake).set_aside) == wrong
    assert [item.snapshot_id for item in aside(lake.home)] == wrong[1:]


def test_what_cannot_be_moved_is_named_at_each_load_and_never_loaded(lake, monkeypatch):
    put(lake.home, NOW - timedelta(hours=1), [Minute(at=0)])
    (first,) = landed(lake.home)
    wrong = moved(lake, Path(first.path), NOW + 30 * DAY)
    (lake.home.landing / ".aside").write_text("in the way")
    for _ in range(2):
        report = load(lake)
        assert (report.snapshots, list(report.set_aside)) == ([], [wrong])


@pytest.mark.parametrize("by", [30 * DAY, -365 * DAY, timedelta(days=365 * 7900)], ids=str)
def test_rows_of_another_time_than_their_folder_are_rejected(lake, by):
    """No window of the snapshot would hold them, and each load would take them again."""
    put(lake.home, NOW - timedelta(hours=1), [Minute(at=0)])
    (first,) = landed(lake.home)
    file = Path(first.path) / "queue_offsets.parquet"
    rows = pq.ParquetFile(file).read()
    place = rows.column_names.index("observed_at")
    field = rows.schema.field(place)
    instants = pa.array([NOW + by] * rows.num_rows, field.type)
    pq.write_table(rows.set_column(place, field, instants), file)
    report = load(lake)
    assert "rows of another time" in report.rejected[first.snapshot_id]
    assert lake.read(raw.SNAPSHOTS)["status"].to_pylist() == ["FAILED"]
    assert load(lake).snapshots == []


def test_rows_of_a_clock_ahead_are_shown_after_all_others(lake):
    present = now()  # not that of the import, which may be an hour ago
    for at in (present - DAY, present + timedelta(minutes=30), present, present + 30 * DAY):
        lake.append(progress.SNAPSHOTS, rows_of(progress.SNAPSHOTS, at, [{}]))
    rows = select(lake, progress.SNAPSHOTS, "", 4)["observed_at"].to_pylist()
    assert rows[:2] == [present, present - DAY] and len(rows) == 4
    assert select(lake, progress.SNAPSHOTS, "", 1)["observed_at"].to_pylist() == [present]


def test_one_snapshot_of_files_of_a_clock_ahead_removes_nothing(lake):
    """The clock of this host is ahead by as much, and files name no other."""
    row = {"broker_id": 0, "config": [], "source": "store"}
    row = {name: value for name, value in row.items() if name in raw.BROKERS.column_names}
    for at in (NOW - DAY, NOW, NOW + 30 * DAY):
        lake.append(raw.BROKERS, rows_of(raw.BROKERS, at, [row]))
    assert present(lake, NOW + 30 * DAY) <= NOW + TRUSTED + timedelta(hours=1)


def test_a_table_that_a_clock_ahead_wrote_to_gets_instants_that_java_accepts(lake, monkeypatch):
    """Iceberg's Java refuses logs that go back by a minute, so no tick could read the table."""

    class Ahead:
        @staticmethod
        def time() -> float:
            return datetime.now(UTC).timestamp() + 30 * 86_400

    table = progress.SNAPSHOTS
    lake.append(table, rows_of(table, NOW - DAY, [{}]))
    with monkeypatch.context() as patched:
        patched.setattr(of_pyiceberg, "time", Ahead)
        lake.append(table, rows_of(table, NOW - DAY / 2, [{}]))
    lake.ready_for_spark(table)
    lake.append(table, rows_of(table, NOW, [{}]))
    place = Path(lake.table(table.name).metadata_location.removeprefix("file://"))
    metadata = json.loads(place.read_text())
    latest = datetime.now(UTC).timestamp() * 1000
    for log in (metadata["snapshot-log"], metadata["metadata-log"], metadata["snapshots"]):
        instants = [item["timestamp-ms"] for item in log]
        assert instants == sorted(instants) and instants[-1] <= latest
    assert metadata["last-updated-ms"] <= latest
    assert CLOCK_PUT_BACK in metadata["properties"]
    assert lake.read(table).num_rows == 3
