"""Parts of a window: whole hours of bounded size."""

from datetime import UTC, datetime

import pytest

from lake import parts
from lake.tables import raw
from lake.window import HOUR, Window

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = Window(START, START + 24 * HOUR)


def hours(first, end):
    return Window(START + first * HOUR, START + end * HOUR)


@pytest.fixture
def small_parts(lake, monkeypatch):
    """Two rows of each of the first five hours, and parts of at most four rows."""
    for hour in range(5):
        at = START + hour * HOUR
        row = {"broker": "a", "topic": "t", "observed_at": at, "cluster": "c"}
        rows = [row | {"queue_id": number, "snapshot_id": f"s{hour}"} for number in range(2)]
        lake.append(raw.QUEUE_OFFSETS, rows)
    monkeypatch.setattr(parts, "PART_ROWS", 4)
    return lake


def test_parts_are_bounded_and_cover_all_hours(small_parts):
    assert parts.parts(small_parts, DAY) == [hours(0, 2), hours(2, 4), hours(4, 24)]


def test_an_hour_is_never_divided(small_parts, monkeypatch):
    monkeypatch.setattr(parts, "PART_ROWS", 1)
    assert parts.parts(small_parts, hours(0, 2)) == [hours(0, 1), hours(1, 2)]


def test_hours_without_rows_are_one_part(lake):
    assert parts.parts(lake, DAY) == [DAY]
