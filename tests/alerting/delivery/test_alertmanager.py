"""A real Alertmanager takes the alerts, keeps them while they fire, and lets them end."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from msgspec.structs import replace

from tests.support.notified_incidents import incident
from tests.support.servers import free_port
from tidemark.alerting.delivery.outbox import deliver
from tidemark.alerting.delivery.receivers import open_channels
from tidemark.alerting.incidents.incident import Incident, Transition
from tidemark.alerting.incidents.life_cycle import acknowledged, resolved
from tidemark.alerting.incidents.repository import save
from tidemark.alerting.rules.files import read_rule_set
from tidemark.model.incidents import TransitionName
from tidemark.settings.sections import NotificationSettings

ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        ALERTMANAGER is None,
        reason="Alertmanager is not installed: apt-get install prometheus-alertmanager",
    ),
]

CONFIGURATION = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"


def eventually(holds: Callable[[], Any], seconds: float = 60) -> Any:
    """Return the first true result of a function that may take a while to be true."""
    until = time.monotonic() + seconds
    while not (result := holds()) and time.monotonic() < until:
        time.sleep(0.1)
    return result


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[str]:
    """Return the address of an Alertmanager of the test's own."""
    file = tmp_path / "alertmanager.yml"
    file.write_text(CONFIGURATION)
    url = f"http://127.0.0.1:{free_port()}"
    options = [f"--config.file={file}", f"--storage.path={tmp_path / 'data'}"]
    options += [f"--web.listen-address={url.removeprefix('http://')}", "--cluster.listen-address="]
    log = tmp_path / "alertmanager.log"

    def is_ready() -> bool:
        try:
            return requests.get(f"{url}/-/ready", timeout=5).ok
        except requests.RequestException:
            return False

    with log.open("w") as output:
        process = subprocess.Popen([str(ALERTMANAGER), *options], stdout=output, stderr=output)
        try:
            assert eventually(is_ready), log.read_text()
            yield url
        finally:
            process.terminate()
            process.wait()


def firing(group: str) -> Incident:
    now = datetime.now(UTC)
    made = incident(("FIRING", 0), group=group)
    return replace(
        made, fired_at=now, opened_at=now, transitions=(Transition(TransitionName("FIRING"), now),)
    )


def test_alerts_fire_are_acknowledged_and_end(lake, tmp_path: Path, alertmanager: str):
    file = tmp_path / "rules.yaml"
    file.write_text(
        f"receivers: [{{name: am, alertmanager: '{alertmanager}'}}]\n"
        "routes: {receiver: am, group_wait: 0s, group_interval: 1s}\n"
    )
    routing = read_rule_set(file).routing
    settings = NotificationSettings(board_url="https://board.example.org")
    channels = open_channels(settings, routing.used_receivers)[0][1:]

    def delivered() -> int:
        result = deliver(lake, channels, routing=routing)
        assert result.failed == {}
        return result.notifications

    def alerts() -> dict[str, dict[str, Any]]:
        body = requests.get(f"{alertmanager}/api/v2/alerts", timeout=10).json()
        return {item["labels"]["consumer_group"]: item for item in body}

    save(lake, [], [a := firing("a"), firing("b")])
    assert delivered() == 2
    assert set(alerts()) == {"a", "b"}
    one = alerts()["a"]
    assert one["labels"] == {
        "alertname": "lag",
        "rule": "lag",
        "kind": "lag",
        "severity": "critical",
        "subject": "lab/a/orders",
        "cluster": "lab",
        "consumer_group": "a",
        "topic": "orders",
        "team": "billing",
        "incident_id": a.incident_id,
    }
    assert one["annotations"]["runbook_url"] == "https://wiki/lag"
    assert one["generatorURL"] == f"https://board.example.org/incident?id={a.incident_id}"
    ends_at = one["endsAt"]
    assert delivered() == 0
    assert eventually(lambda: alerts()["a"]["endsAt"] > ends_at), "it is repeated while it fires"

    save(lake, [a], [taken := acknowledged(a, "eve", datetime.now(UTC), "mine")])
    assert eventually(lambda: delivered() == 1)
    assert eventually(lambda: alerts()["a"]["status"]["state"] == "suppressed")
    assert alerts()["b"]["status"]["state"] != "suppressed"
    (silence,) = requests.get(f"{alertmanager}/api/v2/silences", timeout=10).json()
    assert (silence["createdBy"], silence["comment"]) == ("eve", "acknowledged in Tidemark: mine")
    lasts = datetime.fromisoformat(silence["endsAt"]) - datetime.now(UTC)
    assert lasts > timedelta(days=90), "an incident may be open for as long"

    over = resolved(taken, datetime.now(UTC))
    assert over
    save(lake, [taken], [over])
    assert eventually(lambda: delivered() == 1)
    assert eventually(lambda: set(alerts()) == {"b"})
    (silence,) = requests.get(f"{alertmanager}/api/v2/silences", timeout=10).json()
    assert silence["status"]["state"] == "expired"


def test_an_alertmanager_that_is_down_is_tried_again(lake, tmp_path: Path):
    file = tmp_path / "rules.yaml"
    file.write_text(
        f"receivers: [{{name: am, alertmanager: 'http://127.0.0.1:{free_port()}/s3cret'}}]\n"
        "routes: {receiver: am, group_wait: 0s}\n"
    )
    routing = read_rule_set(file).routing
    channels = open_channels(NotificationSettings(), routing.used_receivers)[0][1:]
    save(lake, [], [firing("a")])
    (reason,) = deliver(lake, channels, routing=routing).failed.values()
    assert reason == "no connection: ConnectionError"
