"""Store times from the history of queues, read from Iceberg without Spark."""

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.lake_copies import copied
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.tables import TABLES
from tidemark.live import broker_times, history_times, lag
from tidemark.live.broker_times import (
    Observation,
    Step,
    StoreTime,
    StoreTimes,
    group_queue,
    undated,
)
from tidemark.live.history_times import Limits, read
from tidemark.live.lag import group_rows
from tidemark.rocketmq.records import ConsumerOffset, QueueOffset, Snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.settings.basics import BasicSettings
from tidemark.settings.home import Home

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
PATIENT = Limits(seconds=60.0)
"""A busy machine must not cut a test short."""

Seen = tuple[float, int]
"""One observation of a queue: minutes before now, and max_offset."""


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def timeline(topic: str, seen: Sequence[Seen], *, begins: bool = False) -> list[dict[str, Any]]:
    """The steps between observations; with ``begins`` the first one has none before it."""
    rows = []
    for previous, (minutes, maximum) in zip([None, *seen], seen, strict=False):
        if previous is None and not begins:
            continue
        rows.append(
            {
                "cluster": "lab",
                "broker": "broker-a",
                "topic": topic,
                "queue_id": 0,
                "max_offset": maximum,
                "newest_stored_at": ago(minutes),
                "observed_at": ago(minutes),
                "previous_max_offset": previous[1] if previous else None,
                "previous_at": ago(previous[0]) if previous else None,
            }
        )
    return rows


def snapshot(**queues: tuple[int, int]) -> Snapshot:
    """A queue per topic: the group's consumer offset and max_offset."""
    taken = Snapshot(cluster="lab", source="remote", observed_at=NOW, status="COMPLETE")
    for topic, (committed, maximum) in queues.items():
        taken.queue_offsets.append(
            QueueOffset(
                broker="broker-a",
                topic=topic,
                queue_id=0,
                min_offset=0,
                max_offset=maximum,
                newest_stored_at=NOW,
            )
        )
        taken.consumer_offsets.append(
            ConsumerOffset(
                broker="broker-a",
                consumer_group="billing",
                topic=topic,
                queue_id=0,
                client_id=None,
                consumer_offset=committed,
            )
        )
    return taken


@pytest.fixture
def home(tmp_path) -> Home:
    return Home.of(tmp_path / "home")


@pytest.fixture
def write(home: Home, empty_lake: Lake) -> Callable[..., int]:
    """A function that creates the home's history where needed and adds rows to it."""
    return lambda *rows: copied(empty_lake, home).append(TABLES["progress.timeline"], list(rows))


def times_of(home: Home, taken: Snapshot, limits: Limits = PATIENT) -> dict[str, StoreTime]:
    times = read(CatalogConfig.of(home), taken, list(undated(taken)), limits)
    return {key.topic: time for key, time in times.known.items()}


def interpolated(minutes: float, error_minutes: float) -> StoreTime:
    return StoreTime(ago(minutes), "interpolated", round(error_minutes * 60_000))


def test_messages_are_dated_by_the_step_they_came_in(home, write):
    # 100 messages each 10 minutes; message 149 is the 50th of 100 between two observations.
    grown = [(40, 0), (30, 100), (20, 200), (10, 300)]
    write(*timeline("old", grown), *timeline("new", grown))
    assert times_of(home, snapshot(old=(149, 400), new=(349, 400), none=(1, 9))) == {
        "old": interpolated(25, 10),
        "new": interpolated(5, 10),
    }


def test_messages_older_than_the_history_have_a_bound(home, write):
    write(*timeline("t", [(40, 100), (30, 200)]), *timeline("u", [(9, 50)], begins=True))
    assert times_of(home, snapshot(t=(50, 200), u=(20, 50))) == {
        "t": StoreTime(ago(30), "at_least", None),
        "u": StoreTime(ago(9), "at_least", None),
    }


