"""Reading and writing tables without Spark."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from tidemark.host.failures import DamagedError
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.query import QueryError, select
from tidemark.lake.schema import Column, one_of
from tidemark.lake.table_versions import OlderTablesError, create
from tidemark.lake.tables import TABLES, alerting, progress, raw
from tidemark.lake.upgrading import upgrade
from tidemark.settings.basics import BasicSettings
from tidemark.settings.home import Home

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def minute(number):
    return NOON + timedelta(minutes=number)


def alert(number, subject="lab/g/t", value=1.0):
    return {
        "observed_at": minute(number),
        "rule": "lag-high",
        "severity": "warning",
        "subject": subject,
        "value": value,
        "threshold": 0.0,
        "evidence": "{}",
    }


def mark(number, cluster="lab"):
    return {"snapshot_id": f"s{number}", "observed_at": minute(number), "cluster": cluster}


def marks(lake):
    rows = lake.read(progress.SNAPSHOTS).to_pylist()
    return sorted((row["snapshot_id"], row["cluster"]) for row in rows)


def test_every_table_stands_in_a_new_catalog(lake):
    for name, table in TABLES.items():
        fields = lake.table(name).schema().fields
        assert [field.name for field in fields] == table.column_names
        (partition,) = lake.table(name).spec().fields
        assert partition.name == f"{table.instant}_hour"
        assert lake.read(table).num_rows == 0


@pytest.mark.parametrize("name", ["a b", "张三", "me@host"])
def test_all_files_of_a_home_lie_in_it(tmp_path, name):
    """A warehouse lay beside such a home, in a folder with the percent-encoded name."""
    home = Home.of(tmp_path / name)
    made = Lake(home)
    create(made.unchecked_catalog, alerting.ALERTS)
    made.append(alerting.ALERTS, [alert(0)])
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert list(home.warehouse.rglob("*.parquet"))
    assert Lake(home).read(alerting.ALERTS).num_rows == 1


def test_reading_one_table_reads_the_metadata_of_no_other(lake, monkeypatch):
    """The metadata of one table takes 25 ms to read after a thousand commits."""
    lake.append(alerting.ALERTS, [alert(0)])
    again, loaded = Lake(lake.home), []
    kind = type(again.unchecked_catalog)
    load = kind.load_table
    monkeypatch.setattr(kind, "load_table", lambda *of: (loaded.append(of[1]), load(*of))[1])
    assert again.read(alerting.ALERTS).num_rows == 1
    assert loaded == [alerting.ALERTS.name]


def test_a_catalog_that_lists_no_tables_is_named(lake):
    with closing(sqlite3.connect(lake.home.catalog)) as database:
        database.execute("ALTER TABLE iceberg_tables RENAME COLUMN table_name TO title")
    with pytest.raises(DamagedError, match="the list of tables in alerting cannot be used"):
        Lake(lake.home).table(alerting.ALERTS.name)


def test_no_second_catalog_takes_the_files_of_a_table(tmp_path):
    """Maintenance of each would remove the files of the other, as no version of its own."""
    home = Home.of(tmp_path / "home")
    Lake(home).append(alerting.ALERTS, [alert(0)])
    kept = home.catalog.rename(tmp_path / "catalog.db")
    with pytest.raises(DamagedError, match=r"alerting/alerts cannot be used: .* does not name; "):
        _ = Lake(home).catalog
    home.catalog.unlink()
    kept.rename(home.catalog)
    assert Lake(home).read(alerting.ALERTS).num_rows == 1


def test_a_table_that_a_killed_process_began_is_made(tmp_path):
    home = Home.of(tmp_path / "home")
    create(Lake(home).unchecked_catalog, alerting.ALERTS)
    home.catalog.unlink()
    Lake(home).append(alerting.ALERTS, [alert(0)])
    assert Lake(home).read(alerting.ALERTS).num_rows == 1


def test_an_upgrade_adds_new_columns(lake, monkeypatch):
    lake.append(alerting.ALERTS, [alert(0)])
    wider = replace(
        alerting.ALERTS,
        columns=(*alerting.ALERTS.columns, Column("mood", pa.string(), "mood")),
    )
    monkeypatch.setitem(TABLES, wider.name, wider)
    again = Lake(lake.home)
    with pytest.raises(OlderTablesError, match="run tidemark upgrade"):
        again.table(wider.name)
    assert upgrade(again) == 1
    again.append(wider, [alert(1) | {"mood": "bad"}])
    moods = {row["observed_at"]: row["mood"] for row in again.read(wider).to_pylist()}
    assert moods == {minute(0): None, minute(1): "bad"}


def test_a_window_is_half_open(lake):
    lake.append(alerting.ALERTS, [alert(0), alert(1), alert(2)])
    rows = lake.read(alerting.ALERTS, Window(minute(0), minute(2)))["observed_at"].to_pylist()
    assert sorted(rows) == [minute(0), minute(1)]


def test_replacing_leaves_what_is_outside(lake):
    lake.append(alerting.ALERTS, [alert(0), alert(1), alert(2)])
    lake.replace(alerting.ALERTS, Window(minute(1), minute(2)), [alert(1, value=5.0)])
    rows = lake.read(alerting.ALERTS).to_pylist()
    assert sorted(row["value"] for row in rows) == [1.0, 1.0, 5.0]
    lake.replace(alerting.ALERTS, Window(minute(0), minute(2)), [])
    assert [row["observed_at"] for row in lake.read(alerting.ALERTS).to_pylist()] == [minute(2)]


def test_the_size_of_a_window_is_of_its_files(lake):
    """Minutes 0 and 1 are one file, 2 another, and 61 is in another hour."""
    for minutes in ([0, 1], [2], [61]):
        lake.append(alerting.ALERTS, [alert(number) for number in minutes])
    sizes = {
        (start, end): lake.max_rows(alerting.ALERTS, Window(minute(start), minute(end)))
        for start, end in ((0, 1), (1, 3), (3, 60), (0, 62))
    }
    assert sizes == {(0, 1): 2, (1, 3): 3, (3, 60): 0, (0, 62): 4}


def test_appending_nothing_makes_no_commit(lake):
    assert lake.append(alerting.ALERTS, []) == 0
    assert lake.table("alerting.alerts").current_snapshot() is None


def test_an_upsert_replaces_rows_of_the_same_key(lake):
    lake.upsert(progress.SNAPSHOTS, [mark(0), mark(1), mark(70)])
    lake.upsert(progress.SNAPSHOTS, [mark(1, "other"), mark(2)])
    assert marks(lake) == [("s0", "lab"), ("s1", "other"), ("s2", "lab"), ("s70", "lab")]


def test_an_upsert_keeps_one_file_an_hour(lake):
    for number in range(8):
        lake.upsert(progress.SNAPSHOTS, [mark(number)])
    lake.upsert(progress.SNAPSHOTS, [mark(61)])
    files = list(lake.table("progress.snapshots").scan().plan_files())
    assert sorted(file.file.record_count for file in files) == [1, 8]
    assert lake.upsert(progress.SNAPSHOTS, []) == 0


def test_an_upsert_drops_missing_rows_of_its_hours_only(lake):
    lake.upsert(progress.SNAPSHOTS, [mark(0), mark(1), mark(70), mark(130)])

    def files():
        return {
            file.file.file_path for file in lake.table("progress.snapshots").scan().plan_files()
        }

    before = files()
    lake.upsert(progress.SNAPSHOTS, [mark(131)], removed=[mark(1)])
    assert [name for name, _ in marks(lake)] == ["s0", "s130", "s131", "s70"]
    assert len(before & files()) == 1, "the hour between is as it was"
    lake.upsert(progress.SNAPSHOTS, [], removed=[mark(70)])
    assert [name for name, _ in marks(lake)] == ["s0", "s130", "s131"]


def test_two_writers_of_one_table_both_get_through(lake):
    lake.catalog  # noqa: B018  opened before the threads race for it
    homes = [Lake(lake.home) for _ in range(2)]
    failures = []

    def write(mine, subject):
        try:
            for number in range(4):
                mine.append(alerting.ALERTS, [alert(number, subject)])
        except Exception as error:
            failures.append(error)

    threads = [
        threading.Thread(target=write, args=(mine, f"lab/g/{number}"))
        for number, mine in enumerate(homes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert lake.read(alerting.ALERTS).num_rows == 8


def test_only_the_requested_columns_and_values(lake):
    lake.append(alerting.ALERTS, [alert(0), alert(1, "lab/h/t")])
    result = lake.read(alerting.ALERTS, one_of("subject", ["lab/h/t"]), columns=("subject",))
    assert result.to_pylist() == [{"subject": "lab/h/t"}]


# Queries


def test_a_query_gives_the_newest_first(lake):
    lake.append(alerting.ALERTS, [alert(0), alert(2), alert(1)])
    selected = select(lake, alerting.ALERTS, "value > 0", limit=2)
    assert selected["observed_at"].to_pylist() == [minute(2), minute(1)]
    assert selected.column_names == alerting.ALERTS.column_names


def test_a_query_compares_instants_in_utc(lake):
    lake.append(alerting.ALERTS, [alert(0), alert(1)])
    selected = select(lake, alerting.ALERTS, "observed_at > '2026-11-19 12:00:00'")
    assert selected["observed_at"].to_pylist() == [minute(1)]


def test_a_query_may_end_in_a_comment(lake):
    lake.append(alerting.ALERTS, [alert(0)])
    assert select(lake, alerting.ALERTS, "value > 0 -- mine").num_rows == 1


@pytest.mark.parametrize(
    "where", ["nonsense", "lag >", "value = 'many'", "1) OR", "value > 0; DROP TABLE rows"]
)
def test_a_condition_that_is_no_sql_is_one_line(lake, where):
    lake.append(alerting.ALERTS, [alert(0)])
    with pytest.raises(QueryError) as failure:
        select(lake, alerting.ALERTS, where)
    assert "\n" not in str(failure.value)
    assert "alerting.alerts" in str(failure.value) and where in str(failure.value)


def test_a_home_is_absolute_and_named_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEMARK_HOME", raising=False)
    assert BasicSettings.read().home.path == tmp_path / ".tidemark"
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "other"))
    assert BasicSettings.read().home.path == tmp_path / "other"
    assert Home.of("here").path == tmp_path / "here"
    assert Lake(BasicSettings.read().home).home.catalog == tmp_path / "other" / "catalog.db"
    assert raw.SNAPSHOTS.short_name == "snapshots"


@pytest.mark.slow
def test_upserts_of_several_writers_lose_no_row(lake):
    """Each writer reads the hour and writes it again; a commit of another comes between."""
    lake.catalog  # noqa: B018  opened before the threads race for it
    writers = [Lake(lake.home) for _ in range(3)]

    def write(number):
        for minute_ in range(4):
            writers[number].upsert(progress.SNAPSHOTS, [mark(number * 4 + minute_)])

    with ThreadPoolExecutor(len(writers)) as pool:
        list(pool.map(write, range(len(writers))))
    assert [name for name, _ in marks(lake)] == sorted(f"s{number}" for number in range(12))
