"""The snapshots that hold the previous observation of every queue."""

from tests.support.loaded_snapshots import BOTH, at, load, name, of_files, snapshot, window
from tidemark.lake.clocks import Window
from tidemark.lake.tables import quality
from tidemark.planning.run_plan import plan_run
from tidemark.settings.environment import Settings


def test_minutes_before_a_partial_snapshot_are_read(lake):
    """A queue that a partial snapshot lacks was observed before it, within the longest gap."""
    load(lake, snapshot(-11), snapshot(-9), snapshot(0, BOTH, "PARTIAL"), snapshot(1))
    assert plan_run(lake, Window(at(1), at(2))).previous == (name(-9), name(0))


def test_a_missing_queue_is_read_where_last_observed(lake):
    """A topic deleted for a minute, or what only deep snapshots request of clients."""
    keys = {-11: "old", -9: "deep", -8: "all", -7: "deep", -6: "all", -1: "all", 0: "few", 1: "few"}
    load(lake, *(snapshot(minute) | {"keys_read": read} for minute, read in keys.items()))
    assert plan_run(lake, Window(at(1), at(2))).previous == (name(-1), name(-7), name(0))


def test_a_returning_queue_is_read_where_last_observed(lake):
    """A topic deleted for longer than the longest gap, and created again."""
    keys = {-60: "with", -50: "with", -40: "others", -12: "without", -1: "without", 0: "without"}
    load(lake, *(snapshot(minute) | {"keys_read": read} for minute, read in keys.items()))
    load(lake, snapshot(1) | {"keys_read": "with, and new"}, snapshot(2) | {"keys_read": "without"})
    assert set(plan_run(lake, Window(at(1), at(2))).previous) == {name(-50), name(-40), name(0)}
    assert plan_run(lake, Window(at(2), at(3))).previous == (name(0), name(1))


def test_few_snapshots_are_searched_for_returning_queues(lake):
    load(lake, *(snapshot(-15 - back) | {"keys_read": str(back)} for back in range(20)))
    load(lake, snapshot(0) | {"keys_read": "now"}, snapshot(1) | {"keys_read": "new"})
    assert set(plan_run(lake, Window(at(1), at(2))).previous) == {
        name(0), name(-15), name(-16), name(-17)
    }  # fmt: skip


def test_minutes_before_quarantined_rows_are_read(lake):
    """A quarantined queue has no observation there; a backfill would find the one before."""
    load(lake, snapshot(-11), snapshot(-9), snapshot(0), snapshot(1))
    row = {"observed_at": at(0), "table": "raw.queue_offsets", "reason": "x", "row": "{}"}
    lake.append(quality.QUARANTINE, [row | {"snapshot_id": name(0)}])
    assert plan_run(lake, Window(at(1), at(2))).previous == (name(-9), name(0))


def test_each_broker_has_its_own_previous_snapshot(lake):
    load(lake, snapshot(-30), snapshot(0, ["a"], "COMPLETE"), snapshot(1))
    assert set(plan_run(lake, Window(at(1), at(2))).previous) == {name(-30), name(0)}


def test_each_source_has_its_own_previous_observation(lake):
    load(lake, snapshot(0), of_files(1, "store", "a"), of_files(2, "local_offsets", "a"))
    load(lake, snapshot(3))
    made = plan_run(lake, window(3, 4))
    assert set(made.previous) == {name(0), "store-1", "local_offsets-2"}


SECOND = 1 / 60


def test_snapshots_too_close_for_a_rate_are_not_the_only_ones(lake):
    """Rates reach back over them, those of each snapshot of the window."""
    load(lake, snapshot(-2), snapshot(-1), snapshot(0), snapshot(3 * SECOND), snapshot(9 * SECOND))
    load(lake, snapshot(10 * SECOND), snapshot(15 * SECOND))
    before = [name(minute) for minute in (0, 3 * SECOND, 9 * SECOND)]
    assert list(plan_run(lake, window(10 * SECOND, 1)).previous) == sorted(before)
    assert set(plan_run(lake, window(9 * SECOND, 1)).previous) == {
        name(-1), name(0), name(3 * SECOND)
    }  # fmt: skip
    assert plan_run(lake, window(0, 1)).previous == (name(-1),)


def test_a_queue_that_close_snapshots_lack_has_a_base(lake):
    keys = {-2: "deep", -1: "all", 0: "all", 3 * SECOND: "deep", 5 * SECOND: "deep"}
    load(lake, *(snapshot(minute) | {"keys_read": read} for minute, read in keys.items()))
    assert set(plan_run(lake, window(5 * SECOND, 1)).previous) == {
        name(3 * SECOND), name(0), name(-1), name(-2)
    }  # fmt: skip


def test_the_shortest_time_of_a_rate_follows_its_variable(lake, monkeypatch):
    monkeypatch.setenv("TIDEMARK_RATE_SECONDS", "90")
    load(lake, *(snapshot(minute) for minute in (-3, -2, -1, 0)))
    plan = plan_run(lake, window(0, 1), Settings.read().history)
    assert set(plan.previous) == {name(-1), name(-2)}
