"""The largest rate of each hour, over ticks, repeated ticks and recomputed hours."""

from datetime import UTC, datetime

import pytest

from tests.support.table_rows import arrow, minute, minutes
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress
from tidemark.planning.hours_of_week import replace_peaks


def observed(at, rate, group="billing"):
    return {"at": at, "consumer_group": group, "topic": "orders", "produce_tps": rate}


def replace_groups(lake, window, *rows):
    lake.replace(progress.GROUPS, window, arrow(progress.GROUPS, rows))


def peaks_of(lake):
    return {
        (row["observed_at"], row["consumer_group"]): (row["peak_tps"], row["peak_at"])
        for row in lake.read(progress.PEAKS).to_pylist()
    }


def test_each_hour_keeps_its_largest_rate(lake):
    window = minutes(0, 120)
    replace_groups(
        lake,
        window,
        *(observed(1, 5.0), observed(2, 9.0), observed(3, 9.0), observed(61, 4.0)),
        *(observed(5, None), observed(6, float("nan")), observed(7, 1.0, "audit")),
    )
    assert replace_peaks(lake, window) == 3
    assert peaks_of(lake) == {
        (minute(0), "billing"): (9.0, minute(2)),
        (minute(60), "billing"): (4.0, minute(61)),
        (minute(0), "audit"): (1.0, minute(7)),
    }


def test_a_tick_adds_to_what_its_hour_holds(lake):
    for at, rate in ((10, 5.0), (11, 9.0), (12, 7.0)):
        window = Window.through(minute(at), minute(at))
        replace_groups(lake, window, observed(at, rate))
        replace_peaks(lake, window)
    assert peaks_of(lake) == {(minute(0), "billing"): (9.0, minute(11))}


def test_a_tick_without_a_larger_rate_writes_nothing(lake):
    for at, rate, written in ((10, 5.0, 1), (11, 4.0, 0)):
        window = Window.through(minute(at), minute(at))
        replace_groups(lake, window, observed(at, rate))
        assert replace_peaks(lake, window) == written


@pytest.mark.parametrize("repeated", [minutes(11, 12), minutes(0, 60)], ids=["tick", "hour"])
def test_repeated_windows_take_rates_back(lake, repeated):
    """The tick died after its peaks, and the hour was computed again with other rows."""
    replace_groups(lake, minutes(0, 60), observed(10, 5.0), observed(11, 9.0))
    replace_peaks(lake, minutes(11, 12))
    replace_groups(lake, minutes(0, 60), observed(10, 5.0), observed(11, 3.0))
    replace_peaks(lake, repeated)
    assert peaks_of(lake) == {(minute(0), "billing"): (5.0, minute(10))}


@pytest.mark.parametrize("hours", [1, 2])
def test_recomputed_hours_without_rates_lose_their_peaks(lake, hours):
    window = minutes(0, hours * 60)
    replace_groups(lake, window, *(observed(60 * hour + 10, 5.0) for hour in range(hours)))
    replace_peaks(lake, window)
    replace_groups(lake, window)
    replace_peaks(lake, window)
    assert peaks_of(lake) == {}


def test_hours_of_the_week_begin_on_monday(lake):
    monday = datetime(2026, 11, 16, 0, 30, tzinfo=UTC)
    sunday = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)
    for at in (monday, sunday):
        window = Window.through(at, at)
        replace_groups(lake, window, observed((at - minute(0)).total_seconds() / 60, 1.0))
        replace_peaks(lake, window)
    rows = lake.read(progress.PEAKS).to_pylist()
    assert {row["peak_at"]: row["hour_of_week"] for row in rows} == {monday: 0, sunday: 167}
