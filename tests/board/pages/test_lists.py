"""Lists as a person on call reads them: the worst first, with reason, age, owner and trend.

Each test stands for a page that showed right numbers and still misled: a group in trouble at the
end of a list, an incident without its age, an empty check that was shown as met.
"""

import json
import re
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.board_home import CLUSTER, add_snapshot, add_snapshots, group, queue, rows_of
from tests.support.page_texts import HTML, names, page, plain
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import alerting, progress, quality, raw
from tidemark.model.health import HealthReason

GROUP = f"/group?cluster={CLUSTER}&group=mailer&topic=orders"


STATES = ("OK", "BLOCKED", "IDLE", "UNKNOWN", "LOSING", "FALLING_BEHIND")


def test_groups_in_trouble_come_first_also_with_an_unknown_lag(
    client: TestClient, filled: Lake
) -> None:
    rows = [group(state.lower(), health=state, lag=9, delay_ms=10) for state in STATES]
    rows.append(group("blocked-unknown", health="BLOCKED", lag=None, delay_ms=None))
    rows.append(group("blocked-long", health="BLOCKED", lag=1, delay_ms=5_000))
    add_snapshot(filled, board_home.now() + timedelta(seconds=1), rows)
    expected = ["losing", "blocked-unknown", "blocked-long", "blocked", "falling_behind"]
    expected += ["unknown", "idle", "ok"]
    assert names(page(client, "/groups")) == expected
    assert names(page(client, "/"))[:5] == expected[:5]


