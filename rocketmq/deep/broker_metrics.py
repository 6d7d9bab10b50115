"""What brokers with an endpoint for Prometheus report of their groups there: a further witness.

The endpoint reckons lag by a way of its own, which is no better than the offsets: see the page on
POP. It is read to be compared, and nothing is computed from it.
"""

import asyncio
import math
import time
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from urllib.error import HTTPError

from rocketmq.records import BrokerMetric, Problem
from rocketmq.snapshot.broker_reading import BrokerReading
from rocketmq.snapshot.problems import Problems
from rocketmq.wire.endpoint import split_endpoint

OPERATION = "GET /metrics"
DEFAULT_PORT = 5557  # `BrokerConfig.metricsPromExporterPort`
LONGEST_PAGE = 64 * 1024 * 1024
SECONDS = 10.0

AT_ONCE = 32
"""Endpoints read at a time; the others wait within the same seconds."""

COLUMNS = {
    "rocketmq_consumer_lag_messages": "lag",
    "rocketmq_consumer_inflight_messages": "inflight",
    "rocketmq_consumer_ready_messages": "ready",
}
"""By family the column of `BrokerMetric`."""

Groups = dict[tuple[str, str], dict[str, int]]
"""By consumer group and topic the columns of `BrokerMetric`."""


@dataclass(slots=True, frozen=True)
class MetricsEndpoint:
    """Where a master exposes its metrics.

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
        if config.get("metricsExporterType", "").upper() != "PROM" or not port.isdecimal():
            return None
        return cls(reading.broker, split_endpoint(reading.address)[0], int(port))

    @property
    def address(self) -> str:
        """``host:port``, with an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


async def read_broker_metrics(
    readings: Iterable[BrokerReading], problems: Problems, seconds: float = SECONDS
) -> list[BrokerMetric]:
    """Read the metrics of the groups from every master that exposes them.

    Args:
        readings: masters.
        problems: receives each endpoint that could not be read.
        seconds: the longest that one endpoint may take.

    Returns:
        One row per broker, group and topic, without the rows of retry topics.
    """
    endpoints = [found for reading in readings if (found := MetricsEndpoint.of(reading))]
    # Threads of its own: ports behind a firewall would take all of those by which snapshots land.
    pool = ThreadPoolExecutor(AT_ONCE, "broker-metrics")
    try:
        parts = (_groups(each, problems, seconds, pool) for each in endpoints)
        pages = await asyncio.gather(*parts)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return [
        BrokerMetric(endpoint.broker, group, topic, **values)
        for endpoint, groups in zip(endpoints, pages, strict=True)
        for (group, topic), values in groups.items()
    ]


async def _groups(
    endpoint: MetricsEndpoint, problems: Problems, seconds: float, pool: Executor
) -> Groups:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            return await loop.run_in_executor(pool, _read, endpoint.address, seconds)
    except TimeoutError:
        reason = f"no response within {seconds:.3g} s"
    except HTTPError as error:
        reason = str(error)
    except (OSError, ValueError, HTTPException) as error:
        reason = str(getattr(error, "reason", error))
    problems.add(Problem(endpoint.address, OPERATION, None, reason))
    return {}


def _read(address: str, seconds: float) -> Groups:
    # Built without the proxies of the environment: a broker is reached as its other ports are.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + seconds
    page = bytearray()
    with opener.open(f"http://{address}/metrics", timeout=seconds) as response:
        # In parts: the timeout is that of one part, and a page may come drop by drop.
        while part := response.read1():
            page += part
            if len(page) > LONGEST_PAGE:
                raise ValueError(f"the page is longer than {LONGEST_PAGE // 2**20} MiB")
            if time.monotonic() > deadline:
                raise TimeoutError
    return groups_of(page.decode(errors="replace"))


def groups_of(page: str) -> Groups:
    """Return what a page reports of groups on topics; of the rest of the page nothing is parsed.

    Raises:
        ValueError: a line of these families is not in Prometheus' format.
    """
    # Imported here: no other part of a snapshot needs it.
    from prometheus_client.parser import text_string_to_metric_families

    found: Groups = {}
    for family in text_string_to_metric_families("\n".join(_lines(page)) + "\n"):
        for sample in family.samples:
            labels = sample.labels
            if labels.get("is_retry") == "true" or not math.isfinite(sample.value):
                continue
            key = labels.get("consumer_group", ""), labels.get("topic", "")
            if all(key):
                found.setdefault(key, {})[COLUMNS[sample.name]] = int(sample.value)
    return found


def _lines(page: str) -> Iterator[str]:
    for line in page.splitlines():
        if line.partition("{")[0] in COLUMNS:
            yield line
