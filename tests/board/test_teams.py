"""A user of a team sees its groups only, on every route of the application."""

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import httpx2
import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support import team_home
from tests.support.board_home import CLUSTER
from tests.support.lake_copies import copied
from tests.support.live_boards import Live
from tests.support.served import served
from tests.support.team_home import FOREIGN, NOBODY, OTHER, OWN, OWNERS, POP_RETRY, topics_of
from tidemark.alerting.annotations import annotate, annotations
from tidemark.alerting.delivery.silences import silence, silences
from tidemark.alerting.incidents.actions import acknowledge
from tidemark.alerting.recorded_actions import record_diagnosis
from tidemark.board.access import Login, Person
from tidemark.board.application import application
from tidemark.board.dependencies import TheStore, free_of_groups, query_parameters, require_views
from tidemark.board.store import Store
from tidemark.board.views.scope import Scope
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import TABLES, alerting
from tidemark.settings.home import Home
from tidemark.settings.owners import OwnedGroups, Owner, Owners, WatchedOwners
from tidemark.settings.sections import MetricsSettings

ALICE, ROOT = {"Authorization": "Bearer alice"}, {"Authorization": "Bearer root"}
LOGIN = Login(
    tokens={
        "alice": Person("alice", may_act=True, teams=frozenset({"alpha"})),
        "root": Person("root", may_act=True),
    }
)
MADE_UP = "yankee-invoice"
assert len(MADE_UP) == len(OTHER) + 2

FILES = ("/static", "/api/v1/openapi.json", "/mcp")
"""Routes without rows of tables; `/mcp` is tested by a client of its own."""

STREAM = "/changes"


class Fixed(WatchedOwners):
    """Owners of no file."""

    def now(self) -> Owners:
        return OWNERS


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, empty_lake: Lake) -> Lake:
    lake = copied(empty_lake, Home.of(tmp_path_factory.mktemp("teams") / "home"))
    team_home.fill(lake)
    until = datetime.now(UTC) + timedelta(hours=1)
    for name in (OWN, OTHER, NOBODY):
        silence(lake.shared, {"consumer_group": (name,)}, until, "root", f"{name} is mended")
        annotate(lake.shared, f"deployed {name}", "root", match={"consumer_group": (name,)})
        record_diagnosis(
            lake.shared, "root", until, cluster=CLUSTER, consumer_group=name, topic=None
        )
        acknowledge(lake, ids(lake, name)["incident_id"], "root", f"{name} is known")
    annotate(lake.shared, "a switch was replaced", "root")
    pages = lake.home.path / "data_docs" / "uncommitted" / "data_docs" / "local_site"
    pages.mkdir(parents=True)
    (pages / "index.html").write_text(f"unexpected: {OWN}, {OTHER}, {NOBODY}")
    return lake


@pytest.fixture(scope="module")
def board(home: Lake) -> Iterator[FastAPI]:
    made = Store(home)
    made.refresh()
    queues = MetricsSettings(queues=True)
    app = application(made, queues, LOGIN, serves_agents=True, owners=Fixed())
    app.state.views.live = Live(team_home.live())
    app.state.metrics.refresh()
    yield app


@pytest.fixture(scope="module")
def client(board: FastAPI) -> TestClient:
    return TestClient(board, base_url="http://127.0.0.1:8080")


def routes_of(routes: list[Any]) -> Iterator[Any]:
    for route in routes:
        included = getattr(route, "original_router", None)
        if included is None:
            yield route
        else:
            prefix = route.include_context.prefix
            for inner in routes_of(included.routes):
                yield prefix, inner


