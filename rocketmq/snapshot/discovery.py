"""Discovery: the broker addresses to read, from the name server and from earlier snapshots."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

from rocketmq.admin import requests as admin
from rocketmq.admin.name_server import BrokerGroup, ClusterInfo
from rocketmq.records import Problem
from rocketmq.snapshot.broker_reading import BrokerReading
from rocketmq.snapshot.problems import Problems
from rocketmq.snapshot.target import ClusterTarget, Remembered
from rocketmq.typed_values import whole_milliseconds
from rocketmq.wire.client import RemotingClient
from rocketmq.wire.errors import RequestTimeoutError


@dataclass(slots=True, frozen=True)
class Roster:
    """The broker addresses to read in one snapshot.

    Attributes:
        cluster: name of the cluster.
        observed_at: start of the snapshot.
        name_server_responded: whether a name server responded. If none did, remembered addresses
            get no request.
        readings: an empty one for every address that should respond.
        lists_brokers: whether it listed any. After its start it lists none for half a minute.
    """

    cluster: str
    observed_at: datetime
    name_server_responded: bool
    readings: list[BrokerReading]
    lists_brokers: bool


async def read_roster(client: RemotingClient, target: ClusterTarget, problems: Problems) -> Roster:
    """Read the list of brokers from the first name server that responds."""
    started = whole_milliseconds(datetime.now(UTC))
    endpoint, info = await _cluster_info(client, target, problems)
    readings = expected_readings(info, endpoint, target, problems)
    lists_brokers = bool(info and info.brokers)
    name = _display_name(info, target)
    return Roster(name, started, info is not None, readings, lists_brokers)


def expected_readings(
    info: ClusterInfo | None, endpoint: str, target: ClusterTarget, problems: Problems
) -> list[BrokerReading]:
    """Return an empty reading for every address that should respond, remembered ones included.

    The master of a broker group is its id 0; where 5.x lets a slave act for a dead master, the
    smallest id. A slave that does not act is never read for offsets: its offsets are old.
    """
    groups = _groups(info, endpoint, target, problems)
    elsewhere = (info.brokers.keys() if info else set()) - {group.broker for group in groups}
    remembered = _remembered(groups, elsewhere, target)
    names = {group.broker for group in groups} | {broker for broker, _, _ in remembered}
    deployment = frozenset(names | (set(info.clusters) if info else set()))
    readings = []
    for group in groups:
        master = 0
        if group.acting_master and group.addresses:
            master = min(group.addresses)
        readings += [
            BrokerReading(group.broker, broker_id, address, broker_id == master, deployment)
            for broker_id, address in sorted(group.addresses.items())
        ]
    owners = {reading.address: reading.broker for reading in readings}
    led = {reading.broker for reading in readings if reading.is_master}
    listed = {group.broker: group.addresses for group in groups}
    for broker in sorted({broker for broker, _, _ in remembered}):
        own = [(broker_id, address) for name, broker_id, address in remembered if name == broker]
        for broker_id, address in _missing(listed.get(broker, {}), own):
            is_master = broker_id == 0 and broker not in led
            readings.append(
                BrokerReading(
                    broker,
                    broker_id,
                    address,
                    is_master,
                    deployment,
                    taken_by=owners.get(address),
                )
            )
            led |= {broker} if is_master else set()
    for group in groups:
        if group.broker not in led:
            message = f"{group.broker} has no master, only slaves are registered"
            problems.add(_listing(endpoint, message))
    return readings


def _remembered(
    groups: Iterable[BrokerGroup], elsewhere: Set[str], target: ClusterTarget
) -> set[Remembered]:
    """Return the brokers of earlier snapshots, also of snapshots under another cluster name.

    The latter add only broker groups that are not known otherwise: the memory of this name is the
    newest. A snapshot of all clusters of a name server is no snapshot of this one.

    Args:
        groups: those of the target cluster.
        elsewhere: the broker groups that the name server lists in its other clusters.
        target: what is remembered.
    """
    own = {each for each in target.remembered if each[0] not in elsewhere}
    listed = {(group.broker, address) for group in groups for address in group.addresses.values()}
    known = {broker for broker, _ in listed} | {broker for broker, _, _ in own}
    more: set[Remembered] = set()
    for other in target.kin:
        of_other = {broker for broker, _, _ in other}
        is_kin = not listed.isdisjoint((broker, address) for broker, _, address in other)
        if is_kin and of_other.isdisjoint(elsewhere):
            more |= {each for each in other if each[0] not in known}
            known |= of_other  # two memories may have one broker at different addresses
    return own | more


def _missing(
    listed: Mapping[int, str], remembered: Iterable[tuple[int, str]]
) -> Iterator[tuple[int, str]]:
    """Yield (id, address) remembered of one broker group and gone from its listing.

    Where an address new to the group has the id, the broker has moved there. Where a remembered
    member has the id, roles were switched: a controller gives id 0 to the slave it promotes
    (`ReplicasManager`). The former master is then expected under the smallest id that the group was
    never seen to use. Under a controller that is the id it had before its own promotion.
    """
    remembered, taken = sorted(remembered), set[int]()
    known = {address for _, address in remembered}
    used = {broker_id for broker_id, _ in remembered}
    for broker_id, address in remembered:
        if address in listed.values():
            continue
        while listed.get(broker_id) in known or broker_id in taken:
            broker_id = next(number for number in count(1) if number not in used)
            used.add(broker_id)
        if broker_id not in listed:
            taken.add(broker_id)
            yield broker_id, address


def _groups(
    info: ClusterInfo | None, endpoint: str, target: ClusterTarget, problems: Problems
) -> list[BrokerGroup]:
    """Return the broker groups of the target cluster."""
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
    """Return endpoint and brokers from the first name server that responds and lists any.

    One that has just started lists none until brokers register there again. Each gets an equal
    share of the time, and one share is left for the brokers. Else a first name server that does not
    respond could use up all the time.
    """
    clock = asyncio.get_running_loop().time
    until, servers = clock() + target.total_timeout, target.name_servers
    found: tuple[str, ClusterInfo | None] = servers[0] if servers else "", None
    for left, endpoint in zip(range(len(servers), 0, -1), servers, strict=True):
        share = (until - clock()) / (left + 1)
        with problems:
            try:
                async with asyncio.timeout(share):
                    info = await admin.broker_cluster_info(client, endpoint)
            except TimeoutError:
                operation, reason = "GET_BROKER_CLUSTER_INFO", f"no response within {share:.3g} s"
                raise RequestTimeoutError(endpoint, operation, reason) from None
            if info.brokers:
                return endpoint, info
            found = endpoint, info
    return found


def _display_name(info: ClusterInfo | None, target: ClusterTarget) -> str:
    known = "+".join(sorted(info.clusters)) if info else ""
    fallback = target.name_servers[0] if target.name_servers else "unknown"
    return target.name or target.cluster or known or target.last_name or fallback
