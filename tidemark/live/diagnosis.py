"""The present work of a group: the stacks of its consume threads, and the messages it stands at.

One snapshot names the members and the queues; further requests are few and bounded. Nothing here
retries or guesses: a member without stacks, or a queue without a message, has an outcome that
states why.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from tidemark.model.consumption import ConsumeMode, LookupOutcome, StackOutcome
from tidemark.model.snapshots import SnapshotStatus
from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.admin.client_responses import MemberReport
from tidemark.rocketmq.admin.deep_requests import CLIENT_SECONDS, queue_entries, running_stacks
from tidemark.rocketmq.admin.stored_messages import Message, stored_message
from tidemark.rocketmq.deep.client_reports import AT_ONCE, GroupLags
from tidemark.rocketmq.deep.store_times import Unconsumed, unconsumed
from tidemark.rocketmq.records import Client, Snapshot
from tidemark.rocketmq.snapshot.online import Online, homes, is_grpc_client
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.stacks import ConsumeStacks
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import RemotingError

MOST_CLIENTS = 16
"""Members of a group that are requested; one that hangs takes a broker's thread for 10 s."""

MOST_MESSAGES = 4
"""Queues of a group whose first unconsumed message is looked up."""

LARGEST_MESSAGE = 4 * 1024 * 1024 + 64 * 1024
"""Bytes of a record that is looked up, as a broker sends its body too: what brokers accept
(``maxMessageSize``), and its properties."""

MOST_PROBLEMS = 8
"""Problems of a partial snapshot that a diagnosis states."""

SECONDS = 2 * CLIENT_SECONDS
"""Longest time of all requests of a diagnosis."""

MayRequest = Callable[[str], bool]
"""Whether a member may get a request for its stacks now, by client id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientStacks:
    """The stacks of a member, or why there are none.

    Attributes:
        client_id: the member.
        client_address: where it is connected from.
        language: of its client.
        version: of its client.
        outcome: what came of the request.
        reason: why it failed, in one line; None where the outcome states that.
        held: topic, broker and number of the queues that it holds; None where it did not report
            them.
        stacks: its consume threads; None where none are known.
    """

    client_id: str
    client_address: str | None
    language: str | None
    version: str | None
    outcome: StackOutcome
    reason: str | None = None
    held: tuple[tuple[str, str, int], ...] | None = None
    stacks: ConsumeStacks | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstMessage:
    """The first unconsumed message of a queue, or why it is not known.

    Attributes:
        topic: the topic of the queue.
        broker: its broker.
        queue_id: its number.
        queue_offset: the consumer offset, at which the message lies; None without one.
        outcome: what came of the lookup.
        reason: why it failed, in one line; None where the outcome states that.
        owners: members that report to hold the queue; None where not all members reported.
        message: the message without its body.
    """

    topic: str
    broker: str
    queue_id: int
    queue_offset: int | None
    outcome: LookupOutcome
    reason: str | None = None
    owners: tuple[str, ...] | None = None
    message: Message | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """The work of a group at an instant.

    Attributes:
        cluster: the cluster.
        consumer_group: the group.
        topic: the topic that it is about; None for all topics of the group.
        diagnosed_at: when the requests began.
        clients: the members that were requested, and those that cannot be; None where the cluster
            could not be read.
        clients_left_out: further members.
        messages: of the queues with the largest lag, the oldest message first; None where the
            cluster could not be read.
        queues_left_out: further queues with unconsumed messages.
        problems: what else failed, one line each: members or queues may be missing then.
    """

    cluster: str
    consumer_group: str
    topic: str | None
    diagnosed_at: datetime
    clients: tuple[ClientStacks, ...] | None
    clients_left_out: int
    messages: tuple[FirstMessage, ...] | None
    queues_left_out: int
    problems: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The subject of a diagnosis, and what it may send.

    Attributes:
        consumer_group: the group.
        topic: one of its topics; None for all.
        client_reports: whether members may get requests at all.
        message_lookup: whether messages may be looked up.
        clients_first: members that are requested first, as the owners of the worst queues.
        may_request: see `MayRequest`.
    """

    consumer_group: str
    topic: str | None = None
    client_reports: bool = True
    message_lookup: bool = False
    clients_first: Sequence[str] = ()
    may_request: MayRequest = lambda _: True


