"""Bounds of the numbers of a row: by its marks, by its missing parts, and in SQL."""

import pytest

from tidemark.lake.bounds import (
    BOUND_BY_KIND,
    KIND,
    MARKED_BY,
    MARKS,
    Bound,
    bound_in_sql,
    bound_of,
    certain,
    columns_with_marks,
    marked,
)
from tidemark.lake.tables.progress import GROUPS
from tidemark.rocketmq.consume_modes import NUMBERS, Certainty, Number


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
        ("ack_tps", {"ack_tps": 4.0, "consume_kind": "pop"}, Bound.LOWER),
        ("ack_tps", {"ack_tps": 0.0, "consume_kind": "pop"}, Bound.LOWER),
        ("available", {"available": 4, "consume_kind": "pop"}, Bound.UPPER),
        ("available", {"available": 0, "consume_kind": "pop"}, None),
        ("available", {"available": 4, "consume_kind": "pop_kv"}, None),
        ("available", {"available": 4, "consume_kind": "pop", "complete": False}, Bound.LOWER),
        ("ready_delay_ms", {"ready_delay_ms": 9, "consume_kind": "pop"}, Bound.UPPER),
        ("messages", {"messages": 3, "complete": False}, Bound.LOWER),
        ("oldest_at", {"oldest_at": 3, "oldest_at_is_upper_bound": True}, Bound.UPPER),
        ("newest_at", {"newest_at": 3, "complete": False}, Bound.LOWER),
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
    assert columns_with_marks(("ack_tps",)) == ("ack_tps", "queues_unknown", "consume_kind")


UNMARKED = {Number.ONLINE, Number.HEALTH}
"""They are no numbers, so they carry no mark."""


@pytest.mark.parametrize("kind", NUMBERS)
def test_every_number_that_the_table_calls_a_bound_is_shown_as_one(kind):
    """The row of a group has the marks that `spark.progress` writes for its kind."""
    certainties = {name: cell.certainty for name, cell in NUMBERS[kind].items()}
    row = {name.value: 7 for name in Number} | {KIND: kind.value}
    row["lag_is_lower_bound"] = certainties[Number.LAG] is Certainty.LOWER_BOUND
    row["delay_is_lower_bound"] = certainties[Number.DELAY_MS] is Certainty.LOWER_BOUND
    expected = {Certainty.LOWER_BOUND: Bound.LOWER, Certainty.UPPER_BOUND: Bound.UPPER}
    for name in set(Number) - UNMARKED:
        if certainties[name] is not Certainty.UNKNOWN:
            assert bound_of(name.value, row) is expected.get(certainties[name]), name
    assert BOUND_BY_KIND.keys() <= set(GROUPS.column_names)


def test_words_in_quotes_are_no_columns():
    assert certain("consumer_group = 'lag'") == "complete AND true"
    assert bound_in_sql("length('lag')") == "CAST(NULL AS STRING)"