def all_routes(app: FastAPI) -> list[tuple[str, str, APIRoute]]:
    """Return method, path and route of everything that the application serves."""

    def flat(route: Any, prefix: str = "") -> tuple[str, Any]:
        return flat(route[1], prefix + route[0]) if isinstance(route, tuple) else (prefix, route)

    found = []
    for prefix, route in map(flat, routes_of(app.routes)):
        if not isinstance(route, APIRoute):
            assert route.path in FILES, route
            continue
        path = (prefix + route.path).replace(":path}", "}")
        found += [(method, path, route) for method in route.methods or ()]
    return found


def ids(lake: Lake, name: str) -> dict[str, str]:
    """Return the ids of what is about a group."""
    incidents = lake.read(alerting.INCIDENTS).to_pylist()
    subject = f"{CLUSTER}/{name}/orders"
    found = [row["incident_id"] for row in incidents if row["subject"] == subject]
    kept, notes = silences(lake.shared.state), annotations(lake.shared.state)
    of_group = {"consumer_group": (name,)}
    return {
        "incident_id": next(iter(found), "0" * 16),
        "silence_id": next((it.silence_id for it in kept if it.match == of_group), "0" * 8),
        "annotation_id": next((it.annotation_id for it in notes if it.match == of_group), "0" * 8),
    }


def values(lake: Lake, name: str) -> dict[str, str]:
    """Return a value of each parameter that an address may have, all about one group."""
    about = ids(lake, name)
    return {
        **about,
        **{"id": about["incident_id"], "group": name, "consumer_group": name, "q": name},
        **{
            "cluster": CLUSTER,
            "topic": "orders",
            "broker": "broker-a",
            "clients": "2",
            "team": "alpha",
        },
        **{"at": "", "from": "", "to": "", "name": "lag-high.md", "decided": "", "hours": "24"},
        "path": "index.html",
    }


BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "/api/v1/plan": ("json", {"cluster": CLUSTER, "consumer_group": "{group}", "clients": 2}),
    "/api/v1/groups/{cluster}/{group}/stacks": ("json", {}),
    "/api/v1/annotations": ("json", {"text": "t", "match": {"consumer_group": ["{group}"]}}),
    "/api/v1/silences": (
        "json",
        {"match": {"consumer_group": ["{group}"]}, "duration": "1h", "comment": "c"},
    ),
    "/api/v1/incidents/{incident_id}/acknowledge": ("json", {}),
    "/api/v1/incidents/{incident_id}/resolve": ("json", {}),
    "/stacks": ("data", {"cluster": CLUSTER, "group": "{group}"}),
    "/silence": ("data", {"consumer_group": "{group}", "duration": "1h", "comment": "c"}),
    "/unsilence": ("data", {"id": "{silence_id}"}),
    "/incident/act": ("data", {"id": "{incident_id}", "action": "acknowledge"}),
    "/quality/decide": ("data", {"decision": "dropped", "reason": "r", "row": "{row}"}),
    "/preferences": ("data", {"language": "zh"}),
}
"""Path of each address that changes something to how it is sent."""


def filled(value: Any, of: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: filled(item, of) for name, item in value.items()}
    if isinstance(value, list):
        return [filled(item, of) for item in value]
    return value.format(**of) if isinstance(value, str) else value


def sent(
    client: TestClient,
    method: str,
    path: str,
    route: APIRoute,
    of: dict[str, str],
    headers: dict[str, str],
    chosen: tuple[str, ...] | None = None,
) -> Any:
    """Send a request about a group, with all parameters of the route that are known, or some."""
    required = {
        item.alias for item in route.dependant.query_params if item.field_info.is_required()
    }
    names = query_parameters(route)
    wanted = names if chosen is None else (names & set(chosen)) | required
    query = {name: of[name] for name in sorted(wanted) if of.get(name)}
    address = path.format(**{name: quote(value, safe="") for name, value in of.items()})
    kind, body = BODIES.get(path, ("", {}))
    if method in ("GET", "DELETE"):
        kind, body = "", {}
    content = filled(body, of)
    if kind == "data":
        content["token"] = token(client, headers)
    more: dict[str, Any] = {kind: content} if kind else {}
    accept = {"Accept": "text/html"} if not path.startswith("/api") else {}
    return client.request(
        method, address, params=query, headers=headers | accept, follow_redirects=False, **more
    )


