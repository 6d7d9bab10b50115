"""Discovery: the broker addresses to read, from name servers and from earlier snapshots."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.admin.responses import BrokerGroup, ClusterInfo
from tidemark.rocketmq.records import Problem
from tidemark.rocketmq.snapshot.broker_reading import BrokerReading
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.snapshot.target import ClusterTarget, Remembered
from tidemark.rocketmq.typed_values import whole_milliseconds
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import RequestTimeoutError

OPERATION = "GET_BROKER_CLUSTER_INFO"

OTHERS_SECONDS = 1.0
"""Longest wait for the other name servers, once one has listed brokers.

All get the request at the same time, so a dead one delays a snapshot by no more than this.
"""


@dataclass(slots=True, frozen=True, kw_only=True)
class Roster:
    """The broker addresses to read in one snapshot.

    Attributes:
        cluster: name of the cluster.
        observed_at: start of the snapshot.
        name_server_responded: whether a name server responded. If none did, remembered addresses
            get no request.
        readings: an empty one for every address that should respond.
        left_out: number of readings at the end beyond the limit of a snapshot.
        lists_brokers: whether a name server listed any broker. After its start it lists none for
            half a minute.
    """

    cluster: str
    observed_at: datetime
    name_server_responded: bool
    readings: list[BrokerReading]
    left_out: int
    lists_brokers: bool


async def read_roster(client: RemotingClient, target: ClusterTarget, problems: Problems) -> Roster:
    """Read the lists of brokers from all name servers, and unite them."""
    started = whole_milliseconds(datetime.now(UTC))
    listings = await _listings(client, target, problems)
    info = united(listings.values()) if listings else None
    endpoint = next(iter(listings), target.name_servers[0] if target.name_servers else "")
    readings = expected_readings(info, endpoint, target, problems)
    for problem in differences(listings, {reading.broker for reading in readings}):
        problems.add(problem)
    lists_brokers = bool(info and info.brokers)
    name = _display_name(info, target)
    left_out = max(0, len(readings) - target.max_brokers)
    readings = readings[: target.max_brokers]
    return Roster(
        cluster=name,
        observed_at=started,
        name_server_responded=info is not None,
        readings=readings,
        left_out=left_out,
        lists_brokers=lists_brokers,
    )


def united(listings: Iterable[ClusterInfo]) -> ClusterInfo:
    """Return the listings of several name servers, united.

    A broker registers at each of them separately, so one may lack brokers that another lists. Where
    two list different addresses of one broker, the first counts, and `differences` reports it.
    """
    brokers: dict[str, BrokerGroup] = {}
    clusters: dict[str, list[str]] = {}
    for listing in listings:
        for name, group in listing.brokers.items():
            known = brokers.setdefault(name, group)
            acting = known.acting_master or group.acting_master
            addresses = group.addresses | known.addresses
            brokers[name] = BrokerGroup(
                broker=name, cluster=known.cluster, addresses=addresses, acting_master=acting
            )
        for cluster, names in listing.clusters.items():
            clusters[cluster] = list(dict.fromkeys([*clusters.get(cluster, ()), *names]))
    return ClusterInfo(brokers, clusters)


def differences(listings: Mapping[str, ClusterInfo], brokers: Set[str]) -> Iterator[Problem]:
    """Yield one problem for each name server that lacks brokers which another one lists.

    Args:
        listings: by endpoint.
        brokers: the broker groups of the target cluster; others may differ.
    """
    everything = united(listings.values()).brokers
    expected = {
        (broker, broker_id, address)
        for broker in brokers & everything.keys()
        for broker_id, address in everything[broker].addresses.items()
    }
    for endpoint, info in listings.items():
        own = {
            (group.broker, broker_id, address)
            for group in info.brokers.values()
            for broker_id, address in group.addresses.items()
        }
        if missing := sorted(expected - own):
            broker, broker_id, address = missing[0]
            yield _listing(
                endpoint,
                f"does not list {len(missing)} of {len(expected)} broker addresses that other name "
                f"servers list, such as {broker} {broker_id} at {address}",
            )


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
            BrokerReading(
                broker=group.broker,
                broker_id=broker_id,
                address=address,
                is_master=broker_id == master,
                deployment=deployment,
                cluster=target.cluster or group.cluster,
            )
            for broker_id, address in sorted(group.addresses.items())
        ]
    owners = {reading.address: reading.broker for reading in readings}
    led = {reading.broker for reading in readings if reading.is_master}
    listed = {group.broker: group.addresses for group in groups}
    own: dict[str, list[tuple[int, str]]] = {}
    for broker, broker_id, address in remembered:
        own.setdefault(broker, []).append((broker_id, address))
    for broker in sorted(own):
        for broker_id, address in _missing(listed.get(broker, {}), own[broker]):
            is_master = broker_id == 0 and broker not in led
            readings.append(
                BrokerReading(
                    broker=broker,
                    broker_id=broker_id,
                    address=address,
                    is_master=is_master,
                    deployment=deployment,
                    cluster=target.cluster,
                    taken_by=owners.get(address),
                )
            )
            led |= {broker} if is_master else set()
    for group in groups:
        if group.broker not in led:
            message = f"{group.broker} has no master, only slaves are registered"
            problems.add(_listing(endpoint, message))
    if len(readings) > target.max_brokers:
        message = (
            f"{len(readings)} broker addresses: {len(readings) - target.max_brokers} are left out "
            "(max_brokers in clusters.yaml)"
        )
        problems.add(_listing(endpoint, message))
    return readings


def _remembered(
    groups: Iterable[BrokerGroup], elsewhere: Set[str], target: ClusterTarget
) -> set[Remembered]:
    """Return the brokers of earlier snapshots, also of snapshots under another cluster name.

    The latter add only broker groups that are not known otherwise: the memory of this name is the
    newest. A snapshot of all clusters of a name server is no snapshot of this one.

    Args:
        groups: the broker groups of the target cluster.
        elsewhere: the broker groups that the name server lists in its other clusters.
        target: the target with its remembered brokers.
    """
    own = {entry for entry in target.remembered if entry[0] not in elsewhere}
    listed = {(group.broker, address) for group in groups for address in group.addresses.values()}
    known = {broker for broker, _ in listed} | {broker for broker, _, _ in own}
    more: set[Remembered] = set()
    for other in target.kin:
        of_other = {broker for broker, _, _ in other}
        is_kin = not listed.isdisjoint((broker, address) for broker, _, address in other)
        if is_kin and of_other.isdisjoint(elsewhere):
            more |= {entry for entry in other if entry[0] not in known}
            known |= of_other  # two memories may have one broker at different addresses
    return own | more


def _missing(
    listed: Mapping[int, str], remembered: Iterable[tuple[int, str]]
) -> Iterator[tuple[int, str]]:
    """Yield (id, address) of members of a broker group that are remembered but no longer listed.

    Where an address new to the group has the id, the broker has moved there. Where a remembered
    member has the id, roles were switched: a controller gives id 0 to the slave it promotes
    (`ReplicasManager`). The former master is then expected under the smallest id that the group was
    never seen to use. Under a controller that is the id it had before its own promotion.
    """
    remembered, taken = sorted(remembered), set[int]()
    addresses = set(listed.values())
    known = {address for _, address in remembered}
    used = {broker_id for broker_id, _ in remembered}
    for broker_id, address in remembered:
        if address in addresses:
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
    clusters_of = info.clusters_by_broker()
    for group in groups:
        several = clusters_of[group.broker]
        if len(several) > 1 and target.cluster in {None, *several}:
            message = f"{group.broker} is in the clusters {', '.join(sorted(several))}: brokers of"
            problems.add(_listing(endpoint, f"{message} one name server need names of their own"))
    if target.cluster is None:
        return groups
    chosen = [group for group in groups if target.cluster in clusters_of[group.broker]]
    if groups and not chosen:
        known = ", ".join(sorted(info.clusters))
        problems.add(_listing(endpoint, f"no cluster {target.cluster!r} here, only {known}"))
    return chosen


def _listing(endpoint: str, message: str) -> Problem:
    return Problem(endpoint=endpoint, operation=OPERATION, code=None, message=message)


async def _listings(
    client: RemotingClient, target: ClusterTarget, problems: Problems
) -> dict[str, ClusterInfo]:
    """Return the listing of each name server by endpoint, in their configured order.

    All get the request at once and have half of the time; the other half is left for the brokers.
    """
    clock = asyncio.get_running_loop().time
    started = clock()
    until = started + target.total_timeout / 2
    tasks = {
        endpoint: asyncio.create_task(admin.broker_cluster_info(client, endpoint))
        for endpoint in target.name_servers
    }
    waiting, lists_brokers = set(tasks.values()), False
    try:
        while waiting and (left := until - clock()) > 0:
            done, waiting = await asyncio.wait(
                waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
            if not lists_brokers and any(map(_lists_brokers, done)):
                lists_brokers, until = True, min(until, clock() + OTHERS_SECONDS)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    cluster_infos: dict[str, ClusterInfo] = {}
    for endpoint, task in tasks.items():
        with problems:
            if task in waiting:
                reason = f"no response within {until - started:.3g} s"
                raise RequestTimeoutError(endpoint, OPERATION, reason)
            cluster_infos[endpoint] = task.result()
    return cluster_infos


def _lists_brokers(task: "asyncio.Task[ClusterInfo]") -> bool:
    return task.exception() is None and bool(task.result().brokers)


def _display_name(info: ClusterInfo | None, target: ClusterTarget) -> str:
    known = "+".join(sorted(info.clusters)) if info else ""
    fallback = target.name_servers[0] if target.name_servers else "unknown"
    return target.name or target.cluster or known or target.last_name or fallback
