"""The rows in memory: read again when a table changes, kept when it cannot be read."""

import sqlite3
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from pyiceberg.exceptions import NoSuchTableError

from tests.support import board_home
from tests.support.board_home import CLUSTER, group
from tidemark.board import store as stores
from tidemark.board.application import application
from tidemark.board.data_files import DataFiles
from tidemark.board.metrics import feed
from tidemark.board.store import SETTLED_SECONDS, Changing, Store
from tidemark.lake.catalog import Lake
from tidemark.lake.table_versions import VERSION_PROPERTY
from tidemark.lake.tables import progress
from tidemark.settings.home import Home

HTML = {"Accept": "text/html"}
PATHS = (
    *("/", "/groups", "/incidents", "/incident?id=0", "/topics", "/brokers", "/events", "/quality"),
    f"/group?cluster={CLUSTER}&group=mailer",
    f"/topic?cluster={CLUSTER}&topic=orders",
    "/groups?at=2026-11-19T08:00:00Z",
)


def test_a_new_snapshot_replaces_the_rows_before(store: Store, filled: Lake) -> None:
    before = store.newest.at[CLUSTER]
    board_home.add_snapshot(filled, before + timedelta(minutes=1), [group("billing", lag=7)])
    assert store.refresh()
    assert store.newest.at[CLUSTER] == before + timedelta(minutes=1)
    assert store.newest.of(progress.GROUPS)["lag"].to_pylist() == [7]
    assert not store.refresh(), "nothing has changed since"


def test_the_catalog_is_read_once_for_each_version_of_a_table(store: Store, filled: Lake) -> None:
    known = store.files.by_hour(progress.GROUPS)
    filled.catalog.drop_table(progress.GROUPS.name)
    assert known and store.files.by_hour(progress.GROUPS) == known
    with pytest.raises(NoSuchTableError):
        DataFiles(filled).by_hour(progress.GROUPS)


def test_a_new_version_of_a_table_shows_its_files_after_a_check(store: Store, filled: Lake) -> None:
    hours = store.files.by_hour(progress.GROUPS)
    later = store.newest.at[CLUSTER] + timedelta(hours=1)
    board_home.add_snapshot(filled, later, [group("billing", lag=7)])
    assert store.files.by_hour(progress.GROUPS) == hours
    store.files.present()
    assert len(store.files.by_hour(progress.GROUPS) or {}) == len(hours or {}) + 1


def test_each_cluster_shows_its_own_newest_snapshot(store: Store, filled: Lake) -> None:
    at = store.newest.at[CLUSTER]
    older = at - timedelta(minutes=3)
    board_home.add_snapshot(filled, older, [group("far", lag=1)], cluster="other")
    store.refresh()
    assert store.newest.at == {CLUSTER: at, "other": older}
    assert store.newest.of(progress.GROUPS, "other")["consumer_group"].to_pylist() == ["far"]
    assert store.newest.of(progress.GROUPS, CLUSTER).num_rows == len(board_home.GROUPS)


def test_a_snapshot_without_queues_hides_no_group(store: Store, filled: Lake) -> None:
    at = store.newest.at[CLUSTER]
    board_home.add_snapshot(filled, at + timedelta(minutes=1), [], source="stats_log")
    store.refresh()
    assert store.newest.at == {CLUSTER: at}


def test_the_file_of_a_broker_hides_no_cluster(store: Store, filled: Lake) -> None:
    """Files of one broker are shown where no collector observes the whole cluster."""
    at = board_home.now() + timedelta(seconds=30)
    one = [board_home.group("mailer", lag=7)]
    board_home.add_snapshot(filled, at, one, source="store")
    board_home.add_snapshot(filled, at, one, cluster="files", source="store")
    store.refresh()
    shown = [(row["cluster"], row["lag"]) for row in store.newest.of(progress.GROUPS).to_pylist()]
    assert ("lab", 7) not in shown
    assert ("files", 7) in shown
    assert len(shown) == len(board_home.GROUPS) + 1


