"""Snapshots that cannot be landed wait, also for a later process, and land in their order."""

from datetime import UTC, datetime

import pytest

from tests.support.cluster_history import Minute, snapshot
from tidemark.collection.continuous import Landings, Waiting
from tidemark.lake.landing import land, landed
from tidemark.lake.landing_places import Disk
from tidemark.settings.home import Home

START = datetime(2026, 11, 19, 12, tzinfo=UTC)


@pytest.fixture
def home(tmp_path):
    return Home.of(tmp_path / "home")


@pytest.fixture
def refusing(tmp_path):
    """A landing whose place a file takes."""
    place = Disk(tmp_path / "landing")
    place.root.write_text("in the way")
    return place


def taken(minute):
    return snapshot(START, Minute(at=minute))


def ids(place):
    return [item.snapshot_id for item in sorted(landed(place))]


def test_what_is_refused_waits_and_lands_in_order(home, refusing):
    waiting = Waiting(refusing, home, "past")
    snapshots = [taken(minute) for minute in (1, 2, 3)]
    with pytest.raises(OSError):
        waiting.land(snapshots[0])
    assert waiting.is_any()
    refusing.root.unlink()
    for item in snapshots[1:]:
        waiting.land(item)
    assert ids(refusing) == [], "none lands before those that wait"
    assert waiting.land_waiting(0) == 1
    assert ids(refusing) == [snapshots[0].snapshot_id]
    assert waiting.land_waiting(60) == 2
    assert ids(refusing) == [item.snapshot_id for item in snapshots]
    assert not waiting.is_any()
    assert not any((home.path / "waiting").rglob("*.parquet"))


def test_what_cannot_wait_is_lost_and_not_reported_as_collected(home, refusing):
    collected, warned = [], []
    landings = Landings(refusing, home, "past", collected.append, warned.append)
    landings.land(taken(1))
    assert len(collected) == 1
    assert "wait on this host" in warned[-1]
    hour = next((home.path / "waiting").rglob("12"))
    (hour.parent / "13").write_text("in the way")
    landings.land(taken(61))
    assert len(collected) == 1
    assert "trying again" in warned[-1]


def test_a_later_process_lands_what_waited(home, refusing, tmp_path):
    with pytest.raises(OSError):
        Waiting(refusing, home, "a/b").land(taken(1))
    refusing.root.unlink()
    assert Waiting(refusing, home, "another").land_waiting(60) == 0
    assert Waiting(refusing, home, "a/b").land_waiting(60) == 1
    other = Disk(tmp_path / "other")
    land(other, taken(1))
    (item,), (expected,) = landed(refusing), landed(other)
    assert item.files().keys() == expected.files().keys()
    for table, path in expected.files().items():
        assert item.files()[table].read_bytes() == path.read_bytes(), table


def test_what_landed_before_a_kill_is_not_landed_twice(home, refusing):
    waiting = Waiting(refusing, home, "past")
    with pytest.raises(OSError):
        waiting.land(taken(1))
    refusing.root.unlink()
    land(refusing, taken(1))
    assert waiting.land_waiting(60) == 1
    assert len(ids(refusing)) == 1


def test_without_a_home_nothing_waits(refusing):
    waiting = Waiting(refusing, None, "past")
    with pytest.raises(OSError):
        waiting.land(taken(1))
    assert not waiting.is_any()
    assert waiting.land_waiting(60) == 0