def token(client: TestClient, headers: dict[str, str]) -> str:
    text = client.get("/incidents", headers=headers | {"Accept": "text/html"}).text
    found = re.search(r'name="token" value="([0-9a-f]+)"', text)
    assert found
    return found[1]


@pytest.mark.slow
def test_every_change_is_tested_here(board: FastAPI) -> None:
    changes = {path for method, path, _ in all_routes(board) if method == "POST"}
    assert changes == set(BODIES)


@pytest.mark.slow
def test_no_byte_names_a_group_of_others(board: FastAPI, client: TestClient, home: Lake) -> None:
    """Names that the root user sees of another team are hidden from alice on every route."""
    of = values(home, OWN) | {"q": ""}
    shown_to_root = set()
    for method, path, route in all_routes(board):
        if method != "GET" or path == STREAM:
            continue
        for chosen in ((), ("team",), ("topic",), ("q",), ("cluster",), None):
            response = sent(client, method, path, route, of, ALICE, chosen)
            assert response.status_code in (200, 303, 404, 503), (path, response.text[:300])
            # A page that does not open shows nothing, so it proves nothing.
            assert response.status_code != 500
            assert FOREIGN not in response.text.lower(), (path, chosen, near(response.text))
            every = sent(client, method, path, route, of, ROOT, chosen)
            if FOREIGN in every.text.lower():
                shown_to_root.add(path)
    for path in LISTS:
        assert path in shown_to_root, f"{path} shows no group of others to anybody"


LISTS = (
    *("/", "/groups", "/topics", "/events", "/incidents", "/dead-letters", "/objectives", "/live"),
    *("/quality", "/topic", "/metrics", "/api/v1/groups", "/api/v1/topics", "/api/v1/events"),
    *("/api/v1/incidents", "/api/v1/silences", "/api/v1/annotations", "/api/v1/quality"),
    *("/api/v1/quality/quarantine", "/api/v1/dead-letters", "/api/v1/objectives"),
    *(
        "/audit",
        "/api/v1/audit",
        "/api/v1/clusters",
        "/api/v1/live/{cluster}",
        "/api/v1/topics/{cluster}/{topic}",
    ),
)
"""Addresses of many groups, which show those of others to who sees everything."""


def near(text: str) -> str:
    place = text.lower().find(FOREIGN)
    return text[max(0, place - 150) : place + 60]


def blurred(response: Any, of: dict[str, str]) -> str:
    """Return a response without the names that its request had, and without numbers."""
    text = response.text
    for value in sorted({*of.values()}, key=len, reverse=True):
        if len(value) > 7:
            for written in (value, quote(value, safe=""), value.replace("-", "-<wbr>")):
                text = text.replace(written, "NAME")
    return re.sub(r"\d+(\.\d+)?", "0", text)


@pytest.mark.slow
def test_a_group_of_others_is_like_none(board: FastAPI, client: TestClient, home: Lake) -> None:
    """The response to a group of others is that to one that does not exist, on every route."""
    made_up = values(home, MADE_UP) | {"row": "f" * 12}
    # The names of own topics of a group, too.
    for name in (OTHER, NOBODY):
        of = values(home, name) | {"row": row_of(home, name)}
        for method, path, route in all_routes(board):
            if path == STREAM:
                continue
            for topics in ("", "%DLQ%{}", "%RETRY%{}", "%RETRY%{}+orders"):
                theirs, nobodys = dict(of), dict(made_up)
                if topics:
                    if "topic" not in {*query_parameters(route), *route.param_convertors}:
                        continue
                    theirs |= {"topic": topics.format(name)}
                    nobodys |= {"topic": topics.format(MADE_UP)}
                response = sent(client, method, path, route, theirs, ALICE)
                expected = sent(client, method, path, route, nobodys, ALICE)
                about = method, path, name, topics
                assert response.status_code == expected.status_code, (about, response.text[:300])
                assert blurred(response, theirs) == blurred(expected, nobodys), about


