"""Resolutions reach the channels that delivered the firing, however late they are found."""

import json
from collections.abc import Iterator

import pytest

from tests.support.notification_servers import Webhook, serve
from tests.support.notified_incidents import FIRING, RESOLVED, clock, minute, rows
from tidemark.alerting.delivery.channels import AppriseChannel
from tidemark.alerting.delivery.notification_log import OpenNotifications
from tidemark.alerting.delivery.outbox import deliver
from tidemark.alerting.delivery.silences import mutes
from tidemark.alerting.incidents.incident import Alert, Evaluation
from tidemark.alerting.incidents.repository import advance_incidents, save
from tidemark.alerting.rules.files import DEFAULT_RULES, load_rules
from tidemark.lake.catalog import Lake
from tidemark.lake.tables.alerting import NOTIFICATIONS


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with serve() as hook:
        yield hook


@pytest.fixture
def whole_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of tables that were read as a whole, without a condition."""
    names: list[str] = []
    read = Lake.read

    def counted(lake, table, where=None, *options, **named):
        if where is None:
            names.append(table.name)
        return read(lake, table, where, *options, **named)

    monkeypatch.setattr(Lake, "read", counted)
    return names


@pytest.mark.slow
def test_a_broker_outage_is_notified_without_inhibited_incidents(lake, webhook):
    """The ready-made rules, a snapshot a minute: broker-b is unreachable at the first three."""
    rules = {rule.name: rule for rule in load_rules(DEFAULT_RULES)}
    broker = "lab/broker-b/10.0.0.2:10911"
    down = {"cluster": "lab", "broker": "broker-b", "broker_id": 0, "address": "10.0.0.2:10911"}
    partial = {"cluster": "lab", "status": "PARTIAL"}

    def evaluation(number: int) -> Evaluation:
        both = (("broker-down", broker, down), ("collection-incomplete", "lab", partial))
        if number > 2:
            untrue = frozenset((rule, subject) for rule, subject, _ in both)
            return Evaluation(observed_at=minute(number), cluster="lab", untrue=untrue)
        alerts = [
            Alert(
                observed_at=minute(number),
                rule=rule,
                severity="critical",
                subject=subject,
                value=1.0,
                threshold=0.0,
                evidence=json.dumps({"row": row}),
            )
            for rule, subject, row in both
        ]
        return Evaluation(observed_at=minute(number), cluster="lab", alerts=tuple(alerts))

    for number in range(9):
        advance_incidents(lake, [evaluation(number)], rules.values(), all_rules=True)
        hook = AppriseChannel(webhook.url)
        deliver(lake, [hook], mutes((), rules.values()), clock(number + 0.1))
    assert [message["title"] for message in webhook.received] == [
        f"[critical] FIRING broker-down: {broker}",
        f"[critical] RESOLVED broker-down: {broker}",
    ]
    assert [row["status"] for row in lake.read(NOTIFICATIONS).to_pylist()].count("WITHHELD") == 2


@pytest.mark.parametrize("is_another", [False, True])
def test_a_late_resolution_reaches_who_was_notified(lake, webhook, is_another):
    hook, later = AppriseChannel(webhook.url), AppriseChannel(webhook.url + "/later")
    remembered = OpenNotifications()
    save(lake, [], [FIRING])
    assert deliver(lake, [hook], clock=clock(1), open_notifications=remembered).notifications == 1
    save(lake, [FIRING], [RESOLVED])
    if is_another:
        # Another process knows only what was recorded.
        remembered = OpenNotifications()
    result = deliver(lake, [hook, later], clock=clock(120), open_notifications=remembered)
    assert set(result.delivered) == {hook.name, later.name}
    assert [message["title"] for message in webhook.received] == [
        "[critical] FIRING lag: lab/billing/orders",
        "[critical] RESOLVED lag: lab/billing/orders",
        "Tidemark: 1 incident opened and resolved before anybody was notified",
    ]
    again = deliver(lake, [hook, later], clock=clock(121), open_notifications=remembered)
    assert again.notifications == 0
    assert rows(lake)[later.name, "FIRING"]["status"] == "DELIVERED"


def test_a_delivery_reads_the_table_only_after_another_writer(lake, webhook, whole_reads):
    hook, remembered = AppriseChannel(webhook.url), OpenNotifications()

    def delivered(at: float) -> int:
        return deliver(lake, [hook], clock=clock(at), open_notifications=remembered).notifications

    save(lake, [], [FIRING])
    assert [delivered(at) for at in (1, 2, 3)] == [1, 0, 0]
    assert whole_reads == [NOTIFICATIONS.name], "not after its own writes, and not when idle"
    deliver(lake, [AppriseChannel(webhook.url + "/other")], clock=clock(4))
    whole_reads.clear()
    assert [delivered(at) for at in (5, 6)] == [0, 0]
    assert whole_reads == [NOTIFICATIONS.name]


def test_open_notifications_of_another_home_are_not_mixed_up(lake, tmp_path, webhook):
    remembered, other = OpenNotifications(), Lake(type(lake.home).of(tmp_path / "other"))
    save(lake, [], [FIRING])
    deliver(lake, [AppriseChannel(webhook.url)], clock=clock(1), open_notifications=remembered)
    assert len(remembered.pairs(lake)) == 1
    assert remembered.pairs(other) == frozenset()