def test_a_late_snapshot_changes_the_past(store: Store, filled: Lake, client: TestClient) -> None:
    at = store.newest.at[CLUSTER] - timedelta(hours=1)
    path = f"/api/v1/topics?at={at.isoformat().replace('+00:00', 'Z')}"
    assert client.get(path).json()["items"] == []
    board_home.add_snapshot(filled, at - timedelta(minutes=1), [group("late", lag=7)])
    store.refresh()
    assert [row["groups"] for row in client.get(path).json()["items"]] == [1]


@pytest.mark.slow
def test_a_damaged_home_keeps_its_rows_and_reports_it(store: Store, filled: Lake) -> None:
    for file in Path(filled.home.warehouse).rglob("*.metadata.json"):
        file.write_text("{")
    board_home_catalog = filled.home.catalog.read_bytes()
    filled.home.catalog.write_bytes(b"no database" * 1000)
    assert not store.refresh()
    assert store.problem and "catalog" in store.problem
    assert store.newest.of(progress.GROUPS).num_rows == len(board_home.GROUPS)
    with TestClient(application(store), base_url="http://127.0.0.1") as client:
        response = client.get("/readyz")
        assert response.status_code == 503 and "catalog" in response.json()["reasons"][0]
        assert client.get("/healthz").status_code == 200
        assert client.get("/api/v1/groups").status_code == 200
        for path in ("/", "/groups", "/topics", "/brokers", "/quality", "/incidents"):
            page = client.get(path, headers=HTML)
            assert page.status_code == 200 and "cannot be read" in page.text, path
        for path in ("/api/v1/events", "/events", f"/group?cluster={CLUSTER}&group=mailer"):
            response = client.get(path)
            assert response.status_code == 503, f"{path} needs more than the newest rows"
    filled.home.catalog.write_bytes(board_home_catalog)


def test_an_empty_home_is_served_and_not_touched(tmp_path: Path) -> None:
    home = Home.of(tmp_path / "nowhere")
    store = Store(Lake(home), home.catalog.exists)
    with TestClient(application(store), base_url="http://127.0.0.1") as client:
        assert client.get("/api/v1/groups").json() == {"items": [], "next_cursor": None}
        response = client.get("/readyz")
        assert response.status_code == 503 and "tidemark tick" in response.json()["reasons"][0]
    assert not home.path.exists()


def test_a_stale_home_is_not_ready(lake: Lake) -> None:
    board_home.add_snapshot(lake, board_home.now() - timedelta(hours=2))
    store = Store(lake)
    with TestClient(application(store), base_url="http://127.0.0.1") as client:
        assert store.newest.at, "a page waits for the first rows, and a probe does not"
        response = client.get("/readyz")
        assert response.status_code == 503 and "s old" in response.json()["reasons"][0]
        (row,) = client.get("/api/v1/clusters").json()["items"]
        assert row["fresh"] is False


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["no database", "no rows", "older"])
def test_what_could_never_be_read_is_no_empty_response(filled: Lake, damage: str) -> None:
    """The catalog or a file is damaged, or the tables are of another version."""
    if damage == "no rows":
        board_home.add_snapshot(filled, board_home.now() + timedelta(seconds=1))
        for file in (filled.home.warehouse / "progress" / "groups").rglob("*.parquet"):
            file.write_bytes(b"no rows" * 100)
    elif damage == "older":
        table = filled.table(progress.GROUPS.name)
        with table.transaction() as change:
            change.set_properties({VERSION_PROPERTY: "1"})
    else:
        filled.home.catalog.write_bytes(b"no database" * 1000)
    store = Store(Lake(filled.home))
    with TestClient(application(store), base_url="http://127.0.0.1") as client:
        response = client.get("/api/v1/events")
        assert response.status_code == 503
        assert response.headers["content-type"] == "application/problem+json"
        for path in PATHS:
            page = client.get(path, headers=HTML)
            assert page.status_code == 503 and "Service Unavailable" in page.text, path
            assert "Traceback" not in page.text and "<nav" in page.text
        assert client.get("/as-of", follow_redirects=False).status_code == 303
        assert client.get("/healthz").status_code == 200