def diagnose(target: ClusterTarget, snapshot: Snapshot, wish: Wish) -> Diagnosis:
    """Request the stacks of a group's members, and the first unconsumed messages of its queues.

    A member of a group that the request could make commit offset 0 gets none, see
    `tidemark.rocketmq.deep.client_reports`.

    Args:
        target: the cluster, with its account and its own limits.
        snapshot: its snapshot of a moment ago.
        wish: the group, and what may be sent.
    """
    return asyncio.run(_diagnose(target, snapshot, wish))


async def _diagnose(target: ClusterTarget, snapshot: Snapshot, wish: Wish) -> Diagnosis:
    started = datetime.now(UTC)
    behind = list(unconsumed(snapshot))
    masters = {row.broker: row.address for row in snapshot.brokers if row.broker_id == 0}
    problems = Problems()
    members = _members(snapshot.clients, wish)
    queues = _queues(behind, wish)
    async with target.client(
        SECONDS, client_reports=wish.client_reports, message_lookup=wish.message_lookup
    ) as client:
        requests = _Requests(client=client, wish=wish, masters=masters, problems=problems)
        would_commit = wish.consumer_group in GroupLags.of(behind).would_commit
        commits = would_commit or _may_never_have_committed(snapshot, wish.consumer_group)
        clients, messages = await asyncio.gather(
            requests.read_stacks(members[:MOST_CLIENTS], commits),
            requests.read_messages(queues[:MOST_MESSAGES]),
        )
    return Diagnosis(
        cluster=snapshot.cluster,
        consumer_group=wish.consumer_group,
        topic=wish.topic,
        diagnosed_at=started,
        clients=tuple(clients),
        clients_left_out=max(0, len(members) - MOST_CLIENTS),
        messages=tuple(
            sorted((_with_owners(it, clients, members) for it in messages), key=_oldest_first)
        ),
        queues_left_out=max(0, len(queues) - MOST_MESSAGES),
        problems=tuple(
            dict.fromkeys((*_unknown(snapshot, wish), *(it.line for it in problems.rows())))
        ),
    )


def _unknown(snapshot: Snapshot, wish: Wish) -> list[str]:
    """Return why members or queues of the group may be missing in a snapshot, one line each."""
    lines = []
    if snapshot.status != SnapshotStatus.COMPLETE:
        lines = [problem.line for problem in snapshot.problems[:MOST_PROBLEMS]]
        lines = lines or ["a part of the cluster did not respond"]
    elsewhere = sum(
        row.consumer_group == wish.consumer_group
        and wish.topic in (None, row.topic)
        and row.offset_store != "broker"
        for row in snapshot.consumer_offsets
    )
    if elsewhere:
        lines.append(f"offsets that no broker keeps: {elsewhere}; the messages there are unknown")
    return lines


def _may_never_have_committed(snapshot: Snapshot, group: str) -> bool:
    """Return whether a group never committed a queue that may hold messages: its end is unknown."""
    known = {
        (it.broker, it.topic, it.queue_id)
        for it in snapshot.queue_offsets
        if it.min_offset is not None and it.max_offset is not None
    }
    return any(
        row.consumer_group == group
        and row.consumer_offset is None
        and row.offset_store == "broker"
        and (row.broker, row.topic, row.queue_id) not in known
        for row in snapshot.consumer_offsets
    )


def _members(clients: Iterable[Client], wish: Wish) -> list[Client]:
    """Return the members of the group on the topic: those named first, then by client id."""
    places = {client_id: place for place, client_id in enumerate(wish.clients_first)}
    members = (
        client
        for client in clients
        if client.consumer_group == wish.consumer_group
        and (wish.topic is None or any(it.topic == wish.topic for it in client.subscriptions))
    )
    return sorted(members, key=lambda it: (places.get(it.client_id, len(places)), it.client_id))


def _queues(behind: Iterable[Unconsumed], wish: Wish) -> list[Unconsumed]:
    """Return the queues of the group with unconsumed messages, the largest lag first."""
    queues = (
        it
        for it in behind
        if it.row.consumer_group == wish.consumer_group
        and wish.topic in (None, it.row.topic)
        and it.row.offset_store == "broker"
    )
    return sorted(
        queues,
        key=lambda it: (-len(it.offsets), it.row.topic, it.row.broker, it.row.queue_id),
    )


