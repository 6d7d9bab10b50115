"""Digests: one message a period, with repeats of open incidents, also after failures and kills."""

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.support.notification_servers import Webhook, mailbox, serve
from tidemark.alerting.delivery.channels import AppriseChannel
from tidemark.alerting.delivery.messages import MOST_IN_FULL
from tidemark.alerting.delivery.notification_log import notifications_of
from tidemark.alerting.delivery.outbox import deliver
from tidemark.alerting.delivery.receivers import DAY, open_channels
from tidemark.alerting.incidents.incident import Incident, Transition, incident_id
from tidemark.alerting.incidents.life_cycle import acknowledged, resolved
from tidemark.alerting.incidents.repository import save
from tidemark.lake.catalog import Lake
from tidemark.model.incidents import TransitionName
from tidemark.settings.sections import NotificationSettings

pytestmark = pytest.mark.slow

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)


def hour(number: float) -> datetime:
    return MONDAY + timedelta(hours=number)


def incident(group: str, at: float, severity: str = "warning", rule: str = "lag-high") -> Incident:
    """An incident that fires at that hour of the week."""
    subject = f"lab/{group}/orders"
    return Incident(
        incident_id=incident_id(rule, subject, hour(at)),
        rule=rule,
        subject=subject,
        severity=severity,
        state="FIRING",
        opened_at=hour(at),
        cluster="lab",
        kind="lag",
        threshold=1000.0,
        observed_at=hour(at),
        last_true_at=hour(at),
        fired_at=hour(at),
        last_value=1500.0,
        peak_value=1500.0,
        transitions=(Transition(TransitionName("FIRING"), hour(at)),),
    )


def resolved_at(one: Incident, at: float) -> Incident:
    incident = resolved(one, hour(at))
    assert incident
    return incident


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with serve() as hook:
        yield hook


def digests(
    lake: Lake, url: str, at: float, reason: str | None = None, every: timedelta = DAY
) -> int:
    """Return how many digests were sent at that hour."""
    result = deliver(
        lake, [AppriseChannel(url, every)], [lambda incident, now: reason], clock=lambda: hour(at)
    )
    return len(result.delivered)


def test_a_digest_lists_opened_and_resolved_incidents(lake, webhook):
    early = incident("early", 1)
    down = incident("down", 3, "critical", "nobody-online")
    save(lake, [], [early])
    assert digests(lake, webhook.url, 1) == 0
    save(lake, [early], [resolved_at(early, 2)])
    save(lake, [], [down])
    assert [digests(lake, webhook.url, at) for at in (2, 3, 12, 23.9)] == [0] * 4
    # An incident that resolved hours ago is still in one digest.
    assert [digests(lake, webhook.url, at) for at in (24, 24.1, 40)] == [1, 0, 0]
    (first,) = webhook.received
    assert first["title"] == "Tidemark digest: 1 opened, 1 resolved"
    assert first["type"] == "failure"
    assert first["message"].split("\n") == [
        "Opened: 1 (1 critical)",
        "By rule: 1 nobody-online",
        "[critical] nobody-online: lab/down/orders; since 2026-11-16 03:00:00 UTC; 1,500 messages "
        f"wait (threshold 1,000 messages); id {down.incident_id}",
        "",
        "Resolved: 1 (1 warning)",
        "By rule: 1 lag-high",
        "[warning] lag-high: lab/early/orders; since 2026-11-16 01:00:00 UTC until 2026-11-16 "
        f"02:00:00 UTC; id {early.incident_id}",
        "",
        "Open incidents: tidemark incidents list",
        "All incidents: tidemark incidents list --all",
        "Details: tidemark incidents show ID",
    ]


def test_open_incidents_repeat_in_each_digest_until_resolved(lake, webhook):
    old, new = incident("old", 1), incident("new", 30, "critical")
    save(lake, [], [old])
    digests(lake, webhook.url, 1)
    digests(lake, webhook.url, 24)
    taken = acknowledged(old, "eve", hour(25))
    save(lake, [old], [taken])
    save(lake, [], [new])
    assert [digests(lake, webhook.url, at) for at in (30, 47, 48, 49)] == [0, 0, 1, 0]
    save(lake, [taken, new], [resolved_at(taken, 50), resolved_at(new, 51)])
    assert [digests(lake, webhook.url, at) for at in (50, 51, 72, 96, 120)] == [0, 0, 1, 0, 0]
    assert [message["title"].partition(": ")[2] for message in webhook.received] == [
        "1 opened",
        "1 opened, 1 still open",
        "2 resolved",
    ]
    (line,) = [part for part in webhook.received[1]["message"].split("\n") if "lab/old" in part]
    assert "since 2026-11-16 01:00:00 UTC" in line
    assert "acknowledged by eve" in line


def test_a_digest_shows_the_worst_and_oldest_incidents_first(lake, webhook):
    many = [incident(f"g-{number:02}", 2 + number / 60) for number in range(30)]
    save(lake, [], [*many, incident("worst", 5, "critical")])
    digests(lake, webhook.url, 6)
    digests(lake, webhook.url, 24)
    lines = webhook.received[0]["message"].split("\n")
    assert lines[:2] == ["Opened: 31 (1 critical, 30 warning)", "By rule: 31 lag-high"]
    shown = [line.split("/")[1] for line in lines if line.startswith("[")]
    assert shown == ["worst", *(f"g-{number:02}" for number in range(MOST_IN_FULL - 1))]
    assert f"and {31 - MOST_IN_FULL} more" in lines


