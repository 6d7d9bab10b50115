"""Topics and brokers with their trends, and what happened on the time axis of charts."""

import html
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.board_home import (
    CLUSTER,
    add_incident,
    add_snapshots,
    group,
    rows_of,
)
from tests.support.page_texts import drawn, page, plain, words
from tidemark.board.pages.tables import MOST
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import progress, raw

TOPIC = f"/topic?cluster={CLUSTER}&topic=orders"


@pytest.fixture
def newest() -> datetime:
    return board_home.now() + timedelta(seconds=1)


def past(lake: Lake, newest: datetime, minutes: tuple[int, ...] = (40, 20, 0)) -> None:
    """Adds snapshots of a group that turns from OK to STALLED in the last of them."""
    groups = {
        newest - timedelta(minutes=back): [group("mailer", health="OK" if back else "STALLED")]
        for back in minutes
    }
    add_snapshots(lake, groups)


def sparks(text: str) -> list[str]:
    return re.findall(r'aria-label="([^"]+ of the last hours, at most [^"]+)"', words(text))


@pytest.mark.slow
def test_topics_have_the_trend_of_their_rate(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest)
    for back in (40, 20, 0):
        at = newest - timedelta(minutes=back)
        row = {"produce_tps": 30.0 + back, "complete": True}
        filled.append(progress.TOPICS, rows_of(progress.TOPICS, at, [row]))
    assert "produced/s of the last hours, at most 70" in sparks(page(client, "/topics"))


@pytest.mark.slow
def test_topics_with_messages_that_nobody_can_read_come_first(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest)
    rows = [
        {"topic": topic, "kind": "normal", "complete": True, "unreadable_messages": unreadable}
        for topic, unreadable in (("busy", 0), ("hidden", 12), ("unknown", None))
    ]
    filled.append(progress.TOPICS, rows_of(progress.TOPICS, newest, rows))
    text = page(client, "/topics")
    places = [text.index(f"topic={name}") for name in ("hidden", "busy")]
    assert places == sorted(places)
    assert re.search(r'class="num less bad">\s*12<', text)


@pytest.mark.slow
def test_many_topics_are_shown_by_pages_and_all_are_counted(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest)
    many = range(MOST + 5)
    rows = [{"topic": f"{prefix}{number}"} for prefix in ("t", "%RETRY%g") for number in many]
    filled.append(progress.TOPICS, rows_of(progress.TOPICS, newest, rows))
    users, _, own = page(client, "/topics").partition("<details>")
    for part in (users, own):
        assert part.count('<th scope="row"') == MOST
    assert f"the first {MOST} are shown" in own
    following = re.search(r'href="([^"]*cursor=[^"]*)">Next page', users)
    assert following
    rest, _, _ = page(client, html.unescape(following[1])).partition("<details>")
    shown = [set(re.findall(r"topic=(t\d+)", part)) for part in (users, rest)]
    assert shown[0] | shown[1] == {f"t{number}" for number in many}
    assert not shown[0] & shown[1] and "Next page" not in rest
    own_count = re.search(r"([\d,]+) topics of RocketMQ", own)
    assert own_count and int(own_count[1]) >= MOST + 5


