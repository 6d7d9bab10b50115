"""The owners of a group's queues with other clients, another strategy or more queues.

Computed from one snapshot in plain Python. The owner of a queue depends on how the ids of clients
sort. New clients are named so that they sort last, as a higher address does.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from tidemark.live.consume_modes import POP, ConsumeModes
from tidemark.model.consumption import IdleReason
from tidemark.rocketmq import names
from tidemark.rocketmq.allocation import (
    AVG,
    CONFIG,
    CONSISTENT_HASH,
    MACHINE_ROOM,
    READABLE,
    Queue,
    allocate,
    java_order,
)
from tidemark.rocketmq.records import Client, Snapshot

MOST_NEW = 1000
"""Members of a plan that are not online."""

MOST_QUEUES = 10_000
"""Queues of a plan with another number of them than now."""

Routes = dict[str, list[Queue]]
"""Topic -> its readable queues."""

Owners = dict[tuple[str, str, int], str | None]
"""(topic, broker, queue id) -> client id, None for a queue without an owner."""


class PlanError(Exception):
    """An allocation cannot be planned; the text has the reason and the remedy."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The group as it would be.

    Attributes:
        consumer_group: the group.
        clients: number of its members.
        strategy: how they share queues; None for the present strategy.
        queues: readable queues of each topic on each broker; None for the present ones.
        rooms: for the strategies of machine rooms, see `tidemark.rocketmq.allocation.allocate`.
    """

    consumer_group: str
    clients: int
    strategy: str | None = None
    queues: int | None = None
    rooms: Collection[str] = ()


def plan(snapshot: Snapshot, wish: Wish) -> dict[str, Any]:
    """Compute the planned owners of a group's queues.

    Returns:
        ``cluster, consumer_group, observed_at`` and ``status`` of the snapshot.
        ``strategy`` and ``strategy_source``: ``given``, ``reported`` (the members report it) or
        ``assumed`` (the default of clients).
        ``clients``, the members of the plan (surplus ones leave, the last by name), and
        ``clients_now``.
        ``actual_source``: ``reported`` (members report their queues), ``computed`` (their strategy
        gives the owners) or None.
        ``queues``, one row each: ``topic, broker, queue_id, expected_client_id`` (the owner in the
        plan), ``actual_client_id`` (the owner now), ``moves`` (None where unknown).
        ``idle_clients``: ``client_id, reason``.

    Raises:
        PlanError: the group is unknown or has no queues to share, the strategy cannot be computed,
            or the plan has too many members or queues.
    """
    group = wish.consumer_group
    members = [it for it in snapshot.clients if it.consumer_group == group]
    if any(it.message_model == "BROADCASTING" for it in members):
        raise PlanError(f"{group} is broadcasting: every client reads every queue")
    if any(names.consumes_lite_topics(it.message_model) for it in members):
        raise PlanError(f"{group} consumes lite topics: its members share no queues")
    topics = _topics(snapshot, group, members)
    if set(topics) <= _popped(snapshot, group):
        raise PlanError(
            f"{group} pops its messages: brokers hand out each queue to all members, so no member "
            "owns a queue"
        )
    now = _routes(snapshot, topics)
    if not any(now.values()):
        raise PlanError(f"no readable queue of {', '.join(topics)}: {group} has nothing to read")
    online = sorted({it.client_id for it in members}, key=java_order)
    if wish.clients - len(online) > MOST_NEW:
        raise PlanError(f"a plan has at most {MOST_NEW:,} members more than the {len(online)} now")
    clients = [*online, *_new(wish.clients - len(online))][: wish.clients]
    used = _used(members)
    strategy = wish.strategy or used or AVG
    planned = now if wish.queues is None else _resized(now, wish.queues)
    expected = _owners(strategy, planned, clients, wish.rooms)
    actual, actual_source = _actual(snapshot, group, used or AVG, now, online, wish.rooms)
    busy = set(expected.values())
    # A strategy shares each topic by itself: an idle client gets no queue of the largest topic.
    most = max(map(len, planned.values()))
    return {
        "cluster": snapshot.cluster,
        "consumer_group": group,
        "observed_at": snapshot.observed_at,
        "status": snapshot.status,
        "strategy": strategy,
        "strategy_source": "given" if wish.strategy else "reported" if used else "assumed",
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
    """Return the topics that members subscribe to, or those on which the group has progress."""
    subscribed = {subscription.topic for it in members for subscription in it.subscriptions}
    progressed = {it.topic for it in snapshot.consumer_offsets if it.consumer_group == group}
    # Retry topics have one queue per broker; there is nothing to plan.
    topics = {it for it in subscribed or progressed if not it.startswith(names.RETRY_PREFIX)}
    if not topics:
        known = sorted({it.consumer_group for it in snapshot.consumer_offsets})
        shown = ", ".join(known[:10]) + (", ..." if known[10:] else "")
        raise PlanError(
            f"no member of {group} is online and it has no progress on any topic; "
            f"known groups: {shown or 'none'}"
        )
    return sorted(topics)


def _popped(snapshot: Snapshot, group: str) -> set[str]:
    """Return the topics whose messages the group pops."""
    modes = ConsumeModes.of(snapshot)
    shown = {topic for (of, topic), mode in modes.shown.items() if of == group and mode == POP}
    mine = (row for row in snapshot.consumer_offsets if row.consumer_group == group)
    return shown | {row.topic for row in mine if modes.mode(row) == POP}


def _routes(snapshot: Snapshot, topics: Iterable[str]) -> Routes:
    routes: Routes = {topic: [] for topic in topics}
    for it in snapshot.topics:
        if it.topic in routes and (it.perm or 0) & READABLE:
            routes[it.topic] += [(it.broker, number) for number in range(it.read_queues or 0)]
    return routes


def _resized(routes: Routes, queues: int) -> Routes:
    brokers = {topic: sorted({it for it, _ in mine}) for topic, mine in routes.items()}
    count = queues * sum(map(len, brokers.values()))
    if count > MOST_QUEUES:
        raise PlanError(f"a plan has at most {MOST_QUEUES:,} queues, and this has {count:,}")
    return {
        topic: [(broker, number) for broker in mine for number in range(queues)]
        for topic, mine in brokers.items()
    }


def _new(count: int) -> list[str]:
    """Return names that sort after addresses, and among each other by number."""
    return [f"new-{number:0{len(str(count))}}" for number in range(1, count + 1)]


def _used(members: Iterable[Client]) -> str | None:
    """Return the strategy that members report, None where they report none or several."""
    reported = {it.allocation_strategy for it in members} - {None}
    return reported.pop() if len(reported) == 1 else None


def _owners(
    strategy: str, routes: Routes, clients: Collection[str], rooms: Collection[str]
) -> Owners:
    """Return the owner of each queue, in the order of topics, brokers and ids.

    Raises:
        PlanError: the strategy cannot be computed.
    """
    if strategy == CONFIG:
        raise PlanError("CONFIG gives each client the queues its own code lists: plan another")
    owners: Owners = {}
    try:
        for topic, queues in routes.items():
            shares = allocate(strategy, topic, queues, clients, rooms=rooms) if queues else {}
            owners |= {(topic, *queue): client for client, mine in shares.items() for queue in mine}
    except ValueError as error:
        raise PlanError(f"{error}; see tidemark plan --help") from error
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
    """Return the present owners of queues, and the source of that knowledge."""
    reported: Owners = {
        (it.topic, it.broker, it.queue_id): it.client_id
        for it in snapshot.client_queues
        if it.consumer_group == group and not it.dropped
    }
    if reported:
        return reported, "reported"
    try:
        return (_owners(strategy, routes, online, rooms), "computed") if online else ({}, None)
    except PlanError:
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
    """Return why a client would get nothing, as ``progress.idle_clients`` does."""
    if clients > queues:
        return IdleReason.MORE_CLIENTS_THAN_QUEUES
    if strategy == CONSISTENT_HASH:
        return IdleReason.HASH_LUCK
    return IdleReason.NO_QUEUE_IN_ROOM if strategy.startswith(MACHINE_ROOM) else IdleReason.UNKNOWN