def test_weeks_start_on_monday_and_days_at_midnight(lake, webhook):
    one = incident("one", 1)
    save(lake, [], [one])
    week = timedelta(days=7)
    assert [digests(lake, webhook.url, at, every=week) for at in (5, 167.9, 168)] == [0, 0, 1]
    other = webhook.url + "/other"
    assert [digests(lake, other, at) for at in (170.5, 191.9, 192)] == [0, 0, 1]


def test_a_failed_digest_is_retried_without_delaying_other_channels(lake, webhook):
    one, standing = incident("one", 30), incident("standing", 1)
    save(lake, [], [standing])
    with serve() as flaky:
        digests(lake, flaky.url, 1)
        digests(lake, flaky.url, 24)
        save(lake, [], [one])
        digests(lake, flaky.url, 30)
        flaky.status = 500
        digest, at_once = AppriseChannel(flaky.url, DAY), AppriseChannel(webhook.url)
        result = deliver(lake, [digest, at_once], clock=lambda: hour(48))
        assert (set(result.delivered), set(result.failed)) == ({at_once.name}, {digest.name})
        flaky.status = 200
        assert [digests(lake, flaky.url, 48 + second / 3600) for second in (5, 60, 90)] == [0, 1, 0]
        assert [message["title"] for message in flaky.received] == [
            "Tidemark digest: 1 opened",
            "Tidemark digest: 1 opened, 1 still open",
        ]
    rows = {row["channel"]: row for row in notifications_of(lake, one)}
    assert rows[digest.name]["status"] == rows[at_once.name]["status"] == "DELIVERED"


def test_a_silenced_incident_waits_for_the_next_digest(lake, webhook):
    long, short, known = incident("long", 25), incident("short", 25), incident("known", 1)
    save(lake, [], [known])
    digests(lake, webhook.url, 1)
    digests(lake, webhook.url, 24)
    save(lake, [], [long, short])
    digests(lake, webhook.url, 25, "silenced")
    save(lake, [short], [resolved_at(short, 26)])
    digests(lake, webhook.url, 26, "silenced")
    assert digests(lake, webhook.url, 48, "silenced") == 0
    assert [digests(lake, webhook.url, at) for at in (50, 71.9, 72)] == [0, 0, 1]
    assert webhook.received[1]["title"] == "Tidemark digest: 1 opened, 1 still open"
    assert "lab/short" not in webhook.received[1]["message"]


def test_incidents_open_after_their_silence_are_in_the_digest(lake, webhook):
    one = incident("one", 1)
    save(lake, [], [one])
    assert [digests(lake, webhook.url, 1, "silenced"), digests(lake, webhook.url, 10)] == [0, 0]
    save(lake, [one], [resolved_at(one, 20)])
    assert [digests(lake, webhook.url, at) for at in (20, 24)] == [0, 1]
    assert webhook.received[0]["title"] == "Tidemark digest: 1 resolved"


def test_a_reopened_incident_is_one_line_of_the_digest(lake, webhook):
    back = replace(
        incident("back", 1),
        reopened=1,
        transitions=(
            Transition(TransitionName("FIRING"), hour(1)),
            Transition(TransitionName("RESOLVED"), hour(2)),
            Transition(TransitionName("FIRING_2"), hour(3)),
        ),
    )
    save(lake, [], [back])
    digests(lake, webhook.url, 3)
    digests(lake, webhook.url, 24)
    digests(lake, webhook.url, 48)
    assert [message["title"].partition(": ")[2] for message in webhook.received] == [
        "1 opened",
        "1 still open",
    ]
    assert "reopened once" in webhook.received[0]["message"]


def test_a_kill_before_recording_repeats_one_digest(lake, webhook):
    one, standing = incident("one", 30), incident("standing", 1)
    save(lake, [], [standing])
    digests(lake, webhook.url, 1)
    digests(lake, webhook.url, 24)
    save(lake, [], [one])
    digests(lake, webhook.url, 30)
    code = (
        "import sys; from datetime import datetime; from tidemark.settings.home import Home\n"
        "from tidemark.lake.catalog import Lake\n"
        "from tests.alerting.delivery.test_digests import digests, hour\n"
        "print(digests(Lake(Home.of(sys.argv[1])), sys.argv[2], 48))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(lake.home.path), webhook.url])
    webhook.before_response = lambda: os.kill(process.pid, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    webhook.before_response = lambda: None
    assert [digests(lake, webhook.url, at) for at in (48.1, 48.2, 71)] == [1, 0, 0]
    _, killed, repeated = webhook.received
    assert repeated == killed
    assert killed["title"] == "Tidemark digest: 1 opened, 1 still open"


def test_a_mailbox_gets_digests_too(lake):
    with mailbox() as (address, received):
        save(lake, [], [incident("one", 1)])
        digests(lake, address, 1)
        digests(lake, address, 24)
    assert [message["Subject"] for message in received] == ["Tidemark digest: 1 opened"]


def test_a_wrong_digest_setting_stops_no_channel():
    settings = NotificationSettings(
        urls="json://127.0.0.1/a",
        digest_urls="json://127.0.0.1/a nosuch://s3cret",
        digest_every="8h",
    )
    channels, mistakes = open_channels(settings)
    _, at_once, digest = channels
    assert [channel.every for channel in channels] == [None, None, timedelta(hours=8)]
    assert digest.name == f"digest-{at_once.name}"
    assert mistakes == [
        "TIDEMARK_DIGEST_URLS, address 2: apprise cannot use this nosuch:// address"
    ]
    for text in ("soon", "0s", "59s", "400d"):
        channels, mistakes = open_channels(dataclasses.replace(settings, digest_every=text))
        assert channels[2].every == DAY
        assert mistakes[0].startswith("TIDEMARK_DIGEST_EVERY: a duration")
        assert len(mistakes) == 2
