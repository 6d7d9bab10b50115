"""Copies of the past in the order of groups: the same rows, made again when tables change."""

import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.board_home import CLUSTER, add_snapshot, group, queue, rows_of
from tests.support.lake_copies import copied
from tidemark.board.copies import start
from tidemark.board.data_files import DataFiles
from tidemark.board.group_history import COLUMNS, ERROR, MOST, GroupCopies
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress
from tidemark.settings.home import Home

pytestmark = pytest.mark.slow

NOW = datetime(2026, 11, 24, 2, 30, tzinfo=UTC)
WINDOW = Window.through(NOW - timedelta(hours=30), NOW)
HOURS = Window(NOW - timedelta(hours=5), NOW)
MAILER = {"cluster": CLUSTER, "consumer_group": "mailer", "topic": "orders"}
NAMES = (*COLUMNS, ERROR)
PLAIN = ["observed_at", "lag", "delay_ms", "delay_error_ms"]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory, empty_lake: Lake) -> Lake:
    """A day of mailer, an observation every 20 minutes, with a gap of an hour."""
    lake = copied(empty_lake, Home.of(tmp_path_factory.mktemp("day") / "home"))
    groups, queues = [], []
    for back in range(90):
        if 30 <= back < 33:
            continue
        at = NOW - timedelta(minutes=20 * back)
        rows = [group(name, lag=back, delay_ms=60_000 + back) for name in ("other", "mailer")]
        groups.append(rows_of(progress.GROUPS, at, rows))
        rows = [
            queue("mailer", number, delay_ms=60_000 + back - number, delay_error_ms=700 + number)
            for number in range(2)
        ]
        queues.append(rows_of(progress.QUEUES, at, rows))
    lake.append(progress.GROUPS, pa.concat_tables(groups))
    lake.append(progress.QUEUES, pa.concat_tables(queues))
    return lake


@pytest.fixture
def past(day: Lake, tmp_path: Path) -> Store:
    """A board on that day, which has copied nothing."""
    return Store(copied(day, Home.of(tmp_path / "home")))


@dataclass(frozen=True, kw_only=True)
class Copying:
    """Rows before and after all hours of that day are copied.

    Attributes:
        before: rows of `HOURS`, read from the tables.
        copies: how many copies were made.
        after: the same rows, read from the copies.
        folder: the folder of the copies.
    """

    before: pa.Table
    copies: int
    after: pa.Table
    folder: Path


@pytest.fixture(scope="module")
def copying(day: Lake, tmp_path_factory: pytest.TempPathFactory) -> Copying:
    store = Store(copied(day, Home.of(tmp_path_factory.mktemp("copies") / "home")))
    before = store.groups.rows(HOURS, MAILER, NAMES, by_day=False).select(PLAIN)
    copies = copy_all(store)
    after = store.groups.rows(HOURS, MAILER, NAMES, by_day=False).select(PLAIN)
    return Copying(before=before, copies=copies, after=after, folder=store.lake.home.path / "board")


@pytest.fixture
def with_copies(past: Store, copying: Copying) -> Store:
    """A board on that day which has copied all of it."""
    shutil.copytree(copying.folder, past.lake.home.path / "board")
    assert copy_all(past) == 0
    return past


def copy_all(store: Store) -> int:
    count = 0
    while store.copies.copy_next(NOW):
        count += 1
    return count


def test_copies_hold_what_the_tables_hold(copying: Copying) -> None:
    assert copying.copies > 24
    assert copying.after.equals(copying.before) and copying.after.num_rows == 15
    assert set(copying.after["delay_error_ms"].to_pylist()) == {700}, "of the most delayed queue"


def test_a_day_has_points_with_last_and_largest(with_copies: Store) -> None:
    rows = with_copies.groups.rows(WINDOW, MAILER, NAMES, by_day=True)
    at = rows["observed_at"].to_pylist()
    assert at == sorted(at) and len(at) == 87
    # 20 minutes apart, so that every point holds one observation.
    assert rows["lag"].to_pylist() == rows[f"{MOST}lag"].to_pylist()
    assert rows["lag"].to_pylist()[:2] == [89, 88]
    midnight = NOW.replace(hour=0, minute=0)
    assert all(item.minute % 15 == 0 for item in at if item < midnight)
    assert any(item.minute % 15 for item in at if item >= midnight), "today is not over"


def test_an_hour_that_changes_is_copied_again(with_copies: Store) -> None:
    lake = with_copies.lake
    add_snapshot(lake, NOW - timedelta(hours=4, minutes=5), [group("mailer", lag=7_777)])
    assert 7_777 in with_copies.groups.rows(HOURS, MAILER, NAMES, by_day=False)["lag"].to_pylist()
    assert copy_all(with_copies) == 2, "the hour, and its day"
    with_copies.copies.remove_old(NOW)
    assert 7_777 in with_copies.groups.rows(WINDOW, MAILER, NAMES, by_day=True)["lag"].to_pylist()


