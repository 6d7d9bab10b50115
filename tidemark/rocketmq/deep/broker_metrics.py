"""Reports of brokers' Prometheus endpoints, as a second source besides the offsets.

The endpoint computes the lag of groups in its own way, which is no better than the offsets: see
the page on POP. It is read for comparison. Messages that wait for their time (timer messages) and
sends that a broker refused are reported nowhere else.
"""

import asyncio
import math
import re
import time
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from http.client import HTTPException, HTTPMessage
from itertools import islice
from typing import IO
from urllib.error import HTTPError

from tidemark.rocketmq.records import BrokerMetric, Problem, TopicMetric
from tidemark.rocketmq.snapshot.broker_reading import BrokerReading
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.typed_values import integer, optional, short_text
from tidemark.rocketmq.wire.addresses import split_endpoint
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import RemotingError

OPERATION = "GET /metrics"
DEFAULT_PORT = 5557  # `BrokerConfig.metricsPromExporterPort`
LONGEST_PAGE = 16 * 1024 * 1024

MOST_SAMPLES = 100_000
"""Samples of the families that are read of one page; parsing one takes some 20 microseconds."""

SECONDS = 10.0

AT_ONCE = 8
"""Endpoints read at a time, each in a thread; the others wait within the same seconds."""

COLUMNS = {
    "rocketmq_consumer_lag_messages": "lag",
    "rocketmq_consumer_inflight_messages": "inflight",
    "rocketmq_consumer_ready_messages": "ready",
}
"""The column of `BrokerMetric` by family."""

TIMERS = "rocketmq_timing_messages"
"""The messages of a topic that are stored and wait for their time (5.x)."""

RESPONSES = "rocketmq_rpc_latency_milliseconds_count"
"""Responses of a broker by request and code, in words (`RemotingMetricsManager`). It counts what it
refuses before a thread takes it, and nothing that `BrokerFastFailure` takes out of a queue."""

SENDS = frozenset({"send_message", "send_message_v2", "send_batch_message"})
STORED = frozenset({"success", "flush_disk_timeout", "flush_slave_timeout", "slave_not_available"})
"""Codes of responses to sends whose message is in the store."""

BUSY = "system_busy"

Groups = dict[tuple[str, str], dict[str, int]]
"""The columns of `BrokerMetric` by consumer group and topic."""


@dataclass(slots=True)
class Page:
    """The report of one endpoint.

    Attributes:
        groups: by consumer group and topic.
        timers: by topic the messages that wait for their time.
        sends: the sends that were not stored; None where it counts no responses.
    """

    groups: Groups = field(default_factory=dict)
    timers: dict[str, int] = field(default_factory=dict)
    sends: "UnstoredSends | None" = None


@dataclass(slots=True, frozen=True)
class UnstoredSends:
    """Send requests since the start of a broker whose messages it did not store.

    Attributes:
        refused: as it was busy.
        failed: for any other reason.
    """

    refused: int = 0
    failed: int = 0

    def with_responses(self, code: str, count: int) -> "UnstoredSends":
        """Return the sends together with further ones of one response code."""
        if code == BUSY:
            return replace(self, refused=integer(self.refused + count))
        return self if code in STORED else replace(self, failed=integer(self.failed + count))


@dataclass(slots=True, frozen=True)
class BrokerMetrics:
    """The reports of all endpoints.

    Attributes:
        groups: one row per broker, group and topic, without the rows of retry topics.
        topics: one row per broker and topic.
        sends: by broker.
    """

    groups: list[BrokerMetric]
    topics: list[TopicMetric]
    sends: dict[str, UnstoredSends]


_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)


