"""What is told, once, to whom; against real HTTP servers, one that fails and one that is gone."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from alerting.notifications import deliver, new_alerts, pending, tell

from alerting.channels import AppriseChannel, ChannelError, LogChannel, open_channels
from alerting.messages import MOST_IN_FULL, Alert, body, title
from lake.catalog import Lake
from lake.tables.alerting import ALERTS
from lake.tables.progress import SNAPSHOTS

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def minute(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


def row(
    at: float,
    *,
    rule: str = "lag",
    group: str = "billing",
    cluster: str = "lab",
    previous: float | None = None,
    severity: str = "critical",
    **other: Any,
) -> dict[str, Any]:
    """A row of ``alerting.alerts`` true at that minute, known before at minute `previous`."""
    evidence = {
        "kind": "lag",
        "description": "The group is late.",
        "runbook": "https://wiki/lag",
        "observations": [
            {
                "snapshot_id": f"s{number:g}",
                "observed_at": minute(number).isoformat(),
                "value": 1500.0,
            }
            for number in (at - 1, at)
        ],
        "previous_at": None if previous is None else minute(previous).isoformat(),
        "row": {
            "cluster": cluster,
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
    return {
        "observed_at": minute(at),
        "rule": rule,
        "severity": severity,
        "subject": f"{cluster}/{group}/orders",
        "value": 1500.0,
        "threshold": 1000.0,
        "evidence": json.dumps(evidence | other),
    }


def alert(at: float, **other: Any) -> Alert:
    return Alert(**row(at, **other))


def evaluated(lake: Lake, at: float, *rows: dict[str, Any], cluster: str = "lab") -> None:
    """An evaluation as the pipeline leaves it: its alerts, then the snapshot that is done."""
    lake.append(ALERTS, list(rows))
    done = {"snapshot_id": f"{at:g}-{cluster}", "observed_at": minute(at), "cluster": cluster}
    lake.append(SNAPSHOTS, [done])


@dataclass
class Webhook:
    """A real HTTP server that keeps what it is sent and answers as it is told."""

    url: str
    status: int = 200
    received: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def serve() -> Iterator[Webhook]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"]))
            if hook.status == 200:
                hook.received.append(json.loads(text))
            self.send_response(hook.status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook = Webhook(f"json://user:s3cret-pass@127.0.0.1:{server.server_port}/t0ken-in-path")
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with serve() as hook:
        yield hook


@pytest.fixture
def gone() -> str:
    """The address of a server that is down."""
    with serve() as hook:
        return hook.url


# What is news


def test_an_alert_is_news_when_it_was_not_true_when_last_known() -> None:
    first, standing = alert(1, previous=0), alert(2, previous=1)
    assert new_alerts([first, standing], ()) == [first]
    assert new_alerts([standing], [first]) == []
    assert new_alerts([standing], [alert(1, rule="other")]) == [standing]
    assert new_alerts([standing], [alert(1, group="other")]) == [standing]


def test_an_observation_that_saw_nothing_does_not_tell_it_again() -> None:
    before, after = alert(1, previous=0), alert(4, previous=1)
    assert new_alerts([after], [before]) == []


def test_after_a_recovery_it_is_news_again() -> None:
    assert new_alerts([alert(5, previous=4)], [alert(3, previous=2)]) == [alert(5, previous=4)]


# What is pending


def test_the_first_look_tells_what_stands_now_and_a_standing_alert_is_told_once(
    lake: Lake,
) -> None:
    evaluated(lake, 0, row(0, group="recovered"), row(0))
    evaluated(lake, 1, row(1, previous=0))
    told, cursor = pending(lake, None, minute(2))
    assert told == [alert(1, previous=0)]
    assert pending(lake, cursor, minute(2)) == ([], cursor)

    evaluated(lake, 2, row(2, previous=1), row(2, group="slow", previous=1))
    told, cursor = pending(lake, cursor, minute(3))
    assert told == [alert(2, group="slow", previous=1)]

    evaluated(lake, 3)
    told, cursor = pending(lake, cursor, minute(4))
    assert told == []
    evaluated(lake, 4, row(4, previous=3))
    assert pending(lake, cursor, minute(5))[0] == [alert(4, previous=3)]


def test_without_any_evaluation_nothing_is_pending(lake: Lake) -> None:
    told, cursor = pending(lake, "", minute(0))
    assert told == []
    evaluated(lake, 0, row(0))
    assert pending(lake, cursor, minute(1))[0] == [alert(0)]


def test_several_evaluations_since_the_last_look_are_each_told(lake: Lake) -> None:
    evaluated(lake, 0)
    _, cursor = pending(lake, None, minute(1))
    evaluated(lake, 1, row(1, previous=0))
    evaluated(lake, 2)
    evaluated(lake, 3, row(3, previous=2), row(3, group="slow", previous=2))
    told, _ = pending(lake, cursor, minute(4))
    assert [(each.observed_at, each.subject) for each in told] == [
        (minute(1), "lab/billing/orders"),
        (minute(3), "lab/billing/orders"),
        (minute(3), "lab/slow/orders"),
    ]


def test_a_backfill_of_the_past_tells_nothing(lake: Lake) -> None:
    evaluated(lake, 10)
    _, cursor = pending(lake, None, minute(11))
    evaluated(lake, 5, row(5, previous=4))
    evaluated(lake, -3000, row(-3000))
    assert pending(lake, cursor, minute(12)) == ([], cursor)


def test_what_is_older_than_an_hour_is_history_even_at_first(lake: Lake) -> None:
    evaluated(lake, 0, row(0))
    assert pending(lake, None, minute(61)) == ([], "{}")


def test_after_a_long_stop_what_stands_is_told_and_not_what_came_and_went(lake: Lake) -> None:
    evaluated(lake, 0)
    _, cursor = pending(lake, None, minute(1))
    evaluated(lake, 100, row(100, group="came-and-went", previous=99))
    evaluated(lake, 110, row(110, previous=109))
    told, _ = pending(lake, cursor, minute(111))
    assert told == [alert(110, previous=109)]


def test_each_cluster_has_its_own_place(lake: Lake) -> None:
    evaluated(lake, 5, row(5))
    _, cursor = pending(lake, None, minute(6))
    # The other one is first seen now, and at an earlier instant.
    evaluated(lake, 4, row(4, cluster="east"), cluster="east")
    told, cursor = pending(lake, cursor, minute(6))
    assert [each.subject for each in told] == ["east/billing/orders"]
    evaluated(lake, 5, row(5, cluster="east", rule="lost", previous=4), cluster="east")
    assert [each.rule for each in pending(lake, cursor, minute(6))[0]] == ["lost"]


def test_alerts_of_an_evaluation_that_is_not_done_wait(lake: Lake) -> None:
    evaluated(lake, 0)
    _, cursor = pending(lake, None, minute(1))
    lake.append(ALERTS, [row(1, previous=0)])
    assert pending(lake, cursor, minute(2)) == ([], cursor)
    evaluated(lake, 1)
    assert pending(lake, cursor, minute(2))[0] == [alert(1, previous=0)]


@pytest.mark.parametrize("cursor", ["nonsense", "[1]", '{"lab": 5}', '{"lab": "yesterday"}'])
def test_a_cursor_that_cannot_be_read_is_as_good_as_none(lake: Lake, cursor: str) -> None:
    evaluated(lake, 0, row(0))
    assert pending(lake, cursor, minute(1))[0] == [alert(0)]


# What is said


def test_a_message_says_what_since_when_how_bad_on_what_evidence_and_what_next() -> None:
    assert title([alert(1)]) == "[critical] lag: lab/billing/orders"
    assert body([alert(1)]).split("\n") == [
        "[critical] lag: lab/billing/orders",
        "The group is late.",
        "Found: 1,500 messages wait (alert above 1,000), most on broker-b queue 3: 1,490, "
        "the oldest for 61 s, 2 of 8 queues not known, at least that",
        "Since: 2026-11-19 12:00:00 UTC, still so at 2026-11-19 12:01:00 UTC",
        "Evidence: snapshots s0, s1",
        "Look: tidemark show progress.queues --where \"snapshot_id = 's1' and "
        "consumer_group = 'billing' and topic = 'orders'\"",
        "Do: https://wiki/lag",
    ]


def test_a_silent_broker_is_told_by_its_address() -> None:
    down = alert(
        1,
        kind="broker_down",
        runbook=None,
        description="",
        row={"cluster": "lab", "broker": "broker-a", "broker_id": 0, "address": "10.0.0.1:10911"},
    )
    assert body([down]).split("\n")[1:] == [
        "Found: 10.0.0.1:10911 (broker-a, id 0) did not answer",
        "Since: 2026-11-19 12:00:00 UTC, still so at 2026-11-19 12:01:00 UTC",
        "Evidence: snapshots s0, s1",
        "Look: tidemark show raw.brokers --where \"address = '10.0.0.1:10911'\"",
    ]


def test_many_alerts_are_one_message_worst_first() -> None:
    infos = [alert(1, group=f"g-{number:02}", severity="info") for number in range(30)]
    alerts = [*infos, alert(1, group="worst")]
    assert title(alerts) == "Tidemark: 1 critical, 30 info"
    text = body(alerts)
    assert text.startswith("[critical] lag: lab/worst/orders")
    assert text.count("Evidence:") == MOST_IN_FULL
    assert text.split("\n\n")[-1].startswith(f"and {31 - MOST_IN_FULL} more: tidemark show")


# How it is delivered


def test_a_webhook_gets_one_message(webhook: Webhook) -> None:
    channel = AppriseChannel(webhook.url)
    delivery = deliver([alert(1), alert(1, group="slow", severity="warning")], [channel])
    assert delivery.delivered == (channel.name,)
    assert delivery.failed == {}
    (message,) = webhook.received
    assert message["title"] == "Tidemark: 1 critical, 1 warning"
    assert message["type"] == "failure"
    assert "[critical] lag: lab/billing/orders" in message["message"]
    assert "[warning] lag: lab/slow/orders" in message["message"]


def test_nothing_to_tell_is_not_sent(webhook: Webhook) -> None:
    assert deliver([], [AppriseChannel(webhook.url)]).delivered == ()
    assert webhook.received == []


def test_a_bad_channel_is_reported_in_one_line_and_stops_no_other(
    webhook: Webhook, gone: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with serve() as failing:
        failing.status = 500
        bad, down, good = (AppriseChannel(url) for url in (failing.url, gone, webhook.url))
        delivery = deliver([alert(1)], [bad, down, good])
    assert delivery.delivered == (good.name,)
    assert set(delivery.failed) == {bad.name, down.name}
    assert "error=500" in delivery.failed[bad.name]
    assert "onnection error" in delivery.failed[down.name]
    assert len(webhook.received) == 1
    ours = [record for record in caplog.records if record.name == "tidemark.notifications"]
    assert [record.getMessage().count("\n") for record in ours] == [0, 0]
    told = caplog.text + str(delivery)
    assert "s3cret-pass" not in told
    assert "t0ken-in-path" not in told


def test_the_log_gets_one_line_of_json_per_alert(caplog: pytest.LogCaptureFixture) -> None:
    deliver([alert(1), alert(1, rule="lost", severity="info")], [LogChannel()])
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    caplog.clear()
    caplog.set_level(logging.INFO)
    deliver([alert(1, rule="lost", severity="info")], [LogChannel()])
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("tidemark.alerts", "INFO")
    assert json.loads(record.getMessage()) == {
        "event": "alert",
        "observed_at": "2026-11-19T12:01:00+00:00",
        "rule": "lost",
        "severity": "info",
        "subject": "lab/billing/orders",
        "value": 1500.0,
        "threshold": 1000.0,
        "since": "2026-11-19T12:00:00+00:00",
        "snapshot_ids": ["s0", "s1"],
        "description": "The group is late.",
        "runbook": "https://wiki/lag",
    }


def test_channels_come_from_the_environment() -> None:
    urls = "json://127.0.0.1/a\n json://127.0.0.1/b json://127.0.0.1/a"
    log, first, second = open_channels({"TIDEMARK_NOTIFY_URLS": urls})
    assert log.name == "log"
    assert first.name.startswith("json-")
    assert first.name != second.name
    assert [channel.name for channel in open_channels({})] == ["log"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3cret-token", "apprise cannot use this ?:// address"),
        ("nosuch://s3cret-token", "apprise cannot use this nosuch:// address"),
        ("slack://s3cret-token", "apprise cannot use this slack:// address"),
    ],
)
def test_an_address_that_cannot_be_used_is_named_by_its_place_only(
    url: str, reason: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ChannelError) as caught:
        open_channels({"TIDEMARK_NOTIFY_URLS": f"json://127.0.0.1/a {url}"})
    assert str(caught.value) == f"TIDEMARK_NOTIFY_URLS, address 2: {reason}"
    assert "s3cret" not in caplog.text + "".join(capfd.readouterr())


def test_a_channel_that_failed_is_told_again_and_the_others_are_not(
    lake: Lake, webhook: Webhook
) -> None:
    evaluated(lake, 0)
    with serve() as flaky:
        channels = [AppriseChannel(flaky.url), AppriseChannel(webhook.url)]
        cursor = tell(lake, None, channels, minute(1)).cursor

        evaluated(lake, 1, row(1, previous=0))
        flaky.status = 500
        told = tell(lake, cursor, channels, minute(2))
        assert told.alerts == [alert(1, previous=0)]
        assert told.delivery.delivered == (channels[1].name,)
        assert list(told.delivery.failed) == [channels[0].name]

        evaluated(lake, 2, row(2, previous=1), row(2, rule="lost", previous=1))
        flaky.status = 200
        told = tell(lake, told.cursor, channels, minute(3))
        assert told.delivery.failed == {}
        assert [message["title"] for message in flaky.received] == ["Tidemark: 2 critical"]
        assert [message["title"] for message in webhook.received] == [
            "[critical] lag: lab/billing/orders",
            "[critical] lost: lab/billing/orders",
        ]
        assert tell(lake, told.cursor, channels, minute(4)).alerts == []
