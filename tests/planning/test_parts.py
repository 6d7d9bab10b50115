"""Parts of a window: whole hours of bounded size."""

import pytest

from tests.support.hours_of_queues import DAY, append_hours, hours
from tidemark.planning import history


@pytest.fixture
def small_parts(lake, monkeypatch):
    """Two rows of each of the first five hours, and parts of at most four rows."""
    append_hours(lake)
    monkeypatch.setattr(history, "PART_ROWS", 4)
    return lake


def test_parts_are_bounded_and_cover_all_hours(small_parts):
    assert history.parts(small_parts, DAY) == [hours(0, 2), hours(2, 4), hours(4, 24)]


def test_an_hour_is_never_divided(small_parts, monkeypatch):
    monkeypatch.setattr(history, "PART_ROWS", 1)
    assert history.parts(small_parts, hours(0, 2)) == [hours(0, 1), hours(1, 2)]


def test_hours_without_rows_are_one_part(lake):
    assert history.parts(lake, DAY) == [DAY]
