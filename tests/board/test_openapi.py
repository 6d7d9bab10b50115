"""Every response of the API conforms to its OpenAPI document."""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator

from tests.board.conftest import BASE_URL
from tests.support import board_home
from tests.support.board_home import CLUSTER, rows_of
from tests.support.lake_copies import copied
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.schema import Table
from tidemark.lake.tables import alerting, progress, quality, raw
from tidemark.settings.home import Home

CONFIG = {"fileReservedTime": "72", "brokerRole": "SYNC_MASTER"}


@pytest.fixture(scope="module")
def client(shown: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A board with a row in each table whose rows the API returns."""
    lake = copied(shown, Home.of(tmp_path_factory.mktemp("openapi") / "home"))
    at = board_home.now() + timedelta(seconds=1)
    board_home.add_snapshot(lake, at)
    made: dict[Table, dict[str, Any]] = {
        raw.BROKERS: {"broker": "broker-c", "broker_id": 0, "config": list(CONFIG.items())},
        raw.TOPICS: {"kind": "normal", "read_queues": 2},
        progress.EVENTS: {"consumer_group": "mailer", "queue_id": 0, "kind": "EXPIRED"},
        quality.QUARANTINE: {"table": "raw.topics"},
        quality.RESULTS: {
            "table": "raw.topics",
            "expectation": "known",
            "success": True,
            "window_start": at,
        },
    }
    for table, row in made.items():
        lake.append(table, rows_of(table, at, [row]))
    lake.append(alerting.INCIDENTS, [board_home.incident(at)])
    store = Store(lake)
    store.refresh()
    while board_home.now() < at:  # events reach to the present instant
        time.sleep(0.05)
    with TestClient(application(store), base_url=BASE_URL) as made_client:
        yield made_client


def responses(client: TestClient) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Yield the path, declared schema and response of every address that declares one."""
    document = client.get("/api/v1/openapi.json").json()
    (incident,) = client.get("/api/v1/incidents").json()["items"]
    names = {"cluster": CLUSTER, "incident_id": incident["incident_id"]}
    for path, methods in document["paths"].items():
        content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        if schema := content.get("application/json", {}).get("schema"):
            address = path.format(**names)
            yield path, schema | {"components": document["components"]}, client.get(address).json()


def test_responses_are_as_declared(client: TestClient) -> None:
    checked = {}
    for path, schema, response in responses(client):
        Draft202012Validator(_closed(schema)).validate(response)
        checked[path] = len(response.get("items", [response]))
    assert all(checked.values()), "an response without rows proves nothing"
    assert {"/api/v1/incidents", "/api/v1/incidents/{incident_id}"} < set(checked)
    assert len(checked) == 9


def test_maps_are_objects(client: TestClient) -> None:
    rows = client.get(f"/api/v1/clusters/{CLUSTER}/brokers").json()["items"]
    assert [row["config"] for row in rows] == [None, None, CONFIG]
    (incident,) = client.get("/api/v1/incidents").json()["items"]
    assert incident["labels"] == {"team": "mail"}


def _closed(schema: Any) -> Any:
    """Return a schema whose objects have no other properties than those declared."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(value) for name, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        closed["additionalProperties"] = False
    return closed
