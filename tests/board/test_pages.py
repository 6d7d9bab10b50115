"""The pages as HTML: contents, language, and names of strangers that stay text."""

import json
import re
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.board_home import CLUSTER, QUEUES, add_snapshot, add_snapshots, group, queue
from tests.support.page_forms import form_of
from tidemark.alerting.incidents.actions import one_incident
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.model.health import HealthReason

HTML = {"Accept": "text/html"}
PATHS = (
    "/",
    "/groups",
    f"/group?cluster={CLUSTER}&group=mailer&topic=orders",
    "/incidents",
    "/topics",
    f"/topic?cluster={CLUSTER}&topic=orders",
    "/brokers",
    f"/broker?cluster={CLUSTER}&broker=broker-a",
    "/events",
    "/quality",
)


@pytest.fixture
def firing(filled: Lake) -> str:
    return board_home.add_incident(filled, board_home.now())


@pytest.mark.parametrize("path", PATHS)
def test_every_page_is_whole_and_holds_no_script(reader: TestClient, path: str) -> None:
    response = reader.get(path, headers=HTML)
    assert response.status_code == 200
    assert response.text.rstrip().endswith("</html>")
    assert not re.search(r"<script(?![^>]* src=)|\son\w+=|\sstyle=", response.text)


def test_the_overview_shows_what_is_wrong(firing: str, client: TestClient) -> None:
    text = client.get("/", headers=HTML).text
    assert "mailer" in text and "1 h 30 m" in text
    assert f"/incident?id={firing}" in text
    assert "/groups?health=STALLED" in text


def test_the_overview_names_what_no_snapshot_measures(
    filled: Lake, store: Store, client: TestClient
) -> None:
    """A deep limit only puts things off and is left out."""
    address = "10.0.0.1:10911"
    left_out = [
        {"part": "lite_topics", "endpoint": address, "items": 37},
        {"part": "counters", "endpoint": address, "items": 900},
    ]
    add_snapshot(filled, board_home.now() + timedelta(seconds=1), left_out=left_out)
    store.refresh()
    text = client.get("/", headers=HTML).text
    assert f"37 lite topics at {address} were left out (max_lite_topics in clusters.yaml)" in text
    assert "max_stats" not in text


@pytest.mark.parametrize("state", ["PENDING", "FIRING"])
def test_the_overview_marks_what_nobody_was_notified_of(
    filled: Lake, store: Store, client: TestClient, state: str
) -> None:
    board_home.add_incident(filled, board_home.now(), state=state)
    store.refresh()
    text = client.get("/", headers=HTML).text
    assert ('<span class="tag unknown">PENDING</span>' in text) == (state == "PENDING")
    counted = {"PENDING": "0<small> + 1 PENDING</small>", "FIRING": "1"}[state]
    assert f'<p class="big">{counted}</p>' in text


@pytest.mark.parametrize(("unknown", "figure"), [(0, "1"), (2, "≥ 1")])
def test_groups_of_unknown_health_may_be_in_trouble(lake: Lake, unknown: int, figure: str) -> None:
    rows = [group("late", health="STALLED"), group("well", health="OK")]
    rows += [group(f"dark-{number}", health="UNKNOWN", lag=None) for number in range(unknown)]
    add_snapshot(lake, board_home.now(), rows)
    with TestClient(application(Store(lake)), base_url="http://127.0.0.1") as client:
        text = client.get("/", headers=HTML).text
    assert f'<p class="big">{figure}<small> of {2 + unknown} groups on topics in trouble' in text


def test_unknown_is_a_dash(reader: TestClient) -> None:
    text = reader.get("/groups?q=audit", headers=HTML).text
    row = re.search(r"<tr><th.*?</tr>", text, re.DOTALL)
    assert row and row[0].count("–") >= 4


def test_groups_are_filtered_and_sorted(reader: TestClient) -> None:
    def names(query: str) -> list[str]:
        text = reader.get(f"/groups{query}", headers=HTML).text
        return re.findall(r'scope="row"[^>]*><a[^>]*><bdi>(.*?)</bdi>', text)

    assert names("") == ["mailer", "audit", "billing", "billing"], "the worst first"
    assert names("?sort=-lag") == ["mailer", "billing", "billing", "audit"]
    assert names("?sort=consumer_group") == ["audit", "billing", "billing", "mailer"]
    assert names("?health=STALLED") == ["mailer"]
    for wrong in ("colour=red", "health=SICK"):
        assert reader.get(f"/groups?{wrong}", headers=HTML).status_code == 400


