"""A clock that ran ahead by a day and was set back delays no notification by that day."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.notification_servers import Webhook, serve
from tests.support.notified_incidents import FIRING, RESOLVED, clock, incident
from tidemark.alerting.delivery.channels import AppriseChannel
from tidemark.alerting.delivery.outbox import deliver
from tidemark.alerting.delivery.receivers import open_channels
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.incidents.repository import save
from tidemark.alerting.rules.files import read_rule_set
from tidemark.settings.sections import NotificationSettings

pytestmark = pytest.mark.slow

DAY = 1440


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with serve() as hook:
        yield hook


def saved(lake, before: list[Incident], after: list[Incident], at: float) -> None:
    save(lake, before, after, clock=clock(at))


@pytest.mark.parametrize("one", [FIRING, RESOLVED])
def test_a_failed_notification_is_tried_again(lake, webhook, one):
    channel = AppriseChannel(webhook.url)
    saved(lake, [], [one], at=1)
    webhook.status = 500
    deliver(lake, [channel], clock=clock(DAY))
    webhook.status = 200
    assert deliver(lake, [channel], clock=clock(90)).notifications


def test_incidents_written_after_it_are_found(lake, webhook):
    """They opened and resolved without a delivery, and are older than the channel's mark."""
    channel = AppriseChannel(webhook.url)
    saved(lake, [], [FIRING], at=DAY)
    deliver(lake, [channel], clock=clock(DAY))
    saved(lake, [], [incident(("FIRING", 2), ("RESOLVED", 5), group="mail")], at=5)
    assert deliver(lake, [channel], clock=clock(90)).notifications == 2
    assert deliver(lake, [channel], clock=clock(91)).notifications == 0
    assert "opened and resolved before anybody was notified" in webhook.received[1]["title"]


def test_a_digest_is_not_a_day_late(lake, webhook):
    (channel,) = open_channels(
        NotificationSettings(urls="", digest_urls=webhook.url, digest_every="1h")
    )[0][1:]
    saved(lake, [], [FIRING], at=1)
    deliver(lake, [channel], clock=clock(DAY + 1))
    assert deliver(lake, [channel], clock=clock(2)).notifications == 1


def test_groups_and_repeats_go_on(lake, webhook, tmp_path: Path):
    file = tmp_path / "rules.yaml"
    file.write_text(
        f"receivers: [{{name: team, urls: '{webhook.url}'}}]\n"
        "routes: {receiver: team, group_wait: 1m, repeat_interval: 1h}\n"
    )
    routing = read_rule_set(file).routing
    channels = open_channels(NotificationSettings(), routing.used_receivers)[0][1:]
    saved(lake, [], [FIRING], at=1)

    def delivered(at: float) -> int:
        return deliver(lake, channels, clock=clock(at), routing=routing).notifications

    assert delivered(DAY) == 1
    saved(lake, [], [incident(("FIRING", 2), group="mail")], at=2)
    assert delivered(3) == 2, "the new one, and the old one again"
    assert [delivered(at) for at in (9, 62, 64)] == [0, 0, 2]


def test_a_firing_in_the_future_waits_for_no_group(lake, webhook, tmp_path: Path):
    file = tmp_path / "rules.yaml"
    file.write_text(
        f"receivers: [{{name: team, urls: '{webhook.url}'}}]\n"
        "routes: {receiver: team, group_wait: 1m}\n"
    )
    routing = read_rule_set(file).routing
    channels = open_channels(NotificationSettings(), routing.used_receivers)[0][1:]
    saved(lake, [], [incident(("FIRING", DAY))], at=DAY)
    assert deliver(lake, channels, clock=clock(2), routing=routing).notifications == 1
