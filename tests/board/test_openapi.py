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
from tidemark.board.access import OPEN_PATHS
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import floor_hour
from tidemark.lake.schema import Table
from tidemark.lake.tables import alerting, progress, quality, raw
from tidemark.settings.home import Home

NEEDS_A_BROKER = ("/api/v1/live/{cluster}",)

JSON_READS = {
    "/healthz",
    "/readyz",
    "/api/v1/clusters",
    "/api/v1/clusters/{cluster}/brokers",
    "/api/v1/dead-letters",
    "/api/v1/annotations",
    "/api/v1/audit",
    "/api/v1/objectives",
    "/api/v1/objectives/statement",
    "/api/v1/events",
    "/api/v1/groups",
    "/api/v1/groups/{cluster}/{group}",
    "/api/v1/groups/{cluster}/{group}/{topic}/history",
    "/api/v1/groups/{cluster}/{group}/{topic}/queues",
    "/api/v1/incidents",
    "/api/v1/incidents/{incident_id}",
    "/api/v1/quality",
    "/api/v1/quality/quarantine",
    "/api/v1/silences",
    "/api/v1/topics",
    "/api/v1/topics/{cluster}/{topic}",
}

SILENCE = {"match": {"topic": ["none"]}, "duration": "1h", "comment": "a test"}

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
        progress.QUEUES: {"consumer_group": "mailer", "queue_id": 0, "lag": 90_000},
        raw.CLIENTS: {"consumer_group": "mailer", "client_id": "a"},
        progress.EVENTS: {"consumer_group": "mailer", "queue_id": 0, "kind": "EXPIRED"},
        progress.OBJECTIVES: {
            "hour": floor_hour(at),
            "consumer_group": "mailer",
            **{"topic": "orders", "objective": "on-time", "target": 0.99, "window_hours": 720},
            **{"good": 0, "bad": 1, "unknown": 0, "minutes": "-", "budget_left": 0.9},
        },
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
        assert made_client.post("/api/v1/silences", json=SILENCE).status_code == 201
        assert made_client.post("/api/v1/annotations", json={"text": "x"}).status_code == 201
        yield made_client


def responses(client: TestClient) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Yield the path, declared schema and response of every address that declares one."""
    document = client.get("/api/v1/openapi.json").json()
    (incident,) = client.get("/api/v1/incidents").json()["items"]
    names = {
        "cluster": CLUSTER,
        "incident_id": incident["incident_id"],
        "group": "mailer",
        "topic": "orders",
    }
    for path, methods in document["paths"].items():
        content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        if path in NEEDS_A_BROKER:
            continue
        if schema := content.get("application/json", {}).get("schema"):
            address = path.format(**names)
            yield path, schema | {"components": document["components"]}, client.get(address).json()


@pytest.mark.slow
def test_responses_are_as_declared(client: TestClient) -> None:
    checked = {}
    for path, schema, response in responses(client):
        Draft202012Validator(_closed(schema)).validate(response)
        checked[path] = len(response.get("items", [response]))
    assert all(checked.values()), "an response without rows proves nothing"
    assert {"/api/v1/incidents", "/api/v1/incidents/{incident_id}"} < set(checked)
    assert len(checked) == len(JSON_READS)


def test_every_json_response_is_declared(client: TestClient) -> None:
    """A route of the API without a schema, or with an empty one, fails."""
    document = client.get("/api/v1/openapi.json").json()
    undeclared = [
        (method, path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path != "/metrics" and not _is_declared(operation["responses"])
    ]
    assert undeclared == []
    reads = {path for path, methods in document["paths"].items() if "get" in methods}
    assert reads - {"/metrics", *NEEDS_A_BROKER} == JSON_READS


def test_the_document_names_the_ways_to_log_in(client: TestClient) -> None:
    document = client.get("/api/v1/openapi.json").json()
    schemes = document["components"]["securitySchemes"]
    assert {name: it["scheme"] for name, it in schemes.items()} == {
        "token": "bearer",
        "password": "basic",
    }
    for path, methods in document["paths"].items():
        for operation in methods.values():
            ways = [name for way in operation.get("security", ()) for name in way]
            assert sorted(ways) == ([] if path in OPEN_PATHS else ["password", "token"])


def test_a_malformed_login_is_no_failure_where_none_is_needed(client: TestClient) -> None:
    response = client.get("/api/v1/clusters", headers={"authorization": "Basic %%%"})
    assert response.status_code == 200


def test_an_action_and_a_silence_are_as_declared(client: TestClient) -> None:
    document = client.get("/api/v1/openapi.json").json()
    (incident,) = client.get("/api/v1/incidents").json()["items"]
    address = "/api/v1/incidents/{incident_id}/acknowledge"
    for path, status, body in ((address, 200, {}), ("/api/v1/silences", 201, SILENCE)):
        response = client.post(path.format(**incident), json=body)
        declared = document["paths"][path]["post"]["responses"][str(status)]
        schema = declared["content"]["application/json"]["schema"]
        assert response.status_code == status
        Draft202012Validator(_closed(schema | {"components": document["components"]})).validate(
            response.json()
        )


def _is_declared(responses: dict[str, Any]) -> bool:
    """Return whether each success has a schema of JSON with a name, or no content at all."""
    return all(
        status == "204" or "$ref" in it["content"]["application/json"]["schema"]
        for status, it in responses.items()
        if status.startswith("2")
    )


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
