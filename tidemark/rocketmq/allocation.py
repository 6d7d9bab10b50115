"""Allocation: which member of a group owns which queue, computed as RocketMQ's clients do.

Each member computes this for itself, from the queues of a topic's route and the ids of all members
of the group, whether they subscribe to that topic or not. Sources:
`org.apache.rocketmq.client.consumer.rebalance` of 4.9.7, 5.3.3 and 5.5.0, which give the same, and
`RebalanceImpl.rebalanceByTopic`, which sorts both lists before it calls a strategy.
"""

import hashlib
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial

AVG = "AVG"
AVG_BY_CIRCLE = "AVG_BY_CIRCLE"
CONSISTENT_HASH = "CONSISTENT_HASH"
MACHINE_ROOM = "MACHINE_ROOM"
CONFIG = "CONFIG"
MACHINE_ROOM_NEARBY = "MACHINE_ROOM_NEARBY"

STRATEGIES = (AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, MACHINE_ROOM, CONFIG, MACHINE_ROOM_NEARBY)
"""The client's strategies, by their `getName`."""

SELF_CONTAINED = (AVG, AVG_BY_CIRCLE, CONSISTENT_HASH)
"""Strategies that depend on queues and members only; the others depend on user settings."""

VIRTUAL_NODES = 10
"""Places of a member on the ring of CONSISTENT_HASH, unless the client sets another number."""

READABLE = 4
"""The bit of ``perm`` without which clients ignore a broker's queues (`PermName`)."""

Queue = tuple[str, int]
"""A queue of a topic: broker and queue id."""

Rooms = Collection[str] | Mapping[str, str]

_Strategy = Callable[[Sequence[Queue], Sequence[str]], dict[str, list[Queue]]]
"""(sorted queues, sorted members) -> the queues of each."""


def allocate(
    strategy: str,
    topic: str,
    queues: Iterable[Queue],
    clients: Iterable[str],
    *,
    virtual_nodes: int = VIRTUAL_NODES,
    rooms: Rooms = (),
) -> dict[str, list[Queue]]:
    """Return which queues of a topic each member of a group owns.

    The order of queues and members does not matter. Clients sort brokers and members as Java does
    (by UTF-16 code units, so ``B`` before ``a``), and queue ids as numbers.

    Args:
        strategy: one of `STRATEGIES`. ``MACHINE_ROOM_NEARBY`` uses ``AVG`` inside a room,
            ``MACHINE_ROOM_NEARBY-<strategy>`` (as the client names itself) any other.
        topic: the topic; only ``CONSISTENT_HASH`` depends on it.
        queues: (broker, queue id) of every readable queue. For ``CONFIG`` the configured ones,
            which every member takes, in the order given.
        clients: ids of all members of the group.
        virtual_nodes: places of a member on the ring of ``CONSISTENT_HASH``.
        rooms: for ``MACHINE_ROOM`` the rooms whose queues are consumed; a queue's room is the part
            of its broker's name before the ``@``. For ``MACHINE_ROOM_NEARBY``, where the client
            calls user code: names of rooms that names of brokers and members begin with, or a
            mapping from both to their rooms. Without either, a room is the part of a name before
            the first ``-`` or ``@``.

    Returns:
        Every member in Java's order, with its queues in its client's order; a member without queues
        has an empty list.

    Raises:
        ValueError: an unknown strategy, no members, no queues (except for ``CONFIG``), a member or
            queue twice, a value that is no queue, missing rooms or a name without one, or a number
            of virtual nodes below 1. RocketMQ's client refuses most of these too.
    """
    members, given = _members(clients), _valid_queues(queues)
    if strategy == CONFIG:
        return {client: list(given) for client in members}
    chosen = _chosen(str(strategy), topic, virtual_nodes, rooms)
    if not given:
        raise ValueError(f"no queues to allocate on topic {topic!r}: give its readable queues")
    return chosen(sorted(given, key=lambda queue: (java_order(queue[0]), queue[1])), members)


def _members(clients: Iterable[str]) -> list[str]:
    if isinstance(clients, str):
        raise ValueError(f"clients must be a list of client ids, not the text {clients!r}")
    members = list(clients)
    for client in members:
        if not isinstance(client, str) or not client:
            raise ValueError(f"{client!r} is no client id: it must be text that is not empty")
    if not members:
        raise ValueError("no clients to allocate to: give the ids of the group's members")
    _refuse_duplicates("client", members)
    return sorted(members, key=java_order)


def _valid_queues(queues: Iterable[Queue]) -> list[Queue]:
    valid: list[Queue] = []
    for queue in queues:
        match queue:
            case (str() as broker, int() as queue_id) if broker and queue_id >= 0:
                valid.append((broker, queue_id))
            case _:
                raise ValueError(f"{queue!r} is no queue: it must be (broker, queue id from 0)")
    _refuse_duplicates("queue", valid)
    return valid


def _refuse_duplicates(what: str, items: Iterable[Hashable]) -> None:
    for item, times in Counter(items).items():
        if times > 1:
            raise ValueError(f"{what} {item!r} is given {times} times")


