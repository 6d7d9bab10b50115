"""Pages of a snapshot taken now: groups as they are, and a plan of members."""

import pytest
from fastapi.testclient import TestClient

from board.responses import ProblemError
from rocketmq.records import QueueOffset, Snapshot
from tests.live.test_allocation_plan import snapshot
from tests.support.board_home import CLUSTER

HTML = {"Accept": "text/html"}


class Live:
    """Stands for the snapshots of a reachable cluster."""

    def __init__(self, taken: Snapshot) -> None:
        self.taken = taken

    def of(self, name: str) -> Snapshot:
        if name != CLUSTER:
            raise ProblemError(404, f"{name!r} cannot be read from here")
        return self.taken


@pytest.fixture
def live(client: TestClient) -> TestClient:
    """Asks a board whose cluster can be read now: billing with two members."""
    taken = snapshot("10.0.0.1", "10.0.0.2")
    taken.queue_offsets = [QueueOffset("broker-a", "orders", 0, 0, 1234)]
    client.app.state.live = Live(taken)  # pyright: ignore
    return client


def test_a_page_shows_groups_as_they_are_now(live: TestClient) -> None:
    text = live.get("/live", params={"cluster": CLUSTER, "q": "BILL"}, headers=HTML).text
    assert "billing" in text and "1,229" in text and "2026-11-19 12:00:00 UTC" in text
    none = live.get("/live", params={"cluster": CLUSTER, "q": "nobody"}, headers=HTML).text
    assert "No group fits" in none


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
    assert "new-1" in text and text.count("<td") == 6 * 6


@pytest.mark.parametrize("wrong", [{"clients": "0"}, {"queues": "many"}, {"strategy": "NONE"}])
def test_a_wrong_plan_is_a_mistake(live: TestClient, wrong: dict[str, str]) -> None:
    parameters = {"cluster": CLUSTER, "group": "billing", "clients": "3"} | wrong
    assert live.get("/plan", params=parameters, headers=HTML).status_code in (400, 409)
