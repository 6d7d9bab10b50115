"""Windows of time, and the whole hours around them."""

import pytest

from tests.support.loaded_snapshots import TICK, at
from tidemark.lake.clocks import Window, ceil_hour, floor_hour


@pytest.mark.parametrize(
    "minutes, inclusive, hours",
    [((0, 60), False, (0, 60)), ((0, 60), True, (0, 120)), ((1, 61), False, (0, 120))],
)
def test_whole_hours(minutes, inclusive, hours):
    window = Window(at(minutes[0]), at(minutes[1])).whole_hours(inclusive=inclusive)
    assert window == Window(at(hours[0]), at(hours[1]))


def test_hours_of_an_instant():
    assert floor_hour(at(59.9)) == at(0) and ceil_hour(at(0)) == at(0)
    assert ceil_hour(at(0) + TICK) == at(60)


def test_a_window_cannot_end_before_it_starts():
    with pytest.raises(ValueError, match="before it starts"):
        Window(at(1), at(0))
