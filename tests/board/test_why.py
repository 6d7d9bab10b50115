"""Why a group gets no further: on its page, on an incident's, and by request to its members.

Requests go to scripted brokers here; `tests/live/test_real_diagnosis.py` has real ones.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator

from tests.support.board_home import CLUSTER, now, rows_of
from tests.support.page_forms import form_of
from tests.support.planned_groups import snapshot
from tidemark.board.access import Login, Person
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.board.views.live import Diagnoses
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import alerting, progress, raw
from tidemark.live.diagnosis import ClientStacks, Diagnosis, FirstMessage, Wish, to_json
from tidemark.model.consumption import LookupOutcome, StackOutcome
from tidemark.rocketmq.admin.stored_messages import Message
from tidemark.rocketmq.records import Snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.stacks import ConsumeStacks, Stack
from tidemark.settings.clusters import Cluster

HTML = {"Accept": "text/html"}
LINE = "com.shop.Orders.handle(Orders.java:41)"
HOSTILE = "<script>alert(1)</script>"
AT = datetime(2026, 11, 19, 12, tzinfo=UTC)

STACKS = ConsumeStacks(
    threads=20,
    stacks=(
        Stack(
            threads=12,
            state="WAITING",
            code=(LINE, HOSTILE),
            frames=("java.lang.Thread.sleep(Native Method)", LINE, HOSTILE),
            frames_left_out=3,
            is_idle=False,
        ),
        Stack(threads=8, state="WAITING", code=(), frames=(), frames_left_out=0, is_idle=True),
    ),
    threads_left_out=0,
)

MESSAGE = Message(
    topic="orders",
    queue_id=3,
    queue_offset=77,
    msg_id="ID1",
    keys=f"order-5 {HOSTILE}",
    tags="C",
    reconsume_times=2,
    origin_topic=None,
    origin_msg_id=None,
    born_host="10.0.0.9:1234",
    born_at=AT,
    stored_at=AT,
    body_bytes=12,
)


def member(client_id: str, outcome: StackOutcome, **known: Any) -> ClientStacks:
    return ClientStacks(
        client_id=client_id,
        client_address=None,
        language="JAVA",
        version="V5_3_3",
        outcome=outcome,
        **known,
    )


DIAGNOSIS = Diagnosis(
    cluster=CLUSTER,
    consumer_group="billing",
    topic="orders",
    diagnosed_at=AT,
    clients=(
        member("10.0.0.1@1", StackOutcome.REPORTED, stacks=STACKS),
        member("10.0.0.2@1", StackOutcome.GRPC),
        member("10.0.0.3@1", StackOutcome.NO_RESPONSE, reason="no response within 12 s"),
    ),
    clients_left_out=4,
    messages=(
        FirstMessage(
            topic="orders",
            broker="broker-a",
            queue_id=3,
            queue_offset=77,
            outcome=LookupOutcome.KNOWN,
            message=MESSAGE,
        ),
    ),
    queues_left_out=0,
    problems=(),
)


class Live:
    """Stands for a reachable cluster with two members of billing."""

    def __init__(self, cluster: Cluster) -> None:
        self.configured = cluster

    async def cluster(self, name: str) -> Cluster:
        return self.configured

    async def of(self, name: str) -> Snapshot:
        taken = snapshot("10.0.0.1", "10.0.0.2")
        taken.cluster = CLUSTER
        return taken

    def target(self, cluster: Cluster) -> ClusterTarget:
        return cluster.target()


@pytest.fixture
def wishes(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Wish]]:
    """The wishes of all diagnoses of a board, whose members respond at once."""
    seen: list[Wish] = []

    def diagnose(target: ClusterTarget, snapshot: Snapshot, wish: Wish) -> Diagnosis:
        seen.append(wish)
        return DIAGNOSIS

    monkeypatch.setattr("tidemark.board.views.live.diagnose", diagnose)
    live = Live(Cluster(namesrv=("a:1",), name=CLUSTER, message_lookup=True))
    client.app.state.views.live, client.app.state.views.diagnoses = live, Diagnoses(live)  # pyright: ignore
    yield seen


STACKS_OF_BILLING = f"/api/v1/groups/{CLUSTER}/billing/stacks"


@pytest.mark.slow
def test_the_api_gives_stacks_and_messages(client: TestClient, wishes: list[Wish]) -> None:
    response = client.post(STACKS_OF_BILLING, json={"topic": "orders"})
    assert response.status_code == 200
    body = response.json()
    document = client.get("/api/v1/openapi.json").json()
    path = "/api/v1/groups/{cluster}/{group}/stacks"
    declared = document["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]
    schema = declared["schema"] | {"components": document["components"]}
    Draft202012Validator(schema).validate(body)
    blocked = body["clients"][0]["stacks"]["stacks"][0]
    assert (blocked["threads"], blocked["code"][0]) == (12, LINE)
    assert body["clients"][1]["words"] == "unknown: gRPC clients report no stacks"
    assert body["messages"][0]["message"]["stored_at"] == "2026-11-19T12:00:00Z"
    assert "body" not in body["messages"][0]["message"]
    (wish,) = wishes
    assert (wish.topic, wish.client_reports, wish.message_lookup) == ("orders", True, True)


def test_many_who_ask_share_one_diagnosis(client: TestClient, wishes: list[Wish]) -> None:
    for _ in range(5):
        assert client.post(STACKS_OF_BILLING, json={}).status_code == 200
    assert len(wishes) == 1
    client.post(STACKS_OF_BILLING, json={"topic": "orders"})
    assert len(wishes) == 2


def test_a_member_gets_one_request_in_a_while(client: TestClient, wishes: list[Wish]) -> None:
    for topic in ("orders", "other"):
        client.post(STACKS_OF_BILLING, json={"topic": topic})
    first, second = wishes
    assert first.may_request("10.0.0.1@1") and not first.may_request("10.0.0.1@1")
    assert not second.may_request("10.0.0.1@1") and second.may_request("10.0.0.2@1")


def test_a_group_that_does_not_exist_gets_no_request(
    client: TestClient, wishes: list[Wish]
) -> None:
    response = client.post(f"/api/v1/groups/{CLUSTER}/nobody/stacks", json={})
    assert response.status_code == 404 and wishes == []


def test_reading_is_no_right_to_request_stacks(client: TestClient, wishes: list[Wish]) -> None:
    """The rights are those of `tests/board/test_access.py`; a link or an image cannot request."""
    assert client.get(STACKS_OF_BILLING).status_code == 405
    assert client.get("/stacks").status_code == 405
    data = {"cluster": CLUSTER, "group": "billing", "token": "0" * 64}
    assert client.post("/stacks", data=data, headers=HTML).status_code == 403
    assert wishes == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_of_a_group_requests_and_shows(
    client: TestClient, wishes: list[Wish], language: str
) -> None:
    client.cookies["language"] = language
    page = client.get("/group", params={"cluster": CLUSTER, "group": "billing"}, headers=HTML).text
    text = client.post("/stacks", data=form_of(page, "/stacks"), headers=HTML).text
    assert LINE in text and "order-5" in text and "10.0.0.9:1234" in text
    assert HOSTILE not in text and "&lt;script&gt;" in text
    words = {"en": "gRPC clients report no stacks", "zh": "gRPC 客户端不上报堆栈"}
    assert words[language] in text and "no response within 12 s" in text
    assert wishes[0].topic == "orders"


def incident_of_billing(filled: Lake, opened: datetime, **changed: Any) -> None:
    """Adds a firing incident about billing, which keeps the diagnosis."""
    row = {"cluster": CLUSTER, "consumer_group": "billing", "topic": "orders"}
    row |= {"worst_broker": "broker-a", "worst_queue_id": 0, "max_queue_lag": 12}
    values = {
        "incident_id": "0123456789abcdef",
        "rule": "blocked",
        "kind": "blocked",
        "subject": f"{CLUSTER}/billing/orders",
        "severity": "critical",
        "state": "FIRING",
        "opened_at": opened,
        "fired_at": opened,
        "observed_at": opened,
        "last_true_at": opened,
        "observations": 1,
        "last_value": 12.0,
        "evidence": json.dumps({"row": row, "runbook": "runbooks/blocked.md"}),
        "diagnosis": to_json(DIAGNOSIS),
        "transitions": [{"transition": "FIRING", "at": opened}],
    }
    filled.append(alerting.INCIDENTS, rows_of(alerting.INCIDENTS, opened, [values | changed]))


def test_an_incident_and_its_group_show_what_it_keeps(client: TestClient, filled: Lake) -> None:
    opened = now() - timedelta(minutes=3)
    incident_of_billing(filled, opened)
    client.app.state.store.refresh()  # pyright: ignore
    pages = [
        client.get("/incident", params={"id": "0123456789abcdef"}, headers=HTML).text,
        client.get("/group", params={"cluster": CLUSTER, "group": "billing"}, headers=HTML).text,
    ]
    for text in pages:
        assert LINE in text and "order-5" in text and HOSTILE not in text
        assert "name=blocked.md" in text and f"{opened:%Y-%m-%d %H:%M:%S}" in text
    row = client.get("/api/v1/incidents/0123456789abcdef").json()
    assert row["diagnosis"]["clients"][0]["stacks"]["threads"] == 20


def test_a_diagnosis_is_not_shown_as_of_before(client: TestClient, filled: Lake) -> None:
    opened = now() - timedelta(minutes=3)
    later = replace(DIAGNOSIS, diagnosed_at=now() - timedelta(minutes=1))
    incident_of_billing(filled, opened, diagnosis=to_json(later))
    client.app.state.store.refresh()  # pyright: ignore
    at = (now() - timedelta(minutes=2)).isoformat()
    parameters = {"id": "0123456789abcdef", "at": at}
    assert LINE not in client.get("/incident", params=parameters, headers=HTML).text
    parameters["at"] = now().isoformat()
    assert LINE in client.get("/incident", params=parameters, headers=HTML).text


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["{", "[]", '{"clients":[{"outcome":"OF_LATER"}]}', "7"])
def test_a_diagnosis_that_cannot_be_read_is_left_out(
    client: TestClient, filled: Lake, kept: str
) -> None:
    incident_of_billing(filled, now(), diagnosis=kept)
    client.app.state.store.refresh()  # pyright: ignore
    later = (now() + timedelta(minutes=1)).isoformat()
    for path, parameters in (
        ("/incident", {"id": "0123456789abcdef"}),
        ("/incident", {"id": "0123456789abcdef", "at": later}),
        ("/group", {"cluster": CLUSTER, "group": "billing"}),
    ):
        assert client.get(path, params=parameters, headers=HTML).status_code == 200


def test_members_events_and_rates_before(client: TestClient, filled: Lake) -> None:
    """A member joins with a new version, one leaves, a queue moves, and a deploy is annotated."""
    opened = now()
    earlier, later = opened - timedelta(minutes=40), opened - timedelta(minutes=2)
    for at, members in (
        (earlier, (("old@1", "V4_9_7"), ("stays@1", "V4_9_7"))),
        (later, (("stays@1", "V4_9_7"), ("new@1", "V5_3_3"))),
    ):
        rows = [
            {"consumer_group": "billing", "client_id": name, "version": version}
            for name, version in members
        ]
        filled.append(raw.CLIENTS, rows_of(raw.CLIENTS, at, rows))
    moved = {"consumer_group": "billing", "queue_id": 0, "kind": "REBALANCED"}
    moved |= {"client_id": "new@1", "previous_client_id": "old@1"}
    filled.append(progress.EVENTS, rows_of(progress.EVENTS, later, [moved]))
    incident_of_billing(filled, opened)
    client.app.state.store.refresh()  # pyright: ignore
    deploy = {"text": "deploy 4.2", "at": later.isoformat(), "match": {"topic": ["orders"]}}
    assert client.post("/api/v1/annotations", json=deploy).status_code == 201
    other = {"text": "other deploy", "at": later.isoformat(), "match": {"topic": ["else"]}}
    assert client.post("/api/v1/annotations", json=other).status_code == 201
    parameters = {"id": "0123456789abcdef"}
    text = client.get("/incident", params=parameters, headers=HTML).text
    text = text.partition("What changed just before")[2].partition("Next step")[0]
    assert "1 member joined" in text and "1 member left" in text and "REBALANCED" in text
    assert "deploy 4.2" in text and "other deploy" not in text
    assert "new version V5_3_3" in " ".join(text.split())


def test_a_group_that_everybody_left_and_a_broker_that_did_not_respond(
    client: TestClient, filled: Lake
) -> None:
    opened = now()
    for minutes, status, members in (
        (40, "COMPLETE", ("a@1", "b@1")),
        (39, "PARTIAL", ("a@1",)),
        (38, "COMPLETE", ("a@1", "b@1")),
        (37, "COMPLETE", ()),
        (-0.0001, "COMPLETE", ("loaded later",)),
    ):
        at = opened - timedelta(minutes=minutes)
        taken = {"snapshot_id": f"s-{minutes}", "source": "remote", "status": status}
        filled.append(raw.SNAPSHOTS, rows_of(raw.SNAPSHOTS, at, [taken]))
        rows = [{"consumer_group": "billing", "client_id": name} for name in members]
        filled.append(raw.CLIENTS, rows_of(raw.CLIENTS, at, rows))
    incident_of_billing(filled, opened)
    client.app.state.store.refresh()  # pyright: ignore
    text = client.get("/incident", params={"id": "0123456789abcdef"}, headers=HTML).text
    text = text.partition("What changed just before")[2].partition("Next step")[0]
    assert text.count("2 members left") == 1
    assert "1 member left" not in text and "joined" not in text


def test_a_board_that_only_reads_offers_no_request(store: Store) -> None:
    login = Login(tokens={"t-read": Person("watcher", False)})
    with TestClient(
        application(store, login=login), "http://127.0.0.1", client=("127.0.0.1", 50_000)
    ) as client:
        parameters = {"cluster": CLUSTER, "group": "billing"}
        headers = HTML | {"Authorization": "Bearer t-read"}
        assert "/stacks" not in client.get("/group", params=parameters, headers=headers).text


def test_too_many_diagnoses_are_refused(
    client: TestClient, wishes: list[Wish], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members that hang take each diagnosis seconds."""
    monkeypatch.setattr("tidemark.board.views.live.WAITING_DIAGNOSES", 0)
    response = client.post(STACKS_OF_BILLING, json={})
    assert response.status_code == 503 and response.headers["retry-after"] and wishes == []
