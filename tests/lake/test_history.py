"""Which snapshots a run computes, and what it needs from before them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lake import history
from lake.history import (
    PAUSE,
    Observation,
    Plan,
    Silent,
    pending_window,
    plan,
)
from lake.steps import EVERY, steps
from lake.tables import progress, quality, raw
from lake.window import HOUR, Window, ceil_hour, floor_hour

NOON = floor_hour(datetime.now(UTC)) - 5 * HOUR
TICK = timedelta(microseconds=1)
BOTH = ("a", "b")


def at(minutes):
    return NOON + timedelta(minutes=minutes)


def window(first, end):
    return Window(at(first), at(end))


def name(minutes, cluster="lab"):
    return f"{cluster}-{minutes}"


def look(minutes, brokers=BOTH, status=None, cluster="lab"):
    return {
        "snapshot_id": name(minutes, cluster),
        "cluster": cluster,
        "observed_at": at(minutes),
        "status": status or ("COMPLETE" if set(brokers) == set(BOTH) else "PARTIAL"),
        "brokers_read": list(brokers),
    }


def of_files(minutes, source, *brokers):
    return look(minutes, brokers) | {"source": source, "snapshot_id": f"{source}-{minutes}"}


def loaded(lake, *looks):
    lake.append(raw.SNAPSHOTS, list(looks))


def computed(lake, *minutes):
    rows = [
        {"snapshot_id": name(minute), "observed_at": at(minute), "cluster": "lab"}
        for minute in minutes
    ]
    lake.append(progress.SNAPSHOTS, rows)


def pending(lake):
    return pending_window(lake, hours_back=48)


def test_nothing_loaded_is_nothing_pending(lake):
    assert pending(lake) is None


def test_everything_loaded_at_first(lake):
    loaded(lake, look(3), look(1), look(2))
    assert pending(lake) == Window(at(1), at(3) + TICK)


def test_only_what_is_new(lake):
    loaded(lake, look(1), look(2), look(3))
    computed(lake, 1, 2)
    assert pending(lake) == Window(at(3), at(3) + TICK)
    computed(lake, 3)
    assert pending(lake) is None


def test_a_window_holds_its_last_snapshot(lake):
    loaded(lake, look(1), look(2))
    assert at(2) in (pending(lake) or Window(NOON, NOON))


def test_what_landed_late_takes_whole_hours_to_the_newest(lake):
    loaded(lake, look(10), look(20), look(130))
    computed(lake, 10, 130)
    assert pending(lake) == Window(NOON, NOON + 3 * HOUR)


def test_late_means_before_something_computed(lake):
    loaded(lake, look(10), look(70), look(71))
    computed(lake, 10)
    assert pending(lake) == Window(at(70), at(71) + TICK)


def test_a_late_one_on_the_hour_is_inside(lake):
    loaded(lake, look(60), look(120))
    computed(lake, 120)
    assert pending(lake) == Window(at(60), at(180))


def test_what_is_too_old_is_let_be(lake):
    loaded(lake, look(-60 * 60), look(1))
    assert pending(lake) == Window(at(1), at(1) + TICK)


def test_two_clusters_share_a_window(lake):
    loaded(lake, look(1), look(2, cluster="other"))
    assert pending(lake) == Window(at(1), at(2) + TICK)


# Plans


def test_the_previous_observation_is_the_newest_before_the_window(lake):
    loaded(lake, look(1), look(2), look(3))
    made = plan(lake, Window(at(3), at(4)))
    assert made.snapshots == (name(3),)
    assert replace(made, looks=()) == Plan(
        Window(at(3), at(4)),
        earlier=(name(2),),
        observations=tuple(
            Observation(name(minute), minute - 1, {name(3): 3 - minute}) for minute in (1, 2, 3)
        ),
    )


def test_a_silent_broker_is_looked_up_where_it_was_last_seen(lake):
    loaded(lake, look(1), look(2, ["a"]), look(3, ["a"]))
    made = plan(lake, Window(at(2), at(4)))
    assert made.silent == (Silent(name(2), "b", name(1)), Silent(name(3), "b", name(1)))
    assert made.earlier == (name(1),)


def test_a_hole_inside_the_window_refers_into_it(lake):
    loaded(lake, look(1), look(2), look(3, ["a"]))
    made = plan(lake, Window(at(1), at(4)))
    assert made.silent == (Silent(name(3), "b", name(2)),)
    assert made.earlier == ()


def test_a_broker_that_is_back_is_not_silent(lake):
    loaded(lake, look(1), look(2, ["a"]), look(3))
    assert plan(lake, Window(at(3), at(4))).silent == ()


def test_a_failed_snapshot_hides_every_broker(lake):
    loaded(lake, look(1), look(2, [], "FAILED"))
    made = plan(lake, Window(at(2), at(3)))
    assert made.silent == (Silent(name(2), "a", name(1)), Silent(name(2), "b", name(1)))
    assert made.snapshots == (name(2),)


def test_a_broker_is_forgotten_after_a_day(lake):
    day = 24 * 60
    loaded(lake, look(-day, ["b"]), look(-day - 1, ["c"]), look(0, ["a"]))
    made = plan(lake, Window(at(0), at(1)))
    assert made.silent == (Silent(name(0), "b", name(-day)),)


def test_a_silent_broker_of_one_cluster_says_nothing_of_another(lake):
    loaded(lake, look(1), look(2, ["x"], "COMPLETE", cluster="other"))
    made = plan(lake, Window(at(2), at(3)))
    assert made.silent == ()
    assert made.earlier == (name(1),)


def test_before_a_partial_snapshot_the_last_minutes_are_read_too(lake):
    """A queue that a partial snapshot lacks was observed before it, within the longest hole."""
    loaded(lake, look(-11), look(-9), look(0, BOTH, "PARTIAL"), look(1))
    assert plan(lake, Window(at(1), at(2))).earlier == (name(-9), name(0))


def test_what_the_newest_snapshot_does_not_hold_is_read_where_it_was_last_seen(lake):
    """A topic deleted for a minute, or what only deep looks ask clients for."""
    keys = {-11: "old", -9: "deep", -8: "all", -7: "deep", -6: "all", -1: "all", 0: "few"}
    loaded(lake, *(look(minute) | {"keys_read": read} for minute, read in keys.items()))
    assert plan(lake, Window(at(1), at(2))).earlier == (name(-1), name(-7), name(0))


def test_what_comes_back_after_long_is_read_where_it_was_last_seen(lake):
    """A topic deleted for longer than the longest hole, and created again."""
    keys = {-60: "with", -50: "with", -40: "others", -12: "without", -1: "without", 0: "without"}
    loaded(lake, *(look(minute) | {"keys_read": read} for minute, read in keys.items()))
    loaded(lake, look(1) | {"keys_read": "with, and new"}, look(2) | {"keys_read": "without"})
    assert set(plan(lake, Window(at(1), at(2))).earlier) == {name(-50), name(-40), name(0)}
    assert plan(lake, Window(at(2), at(3))).earlier == (name(0), name(1))


def test_what_came_back_is_looked_for_in_few_looks(lake):
    loaded(lake, *(look(-15 - back) | {"keys_read": str(back)} for back in range(20)))
    loaded(lake, look(0) | {"keys_read": "now"}, look(1) | {"keys_read": "new"})
    assert set(plan(lake, Window(at(1), at(2))).earlier) == {
        name(0), name(-15), name(-16), name(-17)
    }  # fmt: skip


def test_before_a_snapshot_with_quarantined_rows_the_last_minutes_are_read_too(lake):
    """A quarantined queue has no observation there; a backfill would find the one before."""
    loaded(lake, look(-11), look(-9), look(0), look(1))
    row = {"observed_at": at(0), "table": "raw.queue_offsets", "reason": "x", "row": "{}"}
    lake.append(quality.QUARANTINE, [row | {"snapshot_id": name(0)}])
    assert plan(lake, Window(at(1), at(2))).earlier == (name(-9), name(0))


def test_rows_that_were_dropped_are_missing_as_those_in_quarantine_are(lake):
    loaded(lake, look(-11), look(-9), look(0), look(1))
    row = {"observed_at": at(0), "table": "raw.queue_offsets", "reason": "x", "row": "{}"}
    row |= {"snapshot_id": name(0), "decided_at": at(9), "author": "eve"}
    lake.append(quality.DECISIONS, [row | {"decision": "dropped"}])
    made = plan(lake, Window(at(1), at(2)))
    assert made.earlier == (name(-9), name(0))
    assert [each.decision for each in made.decisions] == ["dropped"]
    assert [step.lacking for step in steps(lake, Window(at(1), at(2)))] == [(EVERY,), (EVERY,)]
    lake.append(quality.DECISIONS, [row | {"decision": "released", "decided_at": at(10)}])
    assert plan(lake, Window(at(1), at(2))).earlier == (name(0),)


def test_each_broker_has_its_own_previous_snapshot(lake):
    loaded(lake, look(-30), look(0, ["a"], "COMPLETE"), look(1))
    assert set(plan(lake, Window(at(1), at(2))).earlier) == {name(-30), name(0)}


# Windows


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


def test_files_tell_of_their_own_broker_only(lake):
    """Statistics of the past and a store of one broker make no other broker silent."""
    loaded(lake, look(1), of_files(2, "stats_log"), of_files(3, "store", "a"), look(4, ["a"]))
    found = plan(lake, Window(at(2), at(5)))
    assert found.silent == (Silent(name(4), "b", name(1)),)


def test_observations_are_counted_in_each_cluster_nine_before_the_first(lake):
    loaded(lake, *(look(minute) for minute in range(15)), look(12.5, cluster="other"))
    loaded(lake, of_files(11.5, "stats_log"), of_files(11.7, "local_offsets"))
    found = {it.snapshot_id: it for it in plan(lake, Window(at(12), at(14))).observations}
    start = found[name(12)].number
    assert found.pop(name(12.5, "other")).counts_for == {name(12.5, "other"): 0}
    assert {key: it.number - start for key, it in found.items()} == {
        name(minute): minute - 12 for minute in range(3, 14)
    }
    counts_for = {key: dict(it.counts_for) for key, it in found.items()}
    assert counts_for.pop(name(3)) == {name(12): 9}
    assert counts_for.pop(name(13)) == {name(13): 0}
    assert counts_for == {
        name(minute): {name(12): 12 - minute, name(13): 13 - minute} for minute in range(4, 13)
    }
    assert set(plan(lake, Window(at(12), at(14))).recent) == {name(m) for m in range(3, 12)}


def test_what_was_observed_before_a_pause_counts_no_more(lake):
    pause = PAUSE / timedelta(minutes=1)
    loaded(lake, look(0), look(1), look(1 + pause), look(2 + 2 * pause))
    whole = plan(lake, Window(at(0), at(3 + 2 * pause))).observations
    assert [it.number - whole[0].number for it in whole] == [0, 1, 2, 12]
    assert whole[2].counts_for == {name(1 + pause): 0}
    assert plan(lake, Window(at(2 + 2 * pause), at(3 + 2 * pause))).recent == ()


def told(lake, first, end):
    """Steps of a window as (minute, broker, minute before, down)."""
    return [
        (
            (step.observed_at - NOON) / timedelta(minutes=1),
            step.broker,
            (step.previous_at - NOON) / timedelta(minutes=1),
            step.down,
        )
        for step in steps(lake, Window(at(first), at(end)))
    ]


def test_a_broker_goes_down_once_and_its_next_step_leads_over_the_hole(lake):
    loaded(lake, look(0), look(1, ["a"]), look(2, ["a"]), look(3), look(4, ["a"]))
    expected = [
        (1, "a", 0, False),
        (1, "b", 0, True),
        (2, "a", 1, False),
        (3, "a", 2, False),
        (3, "b", 0, False),
        (4, "a", 3, False),
        (4, "b", 3, True),
    ]
    assert told(lake, 0, 5) == expected
    assert [step for first in range(5) for step in told(lake, first, first + 1)] == expected


def test_only_a_look_that_asked_the_broker_finds_it_down(lake):
    failed = look(1, [], status="FAILED")
    loaded(lake, look(0), failed, of_files(2, "store", "a"), of_files(3, "stats_log"))
    assert [step for step in told(lake, 0, 4) if step[3]] == []
    loaded(lake, look(4, [], status="FAILED") | {"brokers_expected": 2})
    assert [step for step in told(lake, 4, 5) if step[3]] == [(4, "a", 2, True), (4, "b", 0, True)]


ORDERS_OF_A = '{"broker": "a", "topic": "orders"}'


@pytest.mark.parametrize(
    "table, row, lacking",
    [
        ("raw.queue_offsets", ORDERS_OF_A, {"a": ("orders",), "b": ()}),
        ("raw.consumer_offsets", ORDERS_OF_A, {"a": ("orders",), "b": ()}),
        ("raw.queue_offsets", '{"broker": null}', {"a": (EVERY,), "b": (EVERY,)}),
        ("raw.clients", '{"client_id": null}', {"a": (), "b": ()}),
    ],
)
def test_a_step_from_or_to_a_look_tells_what_is_set_aside(lake, table, row, lacking):
    loaded(lake, *(look(minute) for minute in range(4)))
    found = {"observed_at": at(1), "table": table, "reason": "x", "row": row}
    lake.append(quality.QUARANTINE, [found | {"snapshot_id": name(1)}])
    told = {(step.snapshot_id, step.broker): step.lacking for step in steps(lake, window(0, 5))}
    assert told == {
        (name(minute), broker): lacking[broker] if minute in (1, 2) else ()
        for minute in (1, 2, 3)
        for broker in BOTH
    }


def test_of_very_many_rows_set_aside_no_one_is_asked_which_queue_it_hides(lake, monkeypatch):
    monkeypatch.setattr(history, "MANY", 1)
    loaded(lake, look(0), look(1))
    row = {"observed_at": at(0), "table": "raw.queue_offsets", "reason": "x", "row": ORDERS_OF_A}
    lake.append(quality.QUARANTINE, [row | {"snapshot_id": name(0)}] * 2)
    assert [step.lacking for step in steps(lake, window(0, 5))] == [(EVERY,), (EVERY,)]
