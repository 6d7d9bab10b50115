"""Store times of first unconsumed messages: which ones a snapshot lacks, and how to compute them.

The definitions are those of ``spark.progress.delay``. A test holds both to the same instants.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from tidemark.model.queues import DelaySource
from tidemark.rocketmq import names
from tidemark.rocketmq.deep.unconsumed import Unconsumed, unconsumed
from tidemark.rocketmq.records import ConsumerOffset, Snapshot

MILLISECOND = timedelta(milliseconds=1)
MICROSECOND = timedelta(microseconds=1)


class GroupQueue(NamedTuple):
    """One queue of one consumer group, where its progress is stored."""

    broker: str
    consumer_group: str
    topic: str
    queue_id: int
    offset_store: str
    client_id: str | None


@dataclass(frozen=True, slots=True)
class StoreTime:
    """The store time of a message.

    Attributes:
        at: the instant by our clock; the latest possible one where the source is ``at_least``.
        source: ``exact``, ``interpolated`` or ``at_least``, as in ``progress.queues``.
        error_ms: milliseconds that ``at`` may be off; None for ``at_least``.
    """

    at: datetime
    source: str
    error_ms: int | None


@dataclass(slots=True)
class StoreTimes:
    """Store times of first unconsumed messages, which the snapshot itself does not contain.

    Attributes:
        known: by queue of a group, the store time of its first readable unconsumed message.
        advanced: by queue of a group, the consumer offset that it committed while store times were
            read, at most the end of the queue. A store time above belongs to this offset.
        clock_ahead: by broker, how far its clock is ahead of ours, where it was measured.
        problems: why store times are missing, one line each.
    """

    known: dict[GroupQueue, StoreTime] = field(default_factory=dict)
    advanced: dict[GroupQueue, int] = field(default_factory=dict)
    clock_ahead: dict[str, timedelta] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Observation(NamedTuple):
    """The end of one queue in one snapshot."""

    max_offset: int
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class Step:
    """The step from the last observation without a message to the first one with it.

    Attributes:
        before: the earlier observation; None where the history begins with the later one.
        after: the later observation.
        newest_stored_at: store time of message ``after.max_offset - 1``, where it is known.
    """

    before: Observation | None
    after: Observation
    newest_stored_at: datetime | None

    def store_time(self, offset: int) -> StoreTime:
        """Return when the message at an offset of this step was stored.

        The formula of the contract: ``m0, t0`` before, ``m1, t1`` after, ``s1`` the store time of
        message ``m1 - 1``. A message before the first observation has a latest instant only.
        """
        m1, t1 = self.after
        m0, t0 = self.before or (0, None)
        if m1 < m0:
            m0 = 0
        if offset < m0:
            t0 = None
        newest = self.newest_stored_at
        is_known = newest is not None and (t0 is None or newest >= t0)
        s1 = min(newest, t1) if newest is not None and is_known else t1
        if is_known and offset == m1 - 1:
            return StoreTime(s1, DelaySource.EXACT, 0)
        if t0 is None:
            return StoreTime(s1, DelaySource.AT_LEAST, None)
        share = (offset - m0 + 1) / (m1 - m0)
        at = t0 + int((s1 - t0) / MICROSECOND * share) * MICROSECOND
        return StoreTime(at, DelaySource.INTERPOLATED, (s1 - t0) // MILLISECOND)


def group_queue(row: ConsumerOffset) -> GroupQueue:
    """Return the key of a row of progress."""
    return GroupQueue(
        row.broker, row.consumer_group, row.topic, row.queue_id, row.offset_store, row.client_id
    )


def undated(snapshot: Snapshot) -> Iterator[Unconsumed]:
    """Yield the queues of groups whose first unconsumed message the snapshot does not date.

    Queues without a committed offset have no delay. The last message of a queue has its store time
    in the snapshot.
    """
    for item in unconsumed(snapshot):
        row, queue = item.row, item.queue
        is_users = not names.is_system_group(row.consumer_group) and (
            names.topic_kind(row.topic) is not names.TopicKind.SYSTEM
        )
        is_dated = row.first_unconsumed_at or (queue.newest_stored_at and len(item.offsets) == 1)
        if is_users and row.consumer_offset is not None and not is_dated:
            yield item
