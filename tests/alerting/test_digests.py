"""Digests: everything told once a period, what stands again, whoever fails or is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from alerting.channels import DAY, AppriseChannel, open_channels
from alerting.incidents import Incident, Transition, acknowledged, incident_id, resolved
from alerting.messages import MOST_IN_FULL
from alerting.outbox import deliver, entries_of
from alerting.store import save
from lake.catalog import Lake
from tests.alerting.servers import Webhook, mailbox, serve

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)


def hour(number: float) -> datetime:
    return MONDAY + timedelta(hours=number)


def incident(group: str, at: float, severity: str = "warning", rule: str = "lag-high") -> Incident:
    """One that fires at that hour of the week."""
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
        transitions=(Transition("FIRING", hour(at)),),
    )


def over(one: Incident, at: float) -> Incident:
    ended = resolved(one, hour(at))
    assert ended
    return ended


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with serve() as hook:
        yield hook


def tell(lake: Lake, url: str, at: float, reason: str | None = None, every: timedelta = DAY) -> int:
    """How many messages of a digest there were at that hour."""
    told = deliver(
        lake, [AppriseChannel(url, every)], lambda incident: reason, clock=lambda: hour(at)
    )
    return len(told.delivered)


def test_a_day_is_one_message_of_what_opened_what_stands_and_what_is_over(lake, webhook):
    early = incident("early", 1)
    down = incident("down", 3, "critical", "nobody-online")
    save(lake, [], [early])
    assert tell(lake, webhook.url, 1) == 0
    save(lake, [early], [over(early, 2)])
    save(lake, [], [down])
    assert [tell(lake, webhook.url, at) for at in (2, 3, 12, 23.9)] == [0] * 4
    # What was over for hours is still told, once.
    assert [tell(lake, webhook.url, at) for at in (24, 24.1, 40)] == [1, 0, 0]
    (first,) = webhook.received
    assert first["title"] == "Tidemark digest: 1 opened, 1 resolved"
    assert first["type"] == "failure"
    assert first["message"].split("\n") == [
        "Opened: 1 (1 critical)",
        "By rule: 1 nobody-online",
        "[critical] nobody-online: lab/down/orders; since 2026-11-16 03:00:00 UTC; 1,500 messages "
        f"wait (limit 1,000 messages); id {down.incident_id}",
        "",
        "Resolved: 1 (1 warning)",
        "By rule: 1 lag-high",
        "[warning] lag-high: lab/early/orders; since 2026-11-16 01:00:00 UTC until 2026-11-16 "
        f"02:00:00 UTC; id {early.incident_id}",
        "",
        "All that is open: tidemark incidents list",
        "All there were: tidemark incidents list --all",
        "One in full: tidemark incidents show ID",
    ]


def test_what_stands_is_told_again_and_when_all_is_over_nothing_is(lake, webhook):
    old, new = incident("old", 1), incident("new", 30, "critical")
    save(lake, [], [old])
    tell(lake, webhook.url, 1)
    tell(lake, webhook.url, 24)
    taken = acknowledged(old, "eve", hour(25))
    save(lake, [old], [taken])
    save(lake, [], [new])
    assert [tell(lake, webhook.url, at) for at in (30, 47, 48, 49)] == [0, 0, 1, 0]
    save(lake, [taken, new], [over(taken, 50), over(new, 51)])
    assert [tell(lake, webhook.url, at) for at in (50, 51, 72, 96, 120)] == [0, 0, 1, 0, 0]
    assert [message["title"].partition(": ")[2] for message in webhook.received] == [
        "1 opened",
        "1 opened, 1 still open",
        "2 resolved",
    ]
    (line,) = [each for each in webhook.received[1]["message"].split("\n") if "lab/old" in each]
    assert "since 2026-11-16 01:00:00 UTC" in line
    assert "taken on by eve" in line


def test_worst_first_then_oldest_and_only_so_many_as_one_can_read(lake, webhook):
    many = [incident(f"g-{number:02}", 2 + number / 60) for number in range(30)]
    save(lake, [], [*many, incident("worst", 5, "critical")])
    tell(lake, webhook.url, 6)
    tell(lake, webhook.url, 24)
    lines = webhook.received[0]["message"].split("\n")
    assert lines[:2] == ["Opened: 31 (1 critical, 30 warning)", "By rule: 31 lag-high"]
    shown = [line.split("/")[1] for line in lines if line.startswith("[")]
    assert shown == ["worst", *(f"g-{number:02}" for number in range(MOST_IN_FULL - 1))]
    assert f"and {31 - MOST_IN_FULL} more" in lines


def test_weeks_begin_on_monday_and_days_at_midnight_whenever_it_started(lake, webhook):
    one = incident("one", 1)
    save(lake, [], [one])
    week = timedelta(days=7)
    assert [tell(lake, webhook.url, at, every=week) for at in (5, 167.9, 168)] == [0, 0, 1]
    other = webhook.url + "/other"
    assert [tell(lake, other, at) for at in (170.5, 191.9, 192)] == [0, 0, 1]


def test_a_digest_that_fails_is_tried_again_and_holds_up_nobody(lake, webhook):
    one, standing = incident("one", 30), incident("standing", 1)
    save(lake, [], [standing])
    with serve() as flaky:
        tell(lake, flaky.url, 1)
        tell(lake, flaky.url, 24)
        save(lake, [], [one])
        tell(lake, flaky.url, 30)
        flaky.status = 500
        digest, at_once = AppriseChannel(flaky.url, DAY), AppriseChannel(webhook.url)
        told = deliver(lake, [digest, at_once], clock=lambda: hour(48))
        assert (set(told.delivered), set(told.failed)) == ({at_once.name}, {digest.name})
        flaky.status = 200
        assert [tell(lake, flaky.url, 48 + second / 3600) for second in (5, 60, 90)] == [0, 1, 0]
        assert [message["title"] for message in flaky.received] == [
            "Tidemark digest: 1 opened",
            "Tidemark digest: 1 opened, 1 still open",
        ]
    rows = {row["channel"]: row for row in entries_of(lake, one)}
    assert rows[digest.name]["status"] == rows[at_once.name]["status"] == "DELIVERED"


def test_what_was_silenced_waits_for_the_digest_after_and_never_makes_one_of_its_own(lake, webhook):
    long, short, known = incident("long", 25), incident("short", 25), incident("known", 1)
    save(lake, [], [known])
    tell(lake, webhook.url, 1)
    tell(lake, webhook.url, 24)
    save(lake, [], [long, short])
    tell(lake, webhook.url, 25, "silenced")
    save(lake, [short], [over(short, 26)])
    tell(lake, webhook.url, 26, "silenced")
    assert tell(lake, webhook.url, 48, "silenced") == 0
    assert [tell(lake, webhook.url, at) for at in (50, 71.9, 72)] == [0, 0, 1]
    assert webhook.received[1]["title"] == "Tidemark digest: 1 opened, 1 still open"
    assert "lab/short" not in webhook.received[1]["message"]


def test_what_was_silenced_and_stood_on_is_in_the_digest_when_over_by_then_too(lake, webhook):
    one = incident("one", 1)
    save(lake, [], [one])
    assert [tell(lake, webhook.url, 1, "silenced"), tell(lake, webhook.url, 10)] == [0, 0]
    save(lake, [one], [over(one, 20)])
    assert [tell(lake, webhook.url, at) for at in (20, 24)] == [0, 1]
    assert webhook.received[0]["title"] == "Tidemark digest: 1 resolved"


def test_what_comes_and_goes_is_told_once_as_it_is_in_the_end(lake, webhook):
    back = replace(
        incident("back", 1),
        reopened=1,
        transitions=(
            Transition("FIRING", hour(1)),
            Transition("RESOLVED", hour(2)),
            Transition("FIRING_2", hour(3)),
        ),
    )
    save(lake, [], [back])
    tell(lake, webhook.url, 3)
    tell(lake, webhook.url, 24)
    tell(lake, webhook.url, 48)
    assert [message["title"].partition(": ")[2] for message in webhook.received] == [
        "1 opened",
        "1 still open",
    ]
    assert "back for the 1. time" in webhook.received[0]["message"]


def test_one_that_is_killed_before_it_could_write_tells_that_digest_once_more(lake, webhook):
    one, standing = incident("one", 30), incident("standing", 1)
    save(lake, [], [standing])
    tell(lake, webhook.url, 1)
    tell(lake, webhook.url, 24)
    save(lake, [], [one])
    tell(lake, webhook.url, 30)
    code = (
        "import sys; from datetime import datetime; from lake.home import Home\n"
        "from lake.catalog import Lake; from tests.alerting.test_digests import hour, tell\n"
        "print(tell(Lake(Home.of(sys.argv[1])), sys.argv[2], 48))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(lake.home.path), webhook.url])
    webhook.before_answer = lambda: os.kill(process.pid, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    webhook.before_answer = lambda: None
    assert [tell(lake, webhook.url, at) for at in (48.1, 48.2, 71)] == [1, 0, 0]
    _, killed, repeated = webhook.received
    assert repeated == killed
    assert killed["title"] == "Tidemark digest: 1 opened, 1 still open"


def test_a_mailbox_gets_digests_too(lake):
    with mailbox() as (address, received):
        save(lake, [], [incident("one", 1)])
        tell(lake, address, 1)
        tell(lake, address, 24)
    assert [message["Subject"] for message in received] == ["Tidemark digest: 1 opened"]


def test_an_address_may_have_both_and_a_wrong_setting_is_told_and_stops_neither():
    environment = {
        "TIDEMARK_NOTIFY_URLS": "json://127.0.0.1/a",
        "TIDEMARK_DIGEST_URLS": "json://127.0.0.1/a nosuch://s3cret",
        "TIDEMARK_DIGEST_EVERY": "8h",
    }
    channels, mistakes = open_channels(environment)
    _, at_once, digest = channels
    assert [each.every for each in channels] == [None, None, timedelta(hours=8)]
    assert digest.name == f"digest-{at_once.name}"
    assert mistakes == [
        "TIDEMARK_DIGEST_URLS, address 2: apprise cannot use this nosuch:// address"
    ]
    for text in ("soon", "0s", "59s", "400d"):
        channels, mistakes = open_channels(environment | {"TIDEMARK_DIGEST_EVERY": text})
        assert channels[2].every == DAY
        assert mistakes[0].startswith("TIDEMARK_DIGEST_EVERY: a duration")
        assert len(mistakes) == 2
