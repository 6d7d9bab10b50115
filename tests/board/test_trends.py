"""Trends of all groups, read at once: points, gaps, other clusters, and changes of health."""

from datetime import timedelta
from typing import Any

import pytest

from tests.support import board_home
from tests.support.board_home import add_snapshots, group
from tidemark.board.data_files import DataFiles
from tidemark.board.past import PastRows
from tidemark.board.store import Store
from tidemark.board.trends import (
    BROKERS,
    STEP,
    TOPICS,
    Listed,
    Points,
    read_points,
    read_trends,
)
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import progress


def test_points_are_observations_five_minutes_apart(filled: Lake) -> None:
    """The newest one included, so that the end of a trend is the number next to it."""
    newest = board_home.now() + timedelta(seconds=1)
    groups = {newest - timedelta(minutes=back): [group("mailer", lag=back)] for back in range(12)}
    add_snapshots(filled, groups, cluster="other")
    points = read_trends(filled, DataFiles(filled), {"other": newest}).of(
        "other", "mailer", "orders"
    )
    assert [row["lag"] for row in points] == [10, 5, 0]
    assert points[-1]["observed_at"] - points[-2]["observed_at"] == STEP


def test_nothing_later_than_what_is_shown(filled: Lake) -> None:
    newest = board_home.now() + timedelta(seconds=1)
    groups = {newest - timedelta(minutes=back): [group("mailer", lag=back)] for back in (20, 10, 0)}
    add_snapshots(filled, groups, cluster="other")
    then = PastRows(filled, newest - timedelta(minutes=10))
    points = Store(filled).trends(then).of("other", "mailer", "orders")
    assert [row["lag"] for row in points] == [20, 10]


def test_trends_of_an_instant_of_the_past_are_read_once(filled: Lake) -> None:
    """Each page of the past shows them: at 20,000 groups a read takes more than the page."""
    newest = board_home.now() + timedelta(seconds=1)
    groups = {newest - timedelta(minutes=back): [group("mailer", lag=back)] for back in (20, 10, 0)}
    add_snapshots(filled, groups, cluster="other")
    store = Store(filled)
    then = store.past.at(newest - timedelta(minutes=10))
    assert store.trends(then) is store.trends(then)
    store.past.forget()
    again = store.past.at(newest - timedelta(minutes=10))
    assert store.trends(again) is not store.trends(then)


def test_the_points_of_each_group_are_its_own(filled: Lake) -> None:
    newest = board_home.now() + timedelta(seconds=1)
    names = ("c", "a", "b")
    groups = {
        newest - timedelta(minutes=back): [
            group(name, topic=topic, lag=back + 100 * place + 1000 * number)
            for place, name in enumerate(names)
            for number, topic in enumerate(("orders", "refunds"))
        ]
        for back in (10, 0, 5)
    }
    add_snapshots(filled, groups, cluster="other")
    trends = read_trends(filled, DataFiles(filled), {"other": newest})
    for place, name in enumerate(names):
        for number, topic in enumerate(("orders", "refunds")):
            first = 100 * place + 1000 * number
            entries = [row["lag"] for row in trends.of("other", name, topic)]
            assert entries == [first + 10, first + 5, first], (name, topic)


def test_an_unknown_value_stays_unknown_and_other_groups_have_none(filled: Lake) -> None:
    newest = board_home.now() + timedelta(seconds=1)
    groups = {newest - timedelta(minutes=back): [group("mailer", lag=lag)]
              for back, lag in ((20, 4), (10, None), (0, 6))}  # fmt: skip
    add_snapshots(filled, groups, cluster="other")
    trends = read_trends(filled, DataFiles(filled), {"other": newest})
    assert [row["lag"] for row in trends.of("other", "mailer", "orders")] == [4, None, 6]
    assert trends.of("other", "mailer", "refunds") == []


def test_changes_of_health_are_those_of_the_last_hours(filled: Lake) -> None:
    newest = board_home.now() + timedelta(seconds=1)
    states = ((150, "LOSING"), (90, "OK"), (40, "OK"), (30, "STALLED"), (20, "OK"), (0, "OK"))
    groups = {newest - timedelta(minutes=back): [group("mailer", health=state)]
              for back, state in states}  # fmt: skip
    add_snapshots(filled, groups, cluster="other")
    changes = read_trends(filled, DataFiles(filled), {"other": newest}).changes
    assert changes is not None
    assert [(row["was"], row["health"]) for row in changes.newest()] == [
        ("STALLED", "OK"),
        ("OK", "STALLED"),
    ]


@pytest.mark.parametrize("is_read_by_the_catalog", [False, True])
def test_tables_elsewhere_are_read_by_the_catalog(
    filled: Lake, monkeypatch: pytest.MonkeyPatch, is_read_by_the_catalog: bool
) -> None:
    if is_read_by_the_catalog:
        monkeypatch.setattr("tidemark.board.trends.path_of", lambda address: None)
    newest = board_home.now() + timedelta(seconds=1)
    groups = {newest - timedelta(minutes=back): [group("mailer", lag=back)] for back in (10, 0)}
    add_snapshots(filled, groups, cluster="other")
    trends = read_trends(filled, DataFiles(filled), {"other": newest})
    assert [row["lag"] for row in trends.of("other", "mailer", "orders")] == [10, 0]


def test_a_page_without_trends_is_better_than_none(
    filled: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is missing leaves the trends empty, and the rows of now as they are."""

    def missing(*_: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr("tidemark.board.store.read_trends", missing)
    store = Store(filled)
    store.refresh()
    assert store.problem is None and store.newest.of(progress.GROUPS).num_rows == 4
    assert store.trends(store.newest).of("shop", "mailer", "orders") == []


def test_trends_of_a_shown_list_are_read_before_they_are_requested(
    filled: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request of 20,000 topics would wait a second for them after every snapshot."""
    read: list[str] = []

    def noted(lake: Lake, files: DataFiles, at: Any, listed: Listed) -> Points:
        read.append(listed.table.name)
        return read_points(lake, files, at, listed)

    monkeypatch.setattr("tidemark.board.store.read_points", noted)
    store = Store(filled)
    store.refresh()
    assert read == [], "nobody has looked"
    store.points(store.newest, TOPICS)
    store.points(store.newest, TOPICS)
    assert read == ["progress.topics"]
    add_snapshots(filled, {board_home.now() + timedelta(seconds=5): [group("mailer")]})
    store.refresh()
    assert read == ["progress.topics"] * 2
    store.points(store.newest, TOPICS)
    store.points(store.past.at(board_home.now()), BROKERS)
    store.refresh()
    assert read == ["progress.topics", "progress.topics", "raw.brokers"]