def test_a_file_of_one_broker_is_no_point_of_a_cluster(with_copies: Store) -> None:
    """Its sums are of one broker, between those of all; as for alert rules it does not count."""
    at = NOW - timedelta(hours=4, minutes=5)
    add_snapshot(with_copies.lake, at - timedelta(minutes=1), [group("mailer", lag=7_777)])
    add_snapshot(with_copies.lake, at, [group("mailer", lag=3_333)], source="store")
    hour = Window(NOW - timedelta(hours=5), NOW)
    before = with_copies.groups.rows(hour, MAILER, NAMES, by_day=False)["lag"].to_pylist()
    assert 7_777 in before and 3_333 not in before
    assert copy_all(with_copies) == 2, "the hour, and its day"
    assert with_copies.groups.rows(hour, MAILER, NAMES, by_day=False)["lag"].to_pylist() == before


def test_files_show_a_cluster_that_nothing_else_observes(past: Store) -> None:
    at = NOW - timedelta(hours=4, minutes=5)
    alone = MAILER | {"cluster": "alone"}
    add_snapshot(past.lake, at, [group("mailer", lag=1)], "alone", source="store")
    hour = Window(NOW - timedelta(hours=5), NOW)
    assert past.groups.rows(hour, alone, NAMES, by_day=False)["lag"].to_pylist() == [1]
    copy_all(past)
    assert past.groups.rows(hour, alone, NAMES, by_day=False)["lag"].to_pylist() == [1]


def test_old_copies_are_removed(with_copies: Store) -> None:
    lake = with_copies.lake
    with_copies.copies.remove_old(NOW + timedelta(days=3))
    names = sorted(path.name[:10] for path in (lake.home.path / "board").glob("*/*.parquet"))
    assert names == ["2026-11-22", "2026-11-23"], "days stay, hours are read by the day"
    again = with_copies.groups.rows(WINDOW, MAILER, NAMES, by_day=True)
    assert again.num_rows == 87


@pytest.mark.parametrize("by_day", [True, False])
@pytest.mark.parametrize("size", [0, 100])
def test_a_damaged_copy_is_removed_and_made_again(
    with_copies: Store, size: int, by_day: bool
) -> None:
    """A crash of the machine may leave a file that is cut."""
    before = with_copies.groups.rows(WINDOW, MAILER, NAMES, by_day=by_day)
    folder = with_copies.lake.home.path / "board"
    for path in [*folder.glob("days/*"), *sorted(folder.glob("hours/*"))[-3:-1]]:
        os.truncate(path, size)
    after = with_copies.groups.rows(WINDOW, MAILER, NAMES, by_day=by_day)
    assert after.num_rows == before.num_rows
    assert after["lag"].equals(before["lag"])
    assert copy_all(with_copies) > 0
    assert with_copies.groups.rows(WINDOW, MAILER, NAMES, by_day=by_day).equals(before)


def test_the_folder_can_be_deleted_while_a_board_uses_it(with_copies: Store) -> None:
    before = with_copies.groups.rows(HOURS, MAILER, NAMES, by_day=False)
    assert before.num_rows == 15
    shutil.rmtree(with_copies.lake.home.path / "board")
    assert with_copies.groups.rows(HOURS, MAILER, NAMES, by_day=False).equals(before)
    assert copy_all(with_copies) > 24
    assert with_copies.groups.rows(HOURS, MAILER, NAMES, by_day=False).equals(before)


def test_a_day_is_copied_although_an_hour_is_damaged(with_copies: Store) -> None:
    folder = with_copies.lake.home.path / "board"
    days = sorted(folder.glob("days/*"))
    days[-1].unlink()
    os.truncate(sorted(folder.glob("hours/2026-11-23*"))[4], 100)
    assert copy_all(with_copies) == 3, "the day again, for which the hour is made again"
    assert sorted(folder.glob("days/*")) == days


def test_unfinished_copies_of_killed_boards_are_removed_at_the_start(tmp_path):
    lake = Lake(Home.of(tmp_path))
    hours = tmp_path / "board" / "hours"
    hours.mkdir(parents=True)
    for name, at in (("2026-11-19T12-a.7.part", 0), (".2026-11-19T12-a.parquet.8.part", None)):
        (hours / name).write_bytes(b"PAR1")
        if at is not None:
            os.utime(hours / name, times=(at, at))
    start([GroupCopies(lake, DataFiles(lake))], lambda: False)()
    assert [path.name for path in hours.iterdir()] == [".2026-11-19T12-a.parquet.8.part"]
