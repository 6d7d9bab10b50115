"""``/api/v1/groups`` and ``/clusters`` return exactly the newest rows."""

import base64
import json
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.board_home import CLUSTER, group
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import progress


def names(client: TestClient, query: str = "") -> list[str]:
    items = client.get(f"/api/v1/groups{query}").json()["items"]
    return [f"{row['consumer_group']}/{row['topic']}" for row in items]


def test_groups_are_the_newest_rows_largest_lag_first(reader: TestClient) -> None:
    assert names(reader) == ["mailer/orders", "billing/orders", "billing/refunds", "audit/orders"]
    row = reader.get("/api/v1/groups").json()["items"][0]
    assert set(row) == {*progress.GROUPS.column_names, "team", "forecasts"}
    assert row["lag"] == 90_000
    assert row["observed_at"].endswith("Z")


def test_unknown_is_null(reader: TestClient) -> None:
    (audit,) = reader.get("/api/v1/groups?q=AUDIT").json()["items"]
    assert audit["lag"] is None
    assert audit["online"] is None


@pytest.mark.parametrize(
    "query, expected",
    [
        ("?topic=refunds", ["billing/refunds"]),
        ("?health=STALLED", ["mailer/orders"]),
        ("?q=bill&sort=lag", ["billing/refunds", "billing/orders"]),
        ("?sort=consumer_group&q=ILL", ["billing/orders", "billing/refunds"]),
        ("?cluster=elsewhere", []),
        ("?q=100%25", []),
    ],
)  # fmt: skip
def test_groups_are_filtered_and_sorted(
    reader: TestClient, query: str, expected: list[str]
) -> None:
    assert names(reader, query) == expected


@pytest.mark.parametrize(
    "sort", ["-lag", "lag", "-delay_ms", "consumer_group", "-observed_at", "-health"]
)
def test_pages_hold_every_row_once(reader: TestClient, sort: str) -> None:
    whole = names(reader, f"?sort={sort}")
    entries, cursor = [], ""
    for _ in range(len(whole)):
        response = reader.get(f"/api/v1/groups?sort={sort}&limit=1{cursor}").json()
        entries += [f"{row['consumer_group']}/{row['topic']}" for row in response["items"]]
        cursor = f"&cursor={response['next_cursor']}"
    assert entries == whole
    assert response["next_cursor"] is None


def test_a_cursor_survives_the_removal_of_its_row(client: TestClient, filled: Lake) -> None:
    first = client.get("/api/v1/groups?limit=1").json()
    later = board_home.now() + timedelta(minutes=1)
    board_home.add_snapshot(filled, later, [group("billing", lag=120), group("newer", lag=90_001)])
    client.app.state.store.refresh()  # pyright: ignore
    assert names(client, f"?cursor={first['next_cursor']}") == ["billing/orders"]


@pytest.mark.parametrize(
    "query, word",
    [
        ("?unknown=1", "unknown"),
        ("?limit=1&limit=2", "limit"),
        ("?limit=0", "limit"),
        ("?limit=many", "limit"),
        ("?sort=nothing", "nothing"),
        ("?health=SICK", "SICK"),
        ("?health=", "health"),
        ("?cursor=xyz", "cursor"),
    ],
)
def test_a_wrong_request_is_a_problem(reader: TestClient, query: str, word: str) -> None:
    response = reader.get(f"/api/v1/groups{query}")
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == 400 and word in body["detail"]


@pytest.mark.parametrize("place", [str(10**30), "[" * 2500], ids=["large", "deep"])
def test_a_cursor_may_hold_anything(reader: TestClient, place: str) -> None:
    values = {name: None for name in progress.GROUPS.key}
    text = json.dumps(["lag", True, values | {"lag": "place"}]).replace('"place"', place)
    cursor = base64.urlsafe_b64encode(text.encode()).decode()
    response = reader.get("/api/v1/groups", params={"sort": "-lag", "cursor": cursor})
    assert response.status_code == 400 and "cursor" in response.json()["detail"]


def test_an_address_that_is_not_there_is_a_problem(reader: TestClient) -> None:
    response = reader.get("/api/v1/nothing")
    assert (response.status_code, response.json()["title"]) == (404, "Not Found")


def test_clusters_have_snapshot_brokers_and_freshness(reader: TestClient) -> None:
    (row,) = reader.get("/api/v1/clusters").json()["items"]
    assert row["cluster"] == CLUSTER
    assert row["status"] == "COMPLETE"
    assert row["brokers"] == ["broker-a", "broker-b"]
    assert row["fresh"] is True and row["age_seconds"] >= 0
    brokers = reader.get(f"/api/v1/clusters/{CLUSTER}/brokers").json()["items"]
    assert [broker["broker"] for broker in brokers] == ["broker-a", "broker-b"]
    assert reader.get("/api/v1/clusters/elsewhere/brokers").status_code == 404


def test_the_document_names_every_column_with_its_meaning(reader: TestClient) -> None:
    document = reader.get("/api/v1/openapi.json").json()
    groups = document["components"]["schemas"]["GroupRow"]["properties"]
    assert set(groups) == {*progress.GROUPS.column_names, "team", "forecasts"}
    assert groups["delay_ms"]["description"] == progress.DELAY_MS.comment
    assert document["openapi"].startswith("3.")
