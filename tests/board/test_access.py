"""Access to the board: logins, rights, other sites, and headers of every response."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.support.board_routes import routes
from tests.support.homes import run
from tests.support.lake_copies import copied
from tests.support.page_forms import form_of
from tidemark.board.access import Login, Person, networks
from tidemark.board.application import application
from tidemark.board.passwords import password_hash, read_users
from tidemark.board.store import Store
from tidemark.cli.commands.serve import address_of, login_of
from tidemark.lake.catalog import Lake
from tidemark.settings.basics import SettingsError
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

GROUPS = "/api/v1/groups"
SILENCE = {"match": {"rule": ["*"]}, "duration": "1h", "comment": "a test"}


@pytest.fixture(scope="module")
def guarded(shown: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A board with every kind of login; its silences change no response that a test reads."""
    folder = tmp_path_factory.mktemp("guarded")
    store = Store(copied(shown, Home.of(folder / "home")))
    store.refresh()
    file = folder / "users"
    file.write_text(f"# people\nann:{password_hash('a:b')}:act\nbob:{password_hash('pw')}:read\n")
    login = Login(
        tokens={"t-act": Person("robot", True), "t-read": Person("watcher", False)},
        users=read_users(file),
        header="X-Forwarded-User",
        proxies=networks("127.0.0.1"),
        hosts=frozenset({"board.example"}),
        actors=frozenset({"eve"}),
    )
    with client_of(store, login, base_url="http://board.example") as client:
        yield client


def client_of(store: Store, login: Login, *, base_url: str = "http://127.0.0.1") -> TestClient:
    return TestClient(application(store, login=login), base_url, client=("127.0.0.1", 50_000))


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "headers, reads, acts",
    [
        ({}, 401, 401),
        (bearer("wrong"), 401, 401),
        (bearer(""), 401, 401),
        (bearer("t-read"), 200, 403),
        (bearer("t-act"), 200, 201),
        (basic("ann", "a:b"), 200, 201),
        (basic("bob", "pw"), 200, 403),
        (basic("bob", "wrong"), 401, 401),
        (basic("nobody", "pw"), 401, 401),
        (basic("anything", "t-read"), 200, 403),
        ({"Authorization": "Basic %%%"}, 401, 401),
        ({"X-Forwarded-User": "eve"}, 200, 201),
        ({"X-Forwarded-User": "mallory"}, 200, 403),
    ],
)
def test_reading_and_acting_are_separate(
    guarded: TestClient, headers: dict[str, str], reads: int, acts: int
) -> None:
    assert guarded.get(GROUPS, headers=headers).status_code == reads
    response = guarded.post("/api/v1/silences", json=SILENCE, headers=headers)
    assert response.status_code == acts
    if reads == 401:
        assert "Basic" in guarded.get(GROUPS, headers=headers).headers["www-authenticate"]


UNSAFE = [
    (method, ("/api/v1" if route.include_in_schema else "") + route.path)
    for route in routes()
    for method in (route.methods or set()) - {"GET", "HEAD"}
]


@pytest.mark.parametrize(("method", "path"), UNSAFE)
def test_a_reader_is_refused_what_changes_something(
    guarded: TestClient, method: str, path: str
) -> None:
    """Language, colours and plans are a matter of reading; every other address acts."""
    response = guarded.request(method, path, json={}, headers=bearer("t-read"))
    refused = response.status_code == 403 and "may read and not act" in response.text
    assert refused == (path not in ("/preferences", "/api/v1/plan"))


def test_a_reader_chooses_a_language(guarded: TestClient) -> None:
    reader = bearer("t-read") | {"Accept": "text/html"}
    page = guarded.get("/", headers=reader).text
    form = form_of(page, "/preferences") | {"language": "zh"}

    def choose(**other: str) -> int:
        headers = reader | other
        return guarded.post(
            "/preferences", data=form, headers=headers, follow_redirects=False
        ).status_code

    assert choose(Origin="http://evil.example") == 403
    assert choose() == 303 and guarded.cookies["language"] == "zh"
    guarded.cookies.clear()
    form["token"] = "0" * 64
    assert choose() == 403 and not guarded.cookies