def row_of(lake: Lake, name: str) -> str:
    from tidemark.planning.quarantine_decisions import quarantined_rows

    return next(row.row_id for row in quarantined_rows(lake) if name in row.row)


def test_own_groups_are_shown(board: FastAPI, client: TestClient, home: Lake) -> None:
    of = values(home, OWN)
    missing = []
    for method, path, route in all_routes(board):
        if method == "GET" and path in (*LISTS, "/group", "/incident", "/plan"):
            response = sent(client, method, path, route, of | {"q": ""}, ALICE)
            if OWN not in response.text.replace("<wbr>", "") and path not in NO_OWN:
                missing.append((path, response.status_code, response.text[:200]))
    assert not missing


NO_OWN = ("/api/v1/quality", "/api/v1/clusters")
"""Addresses whose texts may name any group, so the users of a team get none of them."""


def test_a_pop_retry_topic_of_others_is_hidden() -> None:
    known = frozenset({(CLUSTER, name) for name in (OWN, OTHER, NOBODY, "alpha-x_y")})
    scope = Scope(OWNERS, frozenset({"alpha"}), lambda: known)
    assert scope.sees_topic(CLUSTER, "orders")
    assert all(scope.sees_topic(CLUSTER, topic) for topic in topics_of(OWN))
    assert scope.sees_topic(CLUSTER, f"%RETRY%{OWN}_orders")
    assert scope.sees_topic(CLUSTER, "%RETRY%alpha-x_y")
    for name in (OTHER, NOBODY):
        assert not any(scope.sees_topic(CLUSTER, topic) for topic in topics_of(name))
    assert not scope.sees_topic(CLUSTER, POP_RETRY)
    # A pattern of alpha that the whole name fits, and a group of nobody that it begins with.
    ends = OwnedGroups(match={"consumer_group": ("*_orders",)}, owner=Owner(team="alpha"))
    scope = Scope(Owners([ends]), frozenset({"alpha"}), lambda: known)
    assert not scope.sees_topic(CLUSTER, f"%RETRY%{NOBODY}_orders")


def test_a_table_that_nobody_decided_on_is_hidden(home: Lake) -> None:
    scope = Scope(OWNERS, frozenset({"alpha"}))
    for table in TABLES.values():
        rows = scope.rows(table, home.read(table))
        assert FOREIGN not in str(rows.to_pylist()).lower(), table.name
    everything = Scope(OWNERS)
    named = {
        table.name
        for table in TABLES.values()
        if FOREIGN in str(everything.rows(table, home.read(table)).to_pylist()).lower()
    }
    assert len(named) > 15, "the home has names in most tables"


def test_a_route_without_a_view_is_refused() -> None:
    router = APIRouter()

    @router.get("/names")
    def names(store: TheStore) -> str:
        return str(store.newest)

    with pytest.raises(TypeError, match="/names"):
        require_views(router.routes, ())
    free_of_groups(names)
    require_views(router.routes, ())


