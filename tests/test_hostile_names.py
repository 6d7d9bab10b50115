"""Names that strangers chose pass as text through every surface that people and programs see."""

import html
import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.board_home import CLUSTER, add_snapshot, group, queue, rows_of
from tests.support.hostile_names import NAMES
from tests.support.notification_servers import mailbox, serve
from tests.support.notified_incidents import incident, notification
from tests.support.scrape import scraped
from tidemark.alerting.delivery.channels import AppriseChannel, Channel, LogChannel
from tidemark.alerting.delivery.http_channels import AlertmanagerChannel, WebhookChannel
from tidemark.alerting.delivery.messages import without_mentions
from tidemark.alerting.delivery.templates import Words
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import TABLES, alerting, progress
from tidemark.settings.yaml_documents import printable

HTML = {"Accept": "text/html"}
FORBIDDEN = {"img", "iframe", "object", "embed", "style", "base"}
ADDRESSES = ("href", "src", "action", "hx-get")


class Strict(HTMLParser):
    """Reads a page as a browser does; collects what a name must not have made of it."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in FORBIDDEN or (tag == "script" and not (given.get("src") or "").startswith("/")):
            self.wrong.append(tag)
        for name, value in attrs:
            address = (value or "").strip()
            if name.startswith("on") or name == "style":
                self.wrong.append(f"{tag} {name}")
            if name in ADDRESSES and not address.startswith(("/", "#")):
                self.wrong.append(f"{tag} {name}={address}")
            if name in ADDRESSES and address.startswith("//"):
                self.wrong.append(f"{tag} {name}={address}")


def mistakes(text: str) -> list[str]:
    page = Strict()
    page.feed(text)
    page.close()
    return page.wrong


each_name = pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A home in which each name is that of a group, a topic, a member, an event and a rule."""
    from tidemark.settings.home import Home

    lake = Lake(Home.of(tmp_path_factory.mktemp("hostile")))
    at = board_home.now()
    about = {"broker": "broker-a", "queue_id": 0, "kind": "REWOUND"}
    events = [{"consumer_group": name, "topic": name, "likely_cause": name} for name in NAMES]
    lake.append(progress.EVENTS, rows_of(progress.EVENTS, at, [about | row for row in events]))
    members = [{"consumer_group": n, "client_id": n, "client_address": n} for n in NAMES]
    lake.append(TABLES["raw.clients"], rows_of(TABLES["raw.clients"], at, members))
    results = {"expectation": NAMES[0], "success": False, "table": NAMES[1], "severity": "warn"}
    lake.append(TABLES["quality.results"], rows_of_quality(at, results))
    incidents = []
    for name in NAMES:
        row = {"cluster": CLUSTER, "consumer_group": name, "topic": name, "health_reason": name}
        columns = {
            "kind": "stalled",
            "subject": f"{CLUSTER}/{name}/{name}",
            "incident_id": f"id{NAMES.index(name):03}",
            "evidence": json.dumps({"row": row, "runbook": name, "description": name}),
            "labels": [("team", name)],
        }
        incidents.append(board_home.incident(at, rule=name, **columns))
    lake.append(alerting.INCIDENTS, incidents)
    rows = [group(name, topic=name, lag=n, health_reason=name) for n, name in enumerate(NAMES)]
    queues = [queue(name, 0, topic=name, lag=n) for n, name in enumerate(NAMES)]
    add_snapshot(lake, at, rows, queues=queues)
    return lake


def rows_of_quality(at: datetime, row: dict[str, Any]) -> list[dict[str, Any]]:
    names = TABLES["quality.results"].column_names
    return [dict.fromkeys(names) | {"observed_at": at, "run_id": "r", "elements": 1} | row]


@pytest.fixture(scope="module")
def board(everywhere: Lake) -> Iterator[TestClient]:
    store = Store(everywhere)
    store.refresh()
    with TestClient(application(store), base_url="http://127.0.0.1:8080") as client:
        yield client


OF_ALL_NAMES = ("/", "/groups", "/incidents", "/brokers", "/events", "/quality")
OF_A_NAME: dict[str, Callable[[str], tuple[str, dict[str, str]]]] = {
    "filtered": lambda name: ("/groups", {"q": name, "topic": name, "cluster": CLUSTER}),
    "group": lambda name: ("/group", {"cluster": CLUSTER, "group": name, "topic": name}),
    "no-group": lambda name: ("/group", {"cluster": CLUSTER, "group": f"{name}?"}),
    "no-range": lambda name: ("/group", {"cluster": CLUSTER, "group": name, "range": name}),
    "incident": lambda name: ("/incident", {"id": f"id{NAMES.index(name):03}"}),
    "no-incident": lambda name: ("/incident", {"id": name}),
    "broker": lambda name: ("/broker", {"cluster": CLUSTER, "broker": name, "address": name}),
    "topics": lambda name: ("/topics", {"q": name}),
    "topic": lambda name: ("/topic", {"cluster": CLUSTER, "topic": name}),
    "unknown-parameter": lambda name: ("/events", {name or "x": name}),
    "plan": lambda name: ("/plan", {"cluster": name, "group": name, "clients": "1"}),
    "live": lambda name: ("/live", {"cluster": name, "q": name}),
}


