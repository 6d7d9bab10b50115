"""Where windows of counters begin in our own history."""

from tests.support.loaded_snapshots import TICK, at, load, name, of_files, snapshot
from tidemark.lake.clocks import Window
from tidemark.lake.tables import raw
from tidemark.planning.observation_steps import CounterWindow
from tidemark.planning.run_plan import plan_run


def counter_windows(lake, window):
    """Where they begin, as a plan finds them in a window with counters."""
    counted = {"snapshot_id": "counters", "broker": "a", "observed_at": window.start}
    lake.append(raw.BROKER_STATS, [counted])
    return list(plan_run(lake, window).counter_windows)


def begun(lake, minutes, broker="a"):
    """Where the windows that end in the snapshot at that minute begin, by their name."""
    windows = counter_windows(lake, Window(at(minutes), at(minutes) + TICK))
    return {
        start.stats_window: (start.before_id, start.after_id, round(start.share, 3))
        for start in windows
        if (start.snapshot_id, start.broker) == (name(minutes), broker) and start.before_id
    }


def test_a_counter_window_begins_at_or_between_snapshots(lake):
    load(lake, snapshot(0), snapshot(8), snapshot(58), snapshot(59), snapshot(60), snapshot(64))
    assert begun(lake, 60) == {
        "minute": (name(59), name(59), 0),
        "hour": (name(0), name(0), 0),
    }
    assert begun(lake, 64) == {
        "minute": (name(60), name(64), 0.75),
        "hour": (name(0), name(8), 0.5),
    }


def test_no_window_begins_before_history_or_in_a_gap(lake):
    load(lake, snapshot(0), snapshot(11), snapshot(12.5), snapshot(-24 * 60 + 12))
    assert begun(lake, 0) == {}
    assert begun(lake, 11) == {"minute": (name(0), name(11), round(10 / 11, 3))}
    assert begun(lake, 12.5) == {
        "minute": (name(11), name(12.5), round(0.5 / 1.5, 3)),
        "day": (name(-24 * 60 + 12), name(0), round(0.5 / (24 * 60 - 12), 3)),
    }


def test_only_snapshots_of_one_source_and_broker_count(lake):
    load(lake, snapshot(1), snapshot(2, ["b"]), of_files(2, "store", "a"), snapshot(3))
    assert begun(lake, 3) == {"minute": (name(1), name(3), 0.5)}
    assert begun(lake, 3, "b") == {"minute": (name(2), name(2), 0)}
    windows = counter_windows(lake, Window(at(1), at(4)))
    assert {start.snapshot_id for start in windows if start.before_id} == {name(2), name(3)}


def test_a_window_without_known_start_has_only_its_unit(lake):
    load(lake, snapshot(1, ["a"]), snapshot(2, ["a"]))
    assert counter_windows(lake, Window(at(2), at(3))) == [
        CounterWindow(
            snapshot_id=name(2),
            broker="a",
            stats_window="minute",
            before_id=name(1),
            after_id=name(1),
            share=0.0,
        ),
        CounterWindow(snapshot_id=name(2), broker="a", stats_window="hour"),
        CounterWindow(snapshot_id=name(2), broker="a", stats_window="day"),
    ]
