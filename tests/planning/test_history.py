"""Loaded snapshots that a tick computes."""

import pytest

from tests.support.loaded_snapshots import (
    NOON,
    TICK,
    at,
    load,
    mark_computed,
    name,
    of_files,
    snapshot,
    window,
)
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.tables import raw
from tidemark.planning import history
from tidemark.planning.history import (
    loaded_snapshots,
    pending_after,
    pending_window,
    whole_clusters,
)


def pending(lake):
    return pending_window(lake, NOON - 48 * HOUR)


def test_nothing_loaded_is_nothing_pending(lake):
    assert pending(lake) is None


def test_everything_loaded_at_first(lake):
    load(lake, snapshot(3), snapshot(1), snapshot(2))
    assert pending(lake) == Window(at(1), at(3) + TICK)


def test_only_what_is_new(lake):
    load(lake, snapshot(1), snapshot(2), snapshot(3))
    mark_computed(lake, 1, 2)
    assert pending(lake) == Window(at(3), at(3) + TICK)
    mark_computed(lake, 3)
    assert pending(lake) is None


def test_a_window_holds_its_last_snapshot(lake):
    load(lake, snapshot(1), snapshot(2))
    assert at(2) in (pending(lake) or Window(NOON, NOON))


def test_late_snapshots_reach_to_the_newest_of_their_cluster(lake):
    load(lake, snapshot(10), snapshot(20), snapshot(130))
    mark_computed(lake, 10, 130)
    assert pending(lake) == Window(at(20), at(130) + TICK)


def test_a_slow_cluster_makes_no_hour_compute_again(lake):
    """Finding C7: its snapshots lie between computed ones of others."""
    load(lake, *(snapshot(minute) for minute in range(40)))
    load(lake, *(snapshot(minute - 0.5, cluster="slow") for minute in range(40)))
    mark_computed(lake, *range(39))
    mark_computed(lake, *(minute - 0.5 for minute in range(38)), cluster="slow")
    assert pending(lake) == Window(at(37.5), at(39) + TICK)
    mark_computed(lake, 39)
    assert pending(lake) == Window(at(37.5), at(38.5) + TICK)


def test_only_hours_that_lack_a_computed_snapshot_are_read(lake, monkeypatch):
    load(lake, *(snapshot(60 * hour + 1) for hour in range(5)))
    mark_computed(lake, *(60 * hour + 1 for hour in range(5) if hour != 3))
    read, starts = lake.read, []

    def spy(table, where, **options):
        starts.append(where.start)
        return read(table, where, **options)

    monkeypatch.setattr(lake, "read", spy)
    assert pending(lake) == Window(at(181), at(241) + TICK)
    assert min(starts) == at(180)
    mark_computed(lake, 181)
    starts.clear()
    assert pending(lake) is None
    assert not starts


def test_late_means_before_something_mark_computed(lake):
    load(lake, snapshot(10), snapshot(70), snapshot(71))
    mark_computed(lake, 10)
    assert pending(lake) == Window(at(70), at(71) + TICK)


def test_computed_snapshots_of_a_clock_put_back_are_not_computed_again(lake):
    """Each tick took all that the clock had been ahead for, hours after hours."""
    load(lake, *(snapshot(minute) for minute in (1, 2, 30, 600, 601)))
    mark_computed(lake, 1, 30, 600, 601)
    assert pending_window(lake, NOON, at(2)) == Window(at(2), at(2) + TICK)
    load(lake, snapshot(602))
    assert pending_window(lake, NOON, at(2)) == Window(at(2), at(2) + TICK)
    mark_computed(lake, 2)
    assert pending_window(lake, NOON, at(2)) is None
    assert pending_window(lake, NOON, at(602)) == Window(at(602), at(602) + TICK)


def test_what_is_too_old_is_let_be(lake):
    load(lake, snapshot(-60 * 60), snapshot(1))
    assert pending(lake) == Window(at(1), at(1) + TICK)


def test_two_clusters_share_a_window(lake):
    load(lake, snapshot(1), snapshot(2, cluster="other"))
    assert pending(lake) == Window(at(1), at(2) + TICK)


@pytest.fixture
def rows_of_three_hours(lake, monkeypatch):
    """Two rows of queues in each of three hours, of which a run computes two at most."""
    for hour in range(3):
        row = {"snapshot_id": f"lab-{60 * hour}", "observed_at": at(60 * hour), "cluster": "lab"}
        queues = [row | {"broker": "a", "topic": "t", "queue_id": number} for number in range(2)]
        lake.append(raw.QUEUE_OFFSETS, queues)
    monkeypatch.setattr(history, "PART_ROWS", 2)
    return lake


def test_after_a_long_pause_ticks_compute_parts(rows_of_three_hours):
    load(rows_of_three_hours, snapshot(0), snapshot(60), snapshot(120))
    first = pending(rows_of_three_hours)
    assert first == Window(at(0), at(60))
    assert pending_after(rows_of_three_hours, first) == 2
    mark_computed(rows_of_three_hours, 0)
    assert pending(rows_of_three_hours) == Window(at(60), at(120))
    mark_computed(rows_of_three_hours, 60)
    last = pending(rows_of_three_hours)
    assert last == Window(at(120), at(120) + TICK)
    assert pending_after(rows_of_three_hours, last) == 0


def test_a_part_reaches_through_what_follows_a_late_snapshot(rows_of_three_hours):
    """A computed snapshot whose previous observation changes is computed in the same run."""
    load(rows_of_three_hours, snapshot(0), snapshot(60), snapshot(70), snapshot(120))
    mark_computed(rows_of_three_hours, 70)
    assert pending(rows_of_three_hours) == Window(at(0), at(120))


def test_a_part_leaves_clusters_that_miss_nothing_in_it(rows_of_three_hours):
    """The other cluster misses only its newest snapshot, which lies after the end of the part."""
    load(rows_of_three_hours, snapshot(0), snapshot(120))
    load(rows_of_three_hours, *(snapshot(minute, cluster="other") for minute in (1, 119, 121)))
    mark_computed(rows_of_three_hours, 1, 119, cluster="other")
    assert pending(rows_of_three_hours) == Window(at(0), at(60))


def test_files_of_one_broker_count_where_nobody_observes_the_cluster(lake):
    alone = of_files(2, "store", "a") | {"cluster": "files", "snapshot_id": "alone"}
    load(lake, snapshot(1), of_files(1.5, "store", "a"), snapshot(2, []), alone)
    snapshots = whole_clusters(loaded_snapshots(lake, window(0, 5)))
    assert {loaded_snapshot.snapshot_id for loaded_snapshot in snapshots} == {
        name(1),
        name(2),
        "alone",
    }
