"""A request costs at most in proportion to its length, and its length is bounded.

One expression that tries blanks from each place makes the work grow with the square of a text,
which nobody sees with short texts. So every route gets texts far longer than the board accepts.
"""

import asyncio
import gc
import json
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest
from anyio import to_thread
from fastapi.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from tests.support.asgi import respond
from tidemark.board import data_files
from tidemark.board.application import SWITCH_SECONDS, THREADS, application
from tidemark.board.data_files import session
from tidemark.board.middleware import WAITING_REFUSALS, Limits, RefusalsMiddleware
from tidemark.board.store import Store
from tidemark.board.views import live
from tidemark.lake.catalog import Lake


@pytest.mark.slow
def test_no_expression_takes_the_square_of_a_text() -> None:
    """The patterns read requests and globs, text of brokers, clients and files, and errors."""
    done = subprocess.run(
        ["prlimit", "--cpu=120", sys.executable, "-m", "tests.support.hostile_patterns"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr[-2000:] or f"it does not end: {lines[-1]}"
    tried = [json.loads(line) for line in lines if line.startswith("[")]
    assert len(tried) > 40
    assert {"board", "lake", "rocketmq"} <= {module.split(".")[1] for module, *_ in tried}
    assert [(module, text) for module, text, seconds in tried if seconds > 1] == []


def test_threads_that_compute_are_few_and_give_way(store: Store) -> None:
    """One thread serves all connections: it waited for the turn of each of the others."""
    before = sys.getswitchinterval()
    with TestClient(application(store), "http://127.0.0.1") as client:
        assert client.get("/healthz").status_code == 200
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
        assert client.portal
        limiter = client.portal.call(to_thread.current_default_thread_limiter)
        assert limiter.total_tokens == THREADS
        assert gc.get_freeze_count() > 0, "a search of all imported objects stops every thread"
    assert gc.get_freeze_count() == 0
    assert sys.getswitchinterval() == pytest.approx(before)


def test_a_refusal_takes_no_thread(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients may repeat a refused request, and all threads may be waiting for files."""
    monkeypatch.setattr(live, "WAITING", 0)
    end = threading.Event()
    with TestClient(application(store), "http://127.0.0.1") as client:
        assert client.portal
        busy = [
            client.portal.start_task_soon(to_thread.run_sync, end.wait, 60) for _ in range(THREADS)
        ]
        try:
            assert client.get("/api/v1/live/shop").status_code == 503
            assert client.get("/healthz").status_code == 200
            assert not any(future.done() for future in busy)
        finally:
            end.set()


@pytest.mark.parametrize(
    ("status", "path", "waits"),
    [(401, "/groups", True), (503, "/api/v1/live/shop", True), (200, "/groups", False),
     (404, "/groups", False), (503, "/readyz", False)],
)  # fmt: skip
def test_refusals_wait_and_not_too_many_of_them(status: int, path: str, waits: bool) -> None:
    """More of them would hold the connections that others need."""
    sent = []

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})

    async def send(message: Message) -> None:
        sent.append(message["status"])

    async def receive() -> Message:
        raise AssertionError("no body is read")

    async def respond_to_all() -> int:
        scope = {"type": "http", "path": path, "method": "GET", "headers": []}
        app = RefusalsMiddleware(refuse, lambda *refusal: None, ())
        tasks = [
            asyncio.create_task(app(scope, receive, send)) for _ in range(WAITING_REFUSALS + 1)
        ]
        await asyncio.sleep(0)
        at_once = len(sent)
        await asyncio.gather(*tasks)
        return at_once

    assert asyncio.run(respond_to_all()) == (1 if waits else WAITING_REFUSALS + 1)
    assert sent == [status] * (WAITING_REFUSALS + 1)


def test_readers_share_an_engine_until_it_fails() -> None:
    def zone() -> list[tuple[str]]:
        with session() as reading:
            return reading.execute("SELECT current_setting('TimeZone')").fetchall()

    engine = data_files._engine()
    assert zone() == [("UTC",)]
    assert data_files._engine() is engine
    with pytest.raises(duckdb.FatalException), session():
        raise duckdb.FatalException("the database has been invalidated")
    assert data_files._engine() is not engine
    assert zone() == [("UTC",)]


CPU_SECONDS = 10.0
"""Processor time of one request: linear work takes a hundredth of it, square work more than it."""


@pytest.mark.slow
def test_work_grows_with_the_length_of_a_request_and_not_faster(shown: Lake) -> None:
    command = [sys.executable, "-m", "tests.support.hostile_requests", str(shown.home.path)]
    done = subprocess.run(
        ["prlimit", "--cpu=300", *command],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:] or f"ended by signal {-done.returncode}"
    count, longest = done.stdout.split()
    assert int(count) > 300
    assert float(longest) < CPU_SECONDS


LIMITS = Limits()


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/?at=" + "x" * LIMITS.address, 414),
        ("/" + "x/" * (LIMITS.address // 2), 414),
        ("/api/v1/groups/" + "x" * (LIMITS.part + 1), 414),
        ("/api/v1/groups?q=" + "x" * (LIMITS.part + 1), 414),
        ("/api/v1/groups?" + "x" * (LIMITS.part + 1), 414),
        ("/api/v1/groups?q=" + "x" * LIMITS.part, 200),
        ("/api/v1/groups?" + "&" * LIMITS.parameters, 400),
        ("/api/v1/groups?" + "&".join(["q=1"] * LIMITS.parameters), 400),
    ],
)
def test_an_address_is_bounded(reader: TestClient, target: str, status: int) -> None:
    assert respond(reader.app, target)[0] == status


def test_a_refusal_is_as_strict_as_a_response(reader: TestClient) -> None:
    response = reader.get("/api/v1/groups?q=" + "x" * (LIMITS.part + 1))
    assert response.headers["content-type"] == "application/problem+json"
    assert "default-src 'none'" in response.headers["content-security-policy"]


def test_a_body_is_bounded_whatever_length_it_states(reader: TestClient) -> None:
    as_json = {"Content-Type": "application/json"}
    for length in (str(LIMITS.body + 1), "9" * 5000, "-1", "x"):
        headers = as_json | {"Content-Length": length}
        assert reader.post("/api/v1/silences", content=b"{}", headers=headers).status_code == 413
    chunks = (b"x" * 1000 for _ in range(LIMITS.body // 1000 + 1))
    assert reader.post("/api/v1/silences", content=chunks, headers=as_json).status_code == 413


def test_deep_json_is_a_mistake(reader: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    body = b"[" * (LIMITS.body - 1)
    assert reader.post("/api/v1/silences", content=body, headers=headers).status_code == 400


def test_a_silence_has_few_short_globs(reader: TestClient) -> None:
    for match in ({"rule": ["*a" * 600]}, {"rule": ["x"] * 101}):
        wanted = {"match": match, "duration": "1h", "comment": "a test"}
        response = reader.post("/api/v1/silences", json=wanted)
        assert response.status_code == 400 and "at most 100 globs" in response.text