def test_what_snapshots_learned_of_the_same_message_stays(home, empty_lake):
    """Other messages, those of a topic created again, and older snapshots have no say."""
    lake = copied(empty_lake, home)
    mark = {"cluster": "lab", "observed_at": ago(2), "snapshot_id": "newest"}
    old = {"cluster": "lab", "observed_at": ago(3), "snapshot_id": "older"}
    lake.append(TABLES["progress.snapshots"], [mark, old])
    lake.append(TABLES["progress.timeline"], timeline("bound", [(30, 200)], begins=True))

    def kept(topic: str, source: str, minutes: float, error: int | None = 0, **other: Any) -> Any:
        row = {"broker": "broker-a", "topic": topic, "queue_id": 0, "consumer_group": "billing"}
        row |= {"offset_store": "broker", "consumer_offset": 50, "min_offset": 0, "max_offset": 200}
        row |= {"readable_lag": 150, "delay_source": source, "delay_error_ms": error}
        return mark | row | {"consumer_at": ago(minutes)} | other

    rows = [
        kept("exact", "exact", 70),
        kept("bound", "at_least", 90, None),
        kept("consumed", "exact", 70, consumer_offset=49),
        kept("recreated", "exact", 70, max_offset=500),
        kept("gone", "exact", 70) | old,
    ]
    lake.append(TABLES["progress.queues"], rows)
    taken = snapshot(**{row["topic"]: (50, 300) for row in rows})
    assert times_of(home, taken) == {
        "exact": StoreTime(ago(70), "exact", 0),
        "bound": StoreTime(ago(90), "at_least", None),
    }


def test_nothing_before_a_fall_dates_a_message(home, write):
    write(
        # Recreated 20 minutes ago: its message 29 is the 30th of 60 since the snapshot before.
        *timeline("past", [(50, 10), (40, 1000), (20, 60), (10, 90)]),
        # Recreated since the last observation.
        *timeline("now", [(50, 10), (40, 1000)]),
    )
    assert times_of(home, snapshot(past=(29, 100), now=(29, 60))) == {
        "past": interpolated(30, 20),
        "now": interpolated(20, 40),
    }


def test_old_spans_are_read_until_a_message_is_found(home, write):
    day = 24 * 60
    write(*timeline("t", [(2 * day, 0), (2 * day - 10, 100), (30, 200)]))
    assert times_of(home, snapshot(t=(49, 300))) == {"t": interpolated(2 * day - 5, 10)}


def test_reading_stops_at_its_limits(home, write):
    write(*timeline("t", [(300, 0), (200, 100), (30, 200)]))
    first_hour_only = times_of(home, snapshot(t=(49, 300)), Limits(rows=1, seconds=60.0))
    assert first_hour_only == {} or first_hour_only["t"].source == "at_least"
    assert times_of(home, snapshot(t=(49, 300)), Limits(rows=0, seconds=60.0)) == {}


def test_other_clusters_are_no_history(home, write):
    rows = timeline("t", [(40, 0), (30, 100)])
    write(*(row | {"cluster": "other"} for row in rows))
    assert times_of(home, snapshot(t=(49, 100))) == {}


@pytest.mark.parametrize("seed", range(3))
def test_any_history_gives_what_its_steps_give(home, write, seed):
    """Against the steps in plain Python, with falls and several groups on a queue."""
    rng = random.Random(seed)
    rows, expected, taken = (
        [],
        {},
        Snapshot(cluster="lab", source="remote", observed_at=NOW, status="COMPLETE"),
    )
    for number in range(12):
        topic, maximum, seen = f"t{number}", rng.randrange(40), []
        for minutes in sorted(rng.sample(range(1, 3000), 9), reverse=True):
            falls_to = rng.randrange(30) if rng.random() < 0.2 else maximum
            maximum = falls_to if falls_to != maximum else maximum + rng.randrange(1, 40)
            seen.append((minutes, maximum))
        rows += timeline(topic, seen)
        end = maximum + rng.randrange(2, 50)
        taken.queue_offsets.append(
            QueueOffset(
                broker="broker-a",
                topic=topic,
                queue_id=0,
                min_offset=0,
                max_offset=end,
                newest_stored_at=ago(0.5),
            )
        )
        for group in ("a", "b"):
            row = ConsumerOffset(
                broker="broker-a",
                consumer_group=group,
                topic=topic,
                queue_id=0,
                client_id=None,
                consumer_offset=rng.randrange(end - 1),
            )
            taken.consumer_offsets.append(row)
            expected[group_queue(row)] = _by_hand([*seen, (0, end)], row.consumer_offset or 0)
    write(*rows)
    assert read(CatalogConfig.of(home), taken, list(undated(taken)), PATIENT).known == expected


