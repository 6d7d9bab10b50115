"""How groups consumed is read from the history of a home, and forgotten after a day."""

from datetime import UTC, datetime, timedelta

import pytest

from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.tables.progress import QUEUES, SNAPSHOTS
from tidemark.live.broker_times import ByOurClock
from tidemark.live.history_times import consume_modes
from tidemark.live.lag import group_rows
from tidemark.rocketmq.records import ConsumerOffset, QueueOffset, Snapshot

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def taken(**request_modes: str | None) -> ByOurClock:
    """A group without members that has taken all of each topic."""
    made = Snapshot(cluster="lab", source="remote", observed_at=NOW, status="COMPLETE")
    for topic, mode in request_modes.items():
        made.queue_offsets.append(
            QueueOffset(
                broker="broker-a",
                topic=topic,
                queue_id=0,
                min_offset=0,
                max_offset=10,
                newest_stored_at=NOW,
            )
        )
        offset = ConsumerOffset(
            broker="broker-a",
            consumer_group="g",
            topic=topic,
            queue_id=0,
            client_id=None,
            consumer_offset=10,
            request_mode=mode,
        )
        made.consumer_offsets.append(offset)
    return ByOurClock(made)


def computed(lake: Lake, hours_ago: float, **modes: tuple[str | None, float | None]) -> None:
    """A computed snapshot: by topic the mode of the group, and how many hours before it showed."""
    at = NOW - timedelta(hours=hours_ago)
    where = {"snapshot_id": f"{hours_ago}", "observed_at": at, "cluster": "lab"}
    rows = [
        where
        | {"broker": "broker-a", "topic": topic, "queue_id": queue_id, "consumer_group": "g"}
        | {"consume_mode": mode, "consume_mode_at": None if ago is None else at - ago * HOUR}
        for topic, (mode, ago) in modes.items()
        for queue_id in range(2)
    ]
    lake.append(QUEUES, rows)
    lake.append(SNAPSHOTS, [where])


def test_a_mode_is_remembered_when_the_members_have_left(lake: Lake) -> None:
    computed(lake, 2, popped=("pull", 0), gone=("pop", 0))
    computed(lake, 1, popped=("pop", 3), old=("pop", 23.5), pulled=("pull", 0), never=(None, None))
    snapshot = taken(popped=None, old=None, pulled=None, never=None, gone=None, reported="pull")
    modes = consume_modes(CatalogConfig.of(lake.home), snapshot)
    assert modes == {("g", "popped"): "pop", ("g", "pulled"): "pull"}, "of the newest, for a day"
    rows = {row["topic"]: row for row in group_rows(snapshot, remembered=modes)}
    marks = {topic: row["lag_is_lower_bound"] for topic, row in rows.items()}
    assert marks == {
        **{"popped": True, "pulled": False, "reported": False},
        **dict.fromkeys(("old", "never", "gone")),
    }
    assert {row["lag_is_lower_bound"] for row in group_rows(snapshot)} == {None, False}


@pytest.mark.parametrize(("shown", "mode"), [("pull", "pull"), ("pop", "pop")])
def test_what_the_snapshot_shows_outweighs_memory(shown: str, mode: str) -> None:
    other = {"pull": "pop", "pop": "pull"}[shown]
    (row,) = group_rows(taken(orders=shown), remembered={("g", "orders"): other})
    assert row["consume_mode"] == mode


def test_a_home_without_computed_snapshots_remembers_nothing(lake: Lake) -> None:
    assert consume_modes(CatalogConfig.of(lake.home), taken(orders=None)) == {}
