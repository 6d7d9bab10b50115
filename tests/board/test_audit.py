"""``/audit``: who did what, when, on what and why, on the API and on the page.

Simplifications that would look right: to list what is in force now (a removed annotation, a
replaced acknowledgement and an undone decision would be gone), or to keep the last action of each
kind alone.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.board.conftest import BASE_URL
from tests.support import board_home
from tests.support.board_home import CLUSTER
from tests.support.page_texts import page, plain
from tidemark.alerting.incidents.actions import acknowledge, resolve
from tidemark.alerting.recorded_actions import (
    MOST_AN_HOUR,
    MOST_KEPT,
    REFUSALS_KEPT,
    SAME_REQUEST,
    Action,
    RefusalCounter,
    record,
    record_diagnosis,
    recorded,
    refused,
    united,
)
from tidemark.board.access import Login, Person
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import quality
from tidemark.model.incidents import ActionKind
from tidemark.planning.quarantine_decisions import decide, decided_rows, known_rows

ADDRESS = "/api/v1/audit"


def actions(client: TestClient, **parameters: Any) -> list[dict[str, Any]]:
    response = client.get(ADDRESS, params=parameters)
    assert response.status_code == 200, response.text
    return response.json()["items"]


def add_quarantined(lake: Lake, *groups: str) -> None:
    at = board_home.now()
    rows = [
        {"observed_at": at, "table": "raw.clients", "reason": "known", "snapshot_id": None,
         "row": f'{{"cluster": "{CLUSTER}", "consumer_group": "{name}"}}'}
        for name in groups
    ]  # fmt: skip
    lake.append(quality.QUARANTINE, rows)


def test_every_action_is_listed_with_person_and_reason(client: TestClient, filled: Lake) -> None:
    fired = board_home.add_incident(filled, board_home.now())
    silence = {"match": {"consumer_group": ["mailer"]}, "duration": "1h", "comment": "deploy"}
    made = client.post("/api/v1/silences", json=silence).json()["silence_id"]
    client.delete(f"/api/v1/silences/{made}?reason=done")
    note = client.post("/api/v1/annotations", json={"text": "failover"}).json()["annotation_id"]
    client.delete(f"/api/v1/annotations/{note}")
    acknowledge(filled, fired, "ann", "mine")
    acknowledge(filled, fired, "bob", "no, mine")
    resolve(filled, fired, "bob", "by hand")
    add_quarantined(filled, "a", "b")
    decide(filled, known_rows(filled).values(), ActionKind.DROPPED, "eve", "wrong")
    undone = [row for row in decided_rows(filled).values() if '"a"' in row.row]
    decide(filled, undone, ActionKind.UNDONE, "eve", "")
    shown = [(row["author"], row["action"], row["target"], row["reason"], row["rows"])
             for row in actions(client)]  # fmt: skip
    dropped = next(row for row in actions(client) if row["action"] == "dropped")["target"]
    assert shown == [
        ("eve", "undone", undone[0].row_id, None, 1),
        ("eve", "dropped", dropped, "wrong", 2),
        ("bob", "resolved", fired, "by hand", None),
        ("bob", "acknowledged", fired, "no, mine", None),
        ("ann", "acknowledged", fired, "mine", None),
        ("somebody", "annotation_removed", note, "failover", None),
        ("somebody", "annotated", note, "failover", None),
        ("somebody", "unsilenced", made, "done", None),
        ("somebody", "silenced", made, "deploy", None),
    ]
    of_incident = actions(client, person="ann")[0]
    assert (of_incident["cluster"], of_incident["consumer_group"]) == (CLUSTER, "mailer")
    assert actions(client, action="silenced")[0]["subject"] == "consumer_group=mailer"


def test_filters_pages_and_wrong_parameters(client: TestClient) -> None:
    for text in ("one", "two", "three"):
        client.post("/api/v1/annotations", json={"text": text})
    first = client.get(ADDRESS, params={"limit": 2}).json()
    then = client.get(ADDRESS, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [row["reason"] for row in first["items"] + then["items"]] == ["three", "two", "one"]
    assert then["next_cursor"] is None
    middle = first["items"][1]["at"]
    assert [row["reason"] for row in actions(client, **{"from": middle})] == ["three", "two"]
    assert [row["reason"] for row in actions(client, to=middle)] == ["two", "one"]
    assert actions(client, person="nobody") == []
    wrong = client.get(ADDRESS, params={"action": "fired"})
    assert wrong.status_code == 400 and "acknowledged, resolved" in wrong.json()["detail"]


def test_an_incident_that_never_fired_leaves_who_resolved_it(
    client: TestClient, filled: Lake
) -> None:
    pending = board_home.add_incident(filled, board_home.now(), state="PENDING", fired_at=None)
    assert client.post(f"/api/v1/incidents/{pending}/resolve", json={"reason": "known"}).is_success
    assert client.get(f"/api/v1/incidents/{pending}").status_code == 404
    (row,) = actions(client)
    assert (row["action"], row["author"], row["reason"]) == ("resolved", "somebody", "known")
    assert row["target"] == pending and row["consumer_group"] == "mailer"


def test_incidents_of_earlier_versions_have_their_last_actions(
    client: TestClient, filled: Lake
) -> None:
    at = board_home.now()
    board_home.add_incident(
        filled, at, state="ACKNOWLEDGED", acknowledged_at=at, acknowledged_by="ann"
    )
    (row,) = actions(client)
    assert (row["action"], row["author"], row["reason"]) == ("acknowledged", "ann", None)


def test_polled_stacks_are_one_request_and_the_newest_are_kept(filled: Lake) -> None:
    shared, now = filled.shared, datetime.now(UTC)

    def ask(author: str, at: datetime) -> None:
        record_diagnosis(shared, author, at, cluster=CLUSTER, consumer_group="billing", topic=None)

    for second in range(5):
        ask("ann", now + timedelta(seconds=second))
    ask("bob", now)
    assert [made.author for made in recorded(shared.state)] == ["bob", "ann"]
    ask("ann", now + SAME_REQUEST + timedelta(seconds=1))
    assert [made.author for made in recorded(shared.state)] == ["ann", "bob", "ann"]
    late = Action(at=now + timedelta(days=91), author="eve", action=ActionKind.DIAGNOSED)
    record(shared, late)
    assert recorded(shared.state) == [late]
    for number in range(3):
        record(shared, Action(at=now, author=str(number), action=ActionKind.DIAGNOSED), most=2)
    assert [made.author for made in recorded(shared.state)] == ["2", "1"]


@pytest.mark.slow
def test_an_unreadable_record_is_a_clear_error(client: TestClient, filled: Lake) -> None:
    for name in ("actions.json", "refusals.json", "silences.json", "annotations.json"):
        filled.shared.state.write(name, "[{]")
        response = client.get(ADDRESS)
        assert response.status_code == 503 and "start over" in response.json()["detail"]
        filled.shared.state.remove(name)
    # Stacks are shown though nobody can record who requested them.
    filled.shared.state.write("actions.json", "[{]")
    record_diagnosis(
        filled.shared, "ann", board_home.now(), cluster=CLUSTER, consumer_group="a", topic=None
    )


def test_the_page_shows_and_filters_actions(client: TestClient, filled: Lake) -> None:
    fired = board_home.add_incident(filled, board_home.now())
    client.app.state.store.refresh()  # pyright: ignore
    client.post(f"/api/v1/incidents/{fired}/acknowledge", json={"reason": "<b>mine</b>"})
    client.post("/api/v1/annotations", json={"text": "failover"})
    text = page(client, "/audit")
    assert "&lt;b&gt;mine" in text and f"/incident?id={fired}" in text
    assert "2 actions, the newest first" in plain(text)
    of_kind = plain(page(client, "/audit?action=annotated&days=7"))
    assert "1 action" in of_kind and "failover" in of_kind and "mine" not in of_kind
    nobody = plain(page(client, "/audit?person=ann"))
    assert "Nobody did anything that fits" in nobody
    assert client.get("/audit?days=0", headers={"Accept": "text/html"}).status_code == 400


def refusing(lake: Lake) -> tuple[TestClient, RefusalCounter]:
    """Return a client of a board with logins, and the counter of its refusals."""
    tokens = {
        "reads": Person("watcher", may_act=False),
        "of-team": Person("pay", may_act=True, teams=frozenset({"payments"})),
    }
    store = Store(lake)
    store.refresh()
    app = application(store, login=Login(tokens=tokens))
    return TestClient(app, base_url=BASE_URL), app.state.refusals


def bearer(token: str, **headers: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **headers}


@pytest.mark.slow
def test_refused_accesses_are_counted_by_person_and_part(filled: Lake) -> None:
    client, refusals = refusing(filled)
    assert client.get("/groups").status_code == 401  # a browser begins so
    for path in ("/api/v1/groups", "/api/v1/groups", "/wp-login.php", "/.env"):
        assert client.get(path, headers=bearer("guessed-secret")).status_code == 401
    body = {"text": "mine"}
    for _ in range(3):
        refused = client.post("/api/v1/annotations", json=body, headers=bearer("reads"))
        assert refused.status_code == 403
    foreign = bearer("reads", Origin="https://evil.example")
    assert client.get("/groups", headers=foreign).status_code == 403
    assert client.get("/healthz", headers=bearer("guessed-secret")).status_code == 200
    refusals.write()
    listed = client.get(ADDRESS, params={"action": "refused"}, headers=bearer("reads"))
    shown = {(row["author"], row["subject"], row["reason"], row["requests"])
             for row in listed.json()["items"]}  # fmt: skip
    assert {
        ("testclient", "GET /api/v1/groups", "401", 2),
        ("testclient", "GET another address", "401", 2),
        ("watcher", "POST /api/v1/annotations", "403", 3),
        ("watcher", "GET /groups", "403", 1),
    } <= shown
    assert "guessed-secret" not in listed.text
    of_team = client.get(ADDRESS, headers=bearer("of-team")).json()["items"]
    assert [row for row in of_team if row["action"] == "refused"] == []
    text = plain(client.get("/audit?action=refused", headers=bearer("reads")).text)
    assert "3 requests in this hour" in text
    assert "watcher" not in plain(client.get("/audit", headers=bearer("reads")).text)


def test_a_flood_of_refusals_fills_nothing(filled: Lake) -> None:
    counter, now = RefusalCounter(filled.shared), datetime.now(UTC)
    for number in range(500):
        counter.count(f"10.0.0.{number}", "GET /groups", 401, now)
    counter.write()
    counter.count("10.0.0.1", "GET /groups", 401, now + timedelta(microseconds=1))
    counter.count("late", "GET /groups", 403, now)
    counter.write()
    rows = refused(filled.shared.state)
    assert len(rows) == MOST_AN_HOUR + 2
    assert sum(row.requests for row in rows) == 502
    assert {(row.author, row.status) for row in rows} >= {("others", 401), ("others", 403)}
    assert {row.requests for row in rows if row.author == "10.0.0.1"} == {2}
    old = now - REFUSALS_KEPT
    hours = [replace(rows[0], at=now - timedelta(hours=hour)) for hour in range(3000)]
    kept = united([], hours, now)
    assert len(kept) == 24 * 30 and all(row.at > old for row in kept)
    others = [replace(row, author=str(number)) for number in range(4) for row in hours]
    assert len(united([], others, now)) == MOST_KEPT


def test_counts_survive_a_state_that_cannot_be_written(filled: Lake) -> None:
    counter, now = RefusalCounter(filled.shared), datetime.now(UTC)
    filled.shared.state.write("refusals.json", "[{]")
    counter.count("ann", "GET /groups", 403, now)
    counter.write()
    filled.shared.state.remove("refusals.json")
    end = counter.start()
    end()
    assert [row.author for row in refused(filled.shared.state)] == ["ann"]


@pytest.mark.parametrize("path", ["/audit", ADDRESS])
def test_an_empty_home_has_no_actions(empty_lake: Lake, path: str) -> None:
    store = Store(empty_lake)
    store.refresh()  # as its thread does; a page waits for the first rows
    client = TestClient(application(store), base_url=BASE_URL)
    response = client.get(path, headers={"Accept": "text/html"})
    assert response.status_code == 200
