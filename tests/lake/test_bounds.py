"""Bounds of the numbers of a row: by its marks, by what is missing of it, and in SQL."""

import pytest

from lake.bounds import MARKED_BY, MARKS, Bound, bound_of, columns_with_marks, marked
from lake.tables.progress import GROUPS


@pytest.mark.parametrize(
    ("column", "row", "bound"),
    [
        ("lag", {"lag": 0, "lag_is_lower_bound": True}, Bound.LOWER),
        ("lag", {"lag": None, "lag_is_lower_bound": True}, None),
        ("lag", {"lag": 5, "lag_is_lower_bound": None, "delay_is_lower_bound": True}, None),
        ("delay_ms", {"delay_ms": 5, "delay_is_lower_bound": True}, Bound.LOWER),
        ("delay_ms", {"delay_ms": 5, "lag_is_lower_bound": True}, Bound.LOWER),
        ("delay_ms", {"delay_ms": 5, "delay_source": "at_least"}, Bound.LOWER),
        ("delay_ms", {"delay_ms": 5, "delay_source": "exact"}, None),
        ("loss_in_seconds", {"loss_in_seconds": 5, "delay_is_lower_bound": True}, Bound.UPPER),
        ("lost", {"lost": 0, "complete": False}, Bound.LOWER),
        ("lost", {"lost": 0, "queues_unknown": 2}, Bound.LOWER),
        ("queues", {"queues": 8, "queues_unknown": 2}, None),
        ("skew", {"skew": 8, "complete": False, "lag_is_lower_bound": True}, None),
        ("last_value", {"last_value": 3, "last_value_bound": "upper"}, Bound.UPPER),
        ("last_value", {"last_value": 3, "last_value_bound": None}, None),
    ],
)
def test_a_number_is_a_bound_by_the_marks_of_its_row(column, row, bound):
    assert bound_of(column, row) is bound
    assert marked("5", bound) == {None: "5", Bound.LOWER: "≥ 5", Bound.UPPER: "≤ 5"}[bound]


def test_every_number_with_a_mark_of_its_name_is_marked():
    names = set(GROUPS.column_names)
    assert set(MARKED_BY) <= names and set(MARKS) <= names
    declared = {name for name in names if name.endswith("_is_lower_bound")}
    assert declared == set(MARKS), "a new mark marks something"


def test_marks_stand_beside_numbers():
    assert columns_with_marks(("skew",)) == ("skew",)
    assert columns_with_marks(("lag", "delay_ms")) == (
        *("lag", "delay_ms", "lag_is_lower_bound", "delay_is_lower_bound", "queues_unknown"),
    )
