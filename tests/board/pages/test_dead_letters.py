"""Dead letters and retries: worst first, ages with their marks, unknown as unknown."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.board_home import BROKERS, CLUSTER, add_incident, group, rows_of, snapshot_row
from tests.support.page_texts import names, page, plain, words
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import progress, raw


def dead(name: str, at: datetime, messages: int | None, **columns: Any) -> dict[str, Any]:
    """A row of ``progress.topics`` of a group's dead-letter topic, complete unless given."""
    ages = {"oldest_at": at - timedelta(hours=30), "newest_at": at - timedelta(minutes=5)}
    row = {"topic": f"%DLQ%{name}", "kind": "dlq", "messages": messages, "complete": True}
    row |= {"added_last_hour": 0, "oldest_at_is_upper_bound": False} | ages
    return row | columns


def write(
    lake: Lake,
    topics: Sequence[Mapping[str, Any]],
    groups: Sequence[Mapping[str, Any]] = (),
    at: datetime | None = None,
) -> None:
    """Adds a computed snapshot with these topics and groups, of brokers that keep 72 hours."""
    at = at or _next()
    brokers = [row | {"retention_hours": 72} for row in BROKERS]
    lake.append(raw.SNAPSHOTS, snapshot_row(at))
    lake.append(raw.BROKERS, rows_of(raw.BROKERS, at, brokers))
    lake.append(progress.GROUPS, rows_of(progress.GROUPS, at, groups or [group("other")]))
    lake.append(progress.TOPICS, rows_of(progress.TOPICS, at, topics))
    lake.append(progress.SNAPSHOTS, rows_of(progress.SNAPSHOTS, at, [{}]))


def _next() -> datetime:
    return board_home.now() + timedelta(seconds=1)


def items(client: TestClient, parameters: str = "") -> list[dict[str, Any]]:
    client.app.state.store.refresh()  # pyright: ignore
    response = client.get(f"/api/v1/dead-letters{parameters}")
    assert response.status_code == 200, response.text
    return response.json()["items"]


@pytest.mark.slow
def test_groups_with_new_dead_letters_come_first(client: TestClient, filled: Lake) -> None:
    at = _next()
    states = {"many": "OK", "fresh": "STALLED", "unread": "UNKNOWN", "empty": "OK"}
    topics = [
        dead("many", at, 900),
        dead("fresh", at, 3, added_last_hour=2),
        dead("unread", at, None, added_last_hour=None, oldest_at=None, newest_at=None),
        dead("empty", at, 0, oldest_at=None),
    ]
    write(filled, topics, [group(name, health=state) for name, state in states.items()], at)
    text = page(client, "/dead-letters")
    assert names(text) == ["fresh", "unread", "many"]
    shown = plain(text)
    assert "fresh STALLED dead-letter topic 2 3 5 m 1 d 6 h 1 d 18 h" in shown
    assert "unread UNKNOWN dead-letter topic – – – – – –" in shown
    assert items(client)[0]["consumer_group"] == "fresh"


def test_a_group_that_is_gone_is_listed_without_a_link(client: TestClient, filled: Lake) -> None:
    at = _next()
    write(filled, [dead("left", at, 4)], at=at)
    assert "group=left" not in page(client, "/dead-letters")
    (row,) = items(client)
    assert (row["consumer_group"], row["health"], row["messages"]) == ("left", None, 4)


def test_an_unreachable_broker_makes_bounds(client: TestClient, filled: Lake) -> None:
    at = _next()
    row = dead("mailer", at, 40, added_last_hour=7, complete=False, newest_at=at)
    write(filled, [row], [group("mailer")], at)
    assert "≥ 7 ≥ 40 ≤ 0 s ≥ 1 d 6 h ≤ 1 d 18 h" in plain(page(client, "/dead-letters"))


def test_an_age_beyond_the_history_is_a_bound(client: TestClient, filled: Lake) -> None:
    at = _next()
    row = dead("mailer", at, 40, oldest_at_is_upper_bound=True)
    write(filled, [row], [group("mailer")], at)
    assert "0 40 5 m ≥ 1 d 6 h ≤ 1 d 18 h" in plain(page(client, "/dead-letters"))
    (api,) = items(client)
    assert api["oldest_at_is_upper_bound"] is True
    topic = plain(page(client, f"/topic?cluster={CLUSTER}&topic=%25DLQ%25mailer"))
    assert f"≤ {at - timedelta(hours=30):%Y-%m-%d %H:%M:%S}" in topic


def test_retries_of_groups_without_dead_letters(client: TestClient, filled: Lake) -> None:
    groups = [
        group("slow", retry_lag=12, redelivered_tps=0.0),
        group("failing", retry_lag=5, retry_lag_is_lower_bound=True, redelivered_tps=2.5),
        group("well", retry_lag=0, redelivered_tps=0.0),
    ]
    at = _next()
    configured = [
        {"consumer_group": name, "broker": broker, "retry_max_times": times}
        for name, limits in (("slow", (16, 16)), ("failing", (16, 3)))
        for broker, times in zip(("broker-a", "broker-b"), limits, strict=True)
    ]
    filled.append(raw.CONSUMER_GROUPS, rows_of(raw.CONSUMER_GROUPS, at, configured))
    write(filled, [], groups, at)
    text = page(client, "/dead-letters")
    assert names(text) == ["failing", "slow"]
    assert "failing OK 2.50 ≥ 5 – slow OK 0 12 16" in plain(text)
    assert "No group has a dead letter." in plain(text)


@pytest.mark.slow
def test_the_trend_of_kept_dead_letters(client: TestClient, filled: Lake) -> None:
    newest = _next()
    for back in (40, 20, 0):
        at = newest - timedelta(minutes=back)
        write(filled, [dead("mailer", at, 60 - back)], [group("mailer")], at)
    text = page(client, "/dead-letters")
    assert "messages of the last hours, at most 60" in text
    assert "L" in words(text).split('class="floor"')[1].split('d="')[2].split('"')[0]


def test_an_incident_about_a_dead_letter_topic_leads_to_its_group(
    client: TestClient, filled: Lake
) -> None:
    """The group has no offsets on that topic."""
    at = _next()
    write(filled, [dead("mailer", at, 4)], [group("mailer")], at)
    topic = "%DLQ%mailer"
    evidence = (
        f'{{"row": {{"cluster": "{CLUSTER}", "consumer_group": "mailer", "topic": "{topic}"}}}}'
    )
    subject = f"{CLUSTER}/{topic}"
    number = add_incident(
        filled, at, rule="dead-letters-old", kind="dead_letter_age", subject=subject,
        last_value=108_000.0, severity="info", evidence=evidence,
    )  # fmt: skip
    text = page(client, f"/incident?id={number}")
    assert "the oldest dead letter has waited for 1 d 6 h" in plain(text)
    address = f"/group?cluster={CLUSTER}&group=mailer&topic=%25DLQ%25mailer"
    assert address.replace("&", "&amp;") in text
    assert "dead-letters-old" in page(client, address)


def test_rows_of_the_api_are_sorted_and_filtered(client: TestClient, filled: Lake) -> None:
    at = _next()
    topics = [dead(name, at, number) for number, name in enumerate(("a", "b", "ab"), 1)]
    write(filled, topics, at=at)
    listed = items(client, "?sort=-messages&q=a")
    assert [row["consumer_group"] for row in listed] == ["ab", "a"]
    assert client.get("/api/v1/dead-letters?sort=colour").status_code == 400
