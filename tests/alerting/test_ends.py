"""Ends: told to whom the beginning was told, however late they are found, and to nobody else."""

import json
from collections.abc import Iterator

import pytest

from alerting.channels import AppriseChannel
from alerting.incidents import Evaluation, Truth
from alerting.outbox import deliver
from alerting.rule_files import DEFAULT_RULES, load_rules
from alerting.silences import withholding
from alerting.store import live_on, save
from lake.tables.alerting import NOTIFICATIONS
from tests.alerting.servers import Webhook, serve
from tests.alerting.test_outbox import FIRING, OVER, clock, minute, rows


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with serve() as hook:
        yield hook


def test_a_broker_outage_is_told_as_that_and_not_what_it_explains(lake, webhook):
    """The ready-made rules, a look a minute: broker-b is silent at the first three."""
    rules = {rule.name: rule for rule in load_rules(DEFAULT_RULES)}
    broker = "lab/broker-b/10.0.0.2:10911"
    down = {"cluster": "lab", "broker": "broker-b", "broker_id": 0, "address": "10.0.0.2:10911"}
    partial = {"cluster": "lab", "status": "PARTIAL"}

    def look(number: int) -> Evaluation:
        both = (("broker-down", broker, down), ("collection-incomplete", "lab", partial))
        if number > 2:
            untrue = frozenset((rule, subject) for rule, subject, _ in both)
            return Evaluation(minute(number), "lab", untrue=untrue)
        truths = [
            Truth(minute(number), rule, "critical", subject, 1.0, 0.0, json.dumps({"row": row}))
            for rule, subject, row in both
        ]
        return Evaluation(minute(number), "lab", tuple(truths))

    for number in range(9):
        live_on(lake, [look(number)], rules.values(), all_rules=True)
        hook = AppriseChannel(webhook.url)
        deliver(lake, [hook], withholding((), rules.values()), clock(number + 0.1))
    assert [message["title"] for message in webhook.received] == [
        f"[critical] FIRING broker-down: {broker}",
        f"[critical] RESOLVED broker-down: {broker}",
    ]
    assert [row["status"] for row in lake.read(NOTIFICATIONS).to_pylist()].count("WITHHELD") == 2


@pytest.mark.parametrize("is_another", [False, True])
def test_an_end_that_is_found_out_hours_later_is_told_to_whom_the_beginning_was(
    lake, webhook, is_another
):
    hook, later = AppriseChannel(webhook.url), AppriseChannel(webhook.url + "/later")
    save(lake, [], [FIRING])
    assert deliver(lake, [hook], clock=clock(1)).notices == 1
    save(lake, [FIRING], [OVER])
    if is_another:
        # Whoever begins to deliver knows of it only what was written down.
        lake.gather(NOTIFICATIONS, list(rows(lake).values()))
    told = deliver(lake, [hook, later], clock=clock(120))
    assert set(told.delivered) == {hook.name}
    assert [message["title"] for message in webhook.received] == [
        "[critical] FIRING lag: lab/billing/orders",
        "[critical] RESOLVED lag: lab/billing/orders",
    ]
    assert deliver(lake, [hook, later], clock=clock(121)).notices == 0
    assert rows(lake)[later.name, "FIRING"]["last_error"] == "history when met"