def test_a_group_shows_its_past_with_gaps(client: TestClient, store: Store, filled: Lake) -> None:
    newest = board_home.now()
    groups = {
        newest - timedelta(minutes=back): [group("mailer", lag=back, delay_ms=1000)]
        for back in (30, 29, 28, 20, 19, 18)
    }
    add_snapshots(filled, groups, queues=QUEUES)
    store.refresh()
    text = client.get(PATHS[2], headers=HTML).text
    line = re.search(r'<path class="line a" d="([^"]+)"', text)
    assert line and line[1].count("M") >= 2, "a gap interrupts the line"
    assert "delay" in text and text.count('<svg viewBox="0 0 920') >= 2


def test_queues_are_a_strip_of_heat(client: TestClient, filled: Lake) -> None:
    """By how long the oldest message waits, not by a share of the worst queue: lag 1 is no fire."""
    at = board_home.now() + timedelta(minutes=1)
    waits = ((0, 0), (1, 900), (9, 12_000), (9, 60_000), (9, 900_000), (9, 7_200_000), (None, None))
    queues = [
        queue("mailer", number, lag=lag, delay_ms=delay)
        for number, (lag, delay) in enumerate(waits)
    ]
    add_snapshot(filled, at, [group("mailer", lag=600)], queues=queues)
    client.app.state.store.refresh()  # pyright: ignore
    text = client.get(PATHS[2], headers=HTML).text
    classes = re.findall(r'role="listitem" class="(\w+)"', text)
    assert classes == ["h0", "h1", "h2", "h3", "h4", "h5", "unknown"]


def test_what_is_pending_is_no_alarm_on_the_page_of_its_group(
    client: TestClient, filled: Lake
) -> None:
    at = board_home.now()
    board_home.add_incident(filled, at, rule="queues-unowned", state="PENDING", fired_at=None)
    client.app.state.store.refresh()  # pyright: ignore
    text = client.get(PATHS[2], headers=HTML).text
    banner = re.search(r'<p class="banner (\w+)">(.*?)queues-unowned', text)
    assert banner and banner[1] == "past" and "PENDING" in banner[2]


def test_a_person_acknowledges_in_a_form(firing: str, client: TestClient, filled: Lake) -> None:
    text = client.get(f"/incident?id={firing}", headers=HTML).text
    form = form_of(text, "/incident/act") | {"action": "acknowledge", "reason": "on it"}
    response = client.post("/incident/act", data=form, headers=HTML)
    assert response.status_code == 200 and "on it" in response.text
    assert one_incident(filled, firing).state == "ACKNOWLEDGED"


def test_a_person_silences_and_ends_it(firing: str, client: TestClient) -> None:
    text = client.get(f"/incident?id={firing}", headers=HTML).text
    form = form_of(text, "/silence") | {"duration": "2h", "comment": "upgrade"}
    text = client.post("/silence", data=form, headers=HTML).text
    assert "upgrade" in text
    assert "Ended within 30 days" not in text
    form = form_of(text, "/unsilence") | {"reason": "done early"}
    active, _, ended = client.post("/unsilence", data=form, headers=HTML).text.partition(
        "Ended within 30 days"
    )
    assert "upgrade" not in active and "upgrade" in ended
    assert "somebody" in ended and "done early" in ended


@pytest.mark.slow
def test_a_form_without_its_token_changes_nothing(
    firing: str, client: TestClient, filled: Lake
) -> None:
    for token in ("", "0" * 64, "é"):
        form = {"id": firing, "action": "resolve", "token": token}
        assert client.post("/incident/act", data=form, headers=HTML).status_code in (400, 403)
    assert one_incident(filled, firing).state == "FIRING"
    assert client.post("/preferences", data={"token": "é"}).status_code == 403


def test_a_page_as_of_an_instant(client: TestClient, filled: Lake) -> None:
    newest = board_home.now()
    then = newest - timedelta(hours=1)
    add_snapshot(filled, then, [group("ancient", lag=5)])
    text = client.get("/groups", params={"at": then.isoformat()}, headers=HTML).text
    assert "ancient" in text and "mailer" not in text
    assert "back to now" in text
    response = client.get("/as-of", params={"back": "/groups?q=a", "at": "2026-11-19T08:00"},
                        headers=HTML, follow_redirects=False)  # fmt: skip
    assert response.headers["location"] == "/groups?q=a&at=2026-11-19T08%3A00%3A00Z"
    assert client.get("/groups?at=soon", headers=HTML).status_code == 400


def test_chinese_by_browser_and_by_switch(client: TestClient) -> None:
    chinese = client.get("/", headers=HTML | {"Accept-Language": "zh-CN,zh;q=0.9"}).text
    assert "总览" in chinese and 'lang="zh-CN"' in chinese
    english = client.get("/", headers=HTML).text
    assert "总览" not in english
    form = form_of(english, "/preferences") | {"language": "zh", "theme": "dark", "back": "/topics"}
    switched = client.post("/preferences", data=form, headers=HTML).text
    assert "主题" in switched and 'data-theme="dark"' in switched


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("en;q=0.1, zh;q=0.9", "zh-CN"),
        ("zh;q=0.8, en", "en"),
        ("fr, zh;q=0", "en"),
        ("fr, zh-TW;q=0.5, en;q=0.4", "zh-CN"),
        ("zh, en", "zh-CN"),
        ("zho, en;q=0.1", "en"),
        ("zh;q=much", "en"),
        ("*", "en"),
        ("", "en"),
    ],
)
def test_the_language_with_the_largest_weight(
    reader: TestClient, accepted: str, language: str
) -> None:
    text = reader.get("/topics", headers=HTML | {"Accept-Language": accepted}).text
    assert f'<html lang="{language}"' in text


