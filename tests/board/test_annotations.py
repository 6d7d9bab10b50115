"""``/annotations``: notes on the time axis of what they are about, as text, and bounded."""

import json
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.board_home import CLUSTER
from tests.support.page_texts import page, plain
from tidemark.alerting.annotations import annotate, annotations
from tidemark.lake.catalog import Lake

ADDRESS = "/api/v1/annotations"


def add(client: TestClient, status: int = 201, **note: object) -> dict[str, object]:
    response = client.post(ADDRESS, json=note)
    assert response.status_code == status, response.text
    return response.json()


def noted(client: TestClient) -> list[str]:
    return [row["text"] for row in client.get(ADDRESS).json()["items"]]


def test_a_note_is_kept_with_its_author_and_removed(client: TestClient) -> None:
    at = board_home.now() - timedelta(minutes=5)
    first = add(client, text="deploy\n 1.2", at=at.isoformat(), match={"consumer_group": ["m*"]})
    second = add(client, text="failover")
    assert noted(client) == ["failover", "deploy 1.2"]
    assert (first["author"], first["match"]) == ("somebody", {"consumer_group": ["m*"]})
    since = (at + timedelta(minutes=1)).isoformat().replace("+00:00", "Z")
    rows = client.get(f"{ADDRESS}?from={since}").json()["items"]
    assert [row["annotation_id"] for row in rows] == [second["annotation_id"]]
    assert client.delete(f"{ADDRESS}/{second['annotation_id']}").status_code == 204
    assert client.delete(f"{ADDRESS}/{second['annotation_id']}").status_code == 404
    assert noted(client) == ["deploy 1.2"]


@pytest.mark.parametrize(
    ("note", "reason"),
    [
        ({"text": " "}, "text: what happened is wanted"),
        ({"text": "x" * 501}, "text: at most 500 characters"),
        ({"text": "x", "at": "soon"}, "at='soon': an ISO 8601 instant"),
        ({"text": "x", "at": "2016-01-01T00:00:00Z"}, "at: an instant of the last 90 days"),
        ({"text": "x", "match": {"group": ["a"]}}, "match: group: unknown, an annotation matches"),
        ({"text": "x", "match": {"topic": ["y" * 256]}}, "match: at most 100 globs"),
        ({"text": "\ud800"}, "half of a character"),
    ],
)
def test_a_wrong_note_is_refused_in_one_line(
    client: TestClient, note: dict[str, object], reason: str
) -> None:
    response = client.post(
        ADDRESS, content=json.dumps(note), headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 400 and reason in response.json()["detail"]
    assert noted(client) == []


def test_a_form_of_another_page_adds_nothing(client: TestClient) -> None:
    response = client.post(ADDRESS, data={"text": "x"})
    assert response.status_code in (400, 403, 415, 422)
    assert noted(client) == []


def test_notes_stand_on_what_they_are_about(client: TestClient) -> None:
    add(client, text="for all")
    add(client, text="for mailer", match={"cluster": [CLUSTER], "consumer_group": ["mail*"]})
    add(client, text="for others", match={"consumer_group": ["other"]})
    group = plain(page(client, f"/group?cluster={CLUSTER}&group=mailer&topic=orders"))
    assert "for all (somebody)" in group and "for mailer (somebody)" in group
    assert "for others" not in group
    for path in ("/events", "/"):
        shown = plain(page(client, path))
        assert all(text in shown for text in ("for all", "for mailer", "for others"))


def test_a_hostile_note_is_text(client: TestClient) -> None:
    add(client, text="<script>alert(1)</script>")
    for path in ("/events", "/", f"/group?cluster={CLUSTER}&group=mailer&topic=orders"):
        text = page(client, path)
        assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text


def test_notes_are_bounded_in_number_and_age(filled: Lake) -> None:
    now, shared = board_home.now(), filled.shared
    annotate(shared, "old", "ann", now=now - timedelta(days=91))
    for number in range(4):
        annotate(shared, f"note {number}", "ann", now=now + timedelta(number), most=3)
        assert "old" not in [note.text for note in annotations(shared.state)]
    assert [note.text for note in annotations(shared.state)] == ["note 3", "note 2", "note 1"]


def test_unreadable_notes_take_no_page_away(client: TestClient, filled: Lake) -> None:
    filled.shared.state.write("annotations.json", "[{]")
    response = client.get(ADDRESS)
    assert response.status_code == 503 and "delete it to start over" in response.json()["detail"]
    assert "mailer" in page(client, f"/group?cluster={CLUSTER}&group=mailer&topic=orders")


def test_a_body_that_is_no_mapping_is_explained(client: TestClient) -> None:
    """Its line began with a colon, for want of a field."""
    response = client.post(ADDRESS, json=[])
    assert (response.status_code, response.json()["detail"][:5]) == (400, "Input")
