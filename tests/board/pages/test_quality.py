"""The page of quality: what is not met and why, and decisions on quarantined rows.

A decision is as that of `tidemark quarantine`. The page names the numbers that follow it.
"""

import json
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.board.conftest import BASE_URL
from tests.support import board_home
from tests.support.board_home import CLUSTER, add_snapshot
from tests.support.page_texts import HTML, page, plain
from tests.support.quality_rows import RUN, add_quarantined, add_results
from tidemark.board.access import Login, Person
from tidemark.board.application import application
from tidemark.board.pages import quality
from tidemark.board.store import Store
from tidemark.host.leases import DECISIONS
from tidemark.lake.catalog import Lake
from tidemark.planning import quarantine_decisions
from tidemark.planning.quarantine_decisions import decisions


@pytest.fixture
def at(store: Store) -> datetime:
    return store.newest.at[CLUSTER]


def token_of(client: TestClient) -> str:
    return re.findall(r'name="token" value="(\w+)"', page(client, "/quality"))[0]


def decide(client: TestClient, **form: Any) -> Any:
    given = {"token": token_of(client), "reason": "the broker confirms it", "decision": "released"}
    return client.post("/quality/decide", data=given | form, headers=HTML, follow_redirects=False)


def test_what_fails_says_what_was_expected_and_shows_rows(
    client: TestClient, filled: Lake, at: datetime
) -> None:
    sample = json.dumps([{"topic": "<script>", "perm": 9}])
    add_results(
        filled,
        at,
        {"expectation": "fine", "success": True},
        {"expectation": "few", "success": False, "unexpected": 2, "expected": "0 rows of x"},
        {"expectation": "many", "success": False, "unexpected": 7, "sample": sample},
        {"expectation": "stops", "success": False, "unexpected": 1, "severity": "block"},
    )
    text = page(client, "/quality")
    words = plain(text)
    assert "1 of 4 expectations are met, 3 are not ." in words
    places = [text.index(name) for name in ("stops", "many", "few", "fine")]
    assert places == sorted(places), "what stops computing first, then what most rows violate"
    assert "0 rows of x" in words and "2 of 10 rows" in words
    assert "<script>&#34;" not in text and "&lt;script&gt;" in text


def test_each_mistake_in_suites_of_people_is_a_line(
    client: TestClient, filled: Lake, at: datetime
) -> None:
    """Before, they stood in a tick's log only."""
    problem = "a.json: is no suite\nb.py:3: raises NameError: x; remove it\nc.txt: no table 'c'"
    add_results(
        filled, at, {"table": "quality.results", "expectation": "suites_are_usable"}
        | {"success": False, "unexpected": 3, "elements": None, "problem": problem},
    )  # fmt: skip
    text = plain(page(client, "/quality"))
    assert "3 mistakes" in text and "could not be validated" not in text
    assert "a.json: is no suite b.py:3: raises NameError: x; remove it c.txt: no table" in text


def test_quarantined_rows_stand_by_reason(client: TestClient, filled: Lake, at: datetime) -> None:
    ids = add_quarantined(filled, at, 1, 2)
    text = plain(page(client, "/quality"))
    assert "2 raw.queue_offsets: max_offset_ge_0" in " ".join(text.replace(" :", ":").split())
    assert "2 rows wait for a decision" in text
    assert all(name in text for name in ids)
    past = page(client, f"/quality?at={at:%Y-%m-%dT%H:%M:%SZ}")
    assert "/quality/decide" not in past, "the past takes no decision"


def test_a_release_is_recorded_and_says_what_follows(
    client: TestClient, filled: Lake, at: datetime
) -> None:
    (row, _) = add_quarantined(filled, at, 1, 2)
    response = decide(client, row=[row])
    assert response.status_code == 303
    (decision,) = decisions(filled)
    assert (decision.row_id, decision.decision) == (row, "released")
    assert (decision.author, decision.comment) == ("somebody", "the broker confirms it")
    text = plain(page(client, response.headers["location"]))
    assert "1 row was released by somebody: the broker confirms it" in text
    hour = at.replace(minute=0, second=0)
    assert f"tidemark recompute --from {hour:%Y-%m-%dT%H:%MZ}" in text
    assert "1 row waits for a decision" in text and "Decided: 1" in text


def test_a_drop_changes_no_number_and_can_be_undone(
    client: TestClient, filled: Lake, at: datetime
) -> None:
    rows = add_quarantined(filled, at, 1, 2)
    text = plain(page(client, decide(client, row=rows, decision="dropped").headers["location"]))
    assert "2 rows were dropped by somebody" in text and "No number changes" in text
    assert "No row waits for a decision." in text
    undone = decide(client, row=rows, decision="undone").headers["location"]
    assert "The decision on 2 rows was undone" in plain(page(client, undone))
    assert decisions(filled) == ()


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"token": "0" * 64}, 403),
        ({"reason": "  "}, 400),
        ({"decision": "deleted"}, 400),
        ({"row": []}, 400),
        ({"row": ["ffffffffffff"]}, 404),
        ({"decision": "undone"}, 404),
    ],
    ids=["of another site", "without a reason", "no decision", "no row", "unknown", "undecided"],
)
def test_a_decision_is_refused(
    client: TestClient, filled: Lake, at: datetime, form: dict[str, Any], status: int
) -> None:
    (row,) = add_quarantined(filled, at, 1)
    assert decide(client, **({"row": [row]} | form)).status_code == status
    assert decisions(filled) == ()