@pytest.mark.slow
def test_a_topic_without_a_known_kind_is_known_by_its_name(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    """As while the brokers that have it are unreachable."""
    past(filled, newest)
    filled.append(progress.TOPICS, rows_of(progress.TOPICS, newest, [{"topic": "%DLQ%mailer"}]))
    first, _, folded = page(client, "/topics").partition("<details>")
    assert "DLQ" not in first and "DLQ" in folded


@pytest.mark.slow
def test_brokers_have_trends(client: TestClient, filled: Lake, newest: datetime) -> None:
    past(filled, newest)
    # The newest one is of every snapshot.
    for back, disk, written in ((40, 0.7, 900.0), (20, 0.2, 100.0)):
        at = newest - timedelta(minutes=back)
        row = {"broker": "broker-a", "broker_id": 0, "address": "10.0.0.1:10911"}
        row |= {"disk_ratio": disk, "put_tps": written, "get_tps": 1.0, "version": "V5_3_3"}
        filled.append(raw.BROKERS, rows_of(raw.BROKERS, at, [row]))
    text = sparks(page(client, "/brokers"))
    assert "disk used of the last hours, at most 70%" in text
    assert "written/s of the last hours, at most 900" in text
    assert "bytes not dispatched of the last hours, at most 0" not in text, "it is unknown"


@pytest.mark.slow
def test_a_chart_marks_changes_of_health_and_incidents(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest)
    at = newest - timedelta(minutes=10)
    acknowledged = {"acknowledged_at": at, "acknowledged_by": "lin"}
    resolved = {"state": "RESOLVED", "resolved_at": newest}
    add_incident(
        filled, at, **acknowledged, **resolved,
        transitions=[{"transition": "FIRING", "at": at}, {"transition": "RESOLVED", "at": newest}],
    )  # fmt: skip
    event = {"consumer_group": "mailer", "queue_id": 1, "kind": "REWOUND", "messages": 1200}
    filled.append(progress.EVENTS, rows_of(progress.EVENTS, at, [event]))
    address = f"/group?cluster={CLUSTER}&group=mailer&topic=orders"
    for number in range(3):
        marks = [tuple(mark[1:]) for mark in drawn(page(client, address))[number]["marks"]]
        assert ("health", "OK → STALLED") in marks
        assert ("event", "REWOUND, 1,200 messages") in marks
        assert {("fired", "stalled"), ("event", "stalled acknowledged")} < set(marks)
        assert ("done", "stalled resolved") in marks
    chinese = drawn(page(client, address, "zh"))[0]["marks"]
    assert ["health", "正常 → 停滞"] in [mark[1:] for mark in chinese]


def test_the_chart_of_a_topic_names_the_group_of_each_mark(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest)
    row = {"produce_tps": 30.0, "complete": True}
    filled.append(progress.TOPICS, rows_of(progress.TOPICS, newest, [row]))
    add_incident(filled, newest, group_name="mailer")
    marks = [mark[1:] for mark in drawn(page(client, TOPIC))[0]["marks"]]
    assert ["health", "mailer: OK → STALLED"] in marks and ["fired", "mailer: stalled"] in marks


def test_permissions_are_words(client: TestClient, filled: Lake, newest: datetime) -> None:
    past(filled, newest)
    rows = [{"perm": 6, "read_queues": 8, "write_queues": 8, "kind": "normal"}]
    filled.append(raw.TOPICS, rows_of(raw.TOPICS, newest, rows))
    assert "read and write" in plain(page(client, TOPIC))


def test_slaves_that_are_behind_and_sends_that_wait(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    """Offsets of a slave are those of the deep snapshot before; times have their marks."""
    past(filled, newest)
    slave = {"broker": "broker-a", "broker_id": 1, "address": "10.0.0.9:10911", "version": "V5_3_3"}
    earlier = newest - timedelta(minutes=20)
    filled.append(raw.BROKERS, rows_of(raw.BROKERS, earlier, [slave | {"offsets_missing": 17}]))
    behind = {"replica_behind_ms": 90_000, "replica_behind_bytes": 4_096}
    late = slave | behind | {"replica_behind_is_lower_bound": True}
    pressed = {"broker": "broker-c", "broker_id": 0, "address": "10.0.0.3:10911", "role": "MASTER"}
    pressed |= {"sends_waiting": 41, "send_wait_ms": 150, "failed_writes": 3}
    filled.append(raw.BROKERS, rows_of(raw.BROKERS, newest, [late, pressed]))
    text = plain(page(client, "/brokers"))
    for shown in ("≥ 1 m 30 s", "4 KiB", "17 20 m earlier", "41", "150 ms"):
        assert shown in text
    assert "behind" in text and "等待中的发送请求" in page(client, "/brokers", "zh")


@pytest.mark.slow
def test_refused_sends_and_light_queues_are_those_of_the_deep_snapshot_before(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest)
    deep = {"sends_refused": 149, "sends_failed": 13, "light_queues": 17_000}
    deep |= {"light_queue_limit": 20_000, "lite_subscriptions": 8}
    row = {"broker": "broker-c", "broker_id": 0, "address": "10.0.0.3:10911", "role": "MASTER"}
    earlier = newest - timedelta(minutes=20)
    filled.append(raw.BROKERS, rows_of(raw.BROKERS, earlier, [row | deep]))
    filled.append(raw.BROKERS, rows_of(raw.BROKERS, newest, [row]))
    text = plain(page(client, "/brokers"))
    assert "149 20 m earlier" in text and "13 20 m earlier" in text
    one = plain(page(client, f"/broker?cluster={CLUSTER}&broker=broker-c"))
    assert "light queues 17,000 20 m earlier" in one and "light queues at most 20,000" in one


def test_proxies_are_listed_with_what_they_report(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    later = newest + timedelta(seconds=1)
    proxies = [
        {"endpoint": "10.0.0.8:8080", "responded": True, "members": 1_234, "groups": 5},
        {"endpoint": "10.0.0.9:8080", "responded": False},
    ]
    assert "Proxies" not in plain(page(client, "/brokers"))
    add_snapshots(filled, {later: []}, queues=(), proxies=proxies)
    text = plain(page(client, "/brokers"))
    assert "1,234" in text and "10.0.0.9:8080 did not respond" in text
    listed = client.get("/api/v1/clusters").json()["items"][0]["proxies"]
    assert [it["members"] for it in listed] == [1234, None]


def producer(client_id: str, **columns: Any) -> dict[str, Any]:
    return {"producer_group": "p-shop", "client_id": client_id, "version": "V5_3_3"} | columns


def test_a_topic_lists_the_producers_of_its_brokers(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    """The newest deep snapshot lists them; one that left since the one before is gone."""
    past(filled, newest)
    on_both = producer("10.0.0.7@1", client_address="10.0.0.7:5000", language="JAVA")
    for minutes, broker, listed in (
        (20, "broker-a", [producer("gone@1")]),
        (10, "broker-a", [on_both]),
        (10, "broker-b", [on_both, producer("10.0.0.8@1")]),
        (10, "broker-x", [producer("elsewhere@1")]),
    ):
        row = {"broker": broker, "broker_id": 0, "address": f"{broker}:1", "producers": listed}
        at = newest - timedelta(minutes=minutes)
        filled.append(raw.BROKERS, rows_of(raw.BROKERS, at, [row]))
    configured = [{"broker": broker, "kind": "normal"} for broker in ("broker-a", "broker-b")]
    filled.append(raw.TOPICS, rows_of(raw.TOPICS, newest, configured))
    text = plain(page(client, TOPIC))
    assert "10.0.0.7:5000" in text and "broker-a, broker-b" in text and "10.0.0.8@1" in text
    assert "gone@1" not in text and "elsewhere@1" not in text
    response = client.get(f"/api/v1/topics/{CLUSTER}/orders").json()["producers"]
    brokers = {row["client_id"]: row["connected_to"] for row in response}
    assert brokers == {"10.0.0.7@1": ["broker-a", "broker-b"], "10.0.0.8@1": ["broker-b"]}


def test_producers_that_no_deep_snapshot_listed_are_unknown(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest)
    assert client.get(f"/api/v1/topics/{CLUSTER}/orders").json()["producers"] is None
    assert "only deep snapshots request it" in page(client, TOPIC)
