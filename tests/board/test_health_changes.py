"""Changes of health of many hours: copied by hour and day, and missing where they are not yet."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.board_home import CLUSTER, group, rows_of
from tests.support.lake_copies import copied
from tidemark.board.group_history import HealthChanges
from tidemark.board.store import Store
from tidemark.board.trends import read_trends
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress
from tidemark.settings.home import Home

pytestmark = pytest.mark.slow

NOW = datetime(2026, 11, 24, 2, 30, tzinfo=UTC)
WINDOW = Window.through(NOW - timedelta(hours=30), NOW)
NOTHING = HealthChanges(window=Window(WINDOW.end, WINDOW.end))


def minutes_ago(count: int) -> datetime:
    return NOW - timedelta(minutes=count)


STALLED = {*range(1000, 1060, 10), 150, 160}
"""Minutes before `NOW` at which billing is stalled: over the end of an hour, and at midnight."""

UNSEEN = range(1200, 1300)
"""Minutes before `NOW` at which nothing was observed; afterwards billing is losing messages."""

WITH_ROWS = [
    Window(WINDOW.start, datetime(2026, 11, 23, 5, tzinfo=UTC)),
    Window(datetime(2026, 11, 23, 6, tzinfo=UTC), WINDOW.end),
]
"""The parts of `WINDOW` whose hours have rows."""


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory, empty_lake: Lake) -> Lake:
    """Thirty hours, an observation every ten minutes; mailer is always well."""
    lake = copied(empty_lake, Home.of(tmp_path_factory.mktemp("day") / "home"))
    rows = []
    for back in range(0, 1800, 10):
        if back in UNSEEN:
            continue
        state = "STALLED" if back in STALLED else "LOSING" if back == 1190 else "OK"
        states = [group("billing", health=state), group("mailer", health="OK")]
        rows.append(rows_of(progress.GROUPS, minutes_ago(back), states))
    lake.append(progress.GROUPS, pa.concat_tables(rows))
    return lake


@pytest.fixture
def board(day: Lake, tmp_path: Path) -> Store:
    """A board on these hours, which has copied nothing."""
    return Store(copied(day, Home.of(tmp_path / "home")))


def copy_all(store: Store) -> int:
    count = 0
    while store.health.copy_next(NOW):
        count += 1
    return count


def changes(store: Store, window: Window = WINDOW, **equal: str) -> list[tuple[str, str, datetime]]:
    """Return the changes of copied hours: was, health, instant."""
    rows = store.health.changes(window, NOTHING, equal).newest()
    assert {row["consumer_group"] for row in rows} <= {"billing"}
    return [(row["was"], row["health"], row["observed_at"]) for row in rows]


EXPECTED = [
    ("STALLED", "OK", minutes_ago(140)),
    ("OK", "STALLED", minutes_ago(160)),
    ("STALLED", "OK", minutes_ago(990)),
    ("OK", "STALLED", minutes_ago(1050)),
    ("LOSING", "OK", minutes_ago(1180)),
]
"""LOSING was seen first after more than an hour without an observation: that is no change."""


def test_changes_of_hours_and_days_are_copied(board: Store) -> None:
    assert copy_all(board) > 24
    assert changes(board) == EXPECTED
    hour = Window(minutes_ago(1050), minutes_ago(990))
    assert changes(board, hour) == EXPECTED[3:4], "the end of a window is not inside"
    assert changes(board, cluster=CLUSTER, consumer_group="mailer") == []
    assert changes(board, consumer_group="billing", topic="orders") == EXPECTED
    board.health.remove_old(NOW + timedelta(days=3))
    assert list(board.health.folders[0].iterdir()) == [], "hours are read by the day"
    assert changes(board) == EXPECTED[1:], "the last day is not over, so it has no copy"


def test_hours_without_a_copy_are_missing(board: Store) -> None:
    bare = board.health.changes(WINDOW, NOTHING, {})
    assert bare.rows.num_rows == 0 and bare.missing == WITH_ROWS
    board.health.copy_next(NOW)
    missing = board.health.changes(WINDOW, NOTHING, {}).missing
    assert missing == [
        WITH_ROWS[0],
        Window(WITH_ROWS[1].start, NOW.replace(hour=1, minute=0)),
        Window(NOW.replace(hour=2, minute=0), WINDOW.end),
    ]


def test_the_last_hours_come_from_memory(board: Store) -> None:
    copy_all(board)
    recent = read_trends(board.lake, board.files, {CLUSTER: NOW}).changes
    assert recent is not None
    result = board.health.changes(WINDOW, recent, {})
    assert result.missing == []
    assert len(result.newest()) == len(EXPECTED), "no change is counted twice"
    assert board.health.changes(WINDOW, None, {}).missing, "where memory has nothing"


@pytest.mark.parametrize("size", [0, 60])
def test_a_damaged_copy_is_made_again(board: Store, size: int) -> None:
    copy_all(board)
    for folder in board.health.folders:
        for path in folder.iterdir():
            os.truncate(path, size)
    assert board.health.changes(WINDOW, NOTHING, {}).missing == WITH_ROWS
    copy_all(board)
    assert changes(board) == EXPECTED
