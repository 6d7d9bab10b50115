"""Delivery: what is due and when, against real servers of which one is down."""

import dataclasses
import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from alerting.delivery.channels import AppriseChannel, LogChannel
from alerting.delivery.due import Entry, due
from alerting.delivery.messages import MOST_IN_FULL, Notification, body, text, title
from alerting.delivery.outbox import LONGEST_RETRY_PAUSE, deliver, retry_pause
from alerting.delivery.receivers import open_channels
from alerting.delivery.silences import (
    Silence,
    SilenceError,
    mute_reason,
    silence,
    silences,
    unsilence,
)
from alerting.incidents.incident import Incident, Transition, incident_id
from alerting.incidents.repository import save
from alerting.rules.files import load_rules
from alerting.rules.kinds import KINDS
from lake.catalog import Lake
from lake.tables.alerting import NOTIFICATIONS
from settings.notifications import NotificationSettings
from tests.support.notification_servers import Webhook, mailbox, serve

pytestmark = pytest.mark.slow

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def minute(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


def incident(
    *states: tuple[str, float], group: str = "billing", severity: str = "critical", **other: Any
) -> Incident:
    """An incident with these transitions at these minutes."""
    subject = f"lab/{group}/orders"
    evidence = {
        "description": "The group is late.",
        "runbook": "https://wiki/lag",
        "row": {
            "cluster": "lab",
            "consumer_group": group,
            "topic": "orders",
            "queues": 8,
            "queues_unknown": 2,
            "max_queue_lag": 1490,
            "worst_broker": "broker-b",
            "worst_queue_id": 3,
            "delay_ms": 61_000,
        },
    }
    opened = minute(states[0][1] - 2)
    is_resolved = states[-1][0].startswith("RESOLVED")
    made = Incident(
        incident_id=incident_id("lag", subject, opened),
        rule="lag",
        subject=subject,
        severity=severity,
        state="RESOLVED" if is_resolved else "FIRING",
        opened_at=opened,
        cluster="lab",
        kind="lag",
        threshold=1000.0,
        observed_at=minute(states[-1][1]),
        last_true_at=minute(states[0][1]),
        fired_at=minute(states[0][1]),
        resolved_at=minute(states[-1][1]) if is_resolved else None,
        last_value=1500.0,
        peak_value=2500.0,
        observations=3,
        labels={"team": "billing"},
        snapshot_ids=("s0", "s1"),
        evidence=json.dumps(evidence),
        transitions=tuple(Transition(state, minute(number)) for state, number in states),
    )
    return replace(made, **other)


FIRING, RESOLVED = incident(("FIRING", 0)), incident(("FIRING", 0), ("RESOLVED", 9))


def entry(transition: str, at: float, **other: Any) -> Entry:
    return Entry(FIRING.incident_id, transition, "hook", minute(at), **other)


def due_now(
    now: float, *incidents: Incident, entries: tuple[Entry, ...] = (), reason: str | None = None
) -> tuple[list[str], list[str | None]]:
    """The transitions due on channel ``hook``, and the statuses of the entries that change."""
    known = {(each.incident_id, each.transition): each for each in entries}
    found = due(incidents, known, "hook", minute(now), lambda incident: reason)
    return [each.transition.transition for each in found.notifications], [
        each.status for each in found.changed
    ]


DONE = {"status": "DELIVERED", "attempts": 1, "delivered_at": minute(1)}


def test_each_transition_is_due_until_it_was_delivered():
    assert due_now(1, FIRING) == (["FIRING"], [])
    assert due_now(1, FIRING, entries=(entry("FIRING", 0, **DONE),)) == ([], [])
    assert due_now(9, RESOLVED, entries=(entry("FIRING", 0, **DONE),)) == (["RESOLVED"], [])
    assert due_now(9, RESOLVED) == (["FIRING", "RESOLVED"], [])


def test_later_notifications_wait_for_a_failed_one():
    failed = entry("FIRING", 0, attempts=2, next_attempt_at=minute(10), last_error="gone")
    assert due_now(9, RESOLVED, entries=(failed,)) == ([], [])
    assert due_now(10, RESOLVED, entries=(failed,)) == (["FIRING", "RESOLVED"], [])
    pauses = [retry_pause(attempts) for attempts in range(1, 100)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[1], pauses[-1]) == (
        timedelta(seconds=15),
        timedelta(seconds=30),
        LONGEST_RETRY_PAUSE,
    )


def test_a_resolution_long_ago_is_notified_as_late():
    assert due_now(70, RESOLVED) == (["FIRING", "RESOLVED"], [])
    late = due([RESOLVED], {}, "hook", minute(70)).notifications
    assert [each.late for each in late] == [True, True]
    assert [each.late for each in due([RESOLVED], {}, "hook", minute(69)).notifications] == [
        False,
        False,
    ]
    delivered = {(RESOLVED.incident_id, "FIRING"): entry("FIRING", 0, **DONE)}
    (resolution,) = due([RESOLVED], delivered, "hook", minute(900)).notifications
    assert not resolution.late, "whoever was told of the firing waits for it"
    assert due_now(600, FIRING) == (["FIRING"], []), "it is still open"


def test_a_muted_notification_is_sent_later_if_still_open():
    assert due_now(1, FIRING, reason="quiet hours") == ([], ["PENDING"])
    muted = entry("FIRING", 0, last_error="quiet hours")
    assert due_now(2, FIRING, entries=(muted,), reason="quiet hours") == ([], [])
    assert due_now(2, FIRING, entries=(muted,)) == (["FIRING"], [])
    assert due_now(9, RESOLVED, entries=(muted,), reason="quiet hours") == (
        [],
        ["WITHHELD", "WITHHELD"],
    )
    # Where the firing was delivered, the resolution follows later.
    sent = entry("FIRING", 0, **DONE)
    assert due_now(9, RESOLVED, entries=(sent,), reason="quiet hours") == ([], ["PENDING"])
    waits = entry("RESOLVED", 9, last_error="quiet hours")
    assert due_now(900, RESOLVED, entries=(sent, waits)) == (["RESOLVED"], [])


def test_an_incident_resolved_while_muted_is_never_sent():
    muted = entry("FIRING", 0, last_error="inhibited by incident abc")
    assert due_now(10, RESOLVED, entries=(muted,)) == ([], ["WITHHELD", "WITHHELD"])
    # A notification that failed was not muted.
    failed = entry("FIRING", 0, last_error="gone", attempts=1, next_attempt_at=minute(9))
    assert due_now(10, RESOLVED, entries=(failed,)) == (["FIRING", "RESOLVED"], [])


def test_each_reopening_is_notified_or_muted_by_itself():
    first = (entry("FIRING", 0, **DONE), entry("RESOLVED", 9, **DONE))
    back = (("FIRING", 0), ("RESOLVED", 9), ("FIRING_2", 20))
    reopened, resolved_again = incident(*back), incident(*back, ("RESOLVED_2", 30))
    assert due_now(21, reopened, entries=first, reason="quiet hours") == ([], ["PENDING"])
    muted = entry("FIRING_2", 20, last_error="quiet hours")
    assert due_now(31, resolved_again, entries=(*first, muted), reason="quiet hours") == (
        [],
        ["WITHHELD"] * 2,
    )
    assert due_now(31, resolved_again, entries=(*first, muted)) == ([], ["WITHHELD", "WITHHELD"])
    assert due_now(31, reopened, entries=(*first, muted)) == (["FIRING_2"], [])
    # The first firing was muted and resolved; the second is still open.
    first_muted = entry("FIRING", 0, last_error="quiet hours")
    assert due_now(21, reopened, entries=(first_muted,)) == (["FIRING_2"], ["WITHHELD", "WITHHELD"])


def test_a_resolution_is_sent_only_where_the_firing_was():
    not_sent = entry("FIRING", 0, status="WITHHELD")
    assert due_now(9, RESOLVED, entries=(not_sent,)) == ([], ["WITHHELD"])


# Messages


def notification(one: Incident, number: int = 0) -> Notification:
    return Notification(one, one.transitions[number])


def test_a_message_names_value_times_evidence_and_next_step():
    assert title([notification(FIRING)]) == "[critical] FIRING lag: lab/billing/orders"
    assert text(notification(FIRING)).split("\n") == [
        "[critical] FIRING lag: lab/billing/orders",
        "The group is late.",
        "Observed: 1,500 messages wait (threshold 1,000 messages), most on broker-b queue 3: "
        "1,490, the oldest for 0:01:01, 2 of 8 queues unknown, so a lower bound",
        "Opened: 2026-11-19 11:58:00 UTC, last observed 2026-11-19 12:00:00 UTC",
        "Peak: 2,500 messages",
        "Next step: More is produced than consumed: look for slow or failing handling, then for "
        "too few clients or threads (tidemark plan).",
        "Evidence: s0, s1",
        "Labels: team=billing",
        f"Details: tidemark incidents show {FIRING.incident_id}",
        "Runbook: https://wiki/lag",
    ]
    resolved = text(notification(RESOLVED, 1)).split("\n")
    assert resolved[0] == "[critical] RESOLVED lag: lab/billing/orders"
    assert "Resolved: 2026-11-19 12:09:00 UTC, opened 2026-11-19 11:58:00 UTC" in resolved
    assert not any(line.startswith(("Likely cause:", "Next step:")) for line in resolved)


@pytest.mark.parametrize(
    ("kind", "value", "lines"),
    [
        (
            "blocked",
            12,
            [
                "Observed: 12 messages wait and messages handed out are not finished, most on "
                "broker-a queue 1: 12, the oldest for 0:00:07",
                "Likely cause: broker-a/1: commit stays at 7",
            ],
        ),
        ("rewound", 340, ["Observed: 340 messages will be consumed again: the offset went back"]),
        (
            "idle_clients",
            2,
            [
                "Observed: 2 members hold no queue",
                "Likely cause: HASH_LUCK, MORE_CLIENTS_THAN_QUEUES",
            ],
        ),
    ],
)
def test_only_backlog_rules_name_the_worst_queue(kind, value, lines):
    row = {
        **{"worst_broker": "broker-a", "worst_queue_id": 1, "max_queue_lag": 12},
        **{"delay_ms": 7_000, "health_reason": "broker-a/1: commit stays at 7"},
        **{"idle_reasons": ["HASH_LUCK", "MORE_CLIENTS_THAN_QUEUES"], "rewound_cause": None},
    }
    evidence = json.dumps({"row": row})
    fires = incident(("FIRING", 0), kind=kind, last_value=value, threshold=0.0, evidence=evidence)
    lines_sent = text(notification(fires)).split("\n")
    assert [line for line in lines_sent if line.startswith(("Observed:", "Likely cause:"))] == lines
    assert f"Next step: {KINDS[kind].hint}" in lines_sent


def test_many_notifications_are_one_message_worst_first():
    many = [
        notification(incident(("FIRING", 0), group=f"g-{n}", severity="warning")) for n in range(30)
    ]
    many += [notification(RESOLVED, 1), notification(incident(("FIRING", 0), group="worst"))]
    assert title(many) == "Tidemark: 1 critical, 30 warning, 1 resolved"
    message = body(many)
    assert message.startswith("[critical] FIRING lag: lab/worst/orders")
    assert message.count("Evidence:") == MOST_IN_FULL
    assert message.endswith(f"and {32 - MOST_IN_FULL} more: tidemark incidents list")


# Delivery


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with serve() as hook:
        yield hook


@pytest.fixture
def gone() -> str:
    """The address of a server that is down."""
    with serve() as hook:
        return hook.url


def clock(number: float) -> Callable[[], datetime]:
    return lambda: minute(number)


def rows(lake: Lake) -> dict[tuple[str, str], dict[str, Any]]:
    found = lake.read(NOTIFICATIONS).to_pylist()
    keyed = {(row["channel"], row["transition"]): row for row in found}
    assert len({(row["incident_id"], *key) for key, row in keyed.items()}) == len(keyed)
    return keyed


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
    deliver(lake, [AppriseChannel(webhook.url)], lambda incident: reason, clock(1))
    (row,) = rows(lake).values()
    assert (row["status"], row["attempts"], row["last_error"]) == ("PENDING", 0, reason)
    deliver(lake, [AppriseChannel(webhook.url)], clock=clock(3 * 1440))
    assert len(webhook.received) == 1


def test_only_one_process_delivers_at_a_time(lake, webhook):
    save(lake, [], [FIRING])

    class Nested:
        name = "nested"
        every = None
        one_by_one = False
        pages = False

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
    channels, mistakes = open_channels(NotificationSettings(urls))
    assert mistakes == [f"TIDEMARK_NOTIFY_URLS, address 2: {reason}"]
    assert [channel.name.split("-")[0] for channel in channels] == ["log", "json", "json"]
    assert len({channel.name for channel in channels}) == 3
    assert "s3cret" not in caplog.text + "".join(capfd.readouterr())
    assert [channel.name for channel in open_channels(NotificationSettings())[0]] == ["log"]


# Silences and quiet hours


def test_a_silence_mutes_what_it_matches_until_it_ends(lake):
    made = silence(
        lake.shared, {"consumer_group": ("b*",), "topic": ("orders",)}, minute(60), "eve", now=NOON
    )
    assert silences(lake.shared.state) == [made]
    other = incident(("FIRING", 0), group="audit")

    def why(one: Incident, number: float) -> str | None:
        return mute_reason(one, silences(lake.shared.state), {}, minute(number))

    assert why(FIRING, 1) == "silenced by eve until 2026-11-19T13:00:00+00:00"
    assert why(FIRING, 60) is None
    assert why(other, 1) is None
    assert unsilence(lake.shared, made.silence_id) == made
    assert why(FIRING, 1) is None
    with pytest.raises(SilenceError, match="no silence"):
        unsilence(lake.shared, made.silence_id)


def test_a_silence_needs_a_match_and_a_future_end(lake):
    with pytest.raises(SilenceError, match="name what to silence"):
        silence(lake.shared, {}, minute(60), "eve", now=NOON)
    with pytest.raises(SilenceError, match="has ended already"):
        silence(lake.shared, {"rule": ("lag",)}, minute(-1), "eve", now=NOON)
    lake.home.path.mkdir()
    (lake.home.path / "silences.json").write_text("{")
    with pytest.raises(SilenceError, match="cannot be read"):
        silences(lake.shared.state)


def test_a_silence_by_a_missing_column_does_not_match():
    down = replace(FIRING, evidence=json.dumps({"row": {"cluster": "lab", "broker": "b"}}))
    about = Silence("x", {"topic": ("o*",)}, minute(60), "eve", "", NOON)
    assert not about.covers(down, NOON)
    assert dataclasses.replace(about, match={"cluster": ("l?b",), "rule": ("lag",)}).covers(
        down, NOON
    )
    assert dataclasses.replace(about, match={"broker": ("b",)}).covers(down, NOON)
    assert not dataclasses.replace(about, match={"broker": ("b",)}).covers(FIRING, NOON)


@pytest.mark.parametrize(
    ("hours", "is_muted"),
    [
        ('{from: "11:00", to: "13:00"}', True),
        ('{from: "12:30", to: "13:00"}', False),
        ('{from: "22:00", to: "12:01"}', True),
        ('{from: "13:00", to: "12:00"}', False),
        ('{from: "20:55", to: "21:05", zone: Asia/Tokyo}', True),
        ('{from: "12:55", to: "13:05", zone: Europe/Berlin}', True),
    ],
)
def test_quiet_hours_mute_in_their_own_time_zone(tmp_path, hours: str, is_muted: bool):
    file = tmp_path / "rules.yaml"
    file.write_text(f"rules:\n  - {{name: lag, kind: lag, threshold: 1, quiet_hours: {hours}}}\n")
    rules = {rule.name: rule for rule in load_rules(file)}
    expected = "in quiet hours" if is_muted else None
    assert mute_reason(FIRING, [], rules, NOON) == expected


def test_an_inhibited_incident_is_muted():
    assert mute_reason(replace(FIRING, suppressed_by="abc"), [], {}, NOON) == (
        "inhibited by incident abc"
    )