@dataclass(frozen=True, kw_only=True)
class _Requests:
    """Sends the requests of one diagnosis.

    Attributes:
        client: the transport.
        wish: the subject.
        masters: address of the master by broker.
        problems: receives failures that belong to no member and no queue.
    """

    client: RemotingClient
    wish: Wish
    masters: Mapping[str, str]
    problems: Problems

    async def read_stacks(
        self, members: Collection[Client], would_commit: bool
    ) -> list[ClientStacks]:
        """Return the stacks of members, in their order."""
        refused = {it.client_id: self._refusal(it, would_commit) for it in members}
        requested = [it for it in members if refused[it.client_id] is None]
        addresses = await self._homes() if requested else {}
        known: dict[str, ClientStacks] = {}
        by_address: dict[str, list[Client]] = {}
        for member in requested:
            if address := addresses.get(member.client_id):
                by_address.setdefault(address, []).append(member)

        async def read(address: str, member: Client) -> None:
            known[member.client_id] = await self._stacks_of(address, member)

        await asyncio.gather(
            *(
                self.client.paced(clients, partial(read, address), AT_ONCE)
                for address, clients in by_address.items()
            )
        )
        return [
            known.get(it.client_id)
            or _without(it, refused[it.client_id] or StackOutcome.NO_RESPONSE)
            for it in members
        ]

    def _refusal(self, member: Client, would_commit: bool) -> StackOutcome | None:
        """Return why a member gets no request; None where it gets one."""
        if is_grpc_client(member):
            return StackOutcome.GRPC
        if not self.wish.client_reports:
            return StackOutcome.REPORTS_OFF
        if would_commit:
            return StackOutcome.WOULD_COMMIT
        return None if self.wish.may_request(member.client_id) else StackOutcome.RECENT

    async def _homes(self) -> dict[str, str]:
        """Return by client id the address of the first master that the member is connected to."""
        group, online = self.wish.consumer_group, Online()

        async def read(broker: str) -> None:
            with self.problems:
                address = self.masters[broker]
                if connection := await admin.consumer_connection(self.client, address, group):
                    online.setdefault(group, {})[broker] = connection

        await self.client.paced(sorted(self.masters), read)
        ordered = {group: dict(sorted(online.get(group, {}).items()))}
        return {
            client_id: self.masters[broker]
            for (_, client_id), broker in homes(ordered, self.masters).items()
        }

    async def _stacks_of(self, address: str, member: Client) -> ClientStacks:
        group, client_id = self.wish.consumer_group, member.client_id
        try:
            report = await running_stacks(self.client, address, group, client_id)
        except RemotingError as error:
            return _without(member, StackOutcome.NO_RESPONSE, error.reason)
        outcome = StackOutcome.REPORTED
        if report.stacks is None:
            outcome = StackOutcome.NO_STACKS
        elif not report.stacks.threads:
            outcome = StackOutcome.NO_CONSUME_THREADS
        return _client_stacks(member, outcome, None, report)

    async def read_messages(self, queues: Iterable[Unconsumed]) -> list[FirstMessage]:
        """Return the first unconsumed messages of queues, in their order."""
        return list(await asyncio.gather(*map(self._first_message, queues)))

    async def _first_message(self, queue: Unconsumed) -> FirstMessage:
        row, outcome = queue.row, None
        if row.request_mode == ConsumeMode.POP:
            outcome = LookupOutcome.POPPED
        elif row.consumer_offset is None:
            outcome = LookupOutcome.NEVER_COMMITTED
        elif row.consumer_offset != queue.offsets.start:
            outcome = LookupOutcome.GONE
        elif not self.wish.message_lookup:
            outcome = LookupOutcome.OFF
        if outcome:
            return _first(queue, outcome)
        try:
            return await self._looked_up(queue, self.masters[row.broker])
        except KeyError:
            return _first(queue, LookupOutcome.FAILED, f"no master of {row.broker} is known")
        except RemotingError as error:
            return _first(queue, LookupOutcome.FAILED, error.reason)

    async def _looked_up(self, queue: Unconsumed, address: str) -> FirstMessage:
        row, offset = queue.row, queue.offsets.start
        entries = await queue_entries(self.client, address, row.topic, row.queue_id, offset, 1)
        if not entries:
            return _first(queue, LookupOutcome.GONE)
        if entries[0].size > LARGEST_MESSAGE:
            return _first(queue, LookupOutcome.TOO_LARGE, f"{entries[0].size} bytes")
        at = entries[0].physical_offset
        message = await stored_message(self.client, address, row.topic, at)
        if (message.queue_id, message.queue_offset) != (row.queue_id, offset):
            return _first(queue, LookupOutcome.FAILED, "another message lies there")
        return _first(queue, LookupOutcome.KNOWN, None, message)


