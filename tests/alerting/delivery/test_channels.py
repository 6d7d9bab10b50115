"""Channels of services that limit messages or keep alerts of their own.

The addresses of these services are fixed, so the tests catch the requests that apprise sends.
"""

import json
from datetime import timedelta

import pytest

from tests.support.channel_servers import PAGERDUTY
from tests.support.notified_incidents import FIRING, RESOLVED, clock, incident, notification
from tidemark.alerting.delivery import outbox
from tidemark.alerting.delivery.channels import AppriseChannel, ChannelError
from tidemark.alerting.delivery.messages import MOST_IN_FULL, Notification, body
from tidemark.alerting.delivery.outbox import deliver
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.incidents.repository import save
from tidemark.lake.tables.alerting import NOTIFICATIONS

pytestmark = pytest.mark.slow

OPSGENIE = "opsgenie://api-key/@eve/@max"


def many(count: int) -> list[Incident]:
    return [incident(("FIRING", 0), group=f"g-{number:02}") for number in range(count)]


def notifications(count: int) -> list[Notification]:
    return [notification(item) for item in many(count)]


def test_a_resolution_closes_its_alert_in_pagerduty(lake, web):
    slow = incident(("FIRING", 0), group="slow", severity="warning")
    save(lake, [], [FIRING, slow])
    assert deliver(lake, [AppriseChannel(PAGERDUTY)], clock=clock(1)).notifications == 2
    save(lake, [FIRING], [RESOLVED])
    # A new channel object knows no earlier message.
    assert deliver(lake, [AppriseChannel(PAGERDUTY)], clock=clock(10)).notifications == 1
    events = [what for _, what, _ in web.posted]
    assert [(event["event_action"], event["dedup_key"]) for event in events] == [
        ("trigger", FIRING.incident_id),
        ("trigger", slow.incident_id),
        ("resolve", FIRING.incident_id),
    ]
    assert [event["payload"]["severity"] for event in events[:2]] == ["critical", "warning"]
    assert events[0]["payload"]["summary"].startswith("[critical] FIRING lag: lab/billing/orders")
    assert len(events[0]["payload"]["summary"]) <= 1024


def test_a_resolution_closes_its_alert_in_opsgenie(lake, web):
    slow = incident(("FIRING", 0), group="slow", severity="warning")
    save(lake, [], [FIRING, slow])
    deliver(lake, [AppriseChannel(OPSGENIE)], clock=clock(1))
    save(lake, [FIRING], [RESOLVED])
    deliver(lake, [AppriseChannel(OPSGENIE)], clock=clock(10))
    alerts = "https://api.opsgenie.com/v2/alerts"
    close = f"{alerts}/{FIRING.incident_id}/close"
    assert [(url, params) for url, _, params in web.posted] == [
        (alerts, None),
        (alerts, None),
        (close, {"identifierType": "alias"}),
    ]
    opened = web.posted[0][1]
    assert opened["alias"] == FIRING.incident_id
    assert [responder["username"] for responder in opened["responders"]] == ["eve", "max"]
    assert "RESOLVED lag: lab/billing/orders" in web.posted[2][1]["note"]


@pytest.mark.parametrize("url", [PAGERDUTY, OPSGENIE])
def test_a_digest_to_a_pager_is_one_message(url: str, web):
    digest = AppriseChannel(url, timedelta(days=1))
    digest.send([notification(RESOLVED, 0), notification(RESOLVED, 1), *notifications(2)])
    digest.send([notification(RESOLVED, 1)])
    assert len(web.posted) == 2
    assert all(what.get("event_action") in (None, "trigger") for _, what, _ in web.posted)


