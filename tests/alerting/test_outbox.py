"""What is told, once, to whom, and in what order; against real servers, one of which is gone."""

import dataclasses
import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from alerting.channels import AppriseChannel, LogChannel, open_channels
from alerting.incidents import Incident, Transition, incident_id
from alerting.kinds import KINDS
from alerting.messages import MOST_IN_FULL, Notice, body, text, title
from alerting.outbox import LONGEST_PAUSE, Entry, deliver, due, pause
from alerting.rule_files import load_rules
from alerting.silences import Silence, SilenceError, silence, silences, unsilence, why_withheld
from alerting.store import save
from lake.catalog import Lake
from lake.tables.alerting import NOTIFICATIONS
from tests.alerting.servers import Webhook, mailbox, serve

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
    over = states[-1][0].startswith("RESOLVED")
    made = Incident(
        incident_id=incident_id("lag", subject, opened),
        rule="lag",
        subject=subject,
        severity=severity,
        state="RESOLVED" if over else "FIRING",
        opened_at=opened,
        cluster="lab",
        kind="lag",
        threshold=1000.0,
        observed_at=minute(states[-1][1]),
        last_true_at=minute(states[0][1]),
        fired_at=minute(states[0][1]),
        resolved_at=minute(states[-1][1]) if over else None,
        last_value=1500.0,
        peak_value=2500.0,
        observations=3,
        labels={"team": "billing"},
        snapshot_ids=("s0", "s1"),
        evidence=json.dumps(evidence),
        transitions=tuple(Transition(state, minute(number)) for state, number in states),
    )
    return replace(made, **other)


FIRING, OVER = incident(("FIRING", 0)), incident(("FIRING", 0), ("RESOLVED", 9))


def entry(transition: str, at: float, **other: Any) -> Entry:
    return Entry(FIRING.incident_id, transition, "hook", minute(at), **other)


def asked(
    now: float, *incidents: Incident, entries: tuple[Entry, ...] = (), reason: str | None = None
) -> tuple[list[str], list[str | None]]:
    """The transitions due on channel ``hook``, and the statuses noted."""
    known = {(each.incident_id, each.transition): each for each in entries}
    found = due(incidents, known, "hook", minute(now), lambda incident: reason)
    return [each.transition.transition for each in found.notices], [
        each.status for each in found.noted
    ]


DONE = {"status": "DELIVERED", "attempts": 1, "delivered_at": minute(1)}


def test_each_transition_is_due_until_it_was_delivered():
    assert asked(1, FIRING) == (["FIRING"], [])
    assert asked(1, FIRING, entries=(entry("FIRING", 0, **DONE),)) == ([], [])
    assert asked(9, OVER, entries=(entry("FIRING", 0, **DONE),)) == (["RESOLVED"], [])
    assert asked(9, OVER) == (["FIRING", "RESOLVED"], [])


def test_what_failed_waits_and_what_follows_it_too():
    failed = entry("FIRING", 0, attempts=2, next_attempt_at=minute(10), last_error="gone")
    assert asked(9, OVER, entries=(failed,)) == ([], [])
    assert asked(10, OVER, entries=(failed,)) == (["FIRING", "RESOLVED"], [])
    pauses = [pause(attempts) for attempts in range(1, 100)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[1], pauses[-1]) == (
        timedelta(seconds=15),
        timedelta(seconds=30),
        LONGEST_PAUSE,
    )


def test_what_was_over_long_before_anybody_looked_is_history():
    assert asked(70, OVER) == ([], ["WITHHELD", "WITHHELD"])
    assert asked(62, OVER) == ([], ["WITHHELD", "WITHHELD"])
    assert asked(600, FIRING) == (["FIRING"], []), "it still stands"


def test_what_is_withheld_is_told_when_it_may_and_only_if_it_still_stands():
    assert asked(1, FIRING, reason="quiet") == ([], ["PENDING"])
    held = entry("FIRING", 0, last_error="quiet")
    assert asked(2, FIRING, entries=(held,), reason="quiet") == ([], [])
    assert asked(2, FIRING, entries=(held,)) == (["FIRING"], [])
    assert asked(9, OVER, entries=(held,), reason="quiet") == ([], ["WITHHELD", "WITHHELD"])
    # Whoever was told that it fires is told that it is over, later.
    told = entry("FIRING", 0, **DONE)
    assert asked(9, OVER, entries=(told,), reason="quiet") == ([], ["PENDING"])
    waits = entry("RESOLVED", 9, last_error="quiet")
    assert asked(900, OVER, entries=(told, waits)) == (["RESOLVED"], [])


