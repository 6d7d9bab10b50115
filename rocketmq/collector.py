"""One look at one cluster: every broker at once, everything that can be read cheaply.

`collect` never fails: what could not be read is a problem in the snapshot, and rows are only what
brokers said. Consumer offsets are read before queue offsets on every broker.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from rocketmq.assembly import fill
from rocketmq.client import RemotingClient
from rocketmq.names import CONNECTIONS
from rocketmq.problems import Problems
from rocketmq.reading import Reader, Reading
from rocketmq.roster import Roster, read_roster
from rocketmq.rows import Problem, Snapshot
from rocketmq.sharing import WHOLE, Exchange, Share, homes, online_at, online_at_all
from rocketmq.target import ClusterTarget


@dataclass(slots=True, frozen=True)
class Outcome:
    """How the part of a look that one process took ended.

    Attributes:
        problems: what it could not read.
        requests: frames sent.
        bytes: bytes received.
        expected: addresses that should answer.
        answered: addresses that did.
        masters: masters that did.
    """

    problems: list[Problem]
    requests: int
    bytes: int
    expected: int
    answered: int
    masters: int


async def collect(target: ClusterTarget, share: Share = WHOLE) -> Snapshot:
    """Look at a cluster once.

    Args:
        target: what to look at.
        share: which of its brokers are read here, where several processes share the look.

    Returns:
        A snapshot. ``COMPLETE`` when every expected address answered and nothing went wrong;
        ``FAILED`` when no name server or no master answered; else ``PARTIAL``. Its problems say
        what is missing and why. Each part of a shared look has the rows of its own brokers, and
        each client is a row of one part; all have the header of the whole.
    """
    problems = Problems()
    async with target.client(target.total_timeout) as client:
        asks = share.index == 0
        told = await share.exchange(await read_roster(client, target, problems) if asks else None)
        roster: Roster = told[0]
        snapshot = Snapshot(roster.cluster, "remote", roster.observed_at)
        snapshot.transport = target.security.transport
        readings = share.of(roster.readings)
        groups: set[str] = set()
        if roster.is_told:
            groups = await _read_all(client, readings, problems, target.counters, share.exchange)
        snapshot.requests, snapshot.bytes = client.requests, client.bytes
    readings = _without_strangers(readings, problems)
    for reading in readings:
        for operation, message in reading.impossible():
            problems.add(Problem(reading.address, operation, None, message))
        _add_unheard(reading, groups, problems)
    masters = [reading for reading in readings if reading.is_master and reading.answered]
    online = online_at_all(await share.exchange(online_at(masters)))
    fill(snapshot, readings, online)
    if target.deep:
        # Imported here: a shallow look, as of `tidemark lag`, answers before it would be.
        from rocketmq.deep.reader import look_deep

        async with target.client(target.deep.total_timeout, target.deep.ask_clients) as client:
            await look_deep(
                client, snapshot, readings, target.deep, problems, online, share.exchange
            )
            snapshot.requests += client.requests
            snapshot.bytes += client.bytes
    if share.count > 1:
        here, home = {reading.broker for reading in masters}, homes(online)
        snapshot.clients = [
            row for row in snapshot.clients if home[row.consumer_group, row.client_id] in here
        ]
    outcome = Outcome(
        problems.rows(),
        snapshot.requests,
        snapshot.bytes,
        len(readings),
        sum(reading.answered for reading in readings),
        len(masters),
    )
    _conclude(snapshot, await share.exchange(outcome))
    return snapshot


def collect_snapshot(target: ClusterTarget, share: Share = WHOLE) -> Snapshot:
    """`collect` for code without an event loop."""
    found: list[Snapshot] = []

    async def look() -> None:
        # Not returned: restoring the signal handler, asyncio.run of Python 3.11 writes out the task
        # with its result, which for a large snapshot takes as long as the look itself.
        found.append(await collect(target, share))

    asyncio.run(look())
    return found[0]


async def _read_all(
    client: RemotingClient,
    readings: list[Reading],
    problems: Problems,
    counters: bool,
    exchange: Exchange,
) -> set[str]:
    """Asks every address; returns the groups of the cluster, of which each master was asked."""
    readers = [Reader(client, reading, problems, counters) for reading in readings]
    await asyncio.gather(*(reader.read() for reader in readers))
    masters = [reader for reader in readers if reader.reading.is_master and reader.reading.answered]
    # A client may be connected to a broker that has neither configuration nor progress of its
    # group: ask every master for the groups only others know.
    known = {group for reader in masters for group in reader.reading.known_groups()}
    groups = set[str]().union(*await exchange(known))
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


def _add_unheard(reading: Reading, groups: set[str], problems: Problems) -> None:
    """Name the groups of which this master did not tell who is online, in one problem.

    Of requests that fail together the problems keep the first; that nobody is known to be online
    in the groups of the others must not be taken for nobody being online.
    """
    missing = groups - reading.connections.keys()
    if not (missing and reading.is_master and reading.answered):
        return
    told = {each.operation for each in problems.rows() if each.endpoint == reading.address}
    unheard = [group for group in sorted(missing) if CONNECTIONS + group not in told]
    if unheard:
        message = f"who is online was not told of {len(unheard)} groups"
        operation = CONNECTIONS + " ".join(unheard)
        problems.add(Problem(reading.address, operation, None, message))


def _without_strangers(readings: list[Reading], problems: Problems) -> list[Reading]:
    """Empty the readings of addresses where another broker answers than was looked for there.

    One that moved may be remembered there; one that took over an address may be behind it before
    the name server has heard.
    """
    kept = []
    for reading in readings:
        found = reading.taken_by or (reading.config or {}).get("brokerName", reading.broker)
        if found != reading.broker:
            message = f"{reading.broker} {reading.broker_id} is gone, {found} has its address now"
            problems.add(Problem(reading.address, "GET_BROKER_CONFIG", None, message))
            reading = reading.emptied()
        kept.append(reading)
    return kept


def _conclude(snapshot: Snapshot, outcomes: list[Outcome]) -> None:
    """Write the header, from how every part ended."""
    snapshot.problems = [problem for outcome in outcomes for problem in outcome.problems]
    snapshot.requests = sum(outcome.requests for outcome in outcomes)
    snapshot.bytes = sum(outcome.bytes for outcome in outcomes)
    snapshot.brokers_expected = sum(outcome.expected for outcome in outcomes)
    snapshot.brokers_answered = sum(outcome.answered for outcome in outcomes)
    if not any(outcome.masters for outcome in outcomes):
        snapshot.status = "FAILED"
    elif snapshot.problems or snapshot.brokers_answered < snapshot.brokers_expected:
        snapshot.status = "PARTIAL"
    else:
        snapshot.status = "COMPLETE"
    snapshot.finished_at = datetime.now(UTC)
