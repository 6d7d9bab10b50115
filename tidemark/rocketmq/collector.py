"""Collect one cluster: read every broker at once into one snapshot, without groups too large.

`collect` never fails: a failed request is a problem in the snapshot. Rows contain only reports of
brokers. On every broker consumer offsets are read before queue offsets.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

from tidemark.model.snapshots import SnapshotSource, SnapshotStatus
from tidemark.rocketmq.names import CONNECTIONS
from tidemark.rocketmq.records import TABLES, LeftOut, Problem, Snapshot
from tidemark.rocketmq.snapshot.assembly import fill
from tidemark.rocketmq.snapshot.broker_reading import BrokerReader, BrokerReading
from tidemark.rocketmq.snapshot.discovery import read_roster
from tidemark.rocketmq.snapshot.online import (
    Online,
    ProxyMembers,
    merged_online,
    online_at,
    read_proxies,
)
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import RequestCode
from tidemark.rocketmq.wire.pacing import Allowance

MOST_SUBSCRIPTIONS = 1_000_000
"""Subscriptions of all members of a snapshot: 10,000 members with 100 topics each."""

MOST_QUEUES = 1_000_000
"""Queues of the subscriptions of all groups of a snapshot."""

TEXT_OF_ONE = 100
"""Characters of expressions and tags that count as a subscription more."""


def leave_out_large_groups(
    online: Online, readings: Iterable[BrokerReading], problems: Problems
) -> Online:
    """Return online members without the groups beyond the limits, which one problem names.

    The smallest groups stay.

    Args:
        online: online members at any broker.
        readings: readings of masters, with their topics.
        problems: receives the groups that are left out. Their members are unknown then.
    """
    readings = list(readings)
    queues: Counter[str] = Counter()
    for reading in readings:
        for topic, config in (reading.topics or {}).items():
            queues[topic] += len(config.readable_queues)
    weights = {group: _weight(online, group, queues) for group in online}
    subscriptions = rows = 0
    left_out = []
    for group in sorted(weights, key=lambda group: (sum(weights[group]), group)):
        subscriptions, rows = subscriptions + weights[group][0], rows + weights[group][1]
        if subscriptions > MOST_SUBSCRIPTIONS or rows > MOST_QUEUES:
            left_out.append(group)
    for broker in {broker for group in left_out for broker in online[group]}:
        address = next(
            (
                broker_reading.address
                for broker_reading in readings
                if broker_reading.broker == broker
            ),
            broker,
        )
        groups = sorted(group for group in left_out if broker in online[group])
        message = (
            f"{len(groups)} groups are left out: the members of a snapshot have at most "
            f"{MOST_SUBSCRIPTIONS} subscriptions, to {MOST_QUEUES} queues"
        )
        problems.add(
            Problem(
                endpoint=address,
                operation=CONNECTIONS + " ".join(groups),
                code=None,
                message=message,
            )
        )
    return {group: online[group] for group in online.keys() - left_out}


def _weight(online: Online, group: str, queues: Counter[str]) -> tuple[int, int]:
    """Return the subscriptions of all members of a group, and the queues of these."""
    connections = online[group].values()
    members = sum(len(connection.connections) for connection in connections)
    merged = {topic: it for reported in connections for topic, it in reported.subscriptions.items()}
    expression_bytes = sum(
        len(it.expression or "") + sum(map(len, it.tags or ())) for it in merged.values()
    )
    weight = len(merged) + expression_bytes // TEXT_OF_ONE
    return members * weight, sum(queues[topic] for topic in merged)


async def collect(target: ClusterTarget) -> Snapshot:
    """Take one snapshot of a cluster.

    Args:
        target: the cluster, and the limits.

    Returns:
        A snapshot. It is ``COMPLETE`` when every expected address responded without any problem.
        It is ``FAILED`` when no name server or no master responded, and otherwise ``PARTIAL``. Its
        problems name the missing parts and the reasons.
    """
    problems = Problems()
    allowance = target.allowance()
    async with target.client(target.total_timeout, allowance=allowance) as client:
        roster = await read_roster(client, target, problems)
        snapshot = Snapshot(
            cluster=roster.cluster, source=SnapshotSource.REMOTE, observed_at=roster.observed_at
        )
        snapshot.transport = target.security.transport
        readings = roster.readings
        groups: set[str] = set()
        proxied = ProxyMembers()
        if roster.name_server_responded:
            groups = await _read_all(client, readings, problems, target)
            proxied = await read_proxies(client, target.proxies, groups, problems)
        snapshot.requests, snapshot.bytes = client.requests, client.bytes
    readings = _without_replaced_brokers(readings, target.cluster, problems)
    for reading in readings:
        for operation, message in reading.invalid_offsets():
            problems.add(
                Problem(endpoint=reading.address, operation=operation, code=None, message=message)
            )
        if roster.lists_brokers:
            _add_other_cluster(reading, problems)
        _add_unknown_parts(reading, problems)
        _add_unknown_topics(reading, problems)
        _add_unknown_members(reading, groups, problems)
    masters = [reading for reading in readings if reading.is_master and reading.responded]
    online = merged_online([online_at(masters), proxied.online])
    online = leave_out_large_groups(online, masters, problems)
    fill(snapshot, readings, online)
    snapshot.left_out = [
        LeftOut("lite_topics", reading.address, reading.lite_topics_left_out)
        for reading in masters
        if reading.lite_topics_left_out
    ]
    if target.deep:
        await _add_deep_part(
            target, target.deep, snapshot, readings, problems, online, allowance=allowance
        )
    _conclude(snapshot, readings, problems, proxied, roster.left_out)
    return snapshot


def collect_snapshot(target: ClusterTarget) -> Snapshot:
    """`collect` for code without an event loop."""
    snapshots: list[Snapshot] = []

    async def main() -> None:
        # Not returned: restoring the signal handler, asyncio.run of Python 3.11 writes out the task
        # with its result. For a large snapshot that takes as long as the collection itself.
        snapshots.append(await collect(target))

    asyncio.run(main())
    return snapshots[0]


async def _add_deep_part(
    target: ClusterTarget,
    options: DeepOptions,
    snapshot: Snapshot,
    readings: list[BrokerReading],
    problems: Problems,
    online: Online,
    *,
    allowance: Allowance,
) -> None:
    """Add the deep part, with a transport and a time limit of its own."""
    # Imported here: a snapshot that is not deep (`tidemark lag`) is done before this import is.
    from tidemark.rocketmq.deep.deep_snapshot import read_deep

    async with target.client(options.total_timeout, options.client_reports, allowance) as client:
        await read_deep(client, snapshot, readings, options, problems, online)
        snapshot.requests += client.requests
        snapshot.bytes += client.bytes


async def _read_all(
    client: RemotingClient,
    readings: list[BrokerReading],
    problems: Problems,
    target: ClusterTarget,
) -> set[str]:
    """Read every address; return the groups of the cluster, requested from each master."""
    readers = [
        BrokerReader(
            client=client,
            reading=reading,
            problems=problems,
            counters=target.counters,
            max_lite_topics=target.max_lite_topics,
        )
        for reading in readings
    ]
    await asyncio.gather(*(reader.read() for reader in readers))
    masters = [
        reader for reader in readers if reader.reading.is_master and reader.reading.responded
    ]
    # A client may be connected to a broker that has neither configuration nor progress of its
    # group, so every master also gets requests for the groups that only other masters list.
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
    return groups


def _add_other_cluster(reading: BrokerReading, problems: Problems) -> None:
    """Add a problem for a broker that names a cluster other than the name server does.

    Name servers of two clusters may be configured as those of one, and brokers of two clusters may
    have one name.
    """
    cluster = (reading.config or {}).get("brokerClusterName")
    if not cluster or cluster == reading.cluster:
        return
    if cluster not in reading.deployment:
        listed = "which the name server does not list: check that all name servers are of one"
        message = f"{reading.broker} belongs to cluster {cluster}, {listed} cluster"
    elif reading.cluster is not None:
        listed = f"the name server lists it in {reading.cluster}"
        message = f"{reading.broker} belongs to cluster {cluster}, {listed}"
    else:
        return
    problems.add(
        Problem(
            endpoint=reading.address,
            operation=RequestCode.GET_BROKER_CONFIG.name,
            code=None,
            message=message,
        )
    )


def _add_unknown_parts(reading: BrokerReading, problems: Problems) -> None:
    """Add a problem for each part of a master that is missing and that no problem names.

    `Problems` keeps only the first of requests that fail alike. A broker whose progress is missing
    must not count as one whose progress was read.
    """
    if not (reading.is_master and reading.responded):
        return
    named = problems.operations_at(reading.address)
    parts = {
        RequestCode.GET_ALL_CONSUMER_OFFSET: reading.offsets,
        RequestCode.GET_ALL_TOPIC_CONFIG: reading.topics,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: reading.groups,
    }
    for code, part in parts.items():
        if part is None and code.name not in named:
            problems.add(
                Problem(
                    endpoint=reading.address,
                    operation=code.name,
                    code=None,
                    message="failed with other requests",
                )
            )


def _add_unknown_topics(reading: BrokerReading, problems: Problems) -> None:
    """Add one problem that names the topics which our account may not read on this master.

    `Problems` keeps only the first denied request.
    """
    if not (reading.is_master and reading.responded and problems.is_denied_at(reading.address)):
        return
    missing = set(reading.topics_to_measure()) - reading.topic_stats.keys()
    request = f"{RequestCode.GET_TOPIC_STATS_INFO.name} "
    _add_unnamed(reading, problems, request, missing, "the offsets of {} topics are unknown")


def _add_unknown_members(reading: BrokerReading, groups: set[str], problems: Problems) -> None:
    """Add one problem that names the groups whose members on this master are unknown.

    `Problems` keeps only the first of requests that fail alike. The groups of the other requests
    must not count as groups without members.
    """
    missing = groups - reading.connections.keys()
    if missing and reading.is_master and reading.responded:
        message = "the online members of {} groups are unknown"
        _add_unnamed(reading, problems, CONNECTIONS, missing, message)


def _add_unnamed(
    reading: BrokerReading, problems: Problems, request: str, missing: set[str], message: str
) -> None:
    """Add one problem for those subjects of a request that no problem of the broker names.

    Args:
        reading: of the broker.
        problems: of the snapshot.
        request: how a problem names the request; the subject follows.
        missing: the subjects without a response.
        message: of the problem, with ``{}`` for how many they are.
    """
    named = problems.operations_at(reading.address)
    unnamed = [subject for subject in sorted(missing) if request + subject not in named]
    if unnamed:
        operation = request + " ".join(unnamed)
        problems.add(
            Problem(
                endpoint=reading.address,
                operation=operation,
                code=None,
                message=message.format(len(unnamed)),
            )
        )


def _without_replaced_brokers(
    readings: list[BrokerReading], cluster: str | None, problems: Problems
) -> list[BrokerReading]:
    """Empty the readings of addresses where another broker responds than the expected one.

    A broker that moved may still be remembered at its old address. A broker may take over an
    address before the name server lists it there. For two brokers of one name, the name server has
    the address of the one that registered last, which may belong to another cluster.

    Args:
        readings: of all addresses.
        cluster: the requested cluster; None for all that the name servers list.
        problems: receives each broker that is another one.
    """
    result = []
    for reading in readings:
        config = reading.config or {}
        serving = reading.taken_by or config.get("brokerName", reading.broker)
        own_cluster = config.get("brokerClusterName")
        message = None
        if serving != reading.broker:
            message = f"{reading.broker} {reading.broker_id} is gone, {serving} has its address now"
        elif cluster is not None and own_cluster not in (None, cluster):
            message = f"{reading.broker} at this address is of cluster {own_cluster}, not {cluster}"
        if message:
            problems.add(
                Problem(
                    endpoint=reading.address,
                    operation="GET_BROKER_CONFIG",
                    code=None,
                    message=message,
                )
            )
            reading = reading.emptied()
        result.append(reading)
    return result


def _conclude(
    snapshot: Snapshot,
    readings: list[BrokerReading],
    problems: Problems,
    proxied: ProxyMembers,
    left_out: int,
) -> None:
    """Fill the header; a snapshot with more problems than it may name keeps no row.

    Args:
        snapshot: the snapshot.
        readings: of every expected address.
        problems: the failed requests.
        proxied: the report of proxies.
        left_out: expected addresses that were not read.
    """
    snapshot.problems = problems.rows()
    snapshot.brokers_expected = len(readings) + left_out
    snapshot.brokers_answered = sum(reading.responded for reading in readings)
    snapshot.proxies_answered, snapshot.proxies = proxied.responded, proxied.proxies
    if problems.left_out:
        for table in TABLES:
            setattr(snapshot, table, [])
        snapshot.status = SnapshotStatus.FAILED
    elif not any(reading.is_master and reading.responded for reading in readings):
        snapshot.status = SnapshotStatus.FAILED
    elif snapshot.problems or snapshot.brokers_answered < snapshot.brokers_expected:
        snapshot.status = SnapshotStatus.PARTIAL
    else:
        snapshot.status = SnapshotStatus.COMPLETE
    snapshot.finished_at = datetime.now(UTC)
