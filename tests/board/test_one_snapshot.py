"""A page, a response and a scrape show one snapshot of a cluster, also while a tick writes.

A tick writes a table after the other, and the row of ``progress.snapshots`` last. Reading each
table to its end would look right, and mix two snapshots on a page for as long as a tick writes.
"""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.board_home import CLUSTER, group, queue, rows_of
from tests.support.lake_copies import copied
from tidemark.alerting.incidents.incident import incident_id
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.schema import Table
from tidemark.lake.tables import alerting, progress, quality, raw
from tidemark.settings.home import Home

HTML = {"Accept": "text/html"}
AT = board_home.now() - timedelta(minutes=3)
NEXT = AT + timedelta(minutes=1)
OLD, NEW = "31,313", "57,575"
MARKS = (NEW, NEW.replace(",", ""), "later-rule", "LATER", "later_expectation")
"""Texts that no response contains before the tick has ended."""


def numbers(text: str) -> list[dict[str, object]]:
    lag = int(text.replace(",", ""))
    return [group("mailer", lag=lag, readable_lag=lag, delay_ms=lag, produce_tps=float(lag))]


def tick() -> Iterator[tuple[Table, object]]:
    """The rows of a tick, table by table, in the order in which a tick writes them."""
    lag = int(NEW.replace(",", ""))
    yield raw.SNAPSHOTS, board_home.snapshot_row(NEXT, requests=lag)
    yield raw.BROKERS, rows_of(raw.BROKERS, NEXT, board_home.BROKERS)
    result = {"table": "raw.brokers", "expectation": "later_expectation", "success": False}
    result |= {"observed_at": NEXT + timedelta(seconds=5), "window_start": NEXT, "run_id": "r"}
    names = quality.RESULTS.column_names
    yield quality.RESULTS, [{name: result.get(name) for name in names}]
    yield progress.QUEUES, rows_of(progress.QUEUES, NEXT, [queue("mailer", 0, lag=lag)])
    yield progress.GROUPS, rows_of(progress.GROUPS, NEXT, numbers(NEW))
    event = {"kind": "REWOUND", "consumer_group": "mailer", "queue_id": 0, "messages": lag}
    yield progress.EVENTS, rows_of(progress.EVENTS, NEXT, [event | {"likely_cause": "LATER"}])
    opened = board_home.incident(NEXT, rule="later-rule", group_name="mailer", kind="stalled")
    yield alerting.INCIDENTS, [opened]
    yield progress.SNAPSHOTS, rows_of(progress.SNAPSHOTS, NEXT, [{}])


def advanced() -> dict[str, object]:
    """The incident that fires since before, as the tick advances it."""
    row = {"cluster": CLUSTER, "consumer_group": "mailer", "topic": "orders"}
    evidence = json.dumps({"row": row | {"lag": int(NEW.replace(",", ""))}})
    value = float(NEW.replace(",", ""))
    return board_home.incident(AT, kind="stalled") | {
        **{"observed_at": NEXT, "last_true_at": NEXT, "last_value": value, "peak_value": value},
        "evidence": evidence,
    }


@pytest.fixture
def ticking(tmp_path_factory: pytest.TempPathFactory, empty_lake: Lake) -> Lake:
    lake = copied(empty_lake, Home.of(tmp_path_factory.mktemp("ticking") / "home"))
    board_home.add_snapshot(lake, AT, numbers(OLD), queues=[queue("mailer", 0, lag=31_313)])
    board_home.add_incident(lake, AT, kind="stalled", last_value=31_313.0, peak_value=31_313.0)
    return lake


def responses(client: TestClient) -> dict[str, str]:
    incident = incident_id("stalled", f"{CLUSTER}/mailer/orders", AT)
    pages = (
        *("/", "/groups", "/incidents", "/topics", "/brokers", "/events", "/quality"),
        f"/group?cluster={CLUSTER}&group=mailer",
        f"/topic?cluster={CLUSTER}&topic=orders",
        f"/incident?id={incident}",
    )
    api = (
        *("clusters", "groups", "topics", "incidents", "events", "quality"),
        f"incidents/{incident}",
        *(f"groups/{CLUSTER}/mailer", f"topics/{CLUSTER}/orders"),
        *(f"groups/{CLUSTER}/mailer/orders/{part}" for part in ("history", "queues")),
        f"groups/{CLUSTER}/mailer/orders/history?columns=lag,health",
    )
    clients = {path: client.get(path, headers=HTML) for path in pages}
    clients |= {
        path: client.get(path) for path in (*(f"/api/v1/{text}" for text in api), "/metrics")
    }
    assert {path: client.status_code for path, client in clients.items()} == dict.fromkeys(
        clients, 200
    )
    return {path: client.text.replace("<wbr>", "") for path, client in clients.items()}


@pytest.mark.slow
def test_nothing_of_a_tick_is_shown_before_it_is_over(ticking: Lake) -> None:
    store = Store(ticking)
    store.refresh()
    app = application(store)
    client = TestClient(app, base_url="http://127.0.0.1:8080")
    app.state.metrics.refresh()
    texts = responses(client)
    assert all(mark not in text for text in texts.values() for mark in MARKS)
    for table, rows in tick():
        if table is alerting.INCIDENTS:
            ticking.upsert(table, [advanced()])
        ticking.append(table, rows)
        store.refresh()
        app.state.metrics.refresh()
        texts = responses(client)
        if table is not progress.SNAPSHOTS:
            wrong = [(path, m) for path, text in texts.items() for m in MARKS if m in text]
            assert wrong == [], f"after {table.name}"
            for path in ("/", "/groups", f"/group?cluster={CLUSTER}&group=mailer", "/incidents"):
                assert OLD in texts[path], f"{path} after {table.name}"
    for path in ("/", "/groups", f"/group?cluster={CLUSTER}&group=mailer"):
        assert NEW in texts[path] and OLD not in texts[path], path
    assert "later-rule" in texts["/incidents"] and NEW in texts["/incidents"]
    assert "LATER" in texts["/events"] and "later_expectation" in texts["/quality"]


def test_what_a_person_resolves_is_shown_at_once(ticking: Lake) -> None:
    store = Store(ticking)
    store.refresh()
    client = TestClient(application(store), base_url="http://127.0.0.1:8080")
    incident = incident_id("stalled", f"{CLUSTER}/mailer/orders", AT)
    path = f"/api/v1/incidents/{incident}"
    assert client.post(f"{path}/resolve", json={"reason": "known"}).json()["state"] == "RESOLVED"
    assert client.get(path).json()["state"] == "RESOLVED"
    assert client.get("/api/v1/incidents?state=open").json()["items"] == []


@pytest.mark.slow
def test_a_snapshot_of_a_clock_ahead_is_named_and_not_shown(ticking: Lake) -> None:
    ahead = board_home.now() + timedelta(days=700)
    board_home.add_snapshot(ticking, ahead, numbers(NEW))
    store = Store(ticking)
    store.refresh()
    assert store.newest.at == {CLUSTER: AT}
    app = application(store)
    app.state.metrics.refresh()
    texts = responses(TestClient(app, base_url="http://127.0.0.1:8080"))
    named = board_home.snapshot_id(ahead)
    assert [path for path, text in texts.items() if NEW in text or named in text] == ["/quality"]
    assert f"Snapshot {named} lies in the future" in texts["/quality"]
    later = (ahead + timedelta(days=1)).isoformat()
    text = TestClient(app, base_url="http://127.0.0.1:8080").get("/groups", params={"at": later})
    assert NEW not in text.text and OLD in text.text
