"""The guard before Dagster's pages, and the pages of others that it keeps out.

Dagster itself checks neither Host nor Origin and executes mutations that are sent by GET: with
``dagster-webserver`` in place of ``tidemark webserver`` the attempts of the browser test succeed.
"""

import http.server
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import dagster as dg
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from tests.support.browser import browser_page
from tidemark.cli.dagster_guard import DagsterGuard
from tidemark.cli.dagster_processes import stop
from tidemark.lab.layout import free_port_base

OWN = {"host": "127.0.0.1:3000"}
JSON = {"content-type": "application/json"}
ELSEWHERE = {"origin": "http://127.0.0.1:8000"}
CROSS_SITE = {"sec-fetch-site": "cross-site"}


@pytest.fixture(scope="module")
def client():
    async def page(request):
        return PlainTextResponse("served")

    async def socket(websocket: WebSocket):
        await websocket.accept()
        await websocket.send_text("served")

    methods = ["GET", "POST", "PUT"]
    routes = [WebSocketRoute("/graphql", socket), Route("/{path:path}", page, methods=methods)]
    guarded = DagsterGuard(Starlette(routes=routes), frozenset({"dagster.example"}))
    return TestClient(guarded, headers=OWN)


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/", {}),
        ("GET", "/runs", {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}),
        ("GET", "/", {"host": "localhost"}),
        ("GET", "/", {"host": "10.0.0.5:3000"}),
        ("GET", "/", {"host": "[::1]:3000"}),
        ("GET", "/", {"host": "Dagster.example:443"}),
        # A link on another page.
        ("GET", "/", {**CROSS_SITE, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}),
        ("POST", "/graphql", JSON),
        ("POST", "/graphql", {**JSON, "origin": "http://127.0.0.1:3000"}),
        ("POST", "/graphql", {"content-type": "application/json; charset=utf-8"}),
    ],
)
def test_own_requests_are_served(client, method, path, headers):
    response = client.request(method, path, headers=headers)
    assert response.status_code == 200, response.text
    assert response.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        # A name that was pointed at this machine.
        ("GET", "/", {"host": "rebound.example:3000"}),
        ("POST", "/graphql", {**JSON, "host": "rebound.example:3000"}),
        # Mutations by GET, as an image or a link sends them.
        ("GET", "/graphql?query=mutation{x}", {}),
        ("GET", "/graphql?%71uery=mutation{x}", {}),
        ("GET", "/prefix/graphql?a=1&query=mutation{x}", {}),
        ("POST", "/graphql?query=mutation{x}", JSON),
        # Forms and texts, which need no permission.
        ("POST", "/graphql", {"content-type": "text/plain"}),
        ("POST", "/graphql", {"content-type": "application/x-www-form-urlencoded"}),
        ("POST", "/graphql", {"content-type": "multipart/form-data; boundary=x"}),
        ("POST", "/report_asset_materialization/a", {}),
        # Pages of another origin, another port of this machine among them.
        ("POST", "/graphql", JSON | ELSEWHERE),
        ("POST", "/graphql", {**JSON, "origin": "null"}),
        ("POST", "/graphql", JSON | CROSS_SITE),
        ("POST", "/graphql", {**JSON, "sec-fetch-site": "same-site"}),
        ("GET", "/runs", {**CROSS_SITE, "sec-fetch-mode": "no-cors"}),
        ("GET", "/", {**CROSS_SITE, "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}),
        ("GET", "/graphql", {**CROSS_SITE, "sec-fetch-mode": "navigate"}),
        ("OPTIONS", "/graphql", ELSEWHERE | CROSS_SITE),
        ("PUT", "/graphql", JSON),
    ],
)
def test_requests_of_other_pages_are_refused(client, method, path, headers):
    response = client.request(method, path, headers=headers)
    assert response.status_code == 403
    assert response.text.strip()


def test_sockets_are_for_own_pages(client):
    with client.websocket_connect("/graphql", headers=OWN) as own:
        assert own.receive_text() == "served"
    for headers in (OWN | ELSEWHERE, {"host": "rebound.example"}):
        with pytest.raises(WebSocketDisconnect), client.websocket_connect(
            "/graphql", headers=headers
        ):  # fmt: skip
            pass


SET_LIMIT = "mutation{setConcurrencyLimit(concurrencyKey:%s,limit:7)}"
"""A mutation whose success the instance shows; the key names the attempt."""

