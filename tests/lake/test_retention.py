"""Retention of rows and landed snapshots, and the memory of what was removed."""

import os
import time
from datetime import UTC, datetime, timedelta

import pytest

from orchestration.resources import resources
from tests.support.cluster_history import Minute, snapshot
from tidemark.lake.landing import folder, land, landed
from tidemark.lake.loading import load
from tidemark.lake.retention import Retention, present, raw_since, remember_raw_since, remove_landed
from tidemark.lake.tables import TABLES, alerting, progress, quality, raw
from tidemark.settings.basics import SettingsError
from tidemark.settings.environment import Settings

NOW = datetime(2026, 11, 19, 12, 34, tzinfo=UTC)


def test_raw_rows_go_first_and_incidents_never():
    kept = Retention(raw=7, progress=90, alerts=30)
    assert kept.before(raw.TOPICS, NOW) == datetime(2026, 11, 12, 12, tzinfo=UTC)
    for table in (progress.GROUPS, progress.SNAPSHOTS, quality.RESULTS):
        assert kept.before(table, NOW) == datetime(2026, 8, 21, 12, tzinfo=UTC)
    assert kept.before(alerting.ALERTS, NOW) == datetime(2026, 10, 20, 12, tzinfo=UTC)
    for_ever = {table.name for table in TABLES.values() if kept.before(table, NOW) is None}
    assert for_ever == {"alerting.incidents", "alerting.notifications", "progress.events"}


YEAR = timedelta(days=365)


@pytest.mark.parametrize(
    ("hours_ago", "skew", "expected"),
    [
        pytest.param(1, None, NOW, id="collection-goes-on"),
        pytest.param(-5, None, NOW, id="only-rows-of-a-clock-that-was-ahead"),
        pytest.param(240, None, NOW - timedelta(days=9), id="collection-has-ended"),
        pytest.param(240, timedelta(0), NOW - timedelta(days=9), id="ended-with-clocks"),
        pytest.param(0, -YEAR, NOW - YEAR + timedelta(days=1), id="our-clock-is-a-year-ahead"),
    ],
)
def test_ages_count_from_a_clock_that_snapshots_confirm(lake, hours_ago, skew, expected):
    at = NOW - timedelta(hours=hours_ago)
    rows = [dict.fromkeys(raw.BROKERS.column_names) for _ in range(2)]
    for number, row in enumerate(rows):
        row |= {"cluster": "c", "snapshot_id": "s", "observed_at": at, "broker": f"b{number}"}
        row |= {"broker_id": 0, "config": []}
    rows[0]["clock_skew_ms"] = None if skew is None else round(skew.total_seconds() * 1000)
    lake.append(raw.BROKERS, rows)
    assert present(lake, NOW) == expected


def test_without_a_snapshot_ages_count_from_now(lake):
    assert present(lake, NOW) == NOW


@pytest.mark.parametrize(
    ("name", "days", "expected"),
    [
        ("TIDEMARK_RAW_DAYS", "0", "TIDEMARK_RAW_DAYS is '0'"),
        ("TIDEMARK_PROGRESS_DAYS", "ten", "TIDEMARK_PROGRESS_DAYS is 'ten'"),
        ("TIDEMARK_RAW_DAYS", "100", "TIDEMARK_RAW_DAYS=100 is more than"),
    ],
)
def test_wrong_days_are_one_line(monkeypatch, name, days, expected):
    monkeypatch.setenv(name, days)
    with pytest.raises(SettingsError, match=expected):
        Settings.read()


def test_the_environment_sets_how_many_days(monkeypatch):
    monkeypatch.setenv("TIDEMARK_RAW_DAYS", "2")
    monkeypatch.setenv("TIDEMARK_ALERT_DAYS", "3")
    expected = Retention(raw=2, progress=90, alerts=3)
    assert resources(Settings.read())["retention"] == expected


def test_only_what_is_computed_leaves_the_landing(lake):
    for minute in (1, 2, 90):
        land(lake.home, snapshot(NOW, Minute(at=minute)))
    load(lake)
    first, second, third = sorted(landed(lake.home))
    lake.upsert(
        progress.SNAPSHOTS,
        [
            {"snapshot_id": it.snapshot_id, "observed_at": it.observed_at, "cluster": it.cluster}
            for it in (first, third)
        ],
    )
    assert remove_landed(lake, NOW + timedelta(hours=1)) == 1
    assert sorted(landed(lake.home)) == [second, third]


def test_what_a_killed_collector_left_unfinished_leaves_the_landing(lake):
    """Its hidden folder stayed for ever, and with it that of its day."""
    item = snapshot(NOW, Minute(at=1))
    target = folder(lake.home, item.cluster, NOW, item.snapshot_id)
    killed, at_work = (target.with_name(f".{target.name}.{pid}") for pid in (123, 456))
    for path in (killed, at_work):
        path.mkdir(parents=True)
        (path / "topics.parquet").write_bytes(b"PAR1")
    two_days_ago = time.time() - 2 * 86_400
    os.utime(killed, (two_days_ago,) * 2)
    # A collector may be writing the past, as `tidemark collect --stats-log` does.
    assert remove_landed(lake, NOW + timedelta(days=2)) == 0
    assert not killed.exists() and at_work.exists()
    os.utime(at_work, (two_days_ago,) * 2)
    remove_landed(lake, NOW + timedelta(days=2))
    assert not list(target.parent.parent.parent.iterdir())


@pytest.mark.parametrize("name", ["2019/trip/.git", ".cache/app/.old", "2019-05-05/12/.thumbnails"])
def test_hidden_folders_of_others_stay_next_to_landed_snapshots(lake, name):
    """A landing in a folder that is shared removed them, a day after their last change."""
    theirs = lake.home.landing / "eve" / name
    theirs.mkdir(parents=True)
    (theirs / "config").touch()
    os.utime(theirs, (time.time() - 2 * 86_400,) * 2)
    empty = lake.home.landing / "eve" / "1 empty"
    empty.mkdir()
    remove_landed(lake, NOW)
    assert (theirs / "config").exists() and empty.exists()


def test_since_when_raw_rows_stand_only_moves_on(lake):
    lake.home.make()
    assert raw_since(lake.shared.state) is None
    for instant in (NOW, NOW - timedelta(days=1)):
        remember_raw_since(lake.shared.state, instant)
        assert raw_since(lake.shared.state) == NOW


def test_the_oldest_hour_of_a_table_needs_no_data(lake):
    assert lake.oldest_hour(raw.TOPICS) is None
    for minute in (1, 90):
        land(lake.home, snapshot(NOW, Minute(at=minute)))
    load(lake)
    assert lake.oldest_hour(raw.TOPICS) == datetime(2026, 11, 19, 12, tzinfo=UTC)
