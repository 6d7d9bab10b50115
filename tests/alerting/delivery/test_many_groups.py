"""A channel with many groups, each of which is a message of its own, leaves time for the others."""

from pathlib import Path

import pytest

from tests.support.notification_servers import serve
from tests.support.notified_incidents import clock, incident
from tidemark.alerting.delivery import outbox
from tidemark.alerting.delivery.outbox import deliver
from tidemark.alerting.delivery.receivers import open_channels
from tidemark.alerting.incidents.repository import save
from tidemark.alerting.rules.files import read_rule_set
from tidemark.settings.sections import NotificationSettings

pytestmark = pytest.mark.slow


def test_the_worst_groups_come_first_while_time_lasts(
    lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seconds = iter(range(100))
    monkeypatch.setattr(outbox, "monotonic", lambda: next(seconds) * 6.0)
    file = tmp_path / "rules.yaml"
    with serve() as hook:
        file.write_text(
            f"receivers: [{{name: team, urls: '{hook.url}'}}]\n"
            "routes: {receiver: team, group_wait: 0s, group_by: [consumer_group]}\n"
        )
        routing = read_rule_set(file).routing
        channels = open_channels(NotificationSettings(), routing.used_receivers)[0][1:]
        severities = ("info", "warning", "critical", "warning", "critical")
        save(
            lake,
            [],
            [
                incident(("FIRING", 0), group=f"g{number}", severity=severity)
                for number, severity in enumerate(severities)
            ],
        )
        notifications = [
            deliver(lake, channels, clock=clock(at), routing=routing).notifications
            for at in (1, 1.2, 1.4, 1.6)
        ]
        assert notifications == [2, 2, 1, 0]
        order = [row["title"].split("]")[0].strip("[") for row in hook.received]
        assert order == ["critical", "critical", "warning", "warning", "info"]