def test_a_reader_plans(guarded: TestClient) -> None:
    wanted = {"cluster": "elsewhere", "consumer_group": "mailer", "clients": 3}
    response = guarded.post("/api/v1/plan", json=wanted, headers=bearer("t-read"))
    assert response.status_code == 404, "this cluster is not configured"


@pytest.mark.slow
def test_logins_are_those_of_the_variables(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "users").write_text(f"bob:{password_hash('pw')}:read\n")
    monkeypatch.setenv("TIDEMARK_SERVE_USERS", str(tmp_path / "users"))
    monkeypatch.setenv("TIDEMARK_SERVE_HEADER", "X-Forwarded-User")
    monkeypatch.setenv("TIDEMARK_SERVE_PROXIES", "127.0.0.0/30")
    monkeypatch.setenv("TIDEMARK_SERVE_ACTORS", "eve, dan")
    monkeypatch.setenv("TIDEMARK_SERVE_HOSTS", "Board.Example other")
    login = login_of(Settings.read())
    with client_of(store, login, base_url="http://board.example") as client:
        for headers, reads, acts in (
            ({}, 401, 401),
            (basic("bob", "pw"), 200, 403),
            ({"X-Forwarded-User": "eve"}, 200, 201),
            ({"X-Forwarded-User": "mallory"}, 200, 403),
            ({"X-User": "eve"}, 401, 401),
        ):
            assert client.get(GROUPS, headers=headers).status_code == reads
            response = client.post("/api/v1/silences", json=SILENCE, headers=headers)
            assert response.status_code == acts


def test_who_is_logged_in_is_recorded(guarded: TestClient) -> None:
    headers = basic("ann", "a:b")
    made = guarded.post("/api/v1/silences", json=SILENCE, headers=headers).json()
    assert made["author"] == "ann"


def test_names_and_tokens_are_utf_8(store: Store) -> None:
    """A name of a proxy that is not of Latin letters might not act, and was recorded garbled."""
    tokens = {"clé": Person("token", may_act=True)}
    login = Login(
        tokens=tokens, header="X-User", proxies=networks("127.0.0.1"), actors=frozenset({"王伟"})
    )
    with client_of(store, login) as client:
        for headers, author in (
            ({"X-User": "王伟".encode()}, "王伟"),
            ({"Authorization": "Bearer clé".encode()}, "token"),
        ):
            response = client.post("/api/v1/silences", json=SILENCE, headers=headers)
            assert response.status_code == 201 and response.json()["author"] == author


def test_a_header_is_believed_from_a_proxy_alone(store: Store) -> None:
    for proxies, status in (("10.0.0.1", 401), ("10.0.0.0/8 127.0.0.0/30", 200)):
        login = Login(header="X-User", proxies=networks(proxies))
        with client_of(store, login) as client:
            assert client.get(GROUPS, headers={"X-User": "eve"}).status_code == status


def test_a_header_is_believed_of_nobody_without_named_proxies() -> None:
    with pytest.raises(SettingsError, match="TIDEMARK_SERVE_PROXIES"):
        login_of(Settings(serve_header="X-User"))
    with pytest.raises(SettingsError, match=r"TIDEMARK_SERVE_PROXIES: '10\.0\.0\.300'"):
        login_of(Settings(serve_header="X-User", serve_proxies="10.0.0.300"))


@pytest.mark.parametrize("name", ["X-Forwarded-User", "Host", "Authorization", "Origin"])
def test_a_header_that_decides_is_given_once(guarded: TestClient, name: str) -> None:
    """A proxy may set one and pass on that of the client: which of both counts is a guess."""
    values = {"X-Forwarded-User": ("eve", "mallory"), "Host": ("board.example", "board.example")}
    first, second = values.get(name, ("Bearer t-act", "Bearer t-act"))
    response = guarded.get(GROUPS, headers=[(name, first), (name.lower(), second)])
    assert response.status_code == 400 and "more than once" in response.text