def test_what_was_over_before_it_might_be_told_is_not_told_when_the_reason_is_gone():
    held = entry("FIRING", 0, last_error="explained by incident abc")
    assert asked(10, OVER, entries=(held,)) == ([], ["WITHHELD", "WITHHELD"])
    # One that could not be delivered was no secret.
    failed = entry("FIRING", 0, last_error="gone", attempts=1, next_attempt_at=minute(9))
    assert asked(10, OVER, entries=(failed,)) == (["FIRING", "RESOLVED"], [])


def test_each_time_it_comes_back_is_told_or_not_for_itself():
    first = (entry("FIRING", 0, **DONE), entry("RESOLVED", 9, **DONE))
    back = (("FIRING", 0), ("RESOLVED", 9), ("FIRING_2", 20))
    again, over = incident(*back), incident(*back, ("RESOLVED_2", 30))
    assert asked(21, again, entries=first, reason="quiet") == ([], ["PENDING"])
    held = entry("FIRING_2", 20, last_error="quiet")
    assert asked(31, over, entries=(*first, held), reason="quiet") == ([], ["WITHHELD"] * 2)
    assert asked(31, over, entries=(*first, held)) == ([], ["WITHHELD", "WITHHELD"])
    assert asked(31, again, entries=(*first, held)) == (["FIRING_2"], [])
    # Of the first time nobody knows, and it is over; the second stands.
    silent = entry("FIRING", 0, last_error="quiet")
    assert asked(21, again, entries=(silent,)) == (["FIRING_2"], ["WITHHELD", "WITHHELD"])


def test_an_end_is_told_only_where_the_beginning_was():
    over = entry("FIRING", 0, status="WITHHELD")
    assert asked(9, OVER, entries=(over,)) == ([], ["WITHHELD"])


# What is said


def notice(one: Incident, number: int = 0) -> Notice:
    return Notice(one, one.transitions[number])


def test_a_message_says_what_since_when_how_bad_why_on_what_evidence_and_what_next():
    assert title([notice(FIRING)]) == "[critical] FIRING lag: lab/billing/orders"
    assert text(notice(FIRING)).split("\n") == [
        "[critical] FIRING lag: lab/billing/orders",
        "The group is late.",
        "Found: 1,500 messages wait (limit 1,000 messages), most on broker-b queue 3: 1,490, "
        "the oldest for 0:01:01, 2 of 8 queues not known, at least that",
        "Since: 2026-11-19 11:58:00 UTC, still so at 2026-11-19 12:00:00 UTC",
        "Worst: 2,500 messages",
        "Next: More is produced than consumed: look for slow or failing handling, then for too "
        "few clients or threads (tidemark plan).",
        "Evidence: s0, s1",
        "Labels: team=billing",
        f"Look: tidemark incidents show {FIRING.incident_id}",
        "Do: https://wiki/lag",
    ]
    over = text(notice(OVER, 1)).split("\n")
    assert over[0] == "[critical] RESOLVED lag: lab/billing/orders"
    assert "Over: 2026-11-19 12:09:00 UTC, since 2026-11-19 11:58:00 UTC" in over
    assert not any(line.startswith(("Likely:", "Next:")) for line in over)


