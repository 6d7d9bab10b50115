"""What clients tell of themselves: their queues, rates, strategy and subscriptions.

A broker passes the question on (307, 223) and holds a thread until the client answers. 307 has a
side effect: a client that never committed a queue reads its offset then, gets 0 and commits that.
So a group that has messages waiting in such a queue is asked only when somebody names it.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple, Self

from rocketmq import admin
from rocketmq.client import RemotingClient
from rocketmq.deep.caches import Handed, handed_to
from rocketmq.deep.unread import Unread
from rocketmq.deep_answers import MessageQueue, RunningInfo
from rocketmq.pacing import paced
from rocketmq.problems import Problems
from rocketmq.rows import Client, ClientQueue, ClientTopic, ConsumerOffset, Snapshot

AT_ONCE = 4
"""Questions passed on at once by one broker: a client that hangs holds one of its 16 admin threads
for 10 s."""


class Behind(NamedTuple):
    """How far groups are behind on some brokers.

    Attributes:
        lags: unread messages by group.
        changed: groups that asking would change.
    """

    lags: dict[str, int]
    changed: set[str]

    @classmethod
    def of(cls, unread: Iterable[Unread]) -> Self:
        """Sums up what is unread."""
        found = cls({}, set())
        for it in unread:
            group = it.row.consumer_group
            found.lags[group] = found.lags.get(group, 0) + len(it.offsets)
            if it.row.consumer_offset is None:
                found.changed.add(group)
        return found


def groups_to_ask(
    behind: Iterable[Behind], named: Iterable[str] = (), watched: Iterable[str] = ()
) -> list[str]:
    """The groups named, then those that lag, largest lag first, and those watched.

    Those that asking would change are left out, unless they are named.

    Args:
        behind: of each part of the cluster.
        named: groups to ask whether they lag or not.
        watched: groups to ask whether they lag or not, unless asking would change them.
    """
    lags: Counter[str] = Counter()
    changed: set[str] = set()
    for part in behind:
        lags.update(part.lags)
        changed |= part.changed
    lagging = sorted(lags.keys() - changed, key=lambda group: (-lags[group], group))
    unchanged = (group for group in watched if group not in changed)
    return list(dict.fromkeys([*named, *lagging, *unchanged]))


class Question(NamedTuple):
    """A question to one client; about a topic's offsets (223), or about itself (307)."""

    client: Client
    topic: str | None = None


class Told(NamedTuple):
    """What one broadcasting client told of its progress."""

    consumer_group: str
    client_id: str
    offsets: dict[MessageQueue, int]


@dataclass(slots=True)
class ClientReader:
    """Asks clients, each through the first master it is connected to, and fills the snapshot.

    Attributes:
        limit: questions at most, to all clients of the cluster.
        addresses: by group and client id, where to ask; members without are left to other parts of
            the look.
        told: what broadcasting clients told of their progress, on whatever broker, filled by
            `read`.
        handed: what others told of how far queues were handed to them, likewise.
    """

    client: RemotingClient
    problems: Problems
    snapshot: Snapshot
    limit: int
    addresses: Mapping[tuple[str, str], str]
    told: list[Told] = field(default_factory=list)
    handed: list[Handed] = field(default_factory=list)

    async def read(self, groups: Iterable[str]) -> None:
        """Ask the members of groups, and every broadcasting Java client for its offsets."""
        by_address: dict[str, list[Question]] = {}
        for question in islice(self._questions(groups), self.limit):
            address = self._address(question)
            if address is not None:
                by_address.setdefault(address, []).append(question)
        await asyncio.gather(
            *(
                paced(questions, partial(self._ask, address), AT_ONCE)
                for address, questions in by_address.items()
            )
        )

    def _address(self, question: Question) -> str | None:
        return self.addresses.get((question.client.consumer_group, question.client.client_id))

    def _questions(self, groups: Iterable[str]) -> Iterator[Question]:
        members: dict[str, list[Client]] = {}
        for client in self.snapshot.clients:
            members.setdefault(client.consumer_group, []).append(client)
        for group in groups:
            yield from (Question(client) for client in members.get(group, ()))
        for client in self.snapshot.clients:
            if client.message_model == "BROADCASTING" and client.language == "JAVA":
                yield from (Question(client, it.topic) for it in client.subscriptions)

    async def _ask(self, address: str, question: Question) -> None:
        group, client_id = question.client.consumer_group, question.client.client_id
        with self.problems:
            if question.topic is None:
                info = await admin.running_info(self.client, address, group, client_id)
                fill_client(self.snapshot, question.client, info)
                self.handed += handed_to(question.client, info)
            else:
                offsets = await admin.consumer_status(
                    self.client, address, group, question.topic, client_id
                )
                self.told.append(Told(group, client_id, offsets))


def fill_client(snapshot: Snapshot, client: Client, info: RunningInfo) -> None:
    """Write down what a client told of itself."""
    member = client.consumer_group, client.client_id
    client.thread_count = info.thread_count
    client.allocation_strategy = info.allocation_strategy
    client.started_at = info.started_at
    if info.subscriptions is not None:
        client.subscriptions, client.subscriptions_source = info.subscriptions, "client"
    for at, queue in info.queues.items():
        snapshot.client_queues.append(
            ClientQueue(
                *member,
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
            )
        )
    for topic, status in info.topics.items():
        snapshot.client_topics.append(
            ClientTopic(
                *member,
                topic=topic,
                pull_rt_ms=status.pull_rt_ms,
                pull_tps=status.pull_tps,
                consume_rt_ms=status.consume_rt_ms,
                consume_ok_tps=status.consume_ok_tps,
                consume_failed_tps=status.consume_failed_tps,
                consume_failed_last_hour=status.consume_failed_last_hour,
            )
        )


def broadcast_rows(snapshot: Snapshot, told: Iterable[Told]) -> Iterator[ConsumerOffset]:
    """The progress of broadcasting clients, on queues the snapshot has offsets of.

    It is what the client writes to its own file every 5 s (`LocalFileOffsetStore`).
    """
    known = {(it.broker, it.topic, it.queue_id) for it in snapshot.queue_offsets}
    for group, client_id, offsets in told:
        for at, offset in offsets.items():
            if (at.broker, at.topic, at.queue_id) in known and offset >= 0:
                yield ConsumerOffset(
                    at.broker,
                    group,
                    at.topic,
                    at.queue_id,
                    client_id,
                    offset,
                    offset_store="client_file",
                )
