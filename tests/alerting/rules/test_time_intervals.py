"""Time intervals have the same meaning as in Alertmanager."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from tidemark.alerting.rules.time_intervals import NamedIntervals


def holds(interval: dict, instant: str, zone: str = "UTC") -> bool:
    named = NamedIntervals.model_validate({"name": "n", "time_intervals": [interval]})
    return named.hold(datetime.fromisoformat(instant).replace(tzinfo=ZoneInfo(zone)))


OFFICE = {"start_time": "09:00", "end_time": "17:30"}


@pytest.mark.parametrize(
    ("interval", "instant", "expected"),
    [
        ({"times": [OFFICE]}, "2026-11-24T09:00", True),
        ({"times": [OFFICE]}, "2026-11-24T17:29:59", True),
        ({"times": [OFFICE]}, "2026-11-24T17:30", False),
        ({"times": {"start_time": "17:00", "end_time": "24:00"}}, "2026-11-24T23:59", True),
        ({"weekdays": ["monday:friday"]}, "2026-11-24T00:00", True),
        ({"weekdays": ["monday:friday"]}, "2026-11-22T00:00", False),
        ({"weekdays": "sunday"}, "2026-11-22T12:00", True),
        ({"days_of_month": ["-3:-1"]}, "2026-02-26T00:00", True),
        ({"days_of_month": ["-3:-1"]}, "2026-02-25T00:00", False),
        ({"days_of_month": ["1:5", 24]}, "2026-11-24T00:00", True),
        ({"months": ["january:march", "11"]}, "2026-11-01T00:00", True),
        ({"months": ["january:march"]}, "2026-04-01T00:00", False),
        ({"years": "2020:2025"}, "2026-04-01T00:00", False),
        ({"weekdays": "tuesday", "times": [OFFICE]}, "2026-11-24T08:00", False),
        ({}, "2026-11-24T08:00", True),
    ],
)
def test_every_field_has_to_match(interval, instant, expected):
    assert holds(interval, instant) is expected


def test_an_interval_follows_the_summer_time_of_its_zone():
    tokyo = {"times": [OFFICE], "location": "Asia/Tokyo"}
    assert holds(tokyo, "2026-11-24T00:00")
    assert not holds(tokyo, "2026-11-24T09:00")
    berlin = {"times": [OFFICE], "location": "Europe/Berlin"}
    assert [holds(berlin, f"2026-{month}-24T07:30") for month in ("07", "11")] == [True, False]
