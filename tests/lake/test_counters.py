"""Where windows of counters begin in our own history."""

from lake.counters import Start, starts
from lake.window import Window
from tests.lake.test_history import TICK, at, loaded, look, name, of_files


def begun(lake, minutes, broker="a"):
    """Where the windows that end in the look at that minute begin, by their name."""
    found = starts(lake, Window(at(minutes), at(minutes) + TICK))
    return {
        start.stats_window: (start.before_id, start.after_id, round(start.share, 3))
        for start in found
        if (start.snapshot_id, start.broker) == (name(minutes), broker) and start.before_id
    }


def test_a_window_of_counters_begins_at_a_look_or_between_two(lake):
    loaded(lake, look(0), look(8), look(58), look(59), look(60), look(64))
    assert begun(lake, 60) == {
        "minute": (name(59), name(59), 0),
        "hour": (name(0), name(0), 0),
    }
    assert begun(lake, 64) == {
        "minute": (name(60), name(64), 0.75),
        "hour": (name(0), name(8), 0.5),
    }


def test_no_window_begins_before_history_or_long_after_the_last_look(lake):
    loaded(lake, look(0), look(11), look(12.5), look(-24 * 60 + 12))
    assert begun(lake, 0) == {}
    assert begun(lake, 11) == {"minute": (name(0), name(11), round(10 / 11, 3))}
    assert begun(lake, 12.5) == {
        "minute": (name(11), name(12.5), round(0.5 / 1.5, 3)),
        "day": (name(-24 * 60 + 12), name(0), round(0.5 / (24 * 60 - 12), 3)),
    }


def test_only_looks_of_the_same_kind_at_the_same_broker_count(lake):
    loaded(lake, look(1), look(2, ["b"]), of_files(2, "store", "a"), look(3))
    assert begun(lake, 3) == {"minute": (name(1), name(3), 0.5)}
    assert begun(lake, 3, "b") == {"minute": (name(2), name(2), 0)}
    found = starts(lake, Window(at(1), at(4)))
    assert {start.snapshot_id for start in found if start.before_id} == {name(2), name(3)}


def test_starts_name_what_they_begin_in_and_where_that_is_not_known(lake):
    loaded(lake, look(1, ["a"]), look(2, ["a"]))
    assert starts(lake, Window(at(2), at(3))) == [
        Start(name(2), "a", "minute", name(1), name(1), 0.0),
        Start(name(2), "a", "hour"),
        Start(name(2), "a", "day"),
    ]
