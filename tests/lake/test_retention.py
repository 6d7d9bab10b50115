"""What is kept how long, and that what was removed is remembered."""

from datetime import UTC, datetime, timedelta

import pytest

from lake.landing import land, landed
from lake.loading import load
from lake.retention import Retention, raw_since, remember_raw_since, remove_landed
from lake.tables import TABLES, alerting, progress, quality, raw
from tests.history import Minute, snapshot

NOW = datetime(2026, 11, 19, 12, 34, tzinfo=UTC)


def test_raw_rows_go_first_and_alerts_never():
    kept = Retention()
    assert kept.before(raw.TOPICS, NOW) == datetime(2026, 11, 12, 12, tzinfo=UTC)
    for table in (progress.GROUPS, progress.SNAPSHOTS, quality.RESULTS):
        assert kept.before(table, NOW) == datetime(2026, 8, 21, 12, tzinfo=UTC)
    for_ever = {table.name for table in TABLES.values() if kept.before(table, NOW) is None}
    assert alerting.ALERTS.name in for_ever
    assert not any(name.startswith(("raw.", "quality.")) for name in for_ever)


@pytest.mark.parametrize(
    ("name", "days", "said"),
    [
        ("TIDEMARK_RAW_DAYS", "0", "TIDEMARK_RAW_DAYS is '0'"),
        ("TIDEMARK_PROGRESS_DAYS", "ten", "TIDEMARK_PROGRESS_DAYS is 'ten'"),
        ("TIDEMARK_RAW_DAYS", "100", "TIDEMARK_RAW_DAYS=100 is more than"),
    ],
)
def test_wrong_days_are_one_line(monkeypatch, name, days, said):
    monkeypatch.setenv(name, days)
    with pytest.raises(SystemExit, match=said):
        Retention.of_environment()


def test_the_environment_says_how_many_days(monkeypatch):
    monkeypatch.setenv("TIDEMARK_RAW_DAYS", "2")
    assert Retention.of_environment() == Retention(raw=2, progress=90)


def test_only_what_is_computed_leaves_the_landing(lake):
    for minute in (1, 2, 90):
        land(lake.home, snapshot(NOW, Minute(minute)))
    load(lake)
    first, second, third = sorted(landed(lake.home))
    lake.gather(
        progress.SNAPSHOTS,
        [
            {"snapshot_id": it.snapshot_id, "observed_at": it.observed_at, "cluster": it.cluster}
            for it in (first, third)
        ],
    )
    assert remove_landed(lake, NOW + timedelta(hours=1)) == 1
    assert sorted(landed(lake.home)) == [second, third]


def test_since_when_raw_rows_stand_only_moves_on(lake):
    lake.home.path.mkdir()
    assert raw_since(lake.home) is None
    for instant in (NOW, NOW - timedelta(days=1)):
        remember_raw_since(lake.home, instant)
        assert raw_since(lake.home) == NOW


def test_the_oldest_hour_of_a_table_needs_no_data(lake):
    assert lake.oldest(raw.TOPICS) is None
    for minute in (1, 90):
        land(lake.home, snapshot(NOW, Minute(minute)))
    load(lake)
    assert lake.oldest(raw.TOPICS) == datetime(2026, 11, 19, 12, tzinfo=UTC)
