"""``/incidents`` and ``/silences``: actions are recorded with person and reason."""

import json
import re
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.notification_servers import serve
from tidemark.alerting.delivery.channels import LogChannel
from tidemark.alerting.delivery.http_channels import WebhookChannel
from tidemark.alerting.delivery.outbox import deliver
from tidemark.alerting.delivery.silences import silences
from tidemark.alerting.incidents.actions import one_incident
from tidemark.alerting.rules.routing import Routing
from tidemark.lake.catalog import Lake

EVERY_RECEIVER = Routing(broadcasts=True)

HTML = {"Accept": "text/html"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def firing(filled: Lake) -> str:
    return board_home.add_incident(filled, board_home.now())


def test_incidents_by_what_is_to_do(filled: Lake, firing: str, client: TestClient) -> None:
    at = board_home.now() - timedelta(hours=1)
    done = board_home.add_incident(filled, at, rule="late", state="RESOLVED", resolved_at=at)
    pending = board_home.add_incident(filled, board_home.now(), rule="new", state="PENDING")
    mild = board_home.add_incident(filled, at, rule="mild", severity="info")
    client.app.state.store.refresh()  # pyright: ignore
    rows = client.get("/api/v1/incidents").json()["items"]
    assert [row["incident_id"] for row in rows] == [firing, mild, pending, done]
    assert rows[0]["labels"] == {"team": "mail"} and rows[0]["row"]["lag"] == 90_000
    items = client.get("/api/v1/incidents?state=open&severity=critical").json()["items"]
    assert [row["incident_id"] for row in items] == [firing, pending]
    first = client.get("/api/v1/incidents?limit=1").json()
    then = client.get(f"/api/v1/incidents?limit=1&cursor={first['next_cursor']}").json()
    assert [row["incident_id"] for row in then["items"]] == [mild]
    assert client.get("/api/v1/incidents?state=bad").status_code == 400


def test_an_incident_with_evidence_transitions_and_notifications(
    firing: str, client: TestClient
) -> None:
    body = client.get(f"/api/v1/incidents/{firing}").json()
    assert body["transitions"][0]["transition"] == "FIRING"
    assert body["evidence"]["row"]["consumer_group"] == "mailer"
    assert body["notifications"] == []
    assert client.get("/api/v1/incidents/ffffffff").status_code == 404


def test_a_webhook_gets_what_the_api_returns(firing: str, client: TestClient, filled: Lake) -> None:
    """At that moment: with the notifications that other channels accepted before.

    The API has the owner of the group by itself; messages have it among the labels.
    """
    responses = []
    with serve() as hook:
        channels = [LogChannel(), WebhookChannel(hook.http, None, "hook")]
        hook.before_response = lambda: responses.append(
            client.get(f"/api/v1/incidents/{firing}").json()
        )
        hook.status = 503
        deliver(filled, channels, routing=EVERY_RECEIVER)
        hook.status = 200
        later = board_home.now() + timedelta(hours=2)
        deliver(filled, channels, clock=lambda: later, routing=EVERY_RECEIVER)
        client.post(f"/api/v1/incidents/{firing}/resolve", json={"reason": "done"})
        deliver(filled, channels, routing=EVERY_RECEIVER)
    opened, resolved = hook.received
    assert [row.pop("transition")["transition"] for row in hook.received] == [
        "FIRING",
        "RESOLVED",
    ]
    owner = {"team": None, "contact": None, "links": {}}
    assert [row | owner for row in hook.received] == responses
    assert opened["row"]["consumer_group"] == "mailer"
    assert {notification["status"] for notification in opened["notifications"]} == {
        "DELIVERED",
        "PENDING",
    }
    assert len(opened["notifications"]) == 2 and len(resolved["notifications"]) == 3


def test_acknowledging_records_who_and_why(firing: str, client: TestClient, filled: Lake) -> None:
    response = client.post(f"/api/v1/incidents/{firing}/acknowledge", json={"reason": "on it"})
    assert response.status_code == 200 and response.json()["state"] == "ACKNOWLEDGED"
    after = one_incident(filled, firing)
    assert (after.acknowledged_by, after.acknowledge_reason) == ("somebody", "on it")
    (row,) = client.get("/api/v1/incidents?state=ACKNOWLEDGED").json()["items"]
    assert row["incident_id"] == firing, "the list shows it at once"


def test_the_past_knows_nothing_of_what_people_did_later(
    firing: str, client: TestClient, filled: Lake
) -> None:
    then = one_incident(filled, firing).fired_at
    assert then
    client.post(f"/api/v1/incidents/{firing}/acknowledge", json={"reason": "on it"})
    client.post(f"/api/v1/incidents/{firing}/resolve", json={"reason": "by hand"})
    at = {"at": then.isoformat()}
    (row,) = client.get("/api/v1/incidents", params=at).json()["items"]
    assert row["state"] == "FIRING" and len(row["transitions"]) == 1
    people = ("acknowledged_by", "acknowledge_reason", "resolved_by", "resolve_reason")
    assert [row[name] for name in people] == [None] * 4
    assert "closed" not in row["evidence"] and row["last_value"] == 90_000
    text = client.get("/incident", params={"id": firing} | at, headers=HTML).text
    assert '<span class="tag firing">' in text and "RESOLVED" not in text
    assert "on it" not in text
    now = client.get("/incident", params={"id": firing}, headers=HTML).text
    assert '<span class="tag resolved">' in now and "on it" in now


def test_an_incident_is_not_there_before_it_opened(firing: str, client: TestClient) -> None:
    before = (board_home.now() - timedelta(hours=1)).isoformat()
    response = client.get("/incident", params={"id": firing, "at": before})
    assert response.status_code == 404 and "opened" in response.json()["detail"]


def test_resolving_twice_is_a_conflict(firing: str, client: TestClient) -> None:
    path = f"/api/v1/incidents/{firing}/resolve"
    assert client.post(path, json={}).json()["state"] == "RESOLVED"
    assert client.post(path, json={}).status_code == 409
    assert client.post("/api/v1/incidents/none/resolve", json={}).status_code == 404


@pytest.mark.parametrize("length", [0, 1, 15])
def test_the_start_of_an_id_is_no_id(firing: str, client: TestClient, length: int) -> None:
    """Where there is one incident, that of any start would be another one tomorrow."""
    start = firing[:length]
    assert client.get("/incident", params={"id": start}).status_code == 404
    text = client.get("/incident", params={"id": firing}, headers=HTML).text
    token = re.search(r'name="token" value="(\w+)"', text)
    assert token
    form = {"id": start, "action": "resolve", "token": token[1]}
    # An empty field of a form is one that is missing.
    assert client.post("/incident/act", data=form).status_code == (404 if start else 400)
    if start:
        assert client.get(f"/api/v1/incidents/{start}").status_code == 404
        for act in ("acknowledge", "resolve"):
            path = f"/api/v1/incidents/{start}/{act}"
            assert client.post(path, json={}).status_code == 404
    assert client.get(f"/api/v1/incidents/{firing}").json()["state"] == "FIRING"


def test_silences_that_cannot_be_read_are_no_bad_request(client: TestClient, filled: Lake) -> None:
    file = filled.home.path / "silences.json"
    file.write_text("{")
    wanted = {"match": {"rule": ["lag"]}, "duration": "1h", "comment": "upgrade"}
    try:
        assert client.post("/api/v1/silences", json=wanted).status_code == 503
        assert client.delete("/api/v1/silences/abc").status_code == 503
    finally:
        file.unlink()


def test_silences_are_made_and_ended(client: TestClient, filled: Lake) -> None:
    wanted = {"match": {"consumer_group": ["mail*"]}, "duration": "2h", "comment": "upgrade"}
    response = client.post("/api/v1/silences", json=wanted)
    assert response.status_code == 201
    made = response.json()
    assert (made["author"], made["comment"], made["state"]) == ("somebody", "upgrade", "ACTIVE")
    assert [silence.silence_id for silence in silences(filled.shared.state)] == [made["silence_id"]]
    assert client.get("/api/v1/silences").json()["items"] == [made]
    path = f"/api/v1/silences/{made['silence_id']}"
    assert client.delete(path, params={"reason": "done early"}).status_code == 204
    assert client.delete(path).status_code == 404
    assert client.get("/api/v1/silences").json()["items"] == []
    (ended,) = client.get("/api/v1/silences?state=ended").json()["items"]
    assert (ended["state"], ended["ended_by"], ended["end_reason"]) == (
        "ENDED",
        "somebody",
        "done early",
    )
    assert client.get("/api/v1/silences?state=all").json()["items"] == [ended]
    assert client.get("/api/v1/silences?state=bad").status_code == 400


@pytest.mark.parametrize(
    "wanted",
    [
        {"match": {}, "duration": "2h"},
        {"match": {"colour": ["red"]}, "duration": "2h"},
        {"match": {"rule": ["*"]}, "duration": "long"},
        {"match": {"rule": ["*"]}, "duration": "2h", "who": "me"},
    ],
)
def test_a_wrong_silence_is_a_problem(reader: TestClient, wanted: dict[str, object]) -> None:
    response = reader.post("/api/v1/silences", json=wanted)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("wanted", [{"match": {"rule": ["\ud800"]}}, {"comment": "\ud800"}])
def test_half_a_character_is_a_problem(
    client: TestClient, firing: str, wanted: dict[str, object]
) -> None:
    """Once stored, it would break the list of silences and the page of incidents."""
    body = json.dumps({"match": {"rule": ["*"]}, "duration": "2h"} | wanted)
    assert client.post("/api/v1/silences", content=body, headers=JSON).status_code == 400
    assert client.get("/api/v1/silences").json()["items"] == []
    assert client.get("/incidents", headers=HTML).status_code == 200
    why = json.dumps({"reason": "\ud800"})
    path = f"/api/v1/incidents/{firing}/acknowledge"
    assert client.post(path, content=why, headers=JSON).status_code == 400


def test_a_cluster_that_is_not_configured_gets_no_request(reader: TestClient) -> None:
    assert reader.get("/api/v1/live/elsewhere").status_code == 404
    wanted = {"cluster": "elsewhere", "consumer_group": "mailer", "clients": 3}
    assert reader.post("/api/v1/plan", json=wanted).status_code == 404


@pytest.mark.parametrize("comment", [None, "", " "])
def test_a_silence_without_a_reason_is_refused(client: TestClient, comment: str | None) -> None:
    wanted = {"match": {"rule": ["stalled"]}, "duration": "30m"}
    wanted |= {} if comment is None else {"comment": comment}
    response = client.post("/api/v1/silences", json=wanted)
    assert response.status_code == 400 and "comment" in response.json()["detail"]
