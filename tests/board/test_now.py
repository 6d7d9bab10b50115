"""Pages of a snapshot taken now: groups as they are, and a plan of members."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import jinja2
import msgspec
import pytest
from fastapi.testclient import TestClient

from tests.support.board_home import CLUSTER, queue, rows_of
from tests.support.live_boards import Live
from tests.support.planned_groups import snapshot
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import progress
from tidemark.rocketmq.records import QueueOffset

HTML = {"Accept": "text/html"}


@pytest.fixture
def live(client: TestClient) -> TestClient:
    """Asks a board whose cluster can be read now: billing with two members."""
    taken = snapshot("10.0.0.1", "10.0.0.2")
    taken.queue_offsets = [
        QueueOffset(broker="broker-a", topic="orders", queue_id=0, min_offset=0, max_offset=1234)
    ]
    client.app.state.views.live = Live(taken)  # pyright: ignore
    return client


def test_a_page_shows_groups_as_they_are_now(live: TestClient) -> None:
    text = live.get("/live", params={"cluster": CLUSTER, "q": "BILL"}, headers=HTML).text
    assert "billing" in text and "1,229" in text and "2026-11-19 12:00:00 UTC" in text
    none = live.get("/live", params={"cluster": CLUSTER, "q": "nobody"}, headers=HTML).text
    assert "No group fits" in none


def test_a_mode_is_remembered_where_the_snapshot_shows_none(
    client: TestClient, filled: Lake
) -> None:
    taken = snapshot()
    taken.cluster = CLUSTER
    taken.queue_offsets = [
        QueueOffset(broker="broker-a", topic="orders", queue_id=0, min_offset=0, max_offset=1234)
    ]
    at = client.app.state.store.newest.at[CLUSTER]  # pyright: ignore
    shown = taken.observed_at - timedelta(hours=1)
    rows = [queue("billing", 0, consume_mode="pop", consume_mode_at=shown)]
    filled.append(progress.QUEUES, rows_of(progress.QUEUES, at, rows))
    client.app.state.store.refresh()  # pyright: ignore
    client.app.state.views.live = Live(taken)  # pyright: ignore
    items = client.get(f"/api/v1/live/{CLUSTER}").json()["items"]
    (row,) = (item for item in items if item["topic"] == "orders")
    assert (row["consume_mode"], row["lag_is_lower_bound"]) == ("pop", True)
    text = client.get("/live", params={"cluster": CLUSTER}, headers=HTML).text
    assert "<bdi>pop</bdi>" in text


def test_a_cluster_that_cannot_be_read_is_a_problem(live: TestClient) -> None:
    response = live.get("/live?cluster=elsewhere", headers=HTML)
    assert response.status_code == 404 and "cannot be read" in response.text


def test_a_page_plans_who_would_own_what(live: TestClient) -> None:
    parameters = {
        "cluster": CLUSTER,
        "group": "billing",
        "clients": "3",
        "queues": "",
        "strategy": "",
    }
    text = live.get("/plan", params=parameters, headers=HTML).text
    assert "new-1" in text.replace("<wbr>", "") and text.count("<td") == 6 * 6


@pytest.mark.parametrize("wrong", [{"clients": "0"}, {"queues": "many"}, {"strategy": "NONE"}])
def test_a_wrong_plan_is_a_mistake(live: TestClient, wrong: dict[str, str]) -> None:
    parameters = {"cluster": CLUSTER, "group": "billing", "clients": "3"} | wrong
    assert live.get("/plan", params=parameters, headers=HTML).status_code in (400, 409)


def test_a_plan_is_as_large_as_a_group_may_be(live: TestClient) -> None:
    """10,000 members made a page of 10,000 banners, in 2.5 s."""
    plan = {"cluster": CLUSTER, "consumer_group": "billing"}
    response = live.post("/api/v1/plan", json=plan | {"clients": 10_000})
    assert response.status_code == 409
    assert "at most 1,000 members more than the 2 now" in response.json()["detail"]
    response = live.post("/api/v1/plan", json=plan | {"clients": 2, "queues": 10_000})
    assert response.status_code == 409
    assert "at most 10,000 queues, and this has 20,000" in response.json()["detail"]
    largest = plan | {"clients": 1002, "queues": 5000}
    assert len(live.post("/api/v1/plan", json=largest).json()["queues"]) == 10_000


def test_nothing_large_is_written_in_the_thread_of_the_connections(
    live: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan of 10,000 queues was written there, and all other requests waited."""
    in_loop: list[bool] = []

    def recorded(write: Callable[..., Any]) -> Callable[..., Any]:
        def recording(*arguments: Any, **options: Any) -> Any:
            in_loop.append(asyncio._get_running_loop() is not None)
            return write(*arguments, **options)

        return recording

    monkeypatch.setattr(msgspec.json, "encode", recorded(msgspec.json.encode))
    monkeypatch.setattr(jinja2.Template, "render", recorded(jinja2.Template.render))
    wanted = {"cluster": CLUSTER, "consumer_group": "billing", "clients": 3}
    assert live.post("/api/v1/plan", json=wanted).status_code == 200
    for path in (
        f"/api/v1/live/{CLUSTER}",
        f"/live?cluster={CLUSTER}",
        f"/plan?cluster={CLUSTER}&group=billing&clients=3",
        "/api/v1/groups",
        "/groups",
    ):
        assert live.get(path, headers=HTML).status_code == 200, path
    assert len(in_loop) >= 6 and not any(in_loop)


def test_the_page_of_a_plan_names_the_first_of_many(live: TestClient) -> None:
    plan = {"cluster": CLUSTER, "group": "billing", "strategy": "", "queues": ""}
    text = live.get("/plan", params=plan | {"clients": "1000"}, headers=HTML).text
    assert text.count("has no queue (") == 20
    assert "994 members have no queue, the first 20 are named" in text
    text = live.get("/plan", params=plan | {"clients": "3", "queues": "2000"}, headers=HTML).text
    assert text.count("<tr>") == 1001
    assert "4,000 queues, the first 1,000 are shown" in text


@pytest.mark.slow
@pytest.mark.parametrize("path", [f"/live?cluster={CLUSTER}", f"/api/v1/live/{CLUSTER}",
                                  f"/plan?cluster={CLUSTER}&group=billing&clients=3"])  # fmt: skip
def test_a_page_elsewhere_causes_no_request_to_a_broker(live: TestClient, path: str) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Dest": "document"}  # fmt: skip
    assert live.get(path, headers=link).status_code == 403
    assert live.get(path, headers=link | {"Sec-Fetch-Site": "same-site"}).status_code == 403
    assert live.get(path, headers={"Origin": "http://evil.example"}).status_code == 403
    assert live.get(path, headers=link | {"Sec-Fetch-Site": "none"}).status_code == 200
    assert live.get(path).status_code == 200


def test_a_link_elsewhere_leads_to_pages_of_the_tables(reader: TestClient) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Dest": "document"}  # fmt: skip
    assert reader.get("/groups", headers=link).status_code == 200