@pytest.mark.slow
def test_a_locked_catalog_is_waited_for_and_reported(store: Store, filled: Lake) -> None:
    with sqlite3.connect(filled.home.catalog) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with TestClient(application(store), base_url="http://127.0.0.1") as client:
            assert client.get("/api/v1/groups").json()["items"], "the rows of before are shown"
            writer.rollback()
    assert not store.refresh() and store.problem is None


SHOWN, OTHER = progress.SNAPSHOTS.name, progress.GROUPS.name


def test_changes_are_read_when_they_show_a_snapshot_or_are_over() -> None:
    changing = Changing({SHOWN: "1", OTHER: "1"})
    assert not changing.is_to_be_read({SHOWN: "1", OTHER: "1"}), "nothing has changed"
    assert not changing.is_to_be_read({SHOWN: "1", OTHER: "2"}), "a tick may have begun"
    assert not changing.is_to_be_read({SHOWN: "1", OTHER: "3"})
    assert changing.is_to_be_read({SHOWN: "2", OTHER: "3"}), "another snapshot is computed"
    assert not changing.is_to_be_read({SHOWN: "2", OTHER: "4"})
    assert changing.is_to_be_read({SHOWN: "2", OTHER: "4"}), "no more changes follow"
    assert not changing.is_to_be_read({SHOWN: "2", OTHER: "4"})


def test_changes_without_an_end_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(stores.time, "monotonic", lambda: clock[0])
    changing = Changing({OTHER: "0"})
    read = []
    for second in range(1, 50):
        clock[0] = float(second)
        if changing.is_to_be_read({OTHER: str(second)}):
            read.append(second)
    assert read == [SETTLED_SECONDS, 2 * SETTLED_SECONDS]


@pytest.mark.slow
def test_while_nobody_reads_nothing_is_read_and_the_next_request_waits(
    filled: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(stores, "WATCHED_SECONDS", 0.0)
    monkeypatch.setattr(feed, "WATCHED_SECONDS", 0.0)
    store = Store(filled)
    with TestClient(application(store), base_url="http://127.0.0.1:8080") as client:
        before = client.get("/api/v1/clusters").json()["items"][0]["observed_at"]
        reads = store.checked_at
        at = store.newest.at[CLUSTER] + timedelta(minutes=1)
        board_home.add_snapshot(filled, at, [group("billing", lag=7)])
        time.sleep(0.2)
        assert store.checked_at == reads, "nobody has requested anything"
        (cluster,) = client.get("/api/v1/clusters").json()["items"]
        assert cluster["observed_at"] > before
        lines = client.get("/metrics").text.splitlines()
        assert [
            line for line in lines if 'consumer_group="billing"' in line and line.endswith(" 7")
        ]


@pytest.mark.slow
def test_slow_tables_hold_up_the_first_request_after_a_quiet_time_for_a_bounded_time(
    filled: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(stores, "WATCHED_SECONDS", 0.0)
    store, goes_on = Store(filled), threading.Event()
    with TestClient(application(store), base_url="http://127.0.0.1:8080") as client:
        before = client.get("/api/v1/clusters").json()["items"][0]["observed_at"]
        monkeypatch.setattr(stores, "FIRST_READ_SECONDS", 0.2)
        monkeypatch.setattr(store, "refresh", lambda: goes_on.wait(20))
        time.sleep(0.1)
        try:
            began = time.monotonic()
            (cluster,) = client.get("/api/v1/clusters").json()["items"]
            assert cluster["observed_at"] == before
            assert client.get("/readyz").status_code in {200, 503}
            assert client.get("/healthz").status_code == 200
            assert time.monotonic() - began < 10, "none of them waits until the tables respond"
        finally:
            goes_on.set()
