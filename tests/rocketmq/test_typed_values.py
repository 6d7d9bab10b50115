"""Values of a parsed body: a wrong type or size is refused, and unknown times are None."""

from datetime import UTC, datetime

import pytest

from tidemark.rocketmq import typed_values

TIME = datetime(2026, 11, 19, 12, 0, 0, 250_000, UTC)


@pytest.mark.parametrize(
    ("read", "good", "bad"),
    [
        (typed_values.object_of, {}, []),
        (typed_values.text, "a", 1),
        (typed_values.texts, ["a"], ["a", 1]),
        (typed_values.boolean, False, 0),
        (typed_values.integer, -1, True),
        (typed_values.integer, 7, 7.0),
        (typed_values.small, 7, "7"),
    ],
)
def test_another_type_is_refused(read, good, bad):
    assert read(good) == good
    with pytest.raises(TypeError, match="was expected, not"):
        read(bad)


@pytest.mark.parametrize(("read", "bits"), [(typed_values.integer, 64), (typed_values.small, 32)])
def test_a_number_beyond_its_column_is_refused(read, bits):
    edge = 1 << bits - 1
    assert (read(edge - 1), read(-edge)) == (edge - 1, -edge)
    for beyond in (edge, -edge - 1):
        with pytest.raises(ValueError, match=f"beyond {bits} bits"):
            read(beyond)


def test_an_absent_field_is_unknown():
    assert typed_values.optional(typed_values.text, None) is None
    assert typed_values.texts(None) == []


@pytest.mark.parametrize("milliseconds", [0, -1, None, "5", 1.5, True, 1 << 62])
def test_a_time_that_cannot_be_is_unknown(milliseconds):
    assert typed_values.instant(milliseconds) is None


@pytest.mark.parametrize("shift", [0, 1 << 41, 1 << 43])
def test_a_time_is_exact_to_the_millisecond(shift):
    milliseconds = int(TIME.timestamp() * 1000) + shift
    instant = typed_values.instant(milliseconds)
    assert instant is not None
    assert round((instant - TIME).total_seconds() * 1000) == shift
    assert typed_values.instants([milliseconds, 0]) == [instant, None]


@pytest.mark.parametrize(
    ("table", "error"),
    [([], TypeError), ({"0": 1}, TypeError), ({0: None}, TypeError), ({0: 1 << 63}, ValueError)],
)
def test_offsets_by_queue_are_integers_of_64_bits(table, error):
    typed_values.require_by_queue([{0: 5}, {1: -1}])
    with pytest.raises(error):
        typed_values.require_by_queue([{0: 5}, table])