def test_users_of_a_team_act_on_its_groups_only(
    client: TestClient, home: Lake, board: FastAPI
) -> None:
    def status(method: str, path: str, body: Any = None) -> int:
        return client.request(method, f"/api/v1{path}", headers=ALICE, json=body).status_code

    own, other = ids(home, OWN), ids(home, OTHER)
    quiet = {"duration": "1h", "comment": "c"}
    for match in (
        {},
        {"consumer_group": ["*"]},
        {"consumer_group": [OWN, OTHER]},
        {"topic": ["x"]},
    ):
        assert status("POST", "/silences", quiet | {"match": match}) == 400
        assert status("POST", "/annotations", {"text": "t", "match": match}) == 400
    match = {"consumer_group": ["alpha-*"]}
    assert status("POST", "/silences", quiet | {"match": match}) == 201
    assert status("POST", "/annotations", {"text": "t", "match": match}) == 201
    assert status("DELETE", f"/silences/{other['silence_id']}") == 404
    assert status("DELETE", f"/annotations/{other['annotation_id']}") == 404
    assert status("DELETE", f"/silences/{own['silence_id']}") == 204
    assert status("DELETE", f"/annotations/{own['annotation_id']}") == 204
    everybodys = next(it for it in annotations(home.shared.state) if not it.match)
    assert status("DELETE", f"/annotations/{everybodys.annotation_id}") == 404


@pytest.fixture(scope="module")
def address(board: FastAPI) -> Iterator[str]:
    with served(board) as address:
        yield address


def test_changes_are_a_number(address: str) -> None:
    with (
        httpx.Client(timeout=60) as http,
        http.stream("GET", f"http://{address}{STREAM}", headers=ALICE) as stream,
    ):
        first = next(stream.iter_text())
    assert re.fullmatch(r"data: \d+\n\n", first)


