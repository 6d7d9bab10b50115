"""What services get that limit messages or keep alerts by themselves.

Their addresses are fixed, so what would be sent there is caught where apprise hands it over.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
import requests

from alerting import outbox
from alerting.channels import AppriseChannel, ChannelError
from alerting.incidents import Incident
from alerting.messages import MOST_IN_FULL, Notice, body
from alerting.outbox import deliver
from alerting.store import save
from lake.tables.alerting import NOTIFICATIONS
from tests.alerting.test_outbox import FIRING, OVER, clock, incident, notice

PAGERDUTY = "pagerduty://routing-key@api-key"
OPSGENIE = "opsgenie://api-key/@eve/@max"


@dataclass
class Web:
    """What was posted, in order; from `refuses_from` on, nothing is taken.

    Each answers that all is well in its own way: Opsgenie and PagerDuty with 202, robots with 200.
    """

    posted: list[tuple[str, dict[str, Any], Any]] = field(default_factory=list)
    refuses_from: int = 1_000_000
    says: bytes = b'{"requestId": "r"}'

    def post(self, url: str, *, data: Any, params: Any = None, **_: Any) -> requests.Response:
        answer = requests.Response()
        well = 202 if "pagerduty" in url or "opsgenie" in url else 200
        answer.status_code = well if len(self.posted) < self.refuses_from else 429
        answer._content = self.says
        if answer.ok:
            self.posted.append((url, json.loads(data), params))
        return answer


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    web = Web()
    monkeypatch.setattr(requests, "post", web.post)
    monkeypatch.setattr("alerting.pagers.PAUSE", 0)
    yield web


def many(count: int) -> list[Incident]:
    return [incident(("FIRING", 0), group=f"g-{number:02}") for number in range(count)]


def notices(count: int) -> list[Notice]:
    return [notice(each) for each in many(count)]


def test_each_incident_is_an_alert_of_pagerduty_that_its_end_closes(lake, web):
    slow = incident(("FIRING", 0), group="slow", severity="info")
    save(lake, [], [FIRING, slow])
    assert deliver(lake, [AppriseChannel(PAGERDUTY)], clock=clock(1)).notices == 2
    save(lake, [FIRING], [OVER])
    # Who tells the end is another process, which knows nothing of what was sent.
    assert deliver(lake, [AppriseChannel(PAGERDUTY)], clock=clock(10)).notices == 1
    events = [what for _, what, _ in web.posted]
    assert [(each["event_action"], each["dedup_key"]) for each in events] == [
        ("trigger", FIRING.incident_id),
        ("trigger", slow.incident_id),
        ("resolve", FIRING.incident_id),
    ]
    assert [each["payload"]["severity"] for each in events[:2]] == ["critical", "info"]
    assert events[0]["payload"]["summary"].startswith("[critical] FIRING lag: lab/billing/orders")
    assert len(events[0]["payload"]["summary"]) <= 1024


def test_each_incident_is_an_alert_of_opsgenie_that_its_end_closes(lake, web):
    slow = incident(("FIRING", 0), group="slow", severity="info")
    save(lake, [], [FIRING, slow])
    deliver(lake, [AppriseChannel(OPSGENIE)], clock=clock(1))
    save(lake, [FIRING], [OVER])
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
    assert [each["username"] for each in opened["responders"]] == ["eve", "max"]
    assert "RESOLVED lag: lab/billing/orders" in web.posted[2][1]["note"]


@pytest.mark.parametrize("url", [PAGERDUTY, OPSGENIE])
def test_a_digest_to_them_is_one_message_also_when_all_is_over(url: str, web):
    digest = AppriseChannel(url, timedelta(days=1))
    digest.send([notice(OVER, 0), notice(OVER, 1), *notices(2)])
    digest.send([notice(OVER, 1)])
    assert len(web.posted) == 2
    assert all(what.get("event_action") in (None, "trigger") for _, what, _ in web.posted)


def test_of_what_is_told_one_by_one_that_which_failed_is_tried_again(lake, web):
    low = incident(("FIRING", 0), group="a", severity="warning")
    save(lake, [], [low, *many(3)])
    web.refuses_from = 2
    told = deliver(lake, [channel := AppriseChannel(PAGERDUTY)], clock=clock(1))
    assert (told.notices, set(told.failed)) == (2, {channel.name})
    assert deliver(lake, [channel], clock=clock(1.1)).notices == 0
    web.refuses_from = 9
    assert deliver(lake, [channel], clock=clock(10)).notices == 2
    keys = [what["dedup_key"] for _, what, _ in web.posted]
    assert set(keys[:3]) == {each.incident_id for each in many(3)}, "the worst first"
    assert keys[3:] == [low.incident_id]
    assert {row["status"] for row in lake.read(NOTIFICATIONS).to_pylist()} == {"DELIVERED"}


def test_what_is_told_one_by_one_leaves_time_for_others(lake, web, monkeypatch: pytest.MonkeyPatch):
    seconds = iter(range(100))
    monkeypatch.setattr(outbox, "monotonic", lambda: next(seconds) * 6.0)
    save(lake, [], many(5))
    channel = AppriseChannel(PAGERDUTY)
    assert [deliver(lake, [channel], clock=clock(at)).notices for at in (1, 1.2, 1.4)] == [2, 2, 1]


def test_a_message_is_no_longer_than_its_service_takes(web):
    channel = AppriseChannel("wecombot://bot-key")
    channel.send(notices(30))
    AppriseChannel("wecombot://bot-key", timedelta(days=1)).send(notices(30))
    told, digest = (what["text"]["content"] for _, what, _ in web.posted)
    assert max(len(told.encode()), len(digest.encode())) <= 2048
    assert told.startswith("Tidemark: 30 critical")
    assert told.count("FIRING lag: lab/g-") == MOST_IN_FULL
    assert told.endswith(f"and {30 - MOST_IN_FULL} more: tidemark incidents list")
    assert digest.startswith("Tidemark digest: 30 opened")


def test_where_there_is_little_room_the_worst_is_told_in_full_and_others_in_a_line():
    worst = incident(("FIRING", 0), group="worst")
    others = [incident(("FIRING", 0), group=f"g-{n}", severity="warning") for n in range(3)]
    told = [notice(each) for each in (*others, worst)]
    short = body(told, 900)
    assert len(short.encode()) <= 900
    assert short.count("Evidence:") == 1
    assert short.startswith("[critical] FIRING lag: lab/worst/orders\nThe group is late.")
    assert short.endswith("[warning] FIRING lag: lab/g-2/orders")
    assert body(told, 100).endswith("lab/worst/orders\n\nand 3 more: tidemark incidents list")
    assert body(told, 1) == "and 4 more: tidemark incidents list"


ROBOTS = {
    "wecombot://b0t-key": ("errcode", "errmsg"),
    "dingtalk://t0ken": ("errcode", "errmsg"),
    "feishu://t0ken": ("code", "msg"),
    "lark://t0ken-of-lark": ("StatusCode", "StatusMessage"),
}


@pytest.mark.parametrize("url", ROBOTS)
def test_a_robot_that_says_no_in_a_good_answer_has_not_taken_it(url: str, web):
    """As they answer who sends too much: with HTTP 200."""
    code, text = ROBOTS[url]
    channel = AppriseChannel(url)
    web.says = json.dumps({code: 0, text: "ok"}).encode()
    channel.send(notices(1))
    web.says = json.dumps({code: 45009, text: "api freq out of limit"}).encode()
    with pytest.raises(ChannelError, match=r"refused: api freq out of limit; .*45009"):
        channel.send(notices(1))
    assert len(web.posted) == 2


@pytest.mark.parametrize("says", [b"ok", b"[1]", b"", b'{"errmsg": "ok"}'])
def test_an_answer_without_a_number_is_taken_for_what_its_status_says(says: bytes, web):
    web.says = says
    AppriseChannel("wecombot://b0t-key").send(notices(1))
    web.refuses_from = 0
    with pytest.raises(ChannelError, match="429"):
        AppriseChannel("wecombot://b0t-key").send(notices(1))
