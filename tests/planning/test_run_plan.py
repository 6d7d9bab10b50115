"""The plan of a run: made of few reads, complete, and never changed."""

from dataclasses import FrozenInstanceError, fields
from datetime import timedelta

import pytest

from tests.support.loaded_snapshots import at, load, mark_computed, name, snapshot, window
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress, quality, raw
from tidemark.planning.run_plan import Observation, RunPlan, plan_run
from tidemark.settings.environment import Settings
from tidemark.settings.sections import MEMORY


def test_the_previous_observation_is_the_newest_before_the_window(lake):
    load(lake, snapshot(1), snapshot(2), snapshot(3))
    made = plan_run(lake, Window(at(3), at(4)))
    assert made.snapshot_ids == (name(3),)
    assert made.window == Window(at(3), at(4))
    assert (made.previous, made.recent) == ((name(2),), (name(1), name(2)))
    assert made.observations == tuple(
        Observation(name(minute), minute - 1, {name(3): 3 - minute}) for minute in (1, 2, 3)
    )
    assert (made.rows, made.unreachable, made.decisions) == (0, (), ())


@pytest.fixture(scope="module")
def plan(empty_lake):
    return plan_run(empty_lake, window(3, 4))


@pytest.mark.parametrize("field", [field.name for field in fields(RunPlan)])
def test_nothing_in_a_plan_can_be_replaced(plan, field):
    with pytest.raises(FrozenInstanceError):
        setattr(plan, field, None)


def test_a_plan_reads_each_table_once(lake, monkeypatch):
    load(lake, *(snapshot(minute) for minute in range(4)))
    read, of_table = [], lake.read
    monkeypatch.setattr(
        lake,
        "read",
        lambda table, *given, **named: read.append(table) or of_table(table, *given, **named),
    )
    plan_run(lake, window(3, 4))
    whole = [raw.SNAPSHOTS, quality.DECISIONS, quality.QUARANTINE, progress.SNAPSHOTS]
    # Raw tables are read for one row each besides: whether they have any.
    expected = [*whole, *raw.ALL]
    assert sorted(table.name for table in read) == sorted(table.name for table in expected)


def test_topics_named_after_brokers_are_known_by_their_kind(lake):
    """Each broker and cluster has a topic of its own name; another cluster may use that name."""
    topics = [
        ("lab", "broker-a", "system"),
        ("lab", "RMQ_SYS_TRANS_HALF_TOPIC", "system"),
        ("lab", "orders", "normal"),
        ("other", "broker-a", "normal"),
    ]
    load(lake, snapshot(3))
    row = {"snapshot_id": name(3), "observed_at": at(3), "broker": "a"}
    lake.append(
        raw.TOPICS,
        [
            row | {"cluster": cluster, "topic": topic, "kind": kind}
            for cluster, topic, kind in topics
        ],
    )
    assert plan_run(lake, window(3, 4)).system_topics == (("lab", "broker-a"),)
    assert plan_run(lake, window(4, 5)).system_topics == ()


def test_an_empty_window_reads_nothing(lake, monkeypatch):
    monkeypatch.setattr(lake, "read", None)
    assert plan_run(lake, window(3, 3)) == RunPlan(window=window(3, 3))


def test_a_plan_knows_which_raw_tables_have_rows(lake):
    load(lake, snapshot(3))
    lake.append(raw.TOPICS, [{"snapshot_id": name(3), "observed_at": at(3), "topic": "orders"}])
    assert plan_run(lake, window(3, 4)).filled == {"raw.snapshots", "raw.topics"}
    before = plan_run(lake, window(2, 3))
    assert not before.has_rows(raw.TOPICS, raw.SNAPSHOTS)


@pytest.mark.parametrize(("source", "are_reported"), [("client", True), ("group", False)])
def test_a_plan_knows_whether_members_reported(lake, source, are_reported):
    load(lake, snapshot(3))
    row = {"snapshot_id": name(3), "observed_at": at(3), "subscriptions_source": source}
    lake.append(raw.CLIENTS, [row | {"cluster": "lab", "consumer_group": "g", "client_id": "c"}])
    assert plan_run(lake, window(3, 4)).members_reported is are_reported
    assert plan_run(lake, window(2, 3)).members_reported is False


def test_queues_that_a_member_holds_are_reported(lake):
    load(lake, snapshot(3))
    row = {"snapshot_id": name(3), "observed_at": at(3), "cluster": "lab", "queue_id": 0}
    pair = {"broker": "a", "topic": "orders", "consumer_group": "g", "client_id": "c"}
    lake.append(raw.CLIENT_QUEUES, [row | pair])
    assert plan_run(lake, window(3, 4)).members_reported


def test_only_snapshots_newer_than_the_computed_ones_are_new(lake):
    load(lake, snapshot(1), snapshot(2), snapshot(3), snapshot(1, cluster="other"))
    mark_computed(lake, 2)
    assert [
        loaded_snapshot.snapshot_id for loaded_snapshot in plan_run(lake, window(0, 4)).new
    ] == [
        name(1, "other"),
        name(3),
    ]


def test_a_computed_snapshot_of_the_future_keeps_no_incident_where_it_is(lake):
    load(lake, snapshot(2), snapshot(3), snapshot(9 * 60))
    mark_computed(lake, 2, 9 * 60)
    assert [
        loaded_snapshot.snapshot_id for loaded_snapshot in plan_run(lake, window(0, 4)).new
    ] == [name(3)]


def test_snapshots_shortly_before_the_window_have_their_age(lake):
    day = MEMORY.total_seconds() / 60
    load(lake, snapshot(-day - 1), snapshot(-day + 5), snapshot(-9), snapshot(3))
    made = plan_run(lake, window(3, 4))
    assert [loaded_snapshot.snapshot_id for loaded_snapshot in made.known] == [
        name(-day + 5),
        name(-9),
        name(3),
    ]
    assert made.before(at(3) - at(-10)) == (name(-9),)
    assert made.before(at(3) - at(-9)) == (name(-9),)
    assert made.before(at(3) - at(-8)) == ()


def test_how_far_a_plan_reaches_follows_the_variables(monkeypatch):
    monkeypatch.setenv("TIDEMARK_GAP_MINUTES", "3")
    monkeypatch.setenv("TIDEMARK_TIMELINE_HOURS", "1")
    made = RunPlan(window=window(0, 60), settings=Settings.read().history)
    assert made.reach == Window(at(0) - MEMORY - timedelta(minutes=3), at(60))
    assert made.dated == Window(at(-60), at(0))