def test_a_row_without_its_raw_row_is_not_released(
    client: TestClient, filled: Lake, at: datetime
) -> None:
    (row,) = add_quarantined(filled, at, 1, loaded=False)
    response = decide(client, row=[row])
    assert response.status_code == 409
    assert "its raw rows have been removed" in response.text


def test_rows_beyond_those_that_are_read_make_counts_bounds(
    client: TestClient, filled: Lake, at: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = add_quarantined(filled, at, 1, 2)
    monkeypatch.setattr(quality, "MOST_READ", 1)
    assert "≥ 1 rows wait for a decision" in plain(page(client, "/quality"))
    decide(client, row=rows)
    assert "≥ 0 rows wait for a decision" in plain(page(client, "/quality"))


def test_nobody_decides_while_somebody_else_does(
    client: TestClient, filled: Lake, at: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two people could release two rows of one key."""
    (row,) = add_quarantined(filled, at, 1)
    monkeypatch.setattr(quarantine_decisions, "LEASE_SECONDS", 0)
    with filled.shared.leases.acquire(DECISIONS):
        assert decide(client, row=[row]).status_code == 503
    assert decisions(filled) == ()
    assert decide(client, row=[row]).status_code == 303


def test_who_may_only_read_decides_nothing(store: Store, filled: Lake, at: datetime) -> None:
    (row,) = add_quarantined(filled, at, 1)
    login = Login(tokens={"t-read": Person("watcher", may_act=False)})
    client = TestClient(application(store, login=login), base_url=BASE_URL)
    client.headers["Authorization"] = "Bearer t-read"
    assert "/quality/decide" not in page(client, "/quality")
    form = {"row": row, "decision": "released", "reason": "why", "token": "0"}
    assert client.post("/quality/decide", data=form).status_code == 403
    assert decisions(filled) == ()


def test_data_docs_are_served_where_an_audit_has_written_them(
    client: TestClient, filled: Lake, at: datetime
) -> None:
    add_results(filled, at, {"expectation": "few", "success": True})
    assert "/data-docs" not in page(client, "/quality")
    assert client.get("/data-docs/index.html").status_code == 404
    site = filled.home.path / "data_docs" / "uncommitted" / "data_docs" / "local_site"
    (site / "validations").mkdir(parents=True)
    (site / "index.html").write_text("the index")
    (site / "validations" / "topics.html").write_text("of topics")
    (filled.home.path / "secret.html").write_text("a secret")
    (site / "link.html").symlink_to(filled.home.path / "secret.html")
    (address,) = re.findall(r'href="(/data-docs/[^"]+)"', page(client, "/quality"))
    index = client.get(address)
    assert index.text == "the index"
    policy = index.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src" not in policy
    assert client.get("/data-docs/validations/topics.html").text == "of topics"
    up = ("../" * 4, "%2e%2e/" * 4, "..%2f" * 4)
    for path in (*(f"{steps}secret.html" for steps in up), "link.html", "", "%00.html", "x.html"):
        assert client.get(f"/data-docs/{path}").status_code == 404, path


def test_dagster_is_a_link_where_its_address_is_known(
    store: Store, filled: Lake, at: datetime
) -> None:
    add_results(filled, at, {"expectation": "few", "success": False, "unexpected": 2})
    (row,) = add_quarantined(filled, at, 1)
    known = application(store, dagster_url="https://dagster.example.org/x/")
    client = TestClient(known, base_url=BASE_URL)
    text = page(client, "/quality")
    for path in (f"runs/{RUN}", "assets/raw/topics?view=checks", "runs"):
        assert f'href="https://dagster.example.org/x/{path}"' in text
    decided = page(client, decide(client, row=[row]).headers["location"])
    assert 'href="https://dagster.example.org/x/assets/progress/groups?view=partitions"' in decided
    unknown = TestClient(application(store), base_url=BASE_URL)
    assert "in Dagster" not in page(unknown, "/quality")


def test_a_stale_page_leads_to_dagster(lake: Lake) -> None:
    add_snapshot(lake, board_home.now() - timedelta(hours=2))
    store = Store(lake)
    store.refresh()
    client = TestClient(application(store, dagster_url="http://127.0.0.1:3000"), base_url=BASE_URL)
    for path in ("/", "/groups", "/quality"):
        text = page(client, path)
        assert 'href="http://127.0.0.1:3000/health"' in text, path