@dataclass(slots=True, frozen=True)
class MetricsEndpoint:
    """The address at which a master exposes its metrics.

    Attributes:
        broker: name of its broker group.
        host: host of the broker's address.
        port: from the broker's configuration.
    """

    broker: str
    host: str
    port: int

    @classmethod
    def of(cls, reading: BrokerReading) -> "MetricsEndpoint | None":
        """Return the endpoint of a master; None where its configuration names none."""
        config = reading.config or {}
        port = config.get("metricsPromExporterPort", str(DEFAULT_PORT))
        if config.get("metricsExporterType", "").upper() != "PROM" or not _PORT.fullmatch(port):
            return None
        return cls(reading.broker, split_endpoint(reading.address)[0], int(port))

    @property
    def address(self) -> str:
        """``host:port``, with an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


async def read_broker_metrics(
    client: RemotingClient,
    readings: Iterable[BrokerReading],
    problems: Problems,
    seconds: float = SECONDS,
) -> BrokerMetrics:
    """Read the metrics of every master that exposes them.

    Args:
        client: the transport, which decides whether an address may be connected to.
        readings: masters.
        problems: receives each endpoint that could not be read.
        seconds: the longest time for one endpoint.
    """
    endpoints = [
        metrics_endpoint
        for reading in readings
        if (metrics_endpoint := MetricsEndpoint.of(reading))
    ]
    # Threads of its own: ports behind a firewall would take all of those by which snapshots land.
    pool = ThreadPoolExecutor(AT_ONCE, "broker-metrics")
    try:
        parts = (
            _page(client, metrics_endpoint, problems, seconds, pool)
            for metrics_endpoint in endpoints
        )
        read = await asyncio.gather(*parts)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    pages = [(endpoint.broker, page) for endpoint, page in zip(endpoints, read, strict=True)]
    return BrokerMetrics(
        [
            BrokerMetric(broker=broker, consumer_group=group, topic=topic, **values)
            for broker, page in pages
            for (group, topic), values in page.groups.items()
        ],
        [
            TopicMetric(broker, topic, messages)
            for broker, page in pages
            for topic, messages in page.timers.items()
        ],
        {broker: page.sends for broker, page in pages if page.sends is not None},
    )


async def _page(
    client: RemotingClient,
    endpoint: MetricsEndpoint,
    problems: Problems,
    seconds: float,
    pool: Executor,
) -> Page:
    loop = asyncio.get_running_loop()
    until = time.monotonic() + seconds
    try:
        async with asyncio.timeout(seconds):
            # Not by the thread: a resolver that hangs would keep it long after this snapshot.
            host, *_ = await client.addresses(endpoint.address)
            resolved = replace(endpoint, host=host).address
            read = partial(_read, resolved, endpoint.address, until)
            return await loop.run_in_executor(pool, read)
    except RemotingError as error:
        reason = error.reason
    except TimeoutError:
        reason = f"no response within {seconds:.3g} s"
    except HTTPError as error:
        reason = str(error)
    except (OSError, ValueError, HTTPException) as error:
        reason = str(getattr(error, "reason", error))
    problems.add(Problem(endpoint=endpoint.address, operation=OPERATION, code=None, message=reason))
    return Page()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, because their target is no endpoint of the broker."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        return None


def _read(address: str, name: str, until: float) -> Page:
    # Built without the proxies of the environment: a broker is reached as its other ports are.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
    page = bytearray()
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    request = urllib.request.Request(f"http://{address}/metrics", headers={"Host": name})
    with opener.open(request, timeout=seconds) as response:
        # The page is read in parts: the timeout applies to one part, and parts may be tiny.
        while part := response.read1():
            page += part
            if len(page) > LONGEST_PAGE:
                raise ValueError(f"the page is longer than {LONGEST_PAGE // 2**20} MiB")
            if time.monotonic() > until:
                raise TimeoutError
    return parsed(page.decode(errors="replace"))


def parsed(page: str) -> Page:
    """Return the samples of a page about groups and topics, without parsing the other families.

    Raises:
        ValueError: a line of these families is not in Prometheus' format, a name is too long, a
            count or a sum of counts has more than 64 bits, or there are more than `MOST_SAMPLES`.
    """
    # Imported here: no other part of a snapshot needs it.
    from prometheus_client.parser import text_string_to_metric_families

    result = Page()
    lines = list(islice(_lines(page), MOST_SAMPLES + 1))
    if len(lines) > MOST_SAMPLES:
        raise ValueError(f"the page has more than {MOST_SAMPLES} samples of groups and topics")
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            labels = sample.labels
            if labels.get("is_retry") == "true" or not math.isfinite(sample.value):
                continue
            group, topic = labels.get("consumer_group"), labels.get("topic")
            value = integer(int(sample.value))
            for known in (group, topic):
                optional(short_text, known)
            if sample.name == RESPONSES:
                result.sends = result.sends or UnstoredSends()
                if labels.get("request_code") in SENDS:
                    code = labels.get("response_code", "")
                    result.sends = result.sends.with_responses(code, value)
            elif sample.name == TIMERS and topic:
                # One sample per kind of storage.
                result.timers[topic] = integer(result.timers.get(topic, 0) + value)
            elif sample.name in COLUMNS and group and topic:
                result.groups.setdefault((group, topic), {})[COLUMNS[sample.name]] = value
    return result


_FAMILIES = {*COLUMNS, TIMERS, RESPONSES}


def _lines(page: str) -> Iterator[str]:
    for line in page.splitlines():
        if line.partition("{")[0] in _FAMILIES:
            yield line