@pytest.mark.parametrize(
    ("kind", "value", "lines"),
    [
        (
            "blocked",
            12,
            [
                "Found: 12 messages wait and messages handed out are not finished, most on "
                "broker-a queue 1: 12, the oldest for 0:00:07",
                "Likely: broker-a/1: commit stands at 7",
            ],
        ),
        ("rewound", 340, ["Found: 340 messages will be consumed again: the offset went back"]),
        (
            "idle_clients",
            2,
            ["Found: 2 members hold no queue", "Likely: HASH_LUCK, MORE_CLIENTS_THAN_QUEUES"],
        ),
    ],
)
def test_only_what_is_about_waiting_messages_tells_where_they_wait(kind, value, lines):
    row = {
        **{"worst_broker": "broker-a", "worst_queue_id": 1, "max_queue_lag": 12},
        **{"delay_ms": 7_000, "health_reason": "broker-a/1: commit stands at 7"},
        **{"idle_reasons": ["HASH_LUCK", "MORE_CLIENTS_THAN_QUEUES"], "rewound_cause": None},
    }
    evidence = json.dumps({"row": row})
    fires = incident(("FIRING", 0), kind=kind, last_value=value, threshold=0.0, evidence=evidence)
    told = text(notice(fires)).split("\n")
    assert [line for line in told if line.startswith(("Found:", "Likely:"))] == lines
    assert f"Next: {KINDS[kind].hint}" in told


def test_many_are_one_message_the_worst_first():
    many = [notice(incident(("FIRING", 0), group=f"g-{n}", severity="warning")) for n in range(30)]
    many += [notice(OVER, 1), notice(incident(("FIRING", 0), group="worst"))]
    assert title(many) == "Tidemark: 1 critical, 30 warning, 1 resolved"
    told = body(many)
    assert told.startswith("[critical] FIRING lag: lab/worst/orders")
    assert told.count("Evidence:") == MOST_IN_FULL
    assert told.endswith(f"and {32 - MOST_IN_FULL} more: tidemark incidents list")


# How it is delivered


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


def test_a_webhook_and_a_mailbox_get_one_message_each_and_only_once(lake, webhook):
    slow = incident(("FIRING", 0), group="slow", severity="warning")
    save(lake, [], [FIRING, slow])
    with mailbox() as (address, received):
        channels = [AppriseChannel(webhook.url), AppriseChannel(address)]
        assert deliver(lake, channels, clock=clock(1)).notices == 2
        assert deliver(lake, channels, clock=clock(2)).notices == 0
        save(lake, [FIRING], [OVER])
        assert deliver(lake, channels, clock=clock(10)).notices == 1
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