def text_of(board: TestClient, path: str, parameters: dict[str, str]) -> str:
    """The text of a page that is whole, and of which no name has become a part."""
    text = board.get(path, params=parameters, headers=HTML).text
    assert text.rstrip().endswith("</html>")
    assert mistakes(text) == []
    assert "<h1>mine" not in text
    # Where a line may break; not a part of the name.
    return text.replace("<wbr>", "")


@pytest.mark.parametrize("path", OF_ALL_NAMES)
def test_a_page_of_all_shows_them_as_text(board: TestClient, path: str) -> None:
    text = html.unescape(text_of(board, path, {}))
    missing = [name for name in NAMES if name not in text]
    assert not missing or path not in ("/groups", "/incidents")


@pytest.mark.slow
@each_name
@pytest.mark.parametrize("page", OF_A_NAME)
def test_a_page_shows_it_as_text(board: TestClient, page: str, name: str) -> None:
    text = text_of(board, *OF_A_NAME[page](name))
    if page in ("group", "incident", "filtered", "topic"):
        shown = html.unescape(text)
        assert name in shown or name.split("\n")[0] in shown


@each_name
def test_the_api_keeps_it_whole(board: TestClient, name: str) -> None:
    from urllib.parse import quote

    path = f"/api/v1/groups/{CLUSTER}/{quote(name, safe='')}"
    body = board.get(path)
    assert body.headers["content-type"] == "application/json"
    assert body.json()["consumer_group"] == name
    assert body.json()["members"][0]["client_id"] == name
    rows = board.get(f"{path}/{quote(name, safe='')}/queues").json()["items"]
    assert [row["topic"] for row in rows] == [name]


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text"])
def test_metrics_keep_all_of_them_apart(board: TestClient, accept: str) -> None:
    text = board.get("/metrics", headers={"Accept": accept}).text
    samples = scraped(text, bool(accept))["rocketmq_consumer_lag_messages"]
    values = {dict(labels)["consumer_group"]: value for labels, value in samples.items()}
    assert values == {name: float(number) for number, name in enumerate(NAMES)}
    assert "\nevil" not in text


def of(name: str) -> Any:
    return notification(incident(("FIRING", 0), group=name))


@pytest.fixture(scope="module")
def hook() -> Iterator[Any]:
    with serve() as served:
        yield served


CHANNELS: dict[str, Callable[[Any], Channel]] = {
    "apprise": lambda hook: AppriseChannel(hook.url),
    "apprise-zh": lambda hook: AppriseChannel(hook.url, words=Words("zh")),
    "apprise-own": lambda hook: AppriseChannel(
        hook.url, words=Words("en", "{{ notifications[0].subject }}", "{{ ready_made }}")
    ),
    "webhook": lambda hook: WebhookChannel(hook.http, "secret", "r"),
    "alertmanager": lambda hook: AlertmanagerChannel(hook.http, "r"),
}


@each_name
@pytest.mark.parametrize("channel", CHANNELS)
def test_a_message_holds_it_as_text(hook: Any, channel: str, name: str) -> None:
    CHANNELS[channel](hook).send([of(name)])
    sent = json.loads(hook.bodies[-1])
    if channel.startswith("apprise"):
        name = without_mentions(of(name)).incident.subject
        both = sent["title"] + "\n" + sent["message"]
        assert printable(" ".join(name.split())) in both or printable(name) in both
        assert all(line.isprintable() for line in both.split("\n"))
    else:
        assert name in str(msgspec.to_builtins(sent)) or json.dumps(name)[1:-1] in json.dumps(sent)


def test_a_mail_holds_them_as_text() -> None:
    with mailbox() as (address, received):
        for name in NAMES:
            AppriseChannel(address).send([of(name)])
    for message in received:
        for part in message.walk():
            if part.get_content_type() == "text/html":
                text = part.get_payload(decode=True).decode()  # pyright: ignore
                assert not re.search("<(script|img|svg|h1)", text)
        assert not re.search(r"^TIDEMARK_X", str(message), re.MULTILINE)
    assert len(received) == len(NAMES)


@each_name
def test_a_log_line_stays_one_line_of_json(name: str) -> None:
    stream = io.StringIO()
    logger = logging.Logger("hostile")
    logger.addHandler(logging.StreamHandler(stream))
    LogChannel(logger).send([of(name)])
    (line,) = stream.getvalue().splitlines()
    assert line.isprintable() and name in json.loads(line)["subject"]


@pytest.mark.slow
def test_the_terminal_obeys_none(everywhere: Lake) -> None:
    from typer.testing import CliRunner

    from tidemark.cli.main import app

    runner = CliRunner()
    environment = {"TIDEMARK_HOME": str(everywhere.home.path), "COLUMNS": "300"}
    commands = [["incidents", "list"], ["show", "progress.groups"], ["show", "progress.events"]]
    commands += [["incidents", "list", "--format", "json"]]
    commands += [["incidents", "show", f"id{number:03}"] for number in range(len(NAMES))]
    for command in commands:
        done = runner.invoke(app, command, env=environment)
        assert done.exit_code == 0, done.output
        assert all(line.isprintable() for line in done.output.split("\n")), command
