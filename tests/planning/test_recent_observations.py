"""The observations that the health of a window is computed from."""

from datetime import timedelta
from itertools import pairwise

from tests.support.loaded_snapshots import at, load, name, of_files, snapshot
from tidemark.lake.clocks import Window
from tidemark.planning.run_plan import PAUSE, plan_run


def test_nine_observations_before_the_window_are_read(lake):
    load(lake, *(snapshot(minute) for minute in range(15)), snapshot(12.5, cluster="other"))
    load(lake, of_files(11.5, "stats_log"))
    observations = {
        it.snapshot_id: it for it in plan_run(lake, Window(at(12), at(14))).observations
    }
    start = observations[name(12)].number
    assert observations.pop(name(12.5, "other")).counts_for == {name(12.5, "other"): 0}
    assert {key: it.number - start for key, it in observations.items()} == {
        name(minute): minute - 12 for minute in range(3, 14)
    }
    counts_for = {key: dict(it.counts_for) for key, it in observations.items()}
    assert counts_for.pop(name(3)) == {name(12): 9}
    assert counts_for.pop(name(13)) == {name(13): 0}
    assert counts_for == {
        name(minute): {name(12): 12 - minute, name(13): 13 - minute} for minute in range(4, 13)
    }
    assert set(plan_run(lake, Window(at(12), at(14))).recent) == {name(m) for m in range(3, 12)}


def test_what_was_observed_before_a_pause_counts_no_more(lake):
    pause = PAUSE / timedelta(minutes=1)
    load(lake, snapshot(0), snapshot(1), snapshot(1 + pause), snapshot(2 + 2 * pause))
    whole = plan_run(lake, Window(at(0), at(3 + 2 * pause))).observations
    assert [it.number - whole[0].number for it in whole] == [0, 1, 2, 12]
    assert whole[2].counts_for == {name(1 + pause): 0}
    assert plan_run(lake, Window(at(2 + 2 * pause), at(3 + 2 * pause))).recent == ()


def test_observations_of_different_sources_never_count_together(lake):
    load(lake, snapshot(0), of_files(1, "store", "a"), snapshot(2), of_files(3, "local_offsets"))
    observations = {it.snapshot_id: it for it in plan_run(lake, Window(at(0), at(4))).observations}
    assert observations[name(0)].counts_for == {name(0): 0, name(2): 1}
    assert observations["store-1"].counts_for == {"store-1": 0}
    numbers = sorted(it.number for it in observations.values())
    assert numbers[1] - numbers[0] == 1
    assert all(later - earlier > 10 for earlier, later in pairwise(numbers[1:]))


def counting_for(observations, snapshot_id):
    """Return the observations that count for the health of a snapshot, with their places."""
    pairs = [
        (it.snapshot_id, it.counts_for[snapshot_id])
        for it in observations
        if snapshot_id in it.counts_for
    ]
    assert len({place for _, place in pairs}) == len(pairs), "one observation a place"
    return dict(pairs)


def test_observations_of_the_same_seconds_are_one_place(lake):
    """A person collects 0.7 s after a tick, and once more within 10 s of that."""
    close, next_but_one = 11 + 0.7 / 60, 11 + 10.2 / 60
    minutes = (*range(12), close, next_but_one, 12)
    load(lake, *(snapshot(minute) for minute in minutes))
    observations = plan_run(lake, Window(at(10.5), at(13))).observations
    before = {name(minute): 11 - minute for minute in range(2, 11)}
    assert counting_for(observations, name(11)) == {name(11): 0, **before}
    assert counting_for(observations, name(close)) == {name(close): 0, **before}
    later = {snapshot_id: place + 1 for snapshot_id, place in before.items() if place < 9}
    assert counting_for(observations, name(next_but_one)) == {
        name(next_but_one): 0,
        name(11): 1,
        **later,
    }
    latest = {snapshot_id: place + 1 for snapshot_id, place in later.items() if place < 9}
    assert counting_for(observations, name(12)) == {
        **{name(12): 0, name(next_but_one): 1, name(11): 2},
        **latest,
    }
    judged = [it.snapshot_id for it in observations if it.snapshot_id in it.counts_for]
    assert sorted(judged) == sorted(name(m) for m in (11, close, next_but_one, 12))


def test_a_tick_counts_the_same_observations_as_a_backfill(lake):
    """Snapshots every four seconds: whichever a window begins with, places go back from each."""
    minutes = [number / 15 for number in range(90)]
    load(lake, *(snapshot(minute) for minute in minutes))
    whole = plan_run(lake, Window(at(0), at(7))).observations
    for minute in minutes[60::7]:
        alone = plan_run(lake, Window(at(minute), at(minute + 0.01))).observations
        assert counting_for(alone, name(minute)) == counting_for(whole, name(minute))
        places = sorted(counting_for(alone, name(minute)).values())
        assert places == list(range(10))
