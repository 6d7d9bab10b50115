"""One look at one cluster: every broker at once, everything that can be read cheaply.

`collect` never fails: what could not be read is a problem in the snapshot, and rows are only what
brokers said. Consumer offsets are read before queue offsets on every broker.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from rocketmq import admin
from rocketmq.answers import BrokerGroup, ClusterInfo
from rocketmq.assembly import fill
from rocketmq.client import RemotingClient
from rocketmq.deep.options import DeepOptions
from rocketmq.errors import RequestTimeoutError
from rocketmq.problems import Problems
from rocketmq.reading import Reader, Reading
from rocketmq.rows import Problem, Snapshot
from rocketmq.security import PLAIN, Security
from rocketmq.typed import whole_milliseconds


@dataclass(slots=True, frozen=True)
class ClusterTarget:
    """What to look at, and how long to wait for it.

    Attributes:
        name_servers: ``host:port``, asked in this order until one answers.
        name: what Tidemark calls the cluster; None for RocketMQ's own name.
        cluster: RocketMQ's name of the cluster to look at, where a name server knows several; None
            takes all brokers it knows (and joins the clusters' names by ``+`` when nothing else
            names them).
        remembered: (broker, broker id, address) known from earlier looks. A broker that was killed
            vanishes from the name server at once; it is then tried at its old address, and is a
            hole in the snapshot when it does not answer.
        connect_timeout: seconds for one connection.
        request_timeout: seconds for one answer.
        total_timeout: seconds after which nothing is waited for any more.
        in_flight: requests under way at one broker at a time; a broker that is busy or slow gets
            fewer, see `rocketmq.pacing`.
        max_requests: requests to one broker in one look at most, None for no limit; what is then
            not asked is a problem in the snapshot.
        security: account and encryption.
        counters: also ask each address for its own counters (28), from which most of ``brokers``
            comes; a busy broker takes longer for it than for all else together.
        deep: also ask what takes a question each, see `rocketmq.deep`; None for not. It has a time
            limit of its own, after ``total_timeout``.
    """

    name_servers: tuple[str, ...]
    name: str | None = None
    cluster: str | None = None
    remembered: tuple[tuple[str, int, str], ...] = ()
    connect_timeout: float = 2.0
    request_timeout: float = 3.0
    total_timeout: float = 8.0
    in_flight: int = 64
    max_requests: int | None = None
    security: Security = PLAIN
    counters: bool = True
    deep: DeepOptions | None = None


async def collect(target: ClusterTarget) -> Snapshot:
    """Look at a cluster once.

    Returns:
        A snapshot. ``COMPLETE`` when every expected address answered and nothing went wrong;
        ``FAILED`` when no name server or no master answered; else ``PARTIAL``. Its problems say
        what is missing and why.
    """
    snapshot = Snapshot("", "remote", whole_milliseconds(datetime.now(UTC)))
    snapshot.transport = target.security.transport
    problems = Problems()
    async with _client(target, target.total_timeout) as client:
        endpoint, info = await _cluster_info(client, target, problems)
        readings = expected_readings(info, endpoint, target, problems)
        snapshot.cluster = _display_name(info, target)
        if info:
            await _read_all(client, readings, problems, counters=target.counters)
        snapshot.requests, snapshot.bytes = client.requests, client.bytes
    readings = _without_strangers(readings, problems)
    for reading in readings:
        for operation, message in reading.impossible():
            problems.add(Problem(reading.address, operation, None, message))
    fill(snapshot, readings)
    if target.deep:
        # Imported here: a shallow look, as of `tidemark lag`, answers before it would be.
        from rocketmq.deep.reader import look_deep

        async with _client(target, target.deep.total_timeout, target.deep.ask_clients) as client:
            await look_deep(client, snapshot, readings, target.deep, problems)
            snapshot.requests += client.requests
            snapshot.bytes += client.bytes
    snapshot.problems = problems.rows()
    snapshot.brokers_expected = len(readings)
    snapshot.brokers_answered = sum(reading.answered for reading in readings)
    snapshot.status = _status(snapshot, readings)
    snapshot.finished_at = datetime.now(UTC)
    return snapshot


def collect_snapshot(target: ClusterTarget) -> Snapshot:
    """`collect` for code without an event loop."""
    found: list[Snapshot] = []

    async def look() -> None:
        # Not returned: restoring the signal handler, asyncio.run of Python 3.11 writes out the task
        # with its result, which for a large snapshot takes as long as the look itself.
        found.append(await collect(target))

    asyncio.run(look())
    return found[0]


def _client(
    target: ClusterTarget, total_timeout: float, ask_clients: bool = False
) -> RemotingClient:
    return RemotingClient(
        connect_timeout=target.connect_timeout,
        request_timeout=target.request_timeout,
        total_timeout=total_timeout,
        in_flight=target.in_flight,
        max_requests=target.max_requests,
        security=target.security,
        ask_clients=ask_clients,
    )


def expected_readings(
    info: ClusterInfo | None, endpoint: str, target: ClusterTarget, problems: Problems
) -> list[Reading]:
    """An empty reading for every address that should answer, remembered ones included.

    The master of a broker group is its id 0; where 5.x lets a slave act for a dead master, the
    smallest id. A slave that does not act is never read for offsets: what it has is old.
    """
    groups = _groups(info, endpoint, target, problems)
    names = {group.broker for group in groups} | {broker for broker, _, _ in target.remembered}
    deployment = frozenset(names | (set(info.clusters) if info else set()))
    readings = []
    for group in groups:
        master = 0
        if group.acting_master and group.addresses:
            master = min(group.addresses)
        readings += [
            Reading(group.broker, broker_id, address, broker_id == master, deployment)
            for broker_id, address in sorted(group.addresses.items())
        ]
    listed = {(reading.broker, reading.broker_id) for reading in readings}
    led = {reading.broker for reading in readings if reading.is_master}
    for broker, broker_id, address in target.remembered:
        if (broker, broker_id) not in listed:
            is_master = broker_id == 0 and broker not in led
            readings.append(
                Reading(broker, broker_id, address, is_master, deployment, is_listed=False)
            )
            led |= {broker} if is_master else set()
    for group in groups:
        if group.broker not in led:
            message = f"{group.broker} has no master, only slaves are registered"
            problems.add(_listing(endpoint, message))
    return readings


def _groups(
    info: ClusterInfo | None, endpoint: str, target: ClusterTarget, problems: Problems
) -> list[BrokerGroup]:
    """The broker groups of the cluster looked at."""
    if info is None:
        return []
    groups = sorted(info.brokers.values(), key=lambda group: group.broker)
    if not groups:
        problems.add(_listing(endpoint, "the name server lists no broker"))
    if target.cluster is None:
        return groups
    chosen = [group for group in groups if group.cluster == target.cluster]
    if groups and not chosen:
        known = ", ".join(sorted(info.clusters))
        problems.add(_listing(endpoint, f"no cluster {target.cluster!r} here, only {known}"))
    return chosen


def _listing(endpoint: str, message: str) -> Problem:
    return Problem(endpoint, "GET_BROKER_CLUSTER_INFO", None, message)


async def _cluster_info(
    client: RemotingClient, target: ClusterTarget, problems: Problems
) -> tuple[str, ClusterInfo | None]:
    """Who is in the cluster, from the first name server that answers.

    Each may take an equal share of the time, with one left for the brokers: else a silent first one
    would cost a short look all of it.
    """
    clock = asyncio.get_running_loop().time
    until, servers = clock() + target.total_timeout, target.name_servers
    for left, endpoint in zip(range(len(servers), 0, -1), servers, strict=True):
        share = (until - clock()) / (left + 1)
        with problems:
            try:
                async with asyncio.timeout(share):
                    return endpoint, await admin.broker_cluster_info(client, endpoint)
            except TimeoutError:
                operation, reason = "GET_BROKER_CLUSTER_INFO", f"no answer within {share:.3g} s"
                raise RequestTimeoutError(endpoint, operation, reason) from None
    return servers[0] if servers else "", None


async def _read_all(
    client: RemotingClient, readings: list[Reading], problems: Problems, *, counters: bool
) -> None:
    readers = [Reader(client, reading, problems, counters) for reading in readings]
    await asyncio.gather(*(reader.read() for reader in readers))
    masters = [reader for reader in readers if reader.reading.is_master and reader.reading.answered]
    # A client may be connected to a broker that has neither configuration nor progress of its
    # group: ask every master for the groups only others know.
    groups = {group for reader in masters for group in reader.reading.known_groups()}
    await asyncio.gather(
        *(reader.read_connections(groups - reader.reading.known_groups()) for reader in masters)
    )
    leading = {reader.reading.broker: reader.reading for reader in masters}
    await asyncio.gather(
        *(
            reader.read_pulls(leading[reader.reading.broker])
            for reader in readers
            if not reader.reading.is_master and reader.reading.broker in leading
        )
    )


def _without_strangers(readings: list[Reading], problems: Problems) -> list[Reading]:
    """Empty the readings of addresses where another broker answers than was looked for there.

    One that moved may be remembered there; one that took over an address may be behind it before
    the name server has heard.
    """
    addresses = {reading.address for reading in readings if reading.is_listed}
    kept = []
    for reading in readings:
        found = (reading.config or {}).get("brokerName", reading.broker)
        taken = reading.address in addresses and not reading.is_listed
        if found != reading.broker or taken:
            message = f"{reading.broker} {reading.broker_id} is gone, {found} has its address now"
            problems.add(Problem(reading.address, "GET_BROKER_CONFIG", None, message))
            reading = reading.emptied()
        kept.append(reading)
    return kept


def _display_name(info: ClusterInfo | None, target: ClusterTarget) -> str:
    known = "+".join(sorted(info.clusters)) if info else ""
    fallback = target.name_servers[0] if target.name_servers else "unknown"
    return target.name or target.cluster or known or fallback


def _status(snapshot: Snapshot, readings: list[Reading]) -> str:
    if not any(reading.is_master and reading.answered for reading in readings):
        return "FAILED"
    if snapshot.problems or snapshot.brokers_answered < snapshot.brokers_expected:
        return "PARTIAL"
    return "COMPLETE"
