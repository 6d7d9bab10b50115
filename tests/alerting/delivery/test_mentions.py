"""Names mention no person: the messages that real receivers get for every chat service.

Strangers choose names, so a group ``@everyone`` would wake a whole company at each notification.
"""

import re
from datetime import timedelta

import pytest
from apprise.plugins.dingtalk import NotifyDingTalk
from apprise.plugins.discord import NotifyDiscord
from apprise.plugins.feishu import NotifyFeishu
from apprise.plugins.lark import NotifyLark
from apprise.plugins.slack import NotifySlack
from apprise.plugins.wecombot import NotifyWeComBot

from tests.support.notification_servers import Webhook, serve
from tests.support.notified_incidents import incident, notification
from tidemark.alerting.delivery.channels import AppriseChannel
from tidemark.alerting.delivery.messages import without_mentions
from tidemark.alerting.delivery.templates import Words

NAMES = (
    "@everyone", "@here", "@channel", "@all", "@room", "x@everyone", "X@ALL", "@bob",
    "@13800000000",
    "<@U012AB3CD>", "<@!123456>", "<@&123456>", "<!channel>", "<!here|here>", "<!subteam^S1|ops>",
    "<#C012AB3CD>", '<at user_id="all">all</at>', "<AT id=all></at>", "<users/all>", "@**all**",
    "@room:matrix.org", "\u200b@everyone",
)  # fmt: skip
CALLS = re.compile(
    r"@(everyone|here|channel|all|room|\*)|(?<!\w)@\S|(<|&lt;)([@!#]|/?at\b|users/)", re.IGNORECASE
)
"""Whatever one of the services reads as a call."""

SERVICES = {
    "slack": ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/", NotifySlack, "webhook_url"),
    "discord": ("discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", NotifyDiscord, "notify_url"),
    "discord-markdown": ("discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js?format=markdown",
                         NotifyDiscord, "notify_url"),
    "mattermost": ("mmost://{address}/3ccdd113474722377935511fc85d3dd4", None, ""),
    "dingtalk": ("dingtalk://t0ken", NotifyDingTalk, "notify_url"),
    "feishu": ("feishu://t0ken", NotifyFeishu, "notify_url"),
    "lark": ("lark://t0ken-of-lark", NotifyLark, "notify_url"),
    "wecom": ("wecombot://b0t-key", NotifyWeComBot, "notify_url"),
    "json": ("json://{address}/", None, ""),
}  # fmt: skip


def sent_texts(hook: Webhook) -> str:
    """All texts of the messages that a server got, as the service reads them."""
    texts: list[str] = []

    def collect(value: object) -> None:
        if isinstance(value, str):
            texts.append(value)
        for item in value.values() if isinstance(value, dict) else ():
            collect(item)
        for item in value if isinstance(value, list) else ():
            collect(item)

    collect(hook.received)
    return "\n".join(texts)


@pytest.mark.parametrize("service", SERVICES)
def test_a_name_calls_nobody(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url, plugin, address = SERVICES[service]
    named = [
        notification(incident(("FIRING", 0), group=f"{name} {name}", labels={"team": name}))
        for name in NAMES
    ]
    with serve() as hook:
        hook.response = b"ok"  # Slack's own; it stands for no JSON at the others
        if plugin:
            monkeypatch.setattr(plugin, address, hook.http)
            monkeypatch.setattr(plugin, "request_rate_per_sec", 0)  # the receiver has no limit
        url = url.format(address=hook.http.rpartition("@")[2].partition("/")[0])
        for words in (Words(), Words("zh"), Words("en", "{{ notifications[0].subject }}")):
            AppriseChannel(url, words=words).send(named[:1])
            for start in range(0, len(named), 4):
                AppriseChannel(url, words=words).send(named[start : start + 4])
        AppriseChannel(url, timedelta(days=1)).send(named)
        text = sent_texts(hook)
    assert "\uff20everyone" in text, "people still read the name"
    assert [match[0] for match in CALLS.finditer(text)] == []


def test_a_template_of_a_receiver_calls_whom_it_names() -> None:
    words = Words("en", None, "@oncall {{ notifications[0].subject }}")
    with serve() as hook:
        named = notification(incident(("FIRING", 0), group="@everyone"))
        AppriseChannel(hook.url, words=words).send([named])
    assert hook.received[0]["message"] == "@oncall lab/\uff20everyone/orders"


def test_names_that_call_nobody_stay_as_they_are() -> None:
    for name in ("10.0.0.1@4711#2", "kim@shop.example", "a < b", "<b>", "x @ y", "a@b"):
        given = notification(incident(("FIRING", 0), group=name))
        kept = without_mentions(given).incident
        assert (kept.subject, kept.details) == (given.incident.subject, given.incident.details)