def test_a_pager_retries_only_the_notifications_that_failed(lake, web):
    low = incident(("FIRING", 0), group="a", severity="warning")
    save(lake, [], [low, *many(3)])
    web.refuses_from = 2
    result = deliver(lake, [channel := AppriseChannel(PAGERDUTY)], clock=clock(1))
    assert (result.notifications, set(result.failed)) == (2, {channel.name})
    assert deliver(lake, [channel], clock=clock(1.1)).notifications == 0
    web.refuses_from = 9
    assert deliver(lake, [channel], clock=clock(10)).notifications == 2
    keys = [what["dedup_key"] for _, what, _ in web.posted]
    assert set(keys[:3]) == {item.incident_id for item in many(3)}, "the worst first"
    assert keys[3:] == [low.incident_id]
    assert {row["status"] for row in lake.read(NOTIFICATIONS).to_pylist()} == {"DELIVERED"}


def test_a_pager_leaves_time_for_other_channels(lake, web, monkeypatch: pytest.MonkeyPatch):
    seconds = iter(range(100))
    monkeypatch.setattr(outbox, "monotonic", lambda: next(seconds) * 6.0)
    save(lake, [], many(5))
    channel = AppriseChannel(PAGERDUTY)
    assert [deliver(lake, [channel], clock=clock(at)).notifications for at in (1, 1.2, 1.4)] == [
        2,
        2,
        1,
    ]


def test_a_message_fits_the_limit_of_its_service(web):
    channel = AppriseChannel("wecombot://bot-key")
    channel.send(notifications(30))
    AppriseChannel("wecombot://bot-key", timedelta(days=1)).send(notifications(30))
    message, digest = (what["text"]["content"] for _, what, _ in web.posted)
    assert max(len(message.encode()), len(digest.encode())) <= 2048
    assert message.startswith("Tidemark: 30 critical")
    assert message.count("FIRING lag: lab/g-") == MOST_IN_FULL
    assert message.endswith(f"and {30 - MOST_IN_FULL} more: tidemark incidents list")
    assert digest.startswith("Tidemark digest: 30 opened")


def test_little_room_keeps_the_worst_in_full():
    worst = incident(("FIRING", 0), group="worst")
    others = [incident(("FIRING", 0), group=f"g-{n}", severity="warning") for n in range(3)]
    sent = [notification(item) for item in (*others, worst)]
    short = body(sent, 900)
    assert len(short.encode()) <= 900
    assert short.count("Evidence:") == 1
    assert short.startswith("[critical] FIRING lag: lab/worst/orders\nThe group is late.")
    assert short.endswith("[warning] FIRING lag: lab/g-2/orders")
    assert body(sent, 100).endswith("lab/worst/orders\n\nand 3 more: tidemark incidents list")
    assert body(sent, 1) == "and 4 more: tidemark incidents list"


CHAT_SERVICES = {
    "wecombot://b0t-key": ("errcode", "errmsg"),
    "dingtalk://t0ken": ("errcode", "errmsg"),
    "feishu://t0ken": ("code", "msg"),
    "lark://t0ken-of-lark": ("StatusCode", "StatusMessage"),
}


@pytest.mark.parametrize("url", CHAT_SERVICES)
def test_http_200_with_an_error_code_is_a_failure(url: str, web):
    """Chat services refuse a sender over its rate limit with HTTP 200."""
    code, text = CHAT_SERVICES[url]
    channel = AppriseChannel(url)
    web.payload = json.dumps({code: 0, text: "ok"}).encode()
    channel.send(notifications(1))
    web.payload = json.dumps({code: 45009, text: "api freq out of limit"}).encode()
    with pytest.raises(ChannelError, match=r"refused: api freq out of limit; .*45009"):
        channel.send(notifications(1))
    assert len(web.posted) == 2


@pytest.mark.parametrize("payload", [b"ok", b"[1]", b"", b'{"errmsg": "ok"}'])
def test_a_response_without_a_code_counts_by_its_status(payload: bytes, web):
    web.payload = payload
    AppriseChannel("wecombot://b0t-key").send(notifications(1))
    web.refuses_from = 0
    with pytest.raises(ChannelError, match="429"):
        AppriseChannel("wecombot://b0t-key").send(notifications(1))