def _by_hand(seen: list[Seen], offset: int) -> StoreTime:
    falls = [i for i in range(1, len(seen)) if seen[i][1] < seen[i - 1][1]]
    start = falls[-1] if falls else 0
    above = next(i for i in range(start, len(seen)) if seen[i][1] > offset)
    if above == 0:
        above, before = 1, None
    else:
        before = Observation(seen[above - 1][1], ago(seen[above - 1][0]))
    minutes, maximum = seen[above]
    newest = ago(0.5) if above == len(seen) - 1 else ago(minutes)
    if before is None:
        before = Observation(seen[0][1], ago(seen[0][0]))
    return Step(before, Observation(maximum, ago(minutes)), newest).store_time(offset)


def test_brokers_date_few_messages_and_history_the_rest(home, write, monkeypatch):
    write(*timeline("t", [(40, 0), (30, 100)]), *timeline("u", [(40, 0), (30, 100)]))
    taken = snapshot(t=(49, 100), u=(49, 100))
    requested = []

    def exact(target, snapshot, wanted):
        requested.append([item.row.topic for item in wanted])
        first = next((item for item in wanted if item.row.topic == "t"), None)
        times = StoreTimes()
        if first:
            times.known[group_queue(first.row)] = StoreTime(ago(33), "exact", 1)
        return times

    monkeypatch.setattr(broker_times, "requested", exact)
    times = lag.store_times(
        lambda: CatalogConfig.of(home), ClusterTarget(name_servers=("x:1",)), taken
    )
    rows = {row["topic"]: row for row in group_rows(taken, times)}
    assert requested == [["t", "u"]]
    assert [(rows[name]["delay_ms"], rows[name]["delay_source"]) for name in "tu"] == [
        (33 * 60_000, "exact"),
        (35 * 60_000, "interpolated"),
    ]


def test_brokers_date_many_messages_where_history_is_missing(home, write, monkeypatch):
    """An error of 10 minutes is little for a message of two hours, and much for a new one."""
    write(
        *timeline("old", [(130, 0), (120, 100), (1, 100)]),
        *timeline("new", [(130, 0), (11, 100), (1, 200)]),
    )
    taken = snapshot(old=(49, 100), new=(149, 200))
    requested = []

    def nothing(target, snapshot, wanted):
        requested.append([item.row.topic for item in wanted])
        return StoreTimes()

    monkeypatch.setattr(broker_times, "requested", nothing)
    monkeypatch.setattr(lag, "FEW_REQUESTS", 1)
    times = lag.store_times(
        lambda: CatalogConfig.of(home), ClusterTarget(name_servers=("x:1",)), taken
    )
    rows = {row["topic"]: row for row in group_rows(taken, times)}
    assert requested == [["new"]]
    assert rows["old"]["delay_ms"] == 125 * 60_000
    assert rows["new"]["delay_source"] == "interpolated", "what no broker dates, history does"


def test_a_home_without_history_imports_nothing_for_it(home, monkeypatch):
    assert not BasicSettings(home=home).has_history
    monkeypatch.setattr(broker_times, "requested", lambda *_: StoreTimes())
    monkeypatch.setattr(history_times, "read", lambda *_: pytest.fail("there is none to read"))
    taken = snapshot(t=(49, 100))
    assert lag.store_times(None, ClusterTarget(name_servers=("x:1",)), taken).known == {}
    assert not home.path.exists(), "reading creates no tables"


def test_a_damaged_history_is_a_problem_and_no_failure(home, monkeypatch):
    home.path.mkdir()
    home.catalog.write_text("no database")
    monkeypatch.setattr(broker_times, "requested", lambda *_: StoreTimes())
    times = lag.store_times(
        lambda: CatalogConfig.of(home), ClusterTarget(name_servers=("x:1",)), snapshot(t=(49, 100))
    )
    assert times.known == {} and len(times.problems) == 1
    assert "progress.timeline" in times.problems[0]
