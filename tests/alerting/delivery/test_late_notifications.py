"""Every transition is notified, however late; incidents that are over come as one summary."""

import json
import logging
from collections.abc import Iterator

import pytest

from tests.support.channel_servers import PAGERDUTY
from tests.support.notification_servers import Webhook, serve
from tests.support.notified_incidents import clock, incident
from tidemark.alerting.delivery.channels import AppriseChannel, LogChannel
from tidemark.alerting.delivery.outbox import deliver
from tidemark.alerting.incidents.repository import save
from tidemark.lake.tables.alerting import NOTIFICATIONS

DAYS = 1440.0
"""Minutes."""


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with serve() as hook:
        yield hook


def over(group: str, at: float = 0, severity: str = "critical"):
    """An incident that opened and resolved within nine minutes."""
    return incident(("FIRING", at), ("RESOLVED", at + 9), group=group, severity=severity)


def test_incidents_missed_during_an_outage_are_one_summary(lake, webhook):
    hook = AppriseChannel(webhook.url)
    save(lake, [], [incident(("FIRING", -9), group="before")])
    assert deliver(lake, [hook], clock=clock(0)).notifications == 1
    still_open = incident(("FIRING", 60), group="open")
    save(lake, [], [*(over(f"g-{number}", number) for number in range(30)), still_open])
    assert deliver(lake, [hook], clock=clock(40 * DAYS)).notifications == 61
    titles = [item["title"] for item in webhook.received[1:]]
    assert titles == [
        "[critical] FIRING lag: lab/open/orders",
        "Tidemark: 30 incidents opened and resolved before anybody was notified",
    ]
    summary = webhook.received[-1]
    assert summary["type"] == "info"
    assert "30 lag" in summary["message"]
    assert "lab/g-0/orders; since 2026-11-19 11:58:00 UTC until 2026-11-19 12:09:00" in str(summary)
    assert "and 10 more" in summary["message"]
    assert deliver(lake, [hook], clock=clock(40 * DAYS + 1)).notifications == 0
    statuses = [row["status"] for row in lake.read(NOTIFICATIONS).to_pylist()]
    assert statuses == ["DELIVERED"] * 62


def test_incidents_found_late_by_a_backlog_are_notified(lake, webhook):
    hook = AppriseChannel(webhook.url)
    save(lake, [], [over("first", 5 * DAYS)])
    assert deliver(lake, [hook], clock=clock(5 * DAYS + 10)).notifications == 2
    save(lake, [], [over("computed-late", 0)])
    assert deliver(lake, [hook], clock=clock(5 * DAYS + 11)).notifications == 2
    assert "1 incident opened and resolved" in webhook.received[-1]["title"]
    assert deliver(lake, [hook], clock=clock(5 * DAYS + 12)).notifications == 0


def test_a_service_down_for_days_gets_a_summary(lake, webhook):
    webhook.status = 500
    hook = AppriseChannel(webhook.url)
    firing = incident(("FIRING", 0), group="g")
    save(lake, [], [firing])
    assert deliver(lake, [hook], clock=clock(1)).failed
    save(lake, [firing], [over("g")])
    webhook.status = 200
    assert deliver(lake, [hook], clock=clock(3 * DAYS)).notifications == 2
    (message,) = webhook.received
    assert (
        message["title"] == "Tidemark: 1 incident opened and resolved before anybody was notified"
    )


def test_each_channel_is_notified_whatever_another_has_delivered(lake, webhook):
    first = AppriseChannel(webhook.url)
    save(lake, [], [over("g")])
    deliver(lake, [first], clock=clock(10))
    new = AppriseChannel(webhook.url + "/new")
    deliver(lake, [first, new], clock=clock(2 * DAYS))
    assert len(webhook.received) == 2
    assert "opened and resolved" in webhook.received[1]["title"]


def test_a_delivery_that_was_cut_short_forgets_nothing(lake, webhook, monkeypatch):
    hook = AppriseChannel(webhook.url)
    save(lake, [], [over("g")])

    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(hook, "send", cut)
        with pytest.raises(KeyboardInterrupt):
            deliver(lake, [hook], clock=clock(10))
    assert deliver(lake, [hook], clock=clock(3 * DAYS)).notifications == 2


def test_the_log_names_each_of_them(lake, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    save(lake, [], [over("g")])
    deliver(lake, [LogChannel()], clock=clock(2 * DAYS))
    lines = [
        json.loads(record.getMessage()) for record in caplog.records if record.name.endswith("rts")
    ]
    assert [line["transition"] for line in lines] == ["FIRING", "RESOLVED"]
    assert all(line["late"] for line in lines)


def test_pagers_open_no_alert_for_info_or_resolved_incidents(lake, web):
    info = incident(("FIRING", 0), group="idle", severity="info")
    save(lake, [], [over("long-gone", -600), info])
    pager = AppriseChannel(PAGERDUTY)
    assert deliver(lake, [pager], clock=clock(1)).notifications == 0
    assert web.posted == []
    rows = lake.read(NOTIFICATIONS).to_pylist()
    why = {(row["status"], row["last_error"]) for row in rows}
    assert why == {
        ("WITHHELD", "resolved before it was notified, which opens no page"),
        ("WITHHELD", "its firing was not notified"),
        ("PENDING", "info opens no page"),
    }
    worse = incident(("FIRING", 0), group="idle", severity="warning")
    save(lake, [info], [worse])
    assert deliver(lake, [pager], clock=clock(2)).notifications == 1
    milder = incident(("FIRING", 0), ("RESOLVED", 9), group="idle", severity="info")
    save(lake, [worse], [milder])
    assert deliver(lake, [pager], clock=clock(10)).notifications == 1
    assert [what["event_action"] for _, what, _ in web.posted] == ["trigger", "resolve"]


def test_info_that_resolves_before_any_delivery_pages_nobody(lake, web):
    save(lake, [], [over("idle", severity="info")])
    assert deliver(lake, [AppriseChannel(PAGERDUTY)], clock=clock(10)).notifications == 0
    assert web.posted == []
