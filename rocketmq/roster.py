"""Who should be read: what a name server tells, and what is remembered of earlier looks."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

from rocketmq import admin
from rocketmq.answers import BrokerGroup, ClusterInfo
from rocketmq.client import RemotingClient
from rocketmq.errors import RequestTimeoutError
from rocketmq.problems import Problems
from rocketmq.reading import Reading
from rocketmq.rows import Problem
from rocketmq.target import ClusterTarget, Remembered
from rocketmq.typed import whole_milliseconds


@dataclass(slots=True, frozen=True)
class Roster:
    """Who should be read in a look.

    Attributes:
        cluster: its name.
        observed_at: when the look began.
        is_told: whether a name server answered. What is only remembered is not asked.
        readings: an empty one for every address that should answer.
    """

    cluster: str
    observed_at: datetime
    is_told: bool
    readings: list[Reading]


async def read_roster(client: RemotingClient, target: ClusterTarget, problems: Problems) -> Roster:
    """Ask the name server."""
    started = whole_milliseconds(datetime.now(UTC))
    endpoint, info = await _cluster_info(client, target, problems)
    readings = expected_readings(info, endpoint, target, problems)
    return Roster(_display_name(info, target), started, info is not None, readings)


def expected_readings(
    info: ClusterInfo | None, endpoint: str, target: ClusterTarget, problems: Problems
) -> list[Reading]:
    """An empty reading for every address that should answer, remembered ones included.

    The master of a broker group is its id 0; where 5.x lets a slave act for a dead master, the
    smallest id. A slave that does not act is never read for offsets: what it has is old.
    """
    groups = _groups(info, endpoint, target, problems)
    remembered = _remembered(groups, target)
    names = {group.broker for group in groups} | {broker for broker, _, _ in remembered}
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
    owners = {reading.address: reading.broker for reading in readings}
    led = {reading.broker for reading in readings if reading.is_master}
    listed = {group.broker: group.addresses for group in groups}
    for broker in sorted({broker for broker, _, _ in remembered}):
        own = [(broker_id, address) for name, broker_id, address in remembered if name == broker]
        for broker_id, address in _missing(listed.get(broker, {}), own):
            is_master = broker_id == 0 and broker not in led
            readings.append(
                Reading(
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


def _remembered(groups: Iterable[BrokerGroup], target: ClusterTarget) -> set[Remembered]:
    """What is known from earlier looks, also from those at this cluster in another way.

    Of those only broker groups that are not known otherwise: the nearest memory is the newest.
    """
    told = {(group.broker, address) for group in groups for address in group.addresses.values()}
    known = {broker for broker, _ in told} | {broker for broker, _, _ in target.remembered}
    more = {
        each
        for other in target.kin
        if told & {(broker, address) for broker, _, address in other}
        for each in other
        if each[0] not in known
    }
    return more.union(target.remembered)


def _missing(
    listed: Mapping[int, str], remembered: Iterable[tuple[int, str]]
) -> Iterator[tuple[int, str]]:
    """(id, address) of what is remembered of one broker group and is gone from its listing.

    An address whose id is held by one that is new to the group has moved there. Where a member has
    the id that was remembered too, roles were switched: a controller makes the slave it promotes
    id 0 (`ReplicasManager`). The one that led is then looked for under the smallest id the group
    was never seen to use, which under a controller is what it had before it was promoted itself.
    """
    remembered = sorted(remembered)
    known = {address for _, address in remembered}
    used = {broker_id for broker_id, _ in remembered}
    for broker_id, address in remembered:
        if address in listed.values():
            continue
        while listed.get(broker_id) in known:
            broker_id = next(number for number in count(1) if number not in used)
            used.add(broker_id)
        if broker_id not in listed:
            yield broker_id, address


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


def _display_name(info: ClusterInfo | None, target: ClusterTarget) -> str:
    known = "+".join(sorted(info.clusters)) if info else ""
    fallback = target.name_servers[0] if target.name_servers else "unknown"
    return target.name or target.cluster or known or fallback
