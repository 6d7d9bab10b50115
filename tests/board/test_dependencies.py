"""Parameters of many addresses: an instant that nothing can be computed around is refused."""

import pytest
from fastapi.testclient import TestClient

from tests.support.board_home import CLUSTER

HISTORY = f"/api/v1/groups/{CLUSTER}/mailer/orders/history"


@pytest.mark.parametrize("instant", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
@pytest.mark.parametrize(
    "address",
    [
        "/api/v1/topics?at=",
        "/api/v1/incidents?at=",
        f"/api/v1/groups/{CLUSTER}/mailer?at=",
        f"{HISTORY}?to=",
        f"{HISTORY}?from=",
        "/api/v1/events?to=",
        "/events?at=",
        f"/group?cluster={CLUSTER}&group=mailer&at=",
    ],
)
def test_an_instant_at_the_end_of_time_is_a_problem(
    reader: TestClient, address: str, instant: str
) -> None:
    response = reader.get(address + instant)
    assert response.status_code == 400 and instant in response.json()["detail"]
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("year", [1970, 8999])
def test_years_between_have_their_rows(reader: TestClient, year: int) -> None:
    for address in ("/api/v1/topics?at=", f"{HISTORY}?to=", "/api/v1/events?to=", "/events?at="):
        assert reader.get(f"{address}{year}-01-01T00:00:00Z").status_code == 200
