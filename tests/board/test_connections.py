"""Connections of clients that send nothing, too slowly or too much, on a board that listens."""

import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import psutil
import pytest

from tests.support.served import served
from tidemark.board.application import application
from tidemark.board.connections import ConnectionLimits
from tidemark.board.store import Store
from tidemark.lab.layout import free_port_base
from tidemark.lake.catalog import Lake

SECONDS = 60.0
"""How long a test waits for a connection to be closed, on a loaded machine."""

PATIENT = ConnectionLimits(
    connections=20, head_seconds=600, body_seconds=600, idle_seconds=600, stalled_seconds=600
)
"""Nothing is closed for its age."""

HASTY = replace(PATIENT, head_seconds=3, body_seconds=3, stalled_seconds=3)


@pytest.fixture(scope="module")
def store(shown: Lake) -> Store:
    made = Store(shown)
    made.refresh()
    return made


@contextmanager
def connected(address: str, sent: bytes = b"") -> Iterator[socket.socket]:
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), SECONDS) as made:
        if sent:
            made.sendall(sent)
        yield made


def status(address: str, path: str = "/healthz") -> int:
    connection = HTTPConnection(address, timeout=SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def head(path: str = "/healthz", method: str = "GET", more: str = "") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}\r\n".encode()


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes a connection within `SECONDS`, whatever it sent before."""
    connection.settimeout(SECONDS)
    try:
        while connection.recv(65_536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def drip(connection: socket.socket) -> bool:
    """Send a byte now and then; return whether the server ends that before 600 are sent."""
    for _ in range(600):
        try:
            connection.sendall(b"x")
        except OSError:
            return True
        if select.select([connection], [], [], 0.05)[0]:
            with suppress(OSError):
                if connection.recv(65_536):
                    continue
            return True
    return False


def test_idle_connections_leave_room_for_requests(store: Store) -> None:
    with served(application(store), PATIENT) as address, ExitStack() as idle:
        waiting = idle.enter_context(connected(address, head("/changes")))
        assert waiting.recv(100).startswith(b"HTTP/1.1 200")
        opened = [idle.enter_context(connected(address)) for _ in range(60)]
        assert status(address) == status(address, "/groups") == 200
        assert is_closed(opened[0]), "the one that waited longest makes room"
        waiting.settimeout(SECONDS)
        assert waiting.recv(100), "a response that is under way goes on"


def test_where_all_are_busy_the_newest_is_closed(store: Store) -> None:
    limits = replace(PATIENT, connections=3)
    with served(application(store), limits) as address, ExitStack() as stack:
        busy = [stack.enter_context(connected(address, head("/changes"))) for _ in range(3)]
        assert all(item.recv(100).startswith(b"HTTP/1.1 200") for item in busy)
        assert is_closed(stack.enter_context(connected(address)))
        busy.pop().close()
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError):
                if status(address) == 200:
                    break
        else:
            pytest.fail("a place that became free serves nobody")


@pytest.mark.slow
def test_a_head_that_is_sent_slowly_is_not_waited_for(store: Store) -> None:
    with served(application(store), HASTY) as address:
        with connected(address) as unreachable:
            assert is_closed(unreachable)
        with connected(address, b"GET / HTTP/1.1\r\nX: ") as slow:
            assert drip(slow)
        with connected(address, head()) as second:
            assert second.recv(65_536).startswith(b"HTTP/1.1 200")
            second.sendall(b"GET / HTTP/1.1\r\nX: ")
            assert drip(second), "nor is that of a second request"


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/api/v1/silences", "/preferences", "/none"])
def test_a_body_that_is_sent_slowly_is_not_waited_for(store: Store, path: str) -> None:
    """Also that of a request which is refused before its body is read."""
    more = "Content-Type: application/json\r\nContent-Length: 5000\r\n"
    with (
        served(application(store), HASTY) as address,
        connected(address, head(path, "POST", more)) as slow,
    ):
        assert drip(slow)


def test_a_client_that_takes_no_response_is_not_waited_for(store: Store) -> None:
    with served(application(store), HASTY) as address:
        wanted = head("/static/vendor/htmx-2.0.11.min.js") * 400
        with connected(address) as deaf:
            deaf.setblocking(False)
            with suppress(OSError):
                deaf.send(wanted)
            place = deaf.getsockname()[1]
            deadline = time.monotonic() + SECONDS
            while any(
                pconn.raddr and pconn.raddr.port == place
                for pconn in psutil.Process().net_connections("tcp")
            ):
                assert time.monotonic() < deadline, "the connection stays open"
                time.sleep(0.05)


def test_a_large_head_is_refused(store: Store) -> None:
    with served(application(store), PATIENT) as address:
        for more in ("X: " + "x" * PATIENT.head, "X: yyyy\r\n" * (PATIENT.head // 5)):
            with connected(address, head(more=more + "\r\n")) as large:
                assert large.recv(100).startswith(b"HTTP/1.1 431")
        with connected(address, b"GET /healthz HTTP/1.1\r\nX: ") as endless:
            with suppress(OSError):
                for _ in range(64):
                    endless.sendall(b"x" * PATIENT.head)
            assert is_closed(endless)
        with connected(address, head(more="X: " + "x" * (PATIENT.head - 200) + "\r\n")) as fits:
            assert fits.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.slow
def test_the_command_survives_more_connections_than_it_may_open_files(shown: Lake) -> None:
    port = free_port_base()
    command = ["prlimit", "--nofile=256", str(Path(sys.executable).parent / "tidemark"),
               "--home", str(shown.home.path), "serve", "--port", str(port)]  # fmt: skip
    process = subprocess.Popen(command)
    address = f"127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 2 * SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError):
                if status(address, "/readyz"):
                    break
            time.sleep(0.1)
        with ExitStack() as idle:
            for _ in range(300):
                idle.enter_context(connected(address))
            assert status(address) == status(address, "/groups") == 200
    finally:
        process.terminate()
        process.wait(SECONDS)
