"""``/groups/{cluster}/{group}``: the group, its queues and its history, now and then."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.board_home import CLUSTER, QUEUES, add_snapshot, add_snapshots, group
from tidemark.board.newest import GROUP_REACH
from tidemark.board.store import Store
from tidemark.board.views.groups import with_reports
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import progress, raw


@pytest.fixture(scope="module")
def past(shown: Lake, board: Store) -> list[datetime]:
    """Ten minutes of mailer, with a gap of five minutes in it; their instants."""
    newest = board_home.now()
    instants = [newest - timedelta(minutes=back) for back in (30, 29, 28, 27, 22, 21, 20)]
    lags = [None if number == 2 else 100 * number for number in range(len(instants))]
    groups = {at: [group("mailer", lag=lag)] for at, lag in zip(instants, lags, strict=True)}
    add_snapshots(shown, groups, queues=QUEUES)
    board.refresh()
    return instants


def test_a_group_has_everything_known_of_it(reader: TestClient) -> None:
    body = reader.get(f"/api/v1/groups/{CLUSTER}/billing").json()
    assert [row["topic"] for row in body["topics"]] == ["orders", "refunds"]
    parts = {"members", "queues", "assignments", "capacity", "subscriptions", "incidents"}
    assert parts <= set(body)
    assert reader.get(f"/api/v1/groups/{CLUSTER}/nobody").status_code == 404
    assert reader.get("/api/v1/groups/nowhere/billing").status_code == 404


def test_a_history_keeps_its_gaps(reader: TestClient, past: list[datetime]) -> None:
    query = f"?from={iso(past[0])}&to={iso(past[-1])}&columns=lag"
    body = reader.get(f"/api/v1/groups/{CLUSTER}/mailer/orders/history{query}").json()
    assert [point["last"]["lag"] for point in body["points"]] == [
        *(0, 100, None, 300),
        None,
        *(400, 500, 600),
    ]
    times = [point["observed_at"] for point in body["points"]]
    assert times == sorted(times) and times[0] == iso(past[0])


def test_a_step_gives_the_last_and_the_largest(reader: TestClient, past: list[datetime]) -> None:
    query = f"?from={iso(past[0])}&to={iso(past[-1])}&columns=lag&step=1h"
    points = reader.get(f"/api/v1/groups/{CLUSTER}/mailer/orders/history{query}").json()["points"]
    assert points[-1]["last"]["lag"] == 600
    assert max(point["max"]["lag"] for point in points) == 600
    assert len(points) <= 2


def test_a_history_without_observations_is_empty(reader: TestClient, past: list[datetime]) -> None:
    before = past[0] - timedelta(days=9)
    query = f"?from={iso(before - timedelta(days=1))}&to={iso(before)}"
    path = f"/api/v1/groups/{CLUSTER}/mailer/orders/history{query}"
    for columns in ("lag,delay_ms", "health"):
        response = reader.get(f"{path}&columns={columns}")
        assert response.status_code == 200 and response.json()["points"] == []


def test_a_step_never_gives_more_points_than_promised(reader: TestClient) -> None:
    """A window that starts inside of a step touches one more than its length holds."""
    path = f"/api/v1/groups/{CLUSTER}/mailer/orders/history?columns=lag&step=60s"
    start = datetime(2026, 11, 19, 0, 0, 29, tzinfo=UTC)
    for seconds, status in ((0, 200), (30, 200), (31, 400), (59, 400)):
        end = start + timedelta(minutes=1999, seconds=seconds)
        response = reader.get(f"{path}&from={iso(start)}&to={iso(end)}")
        assert response.status_code == status, seconds


@pytest.mark.parametrize(
    "query", ["?from=soon", "?columns=size", "?step=never", "?step=1s&from=2026-01-01", "?x=1"]
)
def test_a_wrong_history_is_a_problem(reader: TestClient, query: str) -> None:
    response = reader.get(f"/api/v1/groups/{CLUSTER}/mailer/orders/history{query}")
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"


def test_queues_as_of_an_instant(reader: TestClient, past: list[datetime]) -> None:
    at = iso(past[3] + timedelta(seconds=20))
    rows = reader.get(f"/api/v1/groups/{CLUSTER}/mailer/orders/queues?at={at}").json()["items"]
    assert [row["queue_id"] for row in rows] == [0, 1, 2, 3]
    assert {row["observed_at"] for row in rows} == {iso(past[3])}
    before = iso(past[0] - timedelta(days=30))
    response = reader.get(f"/api/v1/groups/{CLUSTER}/mailer/orders/queues?at={before}")
    assert response.status_code == 404


def test_a_group_as_of_an_instant(reader: TestClient, past: list[datetime]) -> None:
    at = iso(past[4])
    body = reader.get(f"/api/v1/groups/{CLUSTER}/mailer?at={at}").json()
    assert body["observed_at"] == at
    assert [row["lag"] for row in body["topics"]] == [400]


def test_a_name_may_hold_anything(client: TestClient, filled: Lake) -> None:
    name = "a/b <script>alert(1)</script>%?#"
    at = board_home.now() + timedelta(minutes=1)
    add_snapshot(filled, at, [group(name, topic="../x", lag=1)])
    client.app.state.store.refresh()  # pyright: ignore
    part = "a%2Fb%20%3Cscript%3Ealert(1)%3C%2Fscript%3E%25%3F%23"
    body = client.get(f"/api/v1/groups/{CLUSTER}/{part}").json()
    assert body["consumer_group"] == name
    response = client.get(f"/api/v1/groups/{CLUSTER}/{part}/..%2Fx/history")
    assert response.json()["topic"] == "../x"


def test_topics_events_and_quality_are_served(reader: TestClient) -> None:
    topics = reader.get("/api/v1/topics").json()["items"]
    assert [(row["topic"], row["groups"]) for row in topics] == [("orders", 3), ("refunds", 1)]
    body = reader.get(f"/api/v1/topics/{CLUSTER}/orders").json()
    assert len(body["groups"]) == 3
    assert reader.get(f"/api/v1/topics/{CLUSTER}/none").status_code == 404
    for path in ("events", "quality", "quality/quarantine"):
        assert reader.get(f"/api/v1/{path}").json() == {"items": [], "next_cursor": None}
    assert reader.get("/api/v1/events?to=2026-01-01T00:00:00Z").status_code == 200


def iso(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def test_a_grpc_member_is_named_where_nothing_is_reported(client: TestClient, filled: Lake) -> None:
    ids = ("host@7@0@1a2b3c4d", "10.0.0.9@88")
    topics = {ids[0]: ("orders",), ids[1]: ("orders", "%RETRY%mailer")}
    members = [
        {"consumer_group": "mailer", "client_id": name}
        | {"subscriptions": [{"topic": topic} for topic in topics[name]]}
        for name in ids
    ]
    at = client.app.state.store.newest.at[CLUSTER]  # pyright: ignore
    filled.append(raw.CLIENTS, board_home.rows_of(raw.CLIENTS, at, members))
    client.app.state.store.refresh()  # pyright: ignore
    path = f"/group?cluster={CLUSTER}&group=mailer&topic=orders"
    text = client.get(path, headers={"Accept": "text/html"}).text
    cells = re.findall(r'<td[^>]* class="(?:num|wide)[^"]*"><bdi>gRPC</bdi></td>', text)
    assert len(cells) == 2, "threads and strategy, of one of the two members"


def test_reports_stay_between_deep_snapshots_with_their_time() -> None:
    """A snapshot that asks no member has no reports; its own report is newer than an earlier."""
    now, before = board_home.now(), board_home.now() - timedelta(minutes=4)
    members = [
        {"client_id": "asked", "thread_count": 8, "allocation_strategy": "AVG", "observed_at": now},
        {
            "client_id": "known",
            "thread_count": None,
            "allocation_strategy": None,
            "observed_at": now,
        },
        {"client_id": "new", "thread_count": None, "allocation_strategy": None, "observed_at": now},
    ]
    reports = [{"client_id": "asked", "threads": 4}, {"client_id": "known", "threads": 20}]
    capacity = [
        {"observed_at": before, "members": reports},
        {"observed_at": before, "members": None},
    ]
    evidence = [{"client_id": name, "allocation_strategy": "CIRCLE"} for name in ("asked", "known")]
    evidence.append({"client_id": "new", "allocation_strategy": None})
    subscriptions = [{"observed_at": before, "evidence": evidence}]
    shown = with_reports(members, capacity, subscriptions)
    names = ("thread_count", "allocation_strategy", "reported_at")
    assert [tuple(row[name] for name in names) for row in shown] == [
        (8, "AVG", now),
        (20, "CIRCLE", before),
        (None, None, None),
    ]


def test_what_only_deep_snapshots_request_stays_with_its_age(
    client: TestClient, filled: Lake
) -> None:
    """Not of another topic, not of a row that knows it, and with the mark that it had."""
    at = client.app.state.store.newest.at[CLUSTER]  # pyright: ignore
    pop = {"consume_mode": "pop", "consume_kind": "pop"}
    deep = [
        group("held", lag=9, inflight=7, inflight_source="client_cache", ack_tps=2.5, **pop),
        group("held", topic="refunds", inflight=3),
    ]
    quick = [
        group("held", lag=9, inflight=None, available=4, **pop),
        group("held", topic="refunds", inflight=1),
    ]
    before, now = at - timedelta(seconds=289), at + timedelta(seconds=1)
    queues = {
        before: [board_home.queue("held", 0, inflight=7)],
        now: [board_home.queue("held", 0, inflight=None)],
    }
    add_snapshots(filled, {before: deep, at - timedelta(seconds=60): quick, now: quick})
    for instant, rows in queues.items():
        filled.append(progress.QUEUES, board_home.rows_of(progress.QUEUES, instant, rows))
    client.app.state.store.refresh()  # pyright: ignore
    body = client.get(f"/api/v1/groups/{CLUSTER}/held").json()
    orders, refunds = body["topics"]
    assert orders["inflight"] is None and refunds["inflight"] == 1
    assert set(orders["last_known"]) == {"inflight", "inflight_source", "ack_tps"}
    known = orders["last_known"]["inflight"]
    assert (known["inflight"], known["observed_at"]) == (7, iso(before))
    assert refunds["last_known"] == {}
    assert body["queues"][0]["last_known"]["inflight"]["inflight"] == 7
    path = f"/group?cluster={CLUSTER}&group=held&topic=orders"
    text = client.get(path, headers={"Accept": "text/html"}).text
    shown = dict(re.findall(r"<dt>([^<]*)</dt><dd[^>]*>(.*?)</dd>", text))
    assert re.sub("<[^>]*>", "", shown["in flight"]) == "7 4 m 50 s earlier"
    assert re.sub("<[^>]*>", "", shown["acknowledged/s"]) == "≥ 2.50 4 m 50 s earlier"
    assert shown["available"] == "≤ 4"
    assert len(re.findall(r">7 <small", text)) == 2, "the tile and the queue"


def test_nothing_stays_longer_than_members_are_remembered(client: TestClient, filled: Lake) -> None:
    at = client.app.state.store.newest.at[CLUSTER]  # pyright: ignore
    old = at - GROUP_REACH - timedelta(seconds=1)
    add_snapshots(filled, {old: [group("held", inflight=7)]})
    now = at + timedelta(seconds=1)
    add_snapshots(filled, {now: [group("held", inflight=None)]})
    client.app.state.store.refresh()  # pyright: ignore
    (row,) = client.get(f"/api/v1/groups/{CLUSTER}/held").json()["topics"]
    assert row["last_known"] == {}


@pytest.mark.parametrize(
    ("kind", "reason"), [("pop", "Messages are popped"), ("broadcast_broker", "Brokers keep")]
)
def test_a_bound_is_explained_by_the_kind_of_consumption(
    client: TestClient, filled: Lake, kind: str, reason: str
) -> None:
    row = group("bound", lag=1) | {"lag_is_lower_bound": True, "consume_kind": kind}
    add_snapshot(filled, board_home.now() + timedelta(seconds=1), [row])
    client.app.state.store.refresh()  # pyright: ignore
    text = client.get(f"/group?cluster={CLUSTER}&group=bound", headers={"Accept": "text/html"}).text
    (shown,) = re.findall(r'<p class="dim">(Messages are popped|Brokers keep)', text)
    assert shown == reason
