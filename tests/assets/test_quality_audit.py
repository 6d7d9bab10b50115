"""The hour that an audit validates."""

import time
from datetime import UTC, datetime

import dagster as dg
import pytest

from assets.partitions import PARTITION, range_tags
from assets.quality import AuditConfig
from tidemark.lake.clocks import HOUR, Window

NOW = datetime(2026, 11, 19, 10, 12, tzinfo=UTC)
EIGHT = Window(datetime(2026, 11, 19, 8, tzinfo=UTC), datetime(2026, 11, 19, 9, tzinfo=UTC))


def test_the_last_whole_hour_is_validated():
    nine = Window(EIGHT.end, datetime(2026, 11, 19, 10, tzinfo=UTC))
    assert AuditConfig().window(NOW, {}) == nine


def test_a_run_of_partitions_validates_their_hours() -> None:
    """Materializing an old hour also runs the checks of its assets."""
    assert AuditConfig().window(NOW, {PARTITION: "2026-11-19-08:00"}) == EIGHT
    both = Window(EIGHT.start, EIGHT.start + 2 * HOUR)
    assert AuditConfig().window(NOW, range_tags(both)) == both
    nine = Window(EIGHT.end, both.end)
    assert AuditConfig(hour="2026-11-19T09:30").window(NOW, range_tags(EIGHT)) == nine


@pytest.mark.parametrize(
    "hour", ["2026-11-19T08:00", "2026-11-19T08:59:59Z", "2026-11-19T14:00:00+05:30"]
)
def test_an_hour_without_a_zone_is_of_utc(hour, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        assert AuditConfig(hour=hour).window(NOW, {}) == EIGHT
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("hour", ["yesterday", "2026-11-19T25:00", "0001-01-01T00:00+08:00"])
def test_what_is_no_instant_is_refused(hour):
    with pytest.raises(dg.Failure, match=r"validate_hour: hour: .* write one as") as raised:
        AuditConfig(hour=hour).window(NOW, {})
    assert not raised.value.allow_retries