def java_order(text: str) -> bytes:
    """Return the sort key of `String.compareTo`: UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def _chosen(strategy: str, topic: str, virtual_nodes: int, rooms: Rooms) -> _Strategy:
    """Return the strategy of a name, bound to its parameters."""
    if isinstance(rooms, str):
        raise ValueError(f"rooms must be a list of names, not the text {rooms!r}")
    match strategy.split("-"):
        case ["AVG"]:
            return _average
        case ["AVG_BY_CIRCLE"]:
            return _by_circle
        case ["CONSISTENT_HASH"] if isinstance(virtual_nodes, int) and virtual_nodes > 0:
            return partial(_by_hash, topic, virtual_nodes)
        case ["CONSISTENT_HASH"]:
            raise ValueError(f"virtual_nodes must be a number from 1, not {virtual_nodes!r}")
        case ["MACHINE_ROOM"] if not rooms:
            raise ValueError("MACHINE_ROOM needs rooms: names of those whose queues are consumed")
        case ["MACHINE_ROOM"]:
            return partial(_by_machine_room, rooms)
        case ["MACHINE_ROOM_NEARBY"]:
            return partial(_nearby, _average, rooms)
        case ["MACHINE_ROOM_NEARBY", inner] if inner in SELF_CONTAINED:
            return partial(_nearby, _chosen(inner, topic, virtual_nodes, rooms), rooms)
    raise ValueError(f"no allocation strategy {strategy!r}: known are {', '.join(STRATEGIES)}")


def _average(queues: Sequence[Queue], clients: Sequence[str]) -> dict[str, list[Queue]]:
    """`AllocateMessageQueueAveragely`: a contiguous part each, the first parts one longer."""
    least, longer = divmod(len(queues), len(clients))
    owned: dict[str, list[Queue]] = {}
    start = 0
    for index, client in enumerate(clients):
        end = start + least + (index < longer)
        owned[client] = list(queues[start:end])
        start = end
    return owned


def _by_circle(queues: Sequence[Queue], clients: Sequence[str]) -> dict[str, list[Queue]]:
    """`AllocateMessageQueueAveragelyByCircle`: dealt out one by one."""
    return {client: list(queues[index :: len(clients)]) for index, client in enumerate(clients)}


def _by_hash(
    topic: str, virtual_nodes: int, queues: Sequence[Queue], clients: Sequence[str]
) -> dict[str, list[Queue]]:
    """`AllocateMessageQueueConsistentHash`: the next place on the ring, around its end."""
    # The later of two places with the same hash replaces the earlier, as in the client's map.
    ring = {
        _hash(f"{client}-{place}"): client for client in clients for place in range(virtual_nodes)
    }
    places = sorted(ring)
    owned: dict[str, list[Queue]] = {client: [] for client in clients}
    for broker, queue_id in queues:
        at = _hash(f"MessageQueue [topic={topic}, brokerName={broker}, queueId={queue_id}]")
        place = places[bisect_left(places, at) % len(places)]
        owned[ring[place]].append((broker, queue_id))
    return owned


def _hash(text: str) -> int:
    """`ConsistentHashRouter.MD5Hash`: the first 4 bytes of the MD5, unsigned."""
    digest = hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def _by_machine_room(
    rooms: Collection[str], queues: Sequence[Queue], clients: Sequence[str]
) -> dict[str, list[Queue]]:
    """`AllocateMessageQueueByMachineRoom`: equal parts of the rooms' queues, then the rest."""
    own = [queue for queue in queues if _prefixed_room(queue[0]) in rooms]
    length, rest = divmod(len(own), len(clients))
    dealt = own[len(own) - rest :]
    return {
        client: own[index * length : (index + 1) * length] + dealt[index : index + 1]
        for index, client in enumerate(clients)
    }


def _prefixed_room(broker: str) -> str | None:
    """Return the room of ``<room>@<broker>``; as in Java, empty parts at the end do not count."""
    parts = broker.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


def _nearby(
    inner: _Strategy, rooms: Rooms, queues: Sequence[Queue], clients: Sequence[str]
) -> dict[str, list[Queue]]:
    """`AllocateMachineRoomNearby`: a room's queues go to its members, else to all members."""
    members: dict[str, list[str]] = defaultdict(list)
    for client in clients:
        members[_room(client, rooms)].append(client)
    stored: dict[str, list[Queue]] = defaultdict(list)
    for queue in queues:
        stored[_room(queue[0], rooms)].append(queue)
    owned: dict[str, list[Queue]] = {client: [] for client in clients}
    # A member takes the queues of its own room first, then those of each empty room by name.
    for room in sorted(stored, key=lambda room: (room not in members, java_order(room))):
        for client, share in inner(stored[room], members.get(room, clients)).items():
            owned[client] += share
    return owned


def _room(name: str, rooms: Rooms) -> str:
    if isinstance(rooms, Mapping):
        room = rooms.get(name)
    elif rooms:
        room = max((room for room in rooms if name.startswith(room)), key=len, default=None)
    else:
        room = re.split("[-@]", name, maxsplit=1)[0]
    if not room:
        raise ValueError(
            f"the room of {name!r} is unknown: MACHINE_ROOM_NEARBY needs one for every name"
        )
    return room