def test_a_proxy_names_a_person_at_known_names_alone(guarded: TestClient) -> None:
    """A page of another name that resolves to this machine comes from a trusted address."""
    for host, status in (
        ("evil.example", 421), ("board.example.evil.example", 421), ("", 421),
        ("Board.Example:8080", 200), ("10.0.0.7", 200), ("localhost:1", 200),
    ):  # fmt: skip
        headers = {"X-Forwarded-User": "eve", "Host": host}
        assert guarded.get(GROUPS, headers=headers).status_code == status, host


def test_health_needs_no_login(guarded: TestClient) -> None:
    assert guarded.get("/healthz").status_code == 200
    assert guarded.get("/readyz").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_site_changes_nothing(reader: TestClient, headers: dict[str, str]) -> None:
    response = reader.post("/api/v1/silences", json=SILENCE, headers=headers)
    assert response.status_code == 403


def test_the_api_takes_json_alone(reader: TestClient) -> None:
    plain = {"Content-Type": "text/plain"}
    response = reader.post("/api/v1/silences", content='{"match":{}}', headers=plain)
    assert response.status_code == 415


@pytest.mark.slow
def test_without_a_login_only_names_of_this_machine_work(reader: TestClient) -> None:
    for host in ("127.0.0.1:8080", "127.0.0.2:8080", "localhost", "LocalHost:80", "[::1]:80"):
        assert reader.get(GROUPS, headers={"Host": host}).status_code == 200, host
    for host in ("evil.example", "127.0.0.1.evil.example:80", "10.0.0.1", "[2001:db8::1]", ""):
        assert reader.get(GROUPS, headers={"Host": host}).status_code == 421, host


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080"),
        ("localhost", "http://localhost:8080"),
        ("::1", "http://[::1]:8080"),
    ],
)
def test_the_printed_address_can_be_opened(host: str, address: str) -> None:
    assert address_of(host, 8080) == address


def test_every_response_is_strict(reader: TestClient, guarded: TestClient) -> None:
    for response in (reader.get(GROUPS), reader.get("/none"), guarded.get(GROUPS)):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-store"


def test_a_failure_is_as_strict(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Store) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(Store, "newest", property(fails))
    client = TestClient(application(store), "http://127.0.0.1", raise_server_exceptions=False)
    for path in (GROUPS, "/"):
        response = client.get(path, headers={"Accept": "text/html"})
        assert response.status_code == 500 and "secret" not in response.text
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("line", ["ann", "ann:plain:act", "ann:scrypt$aa$bb:rule"])
def test_a_wrong_line_of_users_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "users"
    file.write_text(f"\n{line}\n")
    with pytest.raises(SettingsError, match="users:2"):
        read_users(file)


def test_it_listens_elsewhere_only_with_a_login(tmp_path: Path) -> None:
    from tidemark.settings.home import Home

    done = run(Home.of(tmp_path), ["serve", "--host", "0.0.0.0"])
    assert done.returncode == 1
    assert "TIDEMARK_SERVE_TOKEN" in done.stderr and len(done.stderr.splitlines()) == 1


def test_settings_make_logins() -> None:
    from tidemark.cli.commands.serve import login_of
    from tidemark.settings.environment import Settings

    settings = Settings(
        serve_token="first-token",  # pyright: ignore
        serve_read_token="second-token",  # pyright: ignore
        serve_header="X-User",
        serve_proxies="10.0.0.1, 10.0.0.2",
        serve_actors="ann bob",
    )
    login = login_of(settings)
    assert login.tokens["first-token"].may_act and not login.tokens["second-token"].may_act
    assert login.proxies == networks("10.0.0.1/32, 10.0.0.2")
    assert login.actors == {"ann", "bob"}
    assert "first-token" not in repr(login) and "second-token" not in repr(settings)
    assert not login_of(Settings()).is_configured