def _without(member: Client, outcome: StackOutcome, reason: str | None = None) -> ClientStacks:
    return _client_stacks(member, outcome, reason, None)


def _client_stacks(
    member: Client, outcome: StackOutcome, reason: str | None, report: MemberReport | None
) -> ClientStacks:
    held = None
    if report and report.held is not None:
        held = tuple(sorted((at.topic, at.broker, at.queue_id) for at in report.held))
    return ClientStacks(
        client_id=member.client_id,
        client_address=member.client_address,
        language=member.language,
        version=member.version,
        outcome=outcome,
        reason=reason,
        held=held,
        stacks=report.stacks if report and outcome == StackOutcome.REPORTED else None,
    )


def _with_owners(
    item: FirstMessage, clients: Collection[ClientStacks], members: Collection[Client]
) -> FirstMessage:
    """Return a queue's message with the members that hold the queue, where all reported."""
    is_unknown = len(clients) < len(members) or any(it.held is None for it in clients)
    if is_unknown or item.outcome == LookupOutcome.POPPED:
        return item
    queue = item.topic, item.broker, item.queue_id
    owners = tuple(it.client_id for it in clients if queue in (it.held or ()))
    return replace(item, owners=owners)


def _oldest_first(item: FirstMessage) -> tuple[bool, datetime]:
    stored_at = item.message.stored_at if item.message else None
    return stored_at is None, stored_at or datetime.max.replace(tzinfo=UTC)


def _first(
    queue: Unconsumed,
    outcome: LookupOutcome,
    reason: str | None = None,
    message: Message | None = None,
) -> FirstMessage:
    return FirstMessage(
        topic=queue.row.topic,
        broker=queue.row.broker,
        queue_id=queue.row.queue_id,
        queue_offset=queue.row.consumer_offset,
        outcome=outcome,
        reason=reason,
        message=message,
    )


STACK_WORDS: Mapping[StackOutcome, str] = {
    StackOutcome.REPORTED: "reported",
    StackOutcome.NO_CONSUME_THREADS: (
        "unknown: it reported its threads, and none of them consumes for this group"
    ),
    StackOutcome.NO_STACKS: "unknown: its client reports no stacks",
    StackOutcome.NO_RESPONSE: "unknown: it did not respond",
    StackOutcome.GRPC: "unknown: gRPC clients report no stacks",
    StackOutcome.WOULD_COMMIT: (
        "not requested: the group never committed a queue, and the request would make the member "
        "commit offset 0 there"
    ),
    StackOutcome.REPORTS_OFF: "not requested: client_reports is off for this cluster",
    StackOutcome.RECENT: "not requested: it was requested a few seconds ago",
}
"""Outcomes of requests for stacks in words."""

LOOKUP_WORDS: Mapping[LookupOutcome, str] = {
    LookupOutcome.KNOWN: "read",
    LookupOutcome.OFF: "not looked up: message_lookup is off for this cluster",
    LookupOutcome.POPPED: "not looked up: popped messages are finished in any order",
    LookupOutcome.NEVER_COMMITTED: "not looked up: the group never committed this queue",
    LookupOutcome.GONE: "expired: the broker no longer has it",
    LookupOutcome.TOO_LARGE: "not looked up: the message is too large",
    LookupOutcome.FAILED: "unknown: the lookup failed",
}
"""Outcomes of lookups in words."""


def to_json(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as JSON, as incidents keep it."""
    return msgspec.json.encode(diagnosis).decode()


def read_diagnosis(value: Mapping[str, Any]) -> Diagnosis:
    """Return the diagnosis of a decoded JSON object.

    Raises:
        ValidationError: of msgspec; the object is none of this program.
    """
    return msgspec.convert(value, Diagnosis)


def with_words(diagnosis: Mapping[str, Any]) -> dict[str, Any]:
    """Return a diagnosis as plain values, with ``words`` for the outcomes."""
    return {
        **diagnosis,
        "clients": _worded(diagnosis["clients"], STACK_WORDS),
        "messages": _worded(diagnosis["messages"], LOOKUP_WORDS),
    }


def _worded(items: Iterable[Mapping[str, Any]] | None, words: Mapping[Any, str]) -> Any:
    return items and [{**item, "words": words[item["outcome"]]} for item in items]
