"""Reports of clients about themselves: their queues, rates, strategy and subscriptions.

A broker forwards the request (307, 223) and holds a thread until the client responds. 307 has a
side effect: a client that never committed a queue then reads its offset, gets 0 and commits that.
So a group with unconsumed messages in such a queue gets the request only where a user names it.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Self

from tidemark.model.consumption import ConsumeMode
from tidemark.rocketmq.admin import deep_requests
from tidemark.rocketmq.admin.client_responses import MessageQueue, ProcessQueue, RunningInfo
from tidemark.rocketmq.deep.store_times import Unconsumed, chosen
from tidemark.rocketmq.names import is_lite_topic
from tidemark.rocketmq.records import Client, ClientQueue, ClientTopic, ConsumerOffset, Snapshot
from tidemark.rocketmq.snapshot.online import is_grpc_client
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.wire.client import RemotingClient


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPullOffset:
    """The pull offset of one queue, from the cache of one client.

    Attributes:
        next_offset: the offset after the last message that the client is known to have pulled.
        is_exact: whether it is the pull offset; if not, it is the pull offset only where the queue
            ends there.
    """

    consumer_group: str
    queue: MessageQueue
    next_offset: int
    is_exact: bool = True


def client_pull_offsets(client: Client, info: RunningInfo) -> Iterator[ClientPullOffset]:
    """Yield the pull offsets that the report of a client (307) proves, or their lower bounds.

    Filtered topics yield none, because the broker also skips messages that it does not hand out.
    """
    if info.messages_at_once is None or client.language != "JAVA":
        return
    whole = {it.topic for it in client.subscriptions if it.expression in (None, "", "*")}
    for at, cache in info.queues.items():
        if at.topic not in whole or cache.popped or cache.dropped:
            continue
        known = _next_offset(cache, info)
        if known is not None:
            next_offset, is_exact = known
            yield ClientPullOffset(
                consumer_group=client.consumer_group,
                queue=at,
                next_offset=next_offset,
                is_exact=is_exact,
            )


def _next_offset(cache: ProcessQueue, info: RunningInfo) -> tuple[int, bool] | None:
    """Return the offset after the last message known to be pulled, and whether it is exact."""
    parts = (
        (cache.cached_messages, cache.cached_max_offset),
        (cache.in_order_messages or 0, cache.in_order_max_offset),
    )
    if cache.cached_messages is None or any(count and end is None for count, end in parts):
        return None
    ends = [end for count, end in parts if count and end is not None]
    if not ends:
        # A client that never committed reports 0, whatever it has pulled.
        commit = cache.commit_offset
        return None if commit is None else (commit, commit > 0)
    all_wait = cache.cached_messages > (info.messages_at_once or 0)
    return max(ends) + 1, all_wait or info.consume_orderly is True


def fill_pull_offsets(snapshot: Snapshot, reported: Iterable[ClientPullOffset]) -> None:
    """Fill pull offsets from client caches where no broker reported one.

    Clients report later than the ends of queues are read, so the values are capped at max offset. A
    value below the commit is left out: the group was reset to an earlier offset meanwhile.
    """
    furthest: dict[tuple[str, str, str, int], tuple[int, bool]] = {}
    for row in reported:
        at = row.queue
        key = at.broker, row.consumer_group, at.topic, at.queue_id
        furthest[key] = max((row.next_offset, row.is_exact), furthest.get(key, (0, False)))
    if not furthest:
        return
    ends = {(it.broker, it.topic, it.queue_id): it.max_offset for it in snapshot.queue_offsets}
    for row in snapshot.consumer_offsets:
        reported_offset = furthest.get((row.broker, row.consumer_group, row.topic, row.queue_id))
        end = ends.get((row.broker, row.topic, row.queue_id))
        if reported_offset is None or end is None or row.pull_offset is not None:
            continue
        next_offset, is_exact = reported_offset
        if next_offset < end and not is_exact:
            continue
        pull_offset = min(next_offset, end)
        if row.offset_store == "broker" and pull_offset >= (row.consumer_offset or 0):
            row.pull_offset, row.pull_source = pull_offset, "client_cache"


AT_ONCE = 4
"""Requests that one broker forwards at a time: a client that hangs holds one of the broker's 16
admin threads for 10 s."""


class GroupLags(NamedTuple):
    """The lags of groups on some brokers.

    Attributes:
        lags: unconsumed messages by group.
        would_commit: groups that request 307 could make commit offset 0.
    """

    lags: dict[str, int]
    would_commit: set[str]

    @classmethod
    def of(cls, unconsumed: Iterable[Unconsumed]) -> Self:
        """Sum up unconsumed messages by group."""
        result = cls({}, set())
        for it in unconsumed:
            group = it.row.consumer_group
            result.lags[group] = result.lags.get(group, 0) + len(it.offsets)
            if it.row.consumer_offset is None:
                result.would_commit.add(group)
        return result


def popping_groups(snapshot: Snapshot) -> list[str]:
    """Return the groups that brokers are configured to serve by POP (402), without lite topics.

    Only their members report popped and unacknowledged messages; lag does not show them.
    """
    return sorted(
        {
            row.consumer_group
            for row in snapshot.consumer_offsets
            if row.request_mode == ConsumeMode.POP and not is_lite_topic(row.topic)
        }
    )


def reporting_groups(
    lags: GroupLags,
    named: Iterable[str] = (),
    priority_groups: Iterable[str] = (),
    popping: Iterable[str] = (),
) -> list[str]:
    """Return the named groups, then lagging groups by falling lag, then popping and priority ones.

    Groups that the request could make commit are left out, unless they are named.

    Args:
        lags: of the cluster.
        named: groups whose clients report whether they lag or not.
        priority_groups: groups whose clients report whether they lag or not, unless the request
            could make them commit.
        popping: of `popping_groups`, left out on the same condition.
    """
    of_group = lags.lags
    lagging = sorted(of_group.keys() - lags.would_commit, key=lambda it: (-of_group[it], it))
    others = (*popping, *priority_groups)
    priority = (group for group in others if group not in lags.would_commit)
    return list(dict.fromkeys([*named, *lagging, *priority]))


class ClientRequest(NamedTuple):
    """A request to one client: its offsets of a topic (223), or its running info (307)."""

    client: Client
    topic: str | None = None


def _place(request: ClientRequest) -> tuple[str, str, str]:
    return request.client.consumer_group, request.client.client_id, request.topic or ""


class BroadcastReport(NamedTuple):
    """The offsets that one broadcasting client reports."""

    consumer_group: str
    client_id: str
    offsets: dict[MessageQueue, int]


@dataclass(slots=True, kw_only=True)
class ClientReader:
    """Sends requests to clients, each through its first master, and fills the snapshot.

    Attributes:
        limit: requests at most, to all clients of the cluster.
        addresses: address of the first master, by group and client id. Members that only a proxy
            reports have none.
        turn: number of the deep snapshot, see `chosen`.
        left_out: requests to clients that the limit left out, counted by `read`.
        broadcast_reports: offsets of broadcasting clients on any broker, filled by `read`.
        pull_offsets: pull offsets from client caches on any broker, filled by `read`.
    """

    client: RemotingClient
    problems: Problems
    snapshot: Snapshot
    limit: int
    addresses: Mapping[tuple[str, str], str]
    turn: int = 0
    left_out: int = 0
    broadcast_reports: list[BroadcastReport] = field(default_factory=list)
    pull_offsets: list[ClientPullOffset] = field(default_factory=list)

    async def read(self, groups: Iterable[str]) -> None:
        """Request reports of all members of groups, and offsets of broadcasting Java clients."""
        by_address: dict[str, list[ClientRequest]] = {}
        ranked = list(self._client_requests(groups))
        requests = chosen(ranked, self.limit, self.turn, key=_place)
        for request in requests:
            address = self._address(request)
            if address is not None:
                by_address.setdefault(address, []).append(request)
        own = sum(self._address(request) is not None for request in ranked)
        self.left_out = own - sum(len(client_requests) for client_requests in by_address.values())
        await asyncio.gather(
            *(
                self.client.paced(requests, partial(self._read_client, address), AT_ONCE)
                for address, requests in by_address.items()
            )
        )

    def _address(self, request: ClientRequest) -> str | None:
        return self.addresses.get((request.client.consumer_group, request.client.client_id))

    def _client_requests(self, groups: Iterable[str]) -> Iterator[ClientRequest]:
        members: dict[str, list[Client]] = {}
        for client in self.snapshot.clients:
            if is_grpc_client(client):
                continue  # a broker thread would wait 10 s for a response that never comes
            members.setdefault(client.consumer_group, []).append(client)
        for group in groups:
            yield from (ClientRequest(client) for client in members.get(group, ()))
        for client in self.snapshot.clients:
            if client.message_model == "BROADCASTING" and client.language == "JAVA":
                yield from (ClientRequest(client, it.topic) for it in client.subscriptions)

    async def _read_client(self, address: str, request: ClientRequest) -> None:
        group, client_id = request.client.consumer_group, request.client.client_id
        with self.problems:
            if request.topic is None:
                info = await deep_requests.running_info(self.client, address, group, client_id)
                fill_client(self.snapshot, request.client, info)
                self.pull_offsets += client_pull_offsets(request.client, info)
            else:
                offsets = await deep_requests.consumer_status(
                    self.client, address, group, request.topic, client_id
                )
                self.broadcast_reports.append(BroadcastReport(group, client_id, offsets))


def fill_client(snapshot: Snapshot, client: Client, info: RunningInfo) -> None:
    """Fill a client's row and add its queues and topics, from its running info (307)."""
    limits = info.pull_limits
    client.thread_count = info.thread_count
    client.consume_orderly = info.consume_orderly
    client.consume_batch_size = info.consume_batch_size
    client.allocation_strategy = info.allocation_strategy
    client.started_at = info.started_at
    if info.subscriptions is not None:
        client.subscriptions, client.subscriptions_source = info.subscriptions, "client"
    for at, queue in info.queues.items():
        snapshot.client_queues.append(
            ClientQueue(
                consumer_group=client.consumer_group,
                client_id=client.client_id,
                topic=at.topic,
                broker=at.broker,
                queue_id=at.queue_id,
                commit_offset=queue.commit_offset,
                cached_min_offset=queue.cached_min_offset,
                cached_max_offset=queue.cached_max_offset,
                cached_messages=queue.cached_messages,
                cached_mib=queue.cached_mib,
                locked=queue.locked,
                dropped=queue.dropped,
                last_pull_at=queue.last_pull_at,
                last_consume_at=queue.last_consume_at,
                popped=queue.popped,
                last_lock_at=queue.last_lock_at,
                unlock_tries=queue.unlock_tries,
                in_order_messages=queue.in_order_messages,
                most_messages=limits.popped if queue.popped else limits.messages,
                most_mib=None if queue.popped else limits.mib,
                widest_span=None if queue.popped else limits.span,
            )
        )
    for topic, status in info.topics.items():
        snapshot.client_topics.append(
            ClientTopic(
                consumer_group=client.consumer_group,
                client_id=client.client_id,
                topic=topic,
                pull_rt_ms=status.pull_rt_ms,
                pull_tps=status.pull_tps,
                consume_rt_ms=status.consume_rt_ms,
                consume_ok_tps=status.consume_ok_tps,
                consume_failed_tps=status.consume_failed_tps,
                consume_failed_last_hour=status.consume_failed_last_hour,
            )
        )


def broadcast_rows(
    snapshot: Snapshot, reports: Iterable[BroadcastReport]
) -> Iterator[ConsumerOffset]:
    """Yield the progress of broadcasting clients, on queues the snapshot has offsets of.

    A client writes the same offsets to its own file every 5 s (`LocalFileOffsetStore`).
    """
    known = {(it.broker, it.topic, it.queue_id) for it in snapshot.queue_offsets}
    for group, client_id, offsets in reports:
        for at, offset in offsets.items():
            if (at.broker, at.topic, at.queue_id) in known and offset >= 0:
                yield ConsumerOffset(
                    broker=at.broker,
                    consumer_group=group,
                    topic=at.topic,
                    queue_id=at.queue_id,
                    client_id=client_id,
                    consumer_offset=offset,
                    offset_store="client_file",
                )
