"""Brokers' Prometheus endpoints: the samples of a real page, and faults of endpoints."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tidemark.rocketmq.deep import broker_metrics
from tidemark.rocketmq.deep.broker_metrics import (
    BrokerMetrics,
    MetricsEndpoint,
    Page,
    UnstoredSends,
    parsed,
    read_broker_metrics,
)
from tidemark.rocketmq.records import BrokerMetric, TopicMetric
from tidemark.rocketmq.snapshot.broker_reading import BrokerReading
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.wire.client import RemotingClient

PAGE = Path("tests/fixtures/rocketmq-5.5.0/metrics.txt").read_text()
OF_TIMERS = Path("tests/fixtures/rocketmq-5.5.1/metrics.txt").read_text()
"""Page of a broker with 7 and 3 messages that are due in an hour, and with 4 light queues."""

NOTHING = BrokerMetrics([], [], {})

RESPONSE = (
    'rocketmq_rpc_latency_milliseconds_count{{node_id="broker-a",request_code="{}",'
    'response_code="{}",result="{}"}} {}'
)
"""A line of brokers of 5.1 to 5.5, but for the labels of the cluster."""


def reading(port: int | str | None, kind: str = "PROM") -> BrokerReading:
    made = BrokerReading(broker="broker-a", broker_id=0, address="127.0.0.1:10911", is_master=True)
    made.config = {"metricsExporterType": kind}
    if port is not None:
        made.config["metricsPromExporterPort"] = str(port)
    return made


@contextmanager
def serving(
    page: bytes, status: int = 200, release: threading.Event | None = None, location: str = ""
) -> Iterator:
    requested: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested.append(self.path)
            if release:
                release.wait(30)
            self.send_response(status)
            if location:
                self.send_header("Location", location)
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


def read(*readings: BrokerReading, seconds: float = 10) -> tuple[BrokerMetrics, list]:
    problems = Problems()

    async def main() -> BrokerMetrics:
        async with RemotingClient() as client:
            return await read_broker_metrics(client, readings, problems, seconds)

    return asyncio.run(main()), problems.rows()


def test_a_real_page_gives_the_groups():
    with serving(PAGE.encode()) as (port, requested):
        metrics, problems = read(reading(port))
    assert metrics.groups == [
        BrokerMetric(
            broker="broker-a",
            consumer_group="g-slow",
            topic="lab_orders",
            lag=482,
            inflight=482,
            ready=0,
        )
    ]
    assert (metrics.topics, metrics.sends, problems) == ([], {}, [])
    assert requested == ["/metrics"]


def test_a_real_page_gives_timers():
    with serving(OF_TIMERS.encode()) as (port, _):
        metrics, problems = read(reading(port))
    timed = [TopicMetric("broker-a", "timed", 7), TopicMetric("broker-a", "timed-b", 3)]
    assert (metrics, problems) == (BrokerMetrics([], timed, {}), [])


@pytest.mark.parametrize(
    "lines",
    [
        ('rocketmq_consumer_lag_messages{consumer_group="g",topic="t"} 1e300',),
        ('rocketmq_timing_messages{topic="t"} 9e18',) * 2,
        (RESPONSE.format("send_message", "system_busy", "success", "9e18"),) * 2,
        (RESPONSE.format("send_message", "no_permission", "success", "9e18"),) * 2,
    ],
)
def test_counts_that_no_table_holds_are_refused(lines):
    """They would keep the whole snapshot from landing; this way they are a problem of it."""
    with pytest.raises(ValueError, match="64"):
        parsed("\n".join(lines))


def test_sends_that_were_not_stored_are_summed_over_codes():
    """Another request's response, and one of a stored message, is none of them."""
    lines = [
        RESPONSE.format("send_message_v2", "system_busy", "oneway", 149.0),
        RESPONSE.format("send_message", "system_busy", "success", 1.0),
        RESPONSE.format("send_batch_message", "message_illegal", "success", 3.0),
        RESPONSE.format("send_message_v2", "topic_not_exist", "success", 2.0),
        RESPONSE.format("send_message_v2", "success", "success", 1000.0),
        RESPONSE.format("send_message_v2", "flush_slave_timeout", "success", 7.0),
        RESPONSE.format("pull_message", "system_busy", "success", 20.0),
    ]
    assert parsed("\n".join(lines)).sends == UnstoredSends(refused=150, failed=5)
    assert parsed(lines[-1]).sends == UnstoredSends()
    assert parsed("").sends is None


