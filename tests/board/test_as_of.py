"""The rows as of an instant: also long after a snapshot, and where raw rows have been removed."""

from datetime import datetime, timedelta

import pytest
from fastapi.testclient import TestClient

from tests.support.board_home import CLUSTER, add_snapshot, group, now
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.tables import raw

HTML = {"Accept": "text/html"}


def add_old(lake: Lake, at: datetime, name: str, lag: int, **columns: str) -> None:
    """Add a snapshot with a group, as retention leaves it: without raw rows."""
    add_snapshot(lake, at, [group(name, lag=lag)], **columns)
    for table in raw.ALL:
        lake.replace(table, Window.through(at, at), [])


@pytest.fixture
def old(filled: Lake, store: Store) -> datetime:
    """The instant of a snapshot whose raw rows have been removed."""
    at = now() - timedelta(days=20)
    add_old(filled, at, "ancient", 5)
    store.refresh()
    return at


@pytest.mark.slow
def test_the_past_is_shown_after_its_raw_rows_are_removed(
    client: TestClient, old: datetime
) -> None:
    """Computed rows stay for months, raw ones for a week."""
    at = {"at": old.isoformat()}
    of_group = {"cluster": CLUSTER, "group": "ancient"}
    for path, of in (("/", {}), ("/groups", {}), ("/group", of_group)):
        page = client.get(path, params=of | at, headers=HTML)
        assert page.status_code == 200 and "ancient" in page.text, path
        assert "Nothing was computed by then" not in page.text, path
        assert "raw rows of then have been removed" in page.text, path
        assert "Nobody is online" not in page.text, "its members are unknown"
    assert "have been removed" not in client.get("/brokers", headers=HTML).text
    body = client.get(f"/api/v1/groups/{CLUSTER}/ancient", params=at).json()
    assert [row["lag"] for row in body["topics"]] == [5] and body["members"] == []


def test_where_a_snapshot_was_read_is_unknown_without_raw_rows(
    filled: Lake, store: Store, old: datetime
) -> None:
    """The only source that a snapshot's id shows is the log of counters."""
    row = store.past.at(old).of(raw.SNAPSHOTS).to_pylist()[0]
    assert row["cluster"] == CLUSTER and row["observed_at"] == old
    assert row["status"] is None and row["brokers_answered"] is None
    # A loaded snapshot of files is newer than any whose raw rows are removed.
    at = old + timedelta(hours=1)
    add_snapshot(filled, at, [group("mailer", lag=7)], source="store")
    store.refresh()
    assert store.past.at(at).at == {CLUSTER: at}


def test_an_instant_long_after_a_snapshot_shows_it(store: Store, old: datetime) -> None:
    """As in a pause of weeks; a later snapshot in the same hour is not the one before it."""
    assert store.past.at(old + timedelta(days=12)).at == {CLUSTER: old}
    newest = store.newest.at[CLUSTER]
    assert store.past.at(newest - timedelta(seconds=1)).at == {CLUSTER: old}
    assert store.past.at(newest + timedelta(days=400)).at == {CLUSTER: newest}
    assert store.past.at(old - timedelta(seconds=1)).at == {}


def test_a_cluster_that_is_not_collected_any_more_has_a_past(
    filled: Lake, store: Store, client: TestClient
) -> None:
    at = now() - timedelta(days=10)
    add_snapshot(filled, at, [group("gone", lag=3)], cluster="former")
    store.refresh()
    assert "former" not in store.newest.at
    path, then = "/api/v1/groups/former/gone", at.isoformat()
    assert client.get(path, params={"at": then}).json()["topics"][0]["lag"] == 3
    points = client.get(f"{path}/orders/history", params={"to": then, "columns": "lag"}).json()
    assert [point["last"]["lag"] for point in points["points"]] == [3]
    assert client.get(path).status_code == 404
    before = (at - timedelta(days=1)).isoformat()
    assert client.get(path, params={"at": before}).status_code == 404
    assert client.get(path, params={"at": "soon"}).status_code == 400
