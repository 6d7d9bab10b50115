"""Steps of brokers, and the topics that they lack."""

from datetime import timedelta

import pytest

from tests.support.loaded_snapshots import BOTH, NOON, at, load, name, of_files, snapshot, window
from tidemark.lake.clocks import Window
from tidemark.lake.tables import quality
from tidemark.planning import lacking_parts
from tidemark.planning.lacking_parts import read_quarantine, united
from tidemark.planning.observation_steps import EVERY, with_lacking
from tidemark.planning.run_plan import plan_run


def steps_of(lake, first, end):
    """Steps of a window as (minute, broker, minute before, down)."""
    return [
        (
            (step.observed_at - NOON) / timedelta(minutes=1),
            step.broker,
            (step.previous_at - NOON) / timedelta(minutes=1),
            step.down,
        )
        for step in plan_run(lake, Window(at(first), at(end))).steps
    ]


def test_a_brokers_next_step_leads_over_its_outage(lake):
    load(lake, snapshot(0), snapshot(1, ["a"]), snapshot(2, ["a"]), snapshot(3), snapshot(4, ["a"]))
    expected = [
        (1, "a", 0, False),
        (1, "b", 0, True),
        (2, "a", 1, False),
        (3, "a", 2, False),
        (3, "b", 0, False),
        (4, "a", 3, False),
        (4, "b", 3, True),
    ]
    assert steps_of(lake, 0, 5) == expected
    assert [step for first in range(5) for step in steps_of(lake, first, first + 1)] == expected


def test_only_a_live_snapshot_finds_a_broker_down(lake):
    failed = snapshot(1, [], status="FAILED")
    load(lake, snapshot(0), failed, of_files(2, "store", "a"), of_files(3, "stats_log"))
    assert [step for step in steps_of(lake, 0, 4) if step[3]] == []
    load(lake, snapshot(4, [], status="FAILED") | {"brokers_expected": 2})
    assert [step for step in steps_of(lake, 4, 5) if step[3]] == [
        (4, "a", 0, True),
        (4, "b", 0, True),
    ]


def test_steps_of_different_sources_never_meet(lake):
    """The files of a store are older than what the broker reports at the same instant."""
    load(lake, snapshot(0), of_files(1, "store", "a"), snapshot(2), of_files(3, "store", "a"))
    assert steps_of(lake, 0, 4) == [(2, "a", 0, False), (2, "b", 0, False), (3, "a", 1, False)]


def test_a_store_does_not_bring_a_broker_back(lake):
    down = snapshot(1, ["b"]), snapshot(3, ["b"])
    load(lake, snapshot(0), *down, of_files(2, "store", "a"))
    assert [step for step in steps_of(lake, 0, 4) if step[1] == "a"] == [(1, "a", 0, True)]


def lacking_steps(lake, first, end):
    """Steps of a window with the topics that are hidden at either end."""
    plan = plan_run(lake, window(first, end))
    inside = read_quarantine(lake, plan.window, plan.decisions)
    return with_lacking(plan.steps, united(plan.quarantined.hidden, inside.hidden))


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
def test_a_step_names_the_quarantined_rows_of_its_ends(lake, table, row, lacking):
    load(lake, *(snapshot(minute) for minute in range(4)))
    quarantined = {"observed_at": at(1), "table": table, "reason": "x", "row": row}
    lake.append(quality.QUARANTINE, [quarantined | {"snapshot_id": name(1)}])
    texts = {(step.snapshot_id, step.broker): step.lacking for step in lacking_steps(lake, 0, 5)}
    assert texts == {
        (name(minute), broker): lacking[broker] if minute in (1, 2) else ()
        for minute in (1, 2, 3)
        for broker in BOTH
    }


def test_very_many_quarantined_rows_hide_every_queue(lake, monkeypatch):
    monkeypatch.setattr(lacking_parts, "MANY", 1)
    load(lake, snapshot(0), snapshot(1))
    row = {"observed_at": at(0), "table": "raw.queue_offsets", "reason": "x", "row": ORDERS_OF_A}
    lake.append(quality.QUARANTINE, [row | {"snapshot_id": name(0)}] * 2)
    assert [step.lacking for step in lacking_steps(lake, 0, 5)] == [(EVERY,), (EVERY,)]


def test_dropped_rows_are_missing_like_quarantined_ones(lake):
    load(lake, snapshot(-11), snapshot(-9), snapshot(0), snapshot(1))
    row = {"observed_at": at(0), "table": "raw.queue_offsets", "reason": "x", "row": "{}"}
    row |= {"snapshot_id": name(0), "decided_at": at(9), "author": "eve"}
    lake.append(quality.DECISIONS, [row | {"decision": "dropped"}])
    made = plan_run(lake, Window(at(1), at(2)))
    assert made.previous == (name(-9), name(0))
    assert [decision.decision for decision in made.decisions] == ["dropped"]
    assert [step.lacking for step in lacking_steps(lake, 1, 2)] == [(EVERY,), (EVERY,)]
    lake.append(quality.DECISIONS, [row | {"decision": "released", "decided_at": at(10)}])
    assert plan_run(lake, Window(at(1), at(2))).previous == (name(0),)