def test_timers_of_a_topic_are_summed_over_storages():
    line = 'rocketmq_timing_messages{{storage_type="{}",topic="t"}} {}'
    assert parsed("\n".join([line.format("local", 5), line.format("rocksdb", 2)])).timers == {
        "t": 7
    }


@pytest.mark.parametrize(
    ("port", "kind", "endpoint"),
    [
        (None, "PROM", 5557),
        (7000, "PROM", 7000),
        (None, "DISABLE", None),
        ("x", "PROM", None),
        ("9" * 5000, "PROM", None),
    ],
)
def test_configuration_names_the_endpoint(port, kind, endpoint):
    metrics_endpoint = MetricsEndpoint.of(reading(port, kind))
    assert (metrics_endpoint and metrics_endpoint.port) == endpoint


def test_samples_of_retries_and_without_a_number_are_left_out():
    line = 'rocketmq_consumer_lag_messages{{consumer_group="g",is_retry="{}",topic="t"}} {}'
    page = "\n".join([line.format("true", 5), line.format("false", "NaN"), "another 1"])
    assert parsed(page) == Page()


def test_a_closed_port_is_a_problem():
    with serving(b"") as (port, _):
        pass
    metrics, (problem,) = read(reading(port))
    assert metrics == NOTHING
    assert problem.endpoint == f"127.0.0.1:{port}" and "refused" in problem.message


def test_a_redirect_is_not_followed():
    with serving(PAGE.encode()) as (port, requested):
        target = f"http://127.0.0.1:{port}/elsewhere"
        with serving(b"", status=302, location=target) as (first, _):
            metrics, (problem,) = read(reading(first))
    assert (metrics, requested) == (NOTHING, []) and "302" in problem.message


def test_a_refused_request_is_a_problem():
    with serving(b"", status=503) as (port, _):
        metrics, (problem,) = read(reading(port))
    assert metrics == NOTHING and "503" in problem.message


def test_a_hanging_endpoint_costs_its_time_limit():
    release = threading.Event()
    with serving(b"", release=release) as (port, _):
        metrics, (problem,) = read(reading(port), seconds=0.3)
        release.set()
    assert metrics == NOTHING and problem.message == "no response within 0.3 s"


def test_a_page_without_end_is_a_problem(monkeypatch):
    monkeypatch.setattr(broker_metrics, "LONGEST_PAGE", 1000)
    with serving(PAGE.encode() * 10) as (port, _):
        metrics, (problem,) = read(reading(port))
    assert metrics == NOTHING and "longer than" in problem.message


def test_a_broken_page_is_a_problem():
    with serving(b'rocketmq_consumer_lag_messages{consumer_group="g" 1 2 3') as (port, _):
        metrics, (problem,) = read(reading(port))
    assert metrics == NOTHING and problem.operation == "GET /metrics"


@pytest.mark.slow
def test_endpoints_that_hang_leave_threads_to_others():
    """By those threads the snapshots of all clusters land."""
    release, problems = threading.Event(), Problems()

    async def main(port: int) -> None:
        async with RemotingClient() as client:
            reads = asyncio.create_task(read_broker_metrics(client, [reading(port)] * 40, problems))
            await asyncio.sleep(0)
            try:
                await asyncio.wait_for(asyncio.to_thread(int), 5)
            finally:
                release.set()
            await reads

    with serving(b"", release=release) as (port, _):
        asyncio.run(main(port))