@pytest.mark.slow
def test_the_reason_of_health_in_chinese(client: TestClient, filled: Lake) -> None:
    reason = "readable lag 90, was 80 over 3 observations (120 s)"
    at = board_home.now() + timedelta(minutes=1)
    facts = {"lag": 90, "lag_before": 80, "observations": 3, "span_ms": 120_000}
    code = {"health_reason_code": HealthReason.CONSUMES, "health_facts": facts}
    add_snapshot(filled, at, [group("mailer", health_reason=reason, **code)])
    client.app.state.store.refresh()  # pyright: ignore
    assert reason in client.get(PATHS[2], headers=HTML).text
    chinese = client.get(PATHS[2], headers=HTML | {"Accept-Language": "zh"}).text
    assert "可读堆积 90，之前 80（3 次观测，120 秒内）" in chinese and reason not in chinese


def test_an_incident_in_chinese(client: TestClient, filled: Lake) -> None:
    at = board_home.now()
    row = {"cluster": CLUSTER, "consumer_group": "mailer", "topic": "orders", "online": False,
           "queues": 8, "queues_unknown": 2, "worst_broker": "broker-b", "worst_queue_id": 3,
           "max_queue_lag": 1490, "delay_ms": 90_061_000}  # fmt: skip
    incident = board_home.add_incident(
        filled,
        at,
        kind="stalled",
        evidence=json.dumps({"row": row}),
        transitions=[{"transition": "FIRING", "at": at}, {"transition": "FIRING_2", "at": at}],
    )
    text = client.get(f"/incident?id={incident}", headers=HTML | {"Accept-Language": "zh"}).text
    assert (
        "堆积 90,000 条消息，且有队列毫无进展（阈值 1,000 条消息），"
        "堆积最多的是 broker-b 的队列 3：≥ 1,490，最早的一条已等待 ≥ 1 d 1 h，"
        "8 个队列中有 2 个未知，因此这是下限"
    ) in text
    assert "有客户端持有队列却不消费" in text and "触发（第 2 次）" in text
    assert "<dt>在线</dt><dd><bdi>否</bdi>" in text
    english = client.get(f"/incident?id={incident}", headers=HTML).text
    assert "90,000 messages wait and a queue makes no progress (threshold 1,000" in english
    assert "FIRING (2)" in english


def test_a_mistake_in_chinese(reader: TestClient) -> None:
    response = reader.get("/nothing", headers=HTML | {"Accept-Language": "zh"})
    assert response.status_code == 404 and "<h1>找不到</h1>" in response.text


@pytest.mark.parametrize(
    "back", ["//evil.example", "https://evil.example/", "/\\evil.example", "http://["]
)
def test_nobody_is_sent_elsewhere(reader: TestClient, back: str) -> None:
    response = reader.get("/as-of", params={"back": back}, headers=HTML, follow_redirects=False)
    assert response.headers["location"] == "/"


def test_a_mistake_at_a_page_is_a_page(reader: TestClient) -> None:
    response = reader.get(f"/group?cluster={CLUSTER}&group=nobody", headers=HTML)
    assert response.status_code == 404 and "<h1>Not Found</h1>" in response.text
    assert reader.get("/nothing", headers=HTML).text.startswith("<!doctype html>")


@pytest.mark.slow
def test_a_stale_home_is_marked_on_every_page(lake: Lake) -> None:
    """Also where the window of a page without parameters holds no data."""
    add_snapshot(lake, board_home.now() - timedelta(hours=2))
    with TestClient(application(Store(lake)), base_url="http://127.0.0.1") as client:
        for path in PATHS:
            response = client.get(path, headers=HTML)
            assert response.status_code == 200 and "2 h old" in response.text, path


def test_a_silence_of_nothing_is_a_mistake_on_a_page(firing: str, client: TestClient) -> None:
    form = form_of(client.get("/incidents", headers=HTML).text, "/silence")
    empty = form | dict.fromkeys(("rule", "cluster", "consumer_group", "topic"), "")
    for accepted in ("*/*", "text/html"):
        response = client.post(
            "/silence",
            data=empty | {"duration": "2h", "comment": "upgrade"},
            headers={"Accept": accepted},
        )
        assert response.status_code == 400
        assert "<h1>Bad Request</h1>" in response.text
