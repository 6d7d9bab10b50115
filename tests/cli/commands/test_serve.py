"""`tidemark serve`: a failure to listen is one line."""

import socket
import subprocess
import time

import httpx2
import pytest

from tests.support.commands import output_of
from tests.support.homes import TIDEMARK, environment
from tidemark.lab.layout import free_port_base
from tidemark.settings.home import Home


def test_an_address_in_use_is_one_line(tmp_path) -> None:
    """The board was announced there, and the command ended with another code than 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = output_of(Home.of(tmp_path), "serve", "--port", port, code=1)
    assert len(line.splitlines()) == 1
    assert f"--port {port}" in line and "in use" in line and "give another --port" in line


@pytest.mark.parametrize(
    ("endpoint", "settings", "line"),
    [
        ("collector:4318", {}, "it takes http://HOST:4318"),
        ("http://me:s3cret@host:4318", {}, "belong into the file"),
        ("http://host:4318", {"TIDEMARK_OTLP_SECONDS": "0"}, "TIDEMARK_OTLP_SECONDS is '0'"),
        ("http://host:4318", {"TIDEMARK_OTLP_HEADERS_FILE": "/none/s"}, "No such file"),
    ],
)
def test_a_wrong_collector_is_one_line(tmp_path, endpoint, settings, line) -> None:
    """No value of an address or a header is shown, which may be a secret."""
    settings = {"TIDEMARK_OTLP_ENDPOINT": endpoint, **settings}
    text = output_of(Home.of(tmp_path), "serve", "--port", "1", code=1, **settings)
    assert line in text and len(text.splitlines()) == 1 and "s3cret" not in text


def test_a_missing_extra_is_named_as_one_installs_it(tmp_path, monkeypatch) -> None:
    """A path of the command stood there, as in lines that a person pastes."""
    monkeypatch.setattr("tidemark.cli.commands.serve.find_spec", lambda _: None)
    port = str(free_port_base())
    line = output_of(Home.of(tmp_path), "serve", "--port", port, code=1, TIDEMARK_SERVE_MCP="on")
    assert "install the extra mcp of tidemark, or unset the variable" in line


@pytest.mark.slow
@pytest.mark.parametrize("on", [True, False])
def test_agents_are_served_where_the_setting_allows_it(tmp_path, on) -> None:
    home, port = Home.of(tmp_path), free_port_base()
    settings = {"TIDEMARK_SERVE_MCP": "on" if on else "off"}
    command = [str(TIDEMARK), "serve", "--port", str(port)]
    with subprocess.Popen(command, env=environment(home, **settings)) as process:
        try:
            assert process.poll() is None
            deadline = time.monotonic() + 60
            while not _responds(port) and time.monotonic() < deadline:
                time.sleep(0.1)
            response = httpx2.post(f"http://127.0.0.1:{port}/mcp", json={})
            assert (response.status_code != 404) is on
        finally:
            process.terminate()


def _responds(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    except httpx2.TransportError:
        return False