ATTEMPTS = """
const dagster = '%(dagster)s/graphql';
const limit = name => 'mutation{setConcurrencyLimit(concurrencyKey:"' + name + '",limit:7)}';
const byGet = name => dagster + '?query=' + encodeURIComponent(limit(name));
const element = (tag, name, address) => {
  const made = document.createElement(tag);
  made[tag === 'link' || tag === 'a' ? 'href' : 'src'] = address;
  if (tag === 'link') made.rel = 'stylesheet';
  document.body.append(made);
  return made;
};
for (const tag of ['img', 'script', 'iframe', 'link', 'video', 'embed'])
  element(tag, tag, byGet(tag));
const form = (name, kind) => {
  const made = document.createElement('form');
  made.method = 'post'; made.enctype = kind; made.target = 'frame';
  made.action = byGet(name);
  document.body.append(made);
  made.submit();
};
const frame = element('iframe', '', 'about:blank');
frame.name = 'frame';
form('form-text', 'text/plain');
form('form-url', 'application/x-www-form-urlencoded');
form('form-multipart', 'multipart/form-data');
const attempt = (name, address, options) => fetch(address, options).then(
  response => response.text(), () => '').then(text => { read.push(text); });
const read = [];
const post = (name, mode, kind) => attempt(name, byGet(name), {
  method: 'POST', mode, headers: {'content-type': kind}, credentials: 'include',
  body: JSON.stringify({query: limit(name)})});
const socket = new Promise(done => {
  const opened = new WebSocket(dagster.replace('http', 'ws'), 'graphql-ws');
  opened.onopen = () => { opened.send(JSON.stringify({type: 'connection_init'})); };
  opened.onmessage = message => read.push(message.data);
  opened.onerror = opened.onclose = done;
  setTimeout(done, 5000);
});
navigator.sendBeacon(byGet('beacon'), limit('beacon'));
window.finished = Promise.all([
  attempt('get-cors', byGet('get-cors'), {mode: 'cors'}),
  attempt('get-no-cors', byGet('get-no-cors'), {mode: 'no-cors'}),
  attempt('page', '%(dagster)s/', {mode: 'no-cors'}),
  attempt('info', '%(dagster)s/server_info', {mode: 'cors'}),
  post('post-text', 'no-cors', 'text/plain'),
  post('post-json', 'cors', 'application/json'),
  post('post-form', 'no-cors', 'application/x-www-form-urlencoded'),
  socket,
]).then(() => new Promise(done => setTimeout(done, 2000))).then(() => read);
"""


@contextmanager
def dagster_pages(home: Path, port: int) -> Iterator[str]:
    """Serve Dagster's pages as a person starts them, and yield their address."""
    (home / "dagster").mkdir(parents=True)
    command = Path(sys.executable).with_name("tidemark")
    workspace = ["--empty-workspace", "--host", "127.0.0.1", "--port", str(port)]
    environment = {
        **{name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"},
        "TIDEMARK_HOME": str(home),
        "TIDEMARK_WEBSERVER_HOSTS": "dagster.example Pages.example",
    }
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [command, "webserver", *workspace], env=environment, stdout=log, stderr=log
        )
    address = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{address}/server_info", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None, (home / "log").read_text()
                assert time.monotonic() < until
                time.sleep(0.2)
        yield address
    finally:
        stop([process])


@contextmanager
def hostile_page(dagster: str) -> Iterator[int]:
    """Serve a page that tries everything, and yield its port."""
    script = ATTEMPTS % {"dagster": dagster}
    page = f"<!doctype html><title>other</title><body></body><script>{script}</script>".encode()

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()


@pytest.mark.slow
def test_pages_of_others_neither_change_nor_read_dagster(tmp_path):
    """In a real browser: images, forms, fetch, sockets, and a name that resolves to loopback."""
    home, port = tmp_path / "home", free_port_base()
    rebinding = ["--host-resolver-rules=MAP rebound.example 127.0.0.1"]
    with dagster_pages(home, port) as dagster:
        with (
            hostile_page(dagster) as other,
            hostile_page(f"http://rebound.example:{port}") as rebound,
            browser_page(may_complain=True, arguments=rebinding) as page,
        ):
            addresses = (
                f"http://127.0.0.1:{other}/",
                f"http://localhost:{other}/",
                f"http://rebound.example:{rebound}/",
            )
            for address in addresses:
                page.goto(address)
                read = page.evaluate("window.finished")
                assert not any(read), (address, read)
            # Rebound, the name is one origin with Dagster: the page could even read responses.
            page.goto(f"http://rebound.example:{port}/", wait_until="commit")
            assert "is not a name of these pages" in page.content()
            # A link or a window that another page opens.
            page.goto(f"{dagster}/graphql?query={quote(SET_LIMIT % json.dumps('opened'))}")
            assert "taken from the body" in page.content()
            # Dagster's own pages work.
            own = page.goto(f"{dagster}/")
            assert own.status == 200
            page.get_by_text("Overview").first.wait_for()
        # The same mutation as their pages send it is executed, so the attempts were real ones.
        body = json.dumps({"query": SET_LIMIT % json.dumps("own")}).encode()
        # By a name of TIDEMARK_WEBSERVER_HOSTS, as behind a proxy.
        named = JSON | {"host": "pages.example"}
        request = urllib.request.Request(f"{dagster}/graphql", body, named)
        urllib.request.urlopen(request, timeout=60).close()
    with dg.DagsterInstance.from_config(str(home / "dagster")) as instance:
        assert instance.event_log_storage.get_concurrency_keys() == {"own"}
