"""The same forecasts on pages, in the API, for agents and in the command."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.board.conftest import BASE_URL
from tests.support import board_home
from tests.support.board_home import CLUSTER, add_snapshots, group, rows_of
from tests.support.commands import output_of
from tests.support.lake_copies import copied
from tests.support.page_texts import page, plain
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.cli.commands.plan import HAPPENS, REASONS
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import raw
from tidemark.model.forecasts import ForecastKind, NoForecast
from tidemark.settings.home import Home

MINUTES = range(120, -1, -5)

DISKS = {
    "filling": lambda back: 0.7 - back / 1000,
    "emptying": lambda back: 0.5 + back / 1000,
    "full": lambda back: 0.92 + back / 5000,
    "silent": lambda back: 0.6 - back / 1000 if back else None,
}


@pytest.fixture(scope="module")
def lake(shown: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Two hours of groups that drain, expire or are bounds, and of disks."""
    lake = copied(shown, Home.of(tmp_path_factory.mktemp("forecasts") / "home"))
    newest = board_home.now() + timedelta(seconds=1)
    instants = {newest - timedelta(minutes=back): back for back in MINUTES}
    groups = {
        at: [
            group("mailer", lag=1000 + back * 10 + back % 2 * 20),
            group("bounded", lag=1000 + back * 10, lag_is_lower_bound=True),
            group("losing", lag=1000 + back % 2, loss_in_seconds=3600.0 + back * 30),
            *([group("gone", lag=back)] if back else ()),
        ]
        for at, back in instants.items()
    }
    add_snapshots(lake, groups)
    for at, back in instants.items():
        of_brokers = [
            {"broker": name, "broker_id": 0, "address": f"{name}:1", "version": "V5_3_3"}
            | {"disk_ratio": share(back)}
            for name, share in DISKS.items()
        ]
        lake.append(raw.BROKERS, rows_of(raw.BROKERS, at, of_brokers))
    return lake


@pytest.fixture(scope="module")
def client(lake: Lake) -> Iterator[TestClient]:
    store = Store(lake)
    store.refresh()
    yield TestClient(application(store), base_url=BASE_URL)


def of_group(client: TestClient, name: str) -> dict[str, Any]:
    (topic,) = client.get(f"/api/v1/groups/{CLUSTER}/{name}").json()["topics"]
    return topic["forecasts"]


@pytest.mark.slow
def test_the_page_of_a_group_has_its_interval(client: TestClient) -> None:
    address = f"/group?cluster={CLUSTER}&topic=orders&group="
    (stated,) = re.findall(r"Drained in ([^.]*)\.", plain(page(client, address + "mailer")))
    assert re.fullmatch(r"1 h .* to (1|2) h .*, if it goes on as in the last 2 h", stated), stated
    assert "预计" in page(client, address + "mailer", "zh")
    assert "Drained in" not in page(client, address + "bounded")
    assert "before they are consumed in 2 h" in plain(page(client, address + "losing"))


def test_the_page_of_brokers_has_that_of_a_disk_that_fills_up(client: TestClient) -> None:
    text = plain(page(client, "/brokers"))
    assert re.findall(r"90 % full in ([^.]*?), if it goes on as in the last 2 h", text) == [
        "3 h 20 m"
    ]


def test_the_api_states_an_interval_or_why_there_is_none(client: TestClient) -> None:
    drain = of_group(client, "mailer")["drain"]
    assert drain["low"] < drain["estimate"] < drain["high"]
    assert (drain["unit"], drain["basis"], drain["reason"]) == ("s", 7200, None)
    assert of_group(client, "losing")["loss"]["estimate"] == pytest.approx(7200)
    assert of_group(client, "bounded")["drain"] == {
        **dict.fromkeys(("estimate", "low", "high", "basis")),
        **{"unit": "s", "reason": "bound"},
    }
    listed = client.get("/api/v1/groups?q=mailer").json()["items"]
    assert [row["forecasts"] for row in listed] == [of_group(client, "mailer")]


def test_brokers_of_the_api_have_a_forecast_of_their_disk(client: TestClient) -> None:
    rows = client.get(f"/api/v1/clusters/{CLUSTER}/brokers").json()["items"]
    disks = {row["broker"]: row["forecasts"]["disk_full"] for row in rows}
    assert disks["filling"]["estimate"] == pytest.approx(12_000)
    reasons = {name: disks[name]["reason"] for name in DISKS}
    assert reasons == {
        "filling": None,
        "emptying": NoForecast.MOVES_AWAY,
        # One that empties from above the level has not still to reach it.
        "full": NoForecast.REACHED,
        "silent": NoForecast.UNKNOWN,
    }


def test_the_command_lists_the_nearest_first(lake: Lake) -> None:
    rows = json.loads(output_of(lake.home, "forecast", "--format", "json"))
    assert [(row["consumer_group"] or row["broker"], row["forecast"]) for row in rows] == [
        ("mailer", "drain"),
        ("losing", "loss"),
        ("filling", "disk_full"),
    ]
    text = output_of(lake.home, "forecast")
    assert "messages expire unread" in text and "3 h 20 m" in text and "bounded" not in text


def test_the_command_names_the_reasons_of_one_subject(lake: Lake) -> None:
    text = output_of(lake.home, "forecast", "bounded")
    assert "the newest number is a bound" in text and "mailer" not in text
    assert "it is so already" in output_of(lake.home, "forecast", "--all")
    line = output_of(lake.home, "forecast", "gone", code=1)
    assert "no group or broker 'gone'" in line


def test_every_forecast_and_reason_has_words() -> None:
    assert HAPPENS.keys() == set(ForecastKind) and REASONS.keys() == set(NoForecast)