def test_pages_of_groups_by_severity_hold_every_row_once(
    client: TestClient, filled: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemark.board.pages.groups.SHOWN", 3)
    texts: list[str] = []
    path = "/groups"
    while path:
        text = page(client, path)
        texts += names(text)
        following = re.search(r'class="button" href="([^"]+)">Next page', text)
        path = following[1].replace("&amp;", "&") if following else ""
    assert texts == ["mailer", "audit", "billing", "billing"]


def test_unknown_health_has_its_reason_beside_it(reader: TestClient) -> None:
    text = plain(page(reader, "/groups"))
    assert "UNKNOWN no observation of 2 queues on broker-b" in text


def test_retry_topics_stand_with_their_group_unless_in_trouble(
    client: TestClient, filled: Lake
) -> None:
    rows = [
        group("billing", lag=3),
        group("billing", topic="%RETRY%billing", lag=12),
        group("mailer"),
        group("mailer", topic="%RETRY%mailer", lag=7, health="STALLED"),
        group("lonely", topic="%RETRY%lonely", lag=1),
    ]
    add_snapshot(filled, board_home.now() + timedelta(seconds=1), rows)
    text = page(client, "/groups")
    topics = re.findall(r'href="/topic\?cluster=shop&amp;topic=([^"&]+)"', text)
    assert sorted(topics) == ["%25RETRY%25lonely", "%25RETRY%25mailer", "orders", "orders"]
    assert "retry topic lag 12" in plain(text) and "1 retry topic has no row" in plain(text)
    assert page(client, "/groups?retries=shown").count('scope="row"') == 5
    assert page(client, "/groups?q=%25RETRY").count('scope="row"') == 3


def test_lists_draw_the_trend_of_the_last_hours(client: TestClient, filled: Lake) -> None:
    newest = board_home.now() + timedelta(seconds=1)
    groups = {
        newest - timedelta(minutes=back): [
            group("courier", lag=back + 1, delay_ms=(back + 1) * 60_000)
        ]
        for back in (40, 30, 20, 10, 0)
    }
    add_snapshots(filled, groups)
    for path in ("/", "/groups", f"/topic?cluster={CLUSTER}&topic=orders"):
        text = page(client, path)
        assert "delay of the last hours, at most 41 m" in text, path
        (line, *_) = re.findall(r'class="floor"[^>]*/><path d="(M[^"]+)"', text)
        assert line.count("L") == 4, path


def test_a_retry_topic_stays_where_its_group_has_no_other_row(
    client: TestClient, filled: Lake
) -> None:
    """A group of the same name in another cluster does not show it."""
    at = board_home.now() + timedelta(seconds=1)
    for cluster, topic in (("east", "orders"), ("west", "%RETRY%courier")):
        add_snapshot(filled, at, [group("courier", topic=topic, lag=3)], cluster=cluster)
    text = page(client, "/groups?cluster=west")
    assert names(text) == ["courier"]
    assert names(page(client, "/groups")).count("courier") == 2


def test_a_trend_has_gaps_and_marks_its_bounds(client: TestClient, filled: Lake) -> None:
    newest = board_home.now() + timedelta(seconds=1)
    lags: dict[int, int | None] = {50: 4, 40: 5, 30: None, 20: 6, 10: 7, 0: 8}
    groups = {
        newest - timedelta(minutes=back): [
            group("courier", lag=lag, lag_is_lower_bound=back <= 10, health="STALLED")
        ]
        for back, lag in lags.items()
    }
    add_snapshots(filled, groups)
    text = page(client, "/groups?q=courier")
    assert "lag of the last hours, at most ≥ 8" in text
    (whole,) = re.findall(r'class="floor"[^>]*/><path d="(M[^"]+)"', text)
    (dashed,) = re.findall(r'<path class="bound" d="(M[^"]+)"', text)
    assert whole.count("M") == 1, "the known part before the gap"
    assert dashed.count("L") == 2


def test_changes_of_health_and_of_incidents_are_changes(client: TestClient, filled: Lake) -> None:
    newest = board_home.now() + timedelta(seconds=1)
    groups = {
        newest - timedelta(minutes=back): [group("courier", health=state)]
        for back, state in ((30, "OK"), (20, "OK"), (10, "STALLED"), (0, "STALLED"))
    }
    add_snapshots(filled, groups)
    board_home.add_incident(filled, newest, kind="stalled", group_name="courier")
    for path in ("/", "/events"):
        text = plain(page(client, path))
        assert re.search(r"OK → STALLED courier orders", text), path
        assert re.search(r"critical stalled FIRING courier orders", text), path
        assert text.count("→") == 1, path


@pytest.mark.slow
def test_changes_of_health_that_are_not_read_yet_are_counted(
    client: TestClient, filled: Lake, store: Store
) -> None:
    newest = board_home.now() + timedelta(seconds=1)
    states = ((300, "OK"), (295, "STALLED"), (290, "OK"), (0, "OK"))
    add_snapshots(
        filled,
        {
            newest - timedelta(minutes=back): [group("courier", health=state)]
            for back, state in states
        },
    )
    text = plain(page(client, "/events"))
    assert "→" not in text and re.search(r"changes of health of \S+ h .*are not read yet", text)
    while store.health.copy_next(newest):
        pass
    text = plain(page(client, "/events"))
    assert re.search(r"STALLED → OK courier orders", text) and text.count("→") == 2
    assert "not read yet" not in text
    assert "→" not in plain(page(client, "/events?hours=1"))
    for path in (
        f"/group?cluster={CLUSTER}&group=courier&topic=orders&range=6h",
        f"/topic?cluster={CLUSTER}&topic=orders&range=6h",
    ):
        assert "OK → STALLED" in page(client, path), path


def test_events_of_many_queues_are_one_line(client: TestClient, filled: Lake) -> None:
    at = board_home.now() + timedelta(seconds=1)
    add_snapshot(filled, at, [group("mailer")])
    events = [
        {"kind": "REWOUND", "consumer_group": "mailer", "queue_id": number, "messages": 20}
        for number in range(3)
    ]
    filled.append(progress.EVENTS, rows_of(progress.EVENTS, at, events))
    text = plain(page(client, "/events"))
    assert text.count("REWOUND") == 1 and "60 messages, 3 queues" in text
    assert "None." not in plain(page(client, "/events?hours=1"))


def test_an_empty_hour_says_so(reader: TestClient) -> None:
    text = plain(page(reader, "/events"))
    assert "Nothing happened in this time." in text and "0 None" not in text


def test_incidents_have_reason_age_and_who_has_them(client: TestClient, filled: Lake) -> None:
    opened = board_home.now() - timedelta(minutes=38)
    board_home.add_incident(filled, board_home.now(), kind="stalled", opened_at=opened)
    board_home.add_incident(
        filled, board_home.now(), rule="lag-high", kind="lag", severity="warning",
        state="ACKNOWLEDGED", acknowledged_by="lin", acknowledged_at=board_home.now(),
    )  # fmt: skip
    for path in ("/", "/incidents"):
        text = plain(page(client, path))
        assert "90,000 messages wait and a queue makes no progress" in text, path
        assert "38 m" in text and "nobody has it" in text, path
        assert "ACKNOWLEDGED" in text and "lin has it" in text, path


def test_the_overview_counts_the_incidents_that_it_does_not_list(
    client: TestClient, filled: Lake
) -> None:
    at = client.app.state.store.newest.at[CLUSTER]  # pyright: ignore
    rows = [board_home.incident(at, rule=f"rule-{number}") for number in range(13)]
    filled.append(alerting.INCIDENTS, rows)
    text = page(client, "/")
    assert '<a href="/incidents">3 more</a>' in text


@pytest.mark.slow
def test_one_is_singular(client: TestClient, filled: Lake) -> None:
    incident = board_home.add_incident(
        filled, board_home.now(), rule="subscription-inconsistent",
        kind="inconsistent_subscription", last_value=1.0, peak_value=1.0, threshold=0.0,
    )  # fmt: skip
    other = board_home.add_incident(
        filled, board_home.now(), kind="lag", last_value=1.0, peak_value=2.0, threshold=1.0
    )
    assert "members differ in 1 point of their" in plain(page(client, f"/incident?id={incident}"))
    text = plain(page(client, f"/incident?id={other}"))
    assert "1 message " in text and "1 messages" not in text
    assert "1 snapshot " in text and "true at 3 observations" in text


def test_members_of_an_inconsistent_subscription_are_named(
    client: TestClient, filled: Lake
) -> None:
    at = client.app.state.store.newest.at[CLUSTER]  # pyright: ignore
    evidence = [
        {"client_id": name, "client_address": "10.0.0.9:5", "message_model": "CLUSTERING",
         "allocation_strategy": "AVG", "subscriptions": [
             {"topic": "orders", "expression_type": "TAG", "expression": tags}]}
        for name, tags in (("one", "*"), ("two", "eu || uk"))
    ]  # fmt: skip
    row = {"consumer_group": "mailer", "consistent": False, "differences": ["EXPRESSION"]}
    rows = rows_of(progress.SUBSCRIPTIONS, at, [row | {"evidence": evidence}])
    filled.append(progress.SUBSCRIPTIONS, rows)
    incident = board_home.add_incident(
        filled, at, kind="inconsistent_subscription", rule="subscription-inconsistent"
    )
    for path in (f"/incident?id={incident}", GROUP):
        text = plain(page(client, path))
        assert "two 10.0.0.9:5 CLUSTERING orders eu || uk" in text, path


def test_an_incident_words_durations_alike_and_folds_what_is_long(
    client: TestClient, filled: Lake
) -> None:
    row = {"cluster": CLUSTER, "consumer_group": "mailer", "topic": "orders", "lag": 9}
    row |= {"delay_ms": 1_084_000, "health_reason": "broker-a/0: commit stays at 9"}
    standing = dict.fromkeys(field.name for field in progress.HEALTH_QUEUE)
    standing |= {"broker": "broker-a", "queue_id": 0, "committed": 9, "unconsumed": 3}
    facts = dict.fromkeys(field.name for field in progress.HEALTH_FACTS)
    facts |= {"queues": [standing], "queues_named": 1}
    row |= {"health_reason_code": HealthReason.COMMITS_STAND, "health_facts": facts}
    row |= {"online": True, "lag_is_lower_bound": False}
    at = board_home.now()
    incident = board_home.add_incident(
        filled, at, kind="idle_clients", snapshot_ids=[f"s-{number}" for number in range(18)],
        acknowledged_at=at, acknowledged_by="lin", acknowledge_reason="on it",
        state="ACKNOWLEDGED", evidence=json.dumps({"row": row}),
    )  # fmt: skip
    text = page(client, f"/incident?id={incident}")
    assert "<code>tidemark plan</code>" in text and "`" not in plain(text)
    assert re.search(r"<details[^>]*><summary>18 snapshots", text)
    assert re.search(r"ACKNOWLEDGED by lin: on it", plain(text)), "among the transitions"
    assert "18 m 4 s" in text and "0:18:04" not in text
    assert "<option selected>2h" in text, "a silence of half an hour is over before a repair"
    chinese = page(client, f"/incident?id={incident}", "zh")
    assert "提交位点停在 9" in chinese and "commit stays" not in chinese


def test_a_runbook_is_a_link_that_opens(client: TestClient, filled: Lake) -> None:
    text = ""
    for rule, runbook in (("a", "docs/runbooks/stalled.md"), ("b", "https://docs.example.com/a")):
        evidence = json.dumps({"row": {"cluster": CLUSTER}, "runbook": runbook})
        incident = board_home.add_incident(filled, board_home.now(), rule=rule, evidence=evidence)
        text += page(client, f"/incident?id={incident}")
    addresses = re.findall(r'class="button" href="([^"]+)"[^>]*>Runbook', text)
    assert addresses == ["/runbook?name=stalled.md", "https://docs.example.com/a"]
    assert "What to check" in page(client, addresses[0])
    for wrong in ("../index.md", "/etc/passwd", "none.md"):
        assert client.get("/runbook", params={"name": wrong}, headers=HTML).status_code == 404


def test_a_group_shows_six_figures_first_and_who_owns_each_queue(
    client: TestClient, filled: Lake
) -> None:
    at = board_home.now() + timedelta(seconds=1)
    queues = [queue("mailer", number, delay_ms=number * 1000) for number in range(3)]
    add_snapshot(filled, at, [group("mailer", health="BLOCKED")], queues=queues)
    held = [
        {"consumer_group": "mailer", "queue_id": number, "expected_client_id": "one",
         "actual_client_id": owner, "state": state}
        for number, owner, state in ((0, "one", "OK"), (1, "two", "MOVED"), (2, None, "UNOWNED"))
    ]  # fmt: skip
    filled.append(progress.ASSIGNMENTS, rows_of(progress.ASSIGNMENTS, at, held))
    text = page(client, GROUP)
    (figures,) = re.findall(r'<dl class="facts figures">(.*?)</dl>', text, re.DOTALL)
    assert figures.count("<dt>") == 6
    shown = plain(text)
    assert re.search(r"broker-a / 2 UNOWNED should be one .*broker-a / 1 two MOVED should be one "
                     r".*broker-a / 0 one ", shown)  # fmt: skip
    assert not re.search(r"broker-a / \d [^/]*\bOK\b", shown), "no OK in a group that is blocked"


@pytest.mark.slow
def test_a_plan_begins_with_no_more_members_than_queues(client: TestClient, filled: Lake) -> None:
    at = board_home.now() + timedelta(seconds=1)
    for clients, queues, planned in ((2, 8, 3), (8, 8, 8), (0, 4, 1)):
        add_snapshot(filled, at, [group("mailer", clients=clients, queues=queues)])
        text = page(client, GROUP)
        assert f'name="clients" min="1" max="10000" required value="{planned}"' in text
        at += timedelta(seconds=1)


def test_more_members_are_more_than_there_are(client: TestClient, filled: Lake) -> None:
    at = client.app.state.store.newest.at[CLUSTER]  # pyright: ignore
    drain = [{"clients": number, "drain_seconds": 60.0 * number} for number in (1, 2, 3)]
    row = {"consumer_group": "mailer", "clients": 2, "drain_by_clients": drain}
    filled.append(progress.CAPACITY, rows_of(progress.CAPACITY, at, [row]))
    text = plain(page(client, GROUP))
    (shown,) = re.findall(r"If it had more members (.*?) Plan", text)
    assert shown == "members drained in 3 3 m"


def test_an_error_larger_than_the_delay_does_not_squash_its_line(
    client: TestClient, filled: Lake
) -> None:
    newest = board_home.now() + timedelta(seconds=1)
    groups = {
        newest - timedelta(minutes=back): [group("courier", lag=9, delay_ms=1000)]
        for back in (3, 2, 1, 0)
    }
    of_queue = queue("courier", 0, delay_ms=1000, delay_error_ms=3_600_000)
    add_snapshots(filled, groups, queues=[of_queue])
    charts = re.findall(r'data-chart="([^"]*)"', page(client, GROUP.replace("mailer", "courier")))
    delay = json.loads(charts[1].replace("&#34;", '"'))
    assert delay["rows"][-1][0] <= 2000, "the axis ends near the delay, not at the error"
    assert max(delay["values"][2]) == 3_601_000, "the error is still there to be read"


def test_topics_of_rocketmq_are_folded_behind_those_of_users(
    client: TestClient, filled: Lake
) -> None:
    at = client.app.state.store.newest.at[CLUSTER]  # pyright: ignore
    kinds = {"TBW102": "system", "%RETRY%mailer": "retry", "orders": "normal"}
    rows = [{"topic": topic, "kind": kind} for topic, kind in kinds.items()]
    filled.append(raw.TOPICS, rows_of(raw.TOPICS, at, rows))
    text = page(client, "/topics")
    first, _, folded = text.partition("<details>")
    assert "TBW102" not in first and "TBW<wbr>" not in first
    assert "TBW102" in folded and "RETRY" in folded
    assert "2 topics of RocketMQ itself and of its groups" in plain(folded)
    assert "2 topics" in plain(first), "a count has its noun: orders and refunds"


def test_a_topic_has_rates_over_time_and_by_queue(client: TestClient, filled: Lake) -> None:
    newest = board_home.now() + timedelta(seconds=1)
    for back, rate, complete in ((2, 40.0, True), (1, 50.0, True), (0, 60.0, False)):
        at = newest - timedelta(minutes=back)
        row = {"produce_tps": rate, "complete": complete}
        filled.append(progress.TOPICS, rows_of(progress.TOPICS, at, [row]))
    add_snapshot(filled, newest, [group("mailer")], queues=[queue("mailer", 1, produce_tps=12.5)])
    offsets = [{"queue_id": 1, "min_offset": 0, "max_offset": 7}]
    filled.append(raw.QUEUE_OFFSETS, rows_of(raw.QUEUE_OFFSETS, newest, offsets))
    text = page(client, f"/topic?cluster={CLUSTER}&topic=orders")
    (drawn,) = re.findall(r'data-chart="([^"]*)"', text)
    content = json.loads(drawn.replace("&#34;", '"'))
    assert content["values"] == [[40, 50, 60]] and content["bounds"] == [["", "", "≥"]]
    assert "broker-a / 1 12.50 0 7" in plain(text)


@pytest.mark.parametrize(
    ("share", "mark"), [(0.6, ""), (0.8, "banner warn"), (0.9, "banner bad"), (None, "")]
)
def test_a_full_disk_is_a_warning(
    client: TestClient, filled: Lake, share: float | None, mark: str
) -> None:
    at = client.app.state.store.newest.at[CLUSTER]  # pyright: ignore
    row = {"broker": "broker-z", "version": "V5_3_3", "disk_ratio": share}
    filled.append(raw.BROKERS, rows_of(raw.BROKERS, at, [row]))
    text = page(client, "/brokers")
    match = re.search(r'class="(banner \w+)"[^>]*>The disk of broker-z', text)
    assert (match[1] if match else "") == mark


def test_a_broker_that_did_not_respond_comes_first(client: TestClient, filled: Lake) -> None:
    at = client.app.state.store.newest.at[CLUSTER]  # pyright: ignore
    filled.append(raw.BROKERS, rows_of(raw.BROKERS, at, [{"broker": "broker-z"}]))
    text = page(client, "/brokers")
    texts = [
        match.replace("<wbr>", "")
        for match in re.findall(r'scope="row"[^>]*><a[^>]*><bdi>(.*?)</bdi>', text)
    ]
    assert texts[0] == "broker-z" and "1 did not respond" in plain(text)


def test_quality_is_summed_up_and_an_empty_batch_is_not_met(
    client: TestClient, filled: Lake, store: Store
) -> None:
    at = client.app.state.store.newest.at[CLUSTER]  # pyright: ignore
    given = {"table": "raw.topics", "severity": "warn", "run_id": "r", "observed_at": at,
             "window_start": at, "window_end": at}  # fmt: skip
    results = (("violated", False, 3, 10), ("fine", True, 0, 10), ("empty", True, 0, 0),
               ("not-applied", None, None, None))  # fmt: skip
    rows = [
        given | {"expectation": name, "success": met, "unexpected": wrong, "elements": count}
        for name, met, wrong, count in results
    ]
    names_of = quality.RESULTS.column_names
    filled.append(quality.RESULTS, [{name: row.get(name) for name in names_of} for row in rows])
    text = plain(page(client, "/quality"))
    assert "1 of 2 expectations are met, 1 is not . 2 more applied to no row." in text
    places = [text.index(name) for name in ("violated", "empty", "fine")]
    assert places == sorted(places), "failures first, then what is empty"
    assert "yes" not in text


def test_not_found_sends_a_person_to_pages_and_a_program_to_the_api(reader: TestClient) -> None:
    path = f"/group?cluster={CLUSTER}&group=nobody"
    person = reader.get(path, headers=HTML).text
    assert (
        "no group &#39;nobody&#39; in &#39;shop&#39;" in person and "/api/v1/groups" not in person
    )
    assert 'href="/groups">Groups</a>' in person
    assert "GET /api/v1/groups" in reader.get("/api/v1/groups/shop/nobody").json()["detail"]


def test_a_dash_has_its_reason(reader: TestClient) -> None:
    text = page(reader, "/groups?q=audit")
    assert 'title="some of its queues were not observed">–' in text
    assert "部分队列没有观测到" in page(reader, "/groups?q=audit", "zh")
