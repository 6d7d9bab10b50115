"""Brokers' endpoints for Prometheus: what is read of a real page, and what can go wrong."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rocketmq.deep import broker_metrics
from rocketmq.deep.broker_metrics import MetricsEndpoint, groups_of, read_broker_metrics
from rocketmq.records import BrokerMetric
from rocketmq.snapshot.broker_reading import BrokerReading
from rocketmq.snapshot.problems import Problems

PAGE = Path("tests/fixtures/rocketmq-5.5.0/metrics.txt").read_text()


def reading(port: int | str | None, kind: str = "PROM") -> BrokerReading:
    made = BrokerReading("broker-a", 0, "127.0.0.1:10911", is_master=True)
    made.config = {"metricsExporterType": kind}
    if port is not None:
        made.config["metricsPromExporterPort"] = str(port)
    return made


@contextmanager
def serving(page: bytes, status: int = 200, release: threading.Event | None = None) -> Iterator:
    requested: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested.append(self.path)
            if release:
                release.wait(30)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server.server_port, requested
    finally:
        server.shutdown()
        server.server_close()


def read(*readings: BrokerReading, seconds: float = 10) -> tuple[list[BrokerMetric], list]:
    problems = Problems()
    return asyncio.run(read_broker_metrics(readings, problems, seconds)), problems.rows()


def test_a_real_page_gives_the_groups():
    with serving(PAGE.encode()) as (port, requested):
        found = read(reading(port))
    assert found == ([BrokerMetric("broker-a", "g-slow", "lab_orders", 482, 482, 0)], [])
    assert requested == ["/metrics"]


@pytest.mark.parametrize(
    ("port", "kind", "endpoint"),
    [(None, "PROM", 5557), (7000, "PROM", 7000), (None, "DISABLE", None), ("x", "PROM", None)],
)
def test_configuration_names_the_endpoint(port, kind, endpoint):
    found = MetricsEndpoint.of(reading(port, kind))
    assert (found and found.port) == endpoint


def test_samples_of_retries_and_without_a_number_are_left_out():
    line = 'rocketmq_consumer_lag_messages{{consumer_group="g",is_retry="{}",topic="t"}} {}'
    page = "\n".join([line.format("true", 5), line.format("false", "NaN"), "another 1"])
    assert groups_of(page) == {}


def test_a_closed_port_is_a_problem():
    with serving(b"") as (port, _):
        pass
    found, (problem,) = read(reading(port))
    assert found == []
    assert problem.endpoint == f"127.0.0.1:{port}" and "refused" in problem.message


def test_a_refused_request_is_a_problem():
    with serving(b"", status=503) as (port, _):
        found, (problem,) = read(reading(port))
    assert found == [] and "503" in problem.message


def test_a_hanging_endpoint_costs_its_time_limit():
    release = threading.Event()
    with serving(b"", release=release) as (port, _):
        found, (problem,) = read(reading(port), seconds=0.3)
        release.set()
    assert found == [] and problem.message == "no response within 0.3 s"


def test_a_page_without_end_is_a_problem(monkeypatch):
    monkeypatch.setattr(broker_metrics, "LONGEST_PAGE", 1000)
    with serving(PAGE.encode() * 10) as (port, _):
        found, (problem,) = read(reading(port))
    assert found == [] and "longer than" in problem.message


def test_a_broken_page_is_a_problem():
    with serving(b'rocketmq_consumer_lag_messages{consumer_group="g" 1 2 3') as (port, _):
        found, (problem,) = read(reading(port))
    assert found == [] and problem.operation == "GET /metrics"


@pytest.mark.slow
def test_endpoints_that_hang_leave_threads_to_others():
    """By those threads the snapshots of all clusters land."""
    release, problems = threading.Event(), Problems()

    async def main(port: int) -> None:
        reads = asyncio.create_task(read_broker_metrics([reading(port)] * 40, problems))
        await asyncio.sleep(0)
        try:
            await asyncio.wait_for(asyncio.to_thread(int), 5)
        finally:
            release.set()
        await reads

    with serving(b"", release=release) as (port, _):
        asyncio.run(main(port))