def tools(address: str) -> dict[str, str]:
    """Return what a real client of an agent of alice's team gets from each tool, by its call."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_groups", {}),
        ("list_groups", {"q": OTHER}),
        ("list_groups", {"team": "bravo"}),
        ("find_worst", {}),
        *(
            (tool, {"cluster": CLUSTER, "group": name} | more)
            for name in (OWN, OTHER, NOBODY)
            for tool, more in (
                ("explain_group", {}),
                ("as_of", {"at": datetime.now(UTC).isoformat()}),
                ("history", {"topic": "orders"}),
                ("plan", {"clients": 2}),
            )
        ),
    ]

    async def main() -> dict[str, str]:
        async with (
            httpx2.AsyncClient(headers=ALICE, timeout=60) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            texts = {}
            for tool, arguments in calls:
                result = await client.call_tool(tool, arguments)
                (content,) = result.content
                texts[f"{tool} {json.dumps(arguments)}"] = content.text  # pyright: ignore
            return texts

    return asyncio.run(main())


def test_an_agent_of_a_team_sees_its_groups_only(address: str) -> None:
    texts = tools(f"http://{address}/mcp")
    for call, text in texts.items():
        # An agent that names a group is told that there is none of that name.
        told = text.replace(repr(OTHER), "").replace(repr(NOBODY), "")
        told = re.sub(f'"consumer_group":"({OTHER}|{NOBODY})"', "", told)
        told = told.replace(f"no member of {OTHER}", "").replace(f"no member of {NOBODY}", "")
        assert FOREIGN not in told.lower(), (call, near(told))
    assert {row["consumer_group"] for row in json.loads(texts["list_groups {}"])["items"]} == {OWN}
    call = json.dumps({"cluster": CLUSTER, "group": OWN})
    own = json.loads(texts[f"explain_group {call}"])
    assert (own["team"], own["contact"]) == ("alpha", "#alpha")


def test_a_file_of_users_and_a_header_name_teams(tmp_path: Path) -> None:
    from starlette.datastructures import Headers

    from tidemark.board.access import networks
    from tidemark.board.passwords import password_hash, read_users, teams_of

    file = tmp_path / "users"
    kept = password_hash("pw")
    file.write_text(f"ann:{kept}:read:alpha+bravo\nbob:{kept}:act\n")
    users = read_users(file)
    assert users["ann"].teams == {"alpha", "bravo"} and not users["ann"].may_act
    assert users["bob"].teams is None and users["bob"].may_act
    teams = {"ann": teams_of("alpha"), "root": teams_of("*")}
    login = Login(header="x-user", proxies=networks("127.0.0.1"), teams=teams)

    def seen(name: str) -> Any:
        person = login.named(Headers({"x-user": name}), "127.0.0.1")
        assert person
        return person.teams

    assert (seen("ann"), seen("root"), seen("eve")) == ({"alpha"}, None, frozenset())


def test_serve_reads_owners_and_teams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemark.cli.commands.serve import login_of, owners_of
    from tidemark.settings.basics import SettingsError
    from tidemark.settings.environment import Settings

    file = tmp_path / "owners.yaml"
    file.write_text("owners:\n- {match: {consumer_group: a}, team: orders}\n")
    settings = {"OWNERS": str(file), "SERVE_HEADER": "x-user", "SERVE_PROXIES": "127.0.0.1"}
    settings |= {"SERVE_TEAMS": "ann=orders root=*"}
    for name, value in settings.items():
        monkeypatch.setenv(f"TIDEMARK_{name}", value)
    login = login_of(Settings.read())
    assert login.teams == {"ann": {"orders"}, "root": None}
    assert owners_of(Settings.read(), login).now().team_of("shop", "a") == "orders"
    for wrong, words in (("ann", "TIDEMARK_SERVE_TEAMS: "), ("ann=sales", "of team 'sales'")):
        monkeypatch.setenv("TIDEMARK_SERVE_TEAMS", wrong)
        with pytest.raises(SettingsError, match=words):
            owners_of(Settings.read(), login_of(Settings.read()))
    monkeypatch.delenv("TIDEMARK_SERVE_TEAMS")
    file.write_text("owners:\n- {match: {}, team: 'a b'}\n")
    with pytest.raises(SettingsError, match=r"owners\.yaml:2: "):
        owners_of(Settings.read(), Login())


def test_pages_name_the_team_and_filter_by_it(client: TestClient, home: Lake) -> None:
    def text(path: str, **query: str) -> str:
        headers = ROOT | {"Accept": "text/html", "Accept-Language": "zh"}
        return client.get(path, params=query, headers=headers).text.replace("<wbr>", "")

    listed = text("/groups", team="bravo")
    assert OTHER in listed and OWN not in listed and NOBODY not in listed
    assert "团队" in listed and "<option selected>bravo</option>" in listed
    assert "<td" in text("/groups", sort="team") and "–" in text("/groups", q=NOBODY)
    group = text("/group", cluster=CLUSTER, group=OWN)
    assert "#alpha" in group and 'href="https://wiki.example/a"' in group
    incidents = text("/incidents", team="alpha")
    assert OWN in incidents and f"/{OTHER}/" not in incidents
    incident = text("/incident", id=ids(home, OTHER)["incident_id"])
    assert "#zulu-on-call" in incident
    (row,) = client.get("/api/v1/incidents?team=alpha", headers=ROOT).json()["items"]
    assert (row["team"], row["contact"]) == ("alpha", "#alpha")
    found = client.get("/api/v1/groups?team=alpha", headers=ROOT).json()["items"]
    assert {row["consumer_group"] for row in found} == {OWN}
    nobodys = client.get(f"/api/v1/groups/{CLUSTER}/{NOBODY}", headers=ROOT).json()
    assert (nobodys["team"], nobodys["contact"], nobodys["links"]) == (None, None, {})


def test_own_metrics_of_groups_have_the_team_as_a_label(client: TestClient) -> None:
    text = client.get("/metrics", headers=ROOT).text
    lines = [line for line in text.splitlines() if line.startswith("tidemark_group_lag_messages{")]
    teams = {OWN: "alpha", OTHER: "bravo", NOBODY: ""}
    for name, team in teams.items():
        of_group = [line for line in lines if f'consumer_group="{name}"' in line]
        assert of_group and all(f'team="{team}"' in line for line in of_group)
    assert f'consumer_group="{OTHER}",team="bravo"' in text, "dead letters, too"
    native = [line for line in text.splitlines() if line.startswith("rocketmq_")]
    assert native and not any("team=" in line for line in native)
