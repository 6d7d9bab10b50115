"""Who would own which queue of a group with other clients, another strategy or more queues.

From one snapshot in plain Python. Where a queue goes depends on how the ids of new clients sort
among those there are: new ones are named so that they sort last here, as a higher address does.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from rocketmq import names
from rocketmq.allocation import (
    AVG,
    CONFIG,
    CONSISTENT_HASH,
    MACHINE_ROOM,
    READABLE,
    Queue,
    allocate,
    java_order,
)
from rocketmq.rows import Client, Snapshot
from tidemark.errors import CommandError

Routes = dict[str, list[Queue]]
"""Topic -> its readable queues."""

Owners = dict[tuple[str, str, int], str | None]
"""(topic, broker, queue id) -> client id, None where nobody gets it."""


@dataclass(frozen=True)
class Wish:
    """What a plan is asked for.

    Attributes:
        consumer_group: the group.
        clients: how many members it would have.
        strategy: how they would share queues; None for as they do now.
        queues: readable queues each topic would have on each broker; None for those it has.
        rooms: for the strategies of machine rooms, see `rocketmq.allocation.allocate`.
    """

    consumer_group: str
    clients: int
    strategy: str | None = None
    queues: int | None = None
    rooms: Collection[str] = ()


def plan(snapshot: Snapshot, wish: Wish) -> dict[str, Any]:
    """What would become of a group.

    Returns:
        ``cluster, consumer_group, observed_at``, ``status`` of the look; ``strategy`` and where it
        is from (``strategy_source``: ``given`` | ``told`` by the members | ``assumed``, the
        client's own default); ``clients``, the members there would be (of more than needed the
        last ones by name leave), and ``clients_now``; ``actual_source``: whether members told what
        they own now (``told``), or it is what their strategy gives them (``computed``), or None;
        ``queues``, a row each: ``topic, broker, queue_id, expected_client_id`` (would own it),
        ``actual_client_id`` (owns it now), ``moves`` (None where not known); and ``idle_clients``:
        ``client_id, reason``.

    Raises:
        CommandError: the group is not known or there is nothing to share, or the strategy cannot
            be computed.
    """
    group = wish.consumer_group
    members = [it for it in snapshot.clients if it.consumer_group == group]
    if any(it.message_model == "BROADCASTING" for it in members):
        raise CommandError(f"{group} is broadcasting: every client reads every queue")
    topics = _topics(snapshot, group, members)
    now = _routes(snapshot, topics)
    if not any(now.values()):
        raise CommandError(f"no readable queue of {', '.join(topics)}: {group} has nothing to read")
    online = sorted({it.client_id for it in members}, key=java_order)
    clients = [*online, *_new(wish.clients - len(online))][: wish.clients]
    used = _used(members)
    strategy = wish.strategy or used or AVG
    wanted = now if wish.queues is None else _resized(now, wish.queues)
    expected = _owners(strategy, wanted, clients, wish.rooms)
    actual, actual_source = _actual(snapshot, group, used or AVG, now, online, wish.rooms)
    busy = set(expected.values())
    # A strategy shares each topic by itself: who gets nothing gets nothing of the largest.
    most = max(map(len, wanted.values()))
    return {
        "cluster": snapshot.cluster,
        "consumer_group": group,
        "observed_at": snapshot.observed_at,
        "status": snapshot.status,
        "strategy": strategy,
        "strategy_source": "given" if wish.strategy else "told" if used else "assumed",
        "clients": clients,
        "clients_now": online,
        "actual_source": actual_source,
        "queues": [_row(queue, client, actual) for queue, client in expected.items()],
        "idle_clients": [
            {"client_id": client, "reason": _reason(strategy, most, len(clients))}
            for client in clients
            if client not in busy
        ],
    }


def _topics(snapshot: Snapshot, group: str, members: Iterable[Client]) -> list[str]:
    """What the group reads: what its members subscribe to, or else what it has progress on."""
    subscribed = {each.topic for it in members for each in it.subscriptions}
    progressed = {it.topic for it in snapshot.consumer_offsets if it.consumer_group == group}
    # One queue a broker, which nobody plans for.
    topics = {it for it in subscribed or progressed if not it.startswith(names.RETRY_PREFIX)}
    if not topics:
        known = sorted({it.consumer_group for it in snapshot.consumer_offsets})
        shown = ", ".join(known[:10]) + (", ..." if known[10:] else "")
        raise CommandError(
            f"no member of {group} is online and it has no progress on any topic; "
            f"known groups: {shown or 'none'}"
        )
    return sorted(topics)


def _routes(snapshot: Snapshot, topics: Iterable[str]) -> Routes:
    routes: Routes = {topic: [] for topic in topics}
    for it in snapshot.topics:
        if it.topic in routes and (it.perm or 0) & READABLE:
            routes[it.topic] += [(it.broker, number) for number in range(it.read_queues or 0)]
    return routes


def _resized(routes: Routes, queues: int) -> Routes:
    return {
        topic: [
            (broker, number)
            for broker in sorted({it for it, _ in mine})
            for number in range(queues)
        ]
        for topic, mine in routes.items()
    }


def _new(count: int) -> list[str]:
    """Names that sort after addresses, and among each other as they are numbered."""
    return [f"new-{number:0{len(str(count))}}" for number in range(1, count + 1)]


def _used(members: Iterable[Client]) -> str | None:
    """The strategy that members told, None where they told none or several."""
    told = {it.allocation_strategy for it in members} - {None}
    return told.pop() if len(told) == 1 else None


def _owners(
    strategy: str, routes: Routes, clients: Collection[str], rooms: Collection[str]
) -> Owners:
    """Who gets which queue, in the order of topics, brokers and ids.

    Raises:
        CommandError: when that cannot be computed.
    """
    if strategy == CONFIG:
        raise CommandError("CONFIG gives each client the queues its own code lists: plan another")
    owners: Owners = {}
    try:
        for topic, queues in routes.items():
            shares = allocate(strategy, topic, queues, clients, rooms=rooms) if queues else {}
            owners |= {(topic, *queue): client for client, mine in shares.items() for queue in mine}
    except ValueError as error:
        raise CommandError(f"{error}; see tidemark plan --help") from error
    return {
        (topic, broker, number): owners.get((topic, broker, number))
        for topic, queues in routes.items()
        for broker, number in sorted(queues, key=lambda it: (java_order(it[0]), it[1]))
    }


def _actual(
    snapshot: Snapshot,
    group: str,
    strategy: str,
    routes: Routes,
    online: Collection[str],
    rooms: Collection[str],
) -> tuple[Owners, str | None]:
    """Who owns which queue now, and how that is known."""
    told: Owners = {
        (it.topic, it.broker, it.queue_id): it.client_id
        for it in snapshot.client_queues
        if it.consumer_group == group and not it.dropped
    }
    if told:
        return told, "told"
    try:
        return (_owners(strategy, routes, online, rooms), "computed") if online else ({}, None)
    except CommandError:
        return {}, None


def _row(queue: tuple[str, str, int], client: str | None, actual: Owners) -> dict[str, Any]:
    topic, broker, queue_id = queue
    owner = actual.get(queue)
    return {
        "topic": topic,
        "broker": broker,
        "queue_id": queue_id,
        "expected_client_id": client,
        "actual_client_id": owner,
        "moves": None if owner is None else owner != client,
    }


def _reason(strategy: str, queues: int, clients: int) -> str:
    """Why a client would get nothing; the words of ``progress.idle_clients``."""
    if clients > queues:
        return "MORE_CLIENTS_THAN_QUEUES"
    if strategy == CONSISTENT_HASH:
        return "HASH_LUCK"
    return "NO_QUEUE_IN_ROOM" if strategy.startswith(MACHINE_ROOM) else "UNKNOWN"
