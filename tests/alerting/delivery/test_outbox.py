"""Delivery to real servers, of which one is down."""

import json
import logging
from collections.abc import Iterator

import pytest

from tests.support.notification_servers import Webhook, mailbox, serve
from tests.support.notified_incidents import FIRING, RESOLVED, clock, incident, notification, rows
from tidemark.alerting.delivery.channels import AppriseChannel, Channel, LogChannel
from tidemark.alerting.delivery.outbox import deliver
from tidemark.alerting.delivery.receivers import open_channels
from tidemark.alerting.incidents.repository import save
from tidemark.settings.sections import NotificationSettings

pytestmark = pytest.mark.slow


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with serve() as hook:
        yield hook


@pytest.fixture
def gone() -> str:
    """The address of a server that is down."""
    with serve() as hook:
        return hook.url


def test_each_channel_gets_each_message_once(lake, webhook):
    slow = incident(("FIRING", 0), group="slow", severity="warning")
    save(lake, [], [FIRING, slow])
    with mailbox() as (address, received):
        channels = [AppriseChannel(webhook.url), AppriseChannel(address)]
        assert deliver(lake, channels, clock=clock(1)).notifications == 2
        assert deliver(lake, channels, clock=clock(2)).notifications == 0
        save(lake, [FIRING], [RESOLVED])
        assert deliver(lake, channels, clock=clock(10)).notifications == 1
    assert [message["title"] for message in webhook.received] == [
        "Tidemark: 1 critical, 1 warning",
        "[critical] RESOLVED lag: lab/billing/orders",
    ]
    assert [message["type"] for message in webhook.received] == ["failure", "success"]
    assert [message["Subject"] for message in received] == [
        message["title"] for message in webhook.received
    ]
    assert received[0]["To"] == "oncall@lab.test"
    assert "[warning] FIRING lag: lab/slow/orders" in str(received[0].get_payload())


def test_messages_link_to_the_page_of_the_incident(lake, webhook):
    save(lake, [], [FIRING])
    settings = NotificationSettings(urls=webhook.url, board_url="https://board.example.org/")
    channels, _ = open_channels(settings)
    deliver(lake, channels, clock=clock(1))
    (message,) = webhook.received
    page = f"https://board.example.org/incident?id={FIRING.incident_id}"
    assert f"Board: {page}" in message["message"].splitlines()


def test_a_failing_channel_delays_no_other_and_is_retried(
    lake, webhook, gone, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    save(lake, [], [FIRING])
    with serve() as flaky:
        bad, down, good = (AppriseChannel(url) for url in (flaky.url, gone, webhook.url))
        flaky.status = 500
        result = deliver(lake, [bad, down, good], clock=clock(1))
        assert set(result.delivered) == {good.name}
        assert "error=500" in result.failed[bad.name]
        assert "onnection error" in result.failed[down.name]
        row = rows(lake)[bad.name, "FIRING"]
        assert (row["status"], row["attempts"], row["delivered_at"]) == ("PENDING", 1, None)
        assert "error=500" in row["last_error"]

        flaky.status = 200
        save(lake, [FIRING], [RESOLVED])
        assert deliver(lake, [bad], clock=clock(1.1)).notifications == 0, "too early"
        assert deliver(lake, [bad], clock=clock(10)).notifications == 2
        assert [message["title"] for message in flaky.received] == [
            "Tidemark: 1 critical, 1 resolved"
        ]
    row = rows(lake)[bad.name, "FIRING"]
    assert (row["status"], row["attempts"], row["last_error"]) == ("DELIVERED", 2, None)
    secret = caplog.text + str(result) + str(rows(lake))
    assert "s3cret-pass" not in secret
    assert "t0ken-in-path" not in secret


def test_a_notification_pending_for_days_is_still_sent(lake, webhook, gone):
    save(lake, [], [FIRING])
    reason = "silenced"
    deliver(lake, [AppriseChannel(webhook.url)], [lambda incident, now: reason], clock(1))
    (row,) = rows(lake).values()
    assert (row["status"], row["attempts"], row["last_error"]) == ("PENDING", 0, reason)
    deliver(lake, [AppriseChannel(webhook.url)], clock=clock(3 * 1440))
    assert len(webhook.received) == 1


def test_only_one_process_delivers_at_a_time(lake, webhook):
    save(lake, [], [FIRING])

    class Nested(Channel):
        name = "nested"

        def send(self, notifications: object) -> None:
            assert deliver(lake, [AppriseChannel(webhook.url)], clock=clock(1)).notifications == 0

    assert deliver(lake, [Nested()], clock=clock(1)).notifications == 1
    assert webhook.received == []


def test_the_log_gets_one_json_line_per_notification(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    LogChannel().send([notification(FIRING), notification(RESOLVED, 1)])
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    line = json.loads(caplog.records[0].getMessage())
    assert line == line | {
        "event": "alert",
        "state": "FIRING",
        "incident_id": FIRING.incident_id,
        "rule": "lag",
        "subject": "lab/billing/orders",
        "since": "2026-11-19T11:58:00+00:00",
        "snapshot_ids": ["s0", "s1"],
    }


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3cret-token", "apprise cannot use this ?:// address"),
        ("nosuch://s3cret-token", "apprise cannot use this nosuch:// address"),
        ("slack://s3cret-token", "apprise cannot use this slack:// address"),
    ],
)
def test_a_bad_address_is_named_by_position_only(
    url: str, reason: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
):
    caplog.set_level(logging.DEBUG)
    urls = f"json://127.0.0.1/a {url} json://127.0.0.1/b json://127.0.0.1/a"
    channels, mistakes = open_channels(NotificationSettings(urls=urls))
    assert mistakes == [f"TIDEMARK_NOTIFY_URLS, address 2: {reason}"]
    assert [channel.name.split("-")[0] for channel in channels] == ["log", "json", "json"]
    assert len({channel.name for channel in channels}) == 3
    assert "s3cret" not in caplog.text + "".join(capfd.readouterr())
    assert [channel.name for channel in open_channels(NotificationSettings())[0]] == ["log"]
