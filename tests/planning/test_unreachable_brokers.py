"""Brokers that snapshots lack, and where they were last seen."""

from tests.support.loaded_snapshots import at, load, name, of_files, snapshot
from tidemark.lake.clocks import Window
from tidemark.planning.lacking_parts import UnreachableBroker
from tidemark.planning.run_plan import plan_run


def test_an_unreachable_broker_refers_to_its_last_observation(lake):
    load(lake, snapshot(1), snapshot(2, ["a"]), snapshot(3, ["a"]))
    made = plan_run(lake, Window(at(2), at(4)))
    assert made.unreachable == (
        UnreachableBroker(name(2), "b", name(1)),
        UnreachableBroker(name(3), "b", name(1)),
    )
    assert made.previous == (name(1),)


def test_a_gap_inside_the_window_refers_into_it(lake):
    load(lake, snapshot(1), snapshot(2), snapshot(3, ["a"]))
    made = plan_run(lake, Window(at(1), at(4)))
    assert made.unreachable == (UnreachableBroker(name(3), "b", name(2)),)
    assert made.previous == ()


def test_a_broker_that_is_back_is_not_unreachable(lake):
    load(lake, snapshot(1), snapshot(2, ["a"]), snapshot(3))
    assert plan_run(lake, Window(at(3), at(4))).unreachable == ()


def test_a_failed_snapshot_hides_every_broker(lake):
    load(lake, snapshot(1), snapshot(2, [], "FAILED"))
    made = plan_run(lake, Window(at(2), at(3)))
    assert made.unreachable == (
        UnreachableBroker(name(2), "a", name(1)),
        UnreachableBroker(name(2), "b", name(1)),
    )
    assert made.snapshot_ids == (name(2),)


def test_a_broker_is_forgotten_after_a_day(lake):
    day = 24 * 60
    load(lake, snapshot(-day, ["b"]), snapshot(-day - 1, ["c"]), snapshot(0, ["a"]))
    made = plan_run(lake, Window(at(0), at(1)))
    assert made.unreachable == (UnreachableBroker(name(0), "b", name(-day)),)


def test_an_unreachable_broker_concerns_its_own_cluster_only(lake):
    load(lake, snapshot(1), snapshot(2, ["x"], "COMPLETE", cluster="other"))
    made = plan_run(lake, Window(at(2), at(3)))
    assert made.unreachable == ()
    # Nothing of a cluster is read that has no snapshot in the window.
    assert {loaded_snapshot.cluster for loaded_snapshot in made.known} == {"other"}
    assert made.previous == ()


def test_files_concern_their_own_broker_only(lake):
    """Statistics of the past and a store of one broker make no other broker unreachable."""
    load(lake, snapshot(1), of_files(2, "stats_log"), of_files(3, "store", "a"), snapshot(4, ["a"]))
    run_plan = plan_run(lake, Window(at(2), at(5)))
    assert run_plan.unreachable == (UnreachableBroker(name(4), "b", name(1)),)
