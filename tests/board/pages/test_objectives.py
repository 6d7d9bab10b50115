"""Objectives on the board: least budget left first, in numbers with their units."""

from datetime import datetime, timedelta
from typing import Any

from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.board_home import add_snapshot, rows_of, snapshot_row
from tests.support.page_texts import names, page, plain
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window, floor_hour
from tidemark.lake.tables import progress, raw


def spent(group: str, at: datetime, **columns: Any) -> dict[str, Any]:
    """A row of ``progress.objectives``: 216 minutes of 30 days may be late by more than 30 s."""
    row = {"hour": floor_hour(at), "consumer_group": group, "topic": "orders"}
    row |= {"objective": "on-time", "measure": "delay", "threshold": 30_000.0}
    row |= {"target": 0.995, "window_hours": 720, "good": 10, "bad": 2, "unknown": 1}
    row |= {"bad_before": 52, "unknown_before": 119, "budget_left": 0.75}
    return row | {"burn_rate_1h": 0.5, "burn_rate_6h": 0.25} | columns


def write(lake: Lake, *rows: dict[str, Any], at: datetime | None = None) -> datetime:
    at = at or board_home.now() + timedelta(seconds=1)
    lake.append(raw.SNAPSHOTS, snapshot_row(at))
    add_snapshot(lake, at)
    lake.append(progress.OBJECTIVES, rows_of(progress.OBJECTIVES, at, rows))
    return at


def test_the_least_budget_comes_first_and_numbers_have_units(
    client: TestClient, filled: Lake
) -> None:
    at = board_home.now()
    missed = {"bad_before": 238, "budget_left": -1 / 9, "burn_rate_1h": 14.4}
    write(
        filled,
        spent("fine", at),
        spent("missed", at, **missed),
        spent("behind", at, measure="lag", threshold=1000.0, burn_rate_1h=None, budget_left=0.5),
    )
    text = page(client, "/objectives")
    assert names(text) == ["missed", "behind", "fine"]
    shown = plain(text)
    within = "on-time 99.5 % of 30 d within"
    assert f"missed orders {within} 30 s -11% 4 h of 3 h 36 m 14.4 0.2 2 h" in shown
    assert f"behind orders {within} 1,000 messages 50% 54 m of 3 h 36 m – 0.2 2 h" in shown
    assert "missed 1 burning too fast 1 Objectives 3" in shown


def test_the_newest_hour_of_each_counts(client: TestClient, filled: Lake) -> None:
    at = board_home.now()
    earlier = spent("fine", at, budget_left=0.9)
    earlier["hour"] -= timedelta(hours=1)
    write(filled, earlier, spent("fine", at))
    client.app.state.store.refresh()  # pyright: ignore
    (row,) = client.get("/api/v1/objectives").json()["items"]
    assert (row["budget_left"], row["bad_before"], row["objective"]) == (0.75, 52, "on-time")
    assert client.get("/api/v1/objectives?group=other").json()["items"] == []


def test_a_tick_that_writes_takes_no_budget_off_the_page(client: TestClient, filled: Lake) -> None:
    at = write(filled, spent("fine", board_home.now()))
    assert names(page(client, "/objectives")) == ["fine"]
    later = at + timedelta(seconds=20)
    hours = Window.through(floor_hour(at), later)
    written = rows_of(progress.OBJECTIVES, later, [spent("new", later)])
    filled.replace(progress.OBJECTIVES, hours, written)
    assert names(page(client, "/objectives")) == ["fine"]
    just_started = Store(filled)
    just_started.refresh()
    assert just_started.newest.of(progress.OBJECTIVES)["consumer_group"].to_pylist() == ["fine"]


def test_without_an_objective_the_page_tells_how_to_declare_one(
    client: TestClient, filled: Lake
) -> None:
    assert "Declare one in objectives.yaml of the home" in plain(page(client, "/objectives"))
    assert "No objective fits." in plain(page(client, "/objectives?q=x"))