def test_a_bad_channel_holds_up_no_other_and_is_tried_again_in_order(
    lake, webhook, gone, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    save(lake, [], [FIRING])
    with serve() as flaky:
        bad, down, good = (AppriseChannel(url) for url in (flaky.url, gone, webhook.url))
        flaky.status = 500
        told = deliver(lake, [bad, down, good], clock=clock(1))
        assert set(told.delivered) == {good.name}
        assert "error=500" in told.failed[bad.name]
        assert "onnection error" in told.failed[down.name]
        row = rows(lake)[bad.name, "FIRING"]
        assert (row["status"], row["attempts"], row["delivered_at"]) == ("PENDING", 1, None)
        assert "error=500" in row["last_error"]

        flaky.status = 200
        save(lake, [FIRING], [OVER])
        assert deliver(lake, [bad], clock=clock(1.1)).notices == 0, "too early"
        assert deliver(lake, [bad], clock=clock(10)).notices == 2
        assert [message["title"] for message in flaky.received] == [
            "Tidemark: 1 critical, 1 resolved"
        ]
    row = rows(lake)[bad.name, "FIRING"]
    assert (row["status"], row["attempts"], row["last_error"]) == ("DELIVERED", 2, None)
    secret = caplog.text + str(told) + str(rows(lake))
    assert "s3cret-pass" not in secret
    assert "t0ken-in-path" not in secret


def test_what_is_pending_for_days_is_still_told(lake, webhook, gone):
    save(lake, [], [FIRING])
    held = "silenced"
    deliver(lake, [AppriseChannel(webhook.url)], lambda incident: held, clock(1))
    (row,) = rows(lake).values()
    assert (row["status"], row["attempts"], row["last_error"]) == ("PENDING", 0, held)
    deliver(lake, [AppriseChannel(webhook.url)], clock=clock(3 * 1440))
    assert len(webhook.received) == 1


def test_only_one_delivers_at_a_time(lake, webhook):
    save(lake, [], [FIRING])

    class Nested:
        name = "nested"
        every = None
        one_by_one = False

        def send(self, notices: object) -> None:
            assert deliver(lake, [AppriseChannel(webhook.url)], clock=clock(1)).notices == 0

    assert deliver(lake, [Nested()], clock=clock(1)).notices == 1
    assert webhook.received == []


def test_the_log_gets_one_line_of_json_per_notice(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    LogChannel().send([notice(FIRING), notice(OVER, 1)])
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
def test_a_bad_address_is_named_by_its_place_only_and_silences_no_other(
    url: str, reason: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
):
    caplog.set_level(logging.DEBUG)
    urls = f"json://127.0.0.1/a {url} json://127.0.0.1/b json://127.0.0.1/a"
    channels, mistakes = open_channels({"TIDEMARK_NOTIFY_URLS": urls})
    assert mistakes == [f"TIDEMARK_NOTIFY_URLS, address 2: {reason}"]
    assert [channel.name.split("-")[0] for channel in channels] == ["log", "json", "json"]
    assert len({channel.name for channel in channels}) == 3
    assert "s3cret" not in caplog.text + "".join(capfd.readouterr())
    assert [channel.name for channel in open_channels({})[0]] == ["log"]


# Silences and quiet hours


def test_a_silence_covers_what_it_matches_until_it_ends(lake):
    made = silence(
        lake.home, {"consumer_group": ("b*",), "topic": ("orders",)}, minute(60), "eve", now=NOON
    )
    assert silences(lake.home) == [made]
    other = incident(("FIRING", 0), group="audit")

    def why(one: Incident, number: float) -> str | None:
        return why_withheld(one, silences(lake.home), {}, minute(number))

    assert why(FIRING, 1) == "silenced by eve until 2026-11-19T13:00:00+00:00"
    assert why(FIRING, 60) is None
    assert why(other, 1) is None
    assert unsilence(lake.home, made.silence_id) == made
    assert why(FIRING, 1) is None
    with pytest.raises(SilenceError, match="no silence"):
        unsilence(lake.home, made.silence_id)


def test_a_silence_says_what_and_until_when(lake):
    with pytest.raises(SilenceError, match="say what to silence"):
        silence(lake.home, {}, minute(60), "eve", now=NOON)
    with pytest.raises(SilenceError, match="would be over already"):
        silence(lake.home, {"rule": ("lag",)}, minute(-1), "eve", now=NOON)
    lake.home.path.mkdir()
    (lake.home.path / "silences.json").write_text("{")
    with pytest.raises(SilenceError, match="cannot be read"):
        silences(lake.home)


def test_a_silence_by_a_column_that_an_incident_has_not_is_not_about_it():
    down = replace(FIRING, evidence=json.dumps({"row": {"cluster": "lab", "broker": "b"}}))
    about = Silence("x", {"topic": ("o*",)}, minute(60), "eve", "", NOON)
    assert not about.covers(down, NOON)
    assert dataclasses.replace(about, match={"cluster": ("l?b",), "rule": ("lag",)}).covers(
        down, NOON
    )
    assert dataclasses.replace(about, match={"broker": ("b",)}).covers(down, NOON)
    assert not dataclasses.replace(about, match={"broker": ("b",)}).covers(FIRING, NOON)


@pytest.mark.parametrize(
    ("hours", "quiet"),
    [
        ('{from: "11:00", to: "13:00"}', True),
        ('{from: "12:30", to: "13:00"}', False),
        ('{from: "22:00", to: "12:01"}', True),
        ('{from: "13:00", to: "12:00"}', False),
        ('{from: "20:55", to: "21:05", zone: Asia/Tokyo}', True),
        ('{from: "12:55", to: "13:05", zone: Europe/Berlin}', True),
    ],
)
def test_in_quiet_hours_of_a_zone_nobody_is_told(tmp_path, hours: str, quiet: bool):
    file = tmp_path / "rules.yaml"
    file.write_text(f"rules:\n  - {{name: lag, kind: lag, threshold: 1, quiet_hours: {hours}}}\n")
    rules = {rule.name: rule for rule in load_rules(file)}
    expected = "in quiet hours" if quiet else None
    assert why_withheld(FIRING, [], rules, NOON) == expected


def test_what_another_incident_explains_is_not_told():
    assert why_withheld(replace(FIRING, suppressed_by="abc"), [], {}, NOON) == (
        "explained by incident abc"
    )
