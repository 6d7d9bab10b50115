"""When the first unconsumed message was stored (303), for pairs that lag.

The broker tells the age of that message by its own clock, so that clock is asked for too: the
question about a group that never consumed is answered with it (`AdminBrokerProcessor` takes the
store time -1 from its now). An age belongs to the progress the broker saw; it counts where progress
stands in the snapshot and still stands there afterwards.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rocketmq import admin
from rocketmq.deep.master_reader import MasterReader
from rocketmq.deep.unread import Unread
from rocketmq.deep_answers import TimeSpan
from rocketmq.names import OffsetKey
from rocketmq.pacing import paced
from rocketmq.typed import whole_milliseconds

NEVER_CONSUMES = "TIDEMARK_NEVER_CONSUMES"
"""A group that is none, for the clock. Nothing is stored under the name."""

AT_ONCE = 2
"""Requests under way at one broker: each reads several old messages of every queue."""


class Pair(NamedTuple):
    """A group on a topic."""

    consumer_group: str
    topic: str


@dataclass(slots=True)
class StoreTimeReader(MasterReader):
    """Fills ``first_unconsumed_at``; groups that are online come first, then the largest lag."""

    _found: dict[tuple[Pair, int], tuple[TimeSpan, datetime]] = field(default_factory=dict)
    _ahead: timedelta | None = None

    async def read(self, unread: Iterable[Unread], online: Container[str]) -> None:
        """Ask, and fill the rows of what groups have not read on this master."""
        waiting = [it for it in unread if it.row.broker == self.broker and _can_be_told(it)]
        lags: dict[Pair, int] = {}
        for it in waiting:
            lags[_pair(it)] = lags.get(_pair(it), 0) + len(it.offsets)
        pairs = sorted(lags, key=lambda it: (it.consumer_group not in online, -lags[it], it))
        pairs = pairs[: self.limit]
        if not pairs:
            return
        await self._read_clock(pairs[0].topic)
        if self._ahead is None:
            return
        await paced(pairs, self._ask, AT_ONCE)
        with self.problems:
            progress = (await admin.consumer_offsets(self.client, self.address)).offsets
            for it in waiting:
                committed = progress.get(OffsetKey(it.row.topic, it.row.consumer_group), {})
                found = self._found.get((_pair(it), it.row.queue_id))
                if found and committed.get(it.row.queue_id) == it.row.consumer_offset:
                    it.row.first_unconsumed_at = _stored_at(it, *found)

    async def _read_clock(self, topic: str) -> None:
        with self.problems:
            spans, at = await self._timed(NEVER_CONSUMES, topic)
            clocks = (span.broker_now for span in spans.values() if span.broker_now)
            self._ahead = next((clock - at for clock in clocks), None)

    async def _ask(self, pair: Pair) -> None:
        with self.problems:
            spans, at = await self._timed(*pair)
            for queue_id, span in spans.items():
                if span.delay_ms and self._ahead is not None:
                    stored = at + self._ahead - timedelta(milliseconds=span.delay_ms)
                    self._found[pair, queue_id] = span, stored

    async def _timed(self, group: str, topic: str) -> tuple[dict[int, TimeSpan], datetime]:
        """The answer, and the middle of the time it took."""
        sent = datetime.now(UTC)
        spans = await admin.time_spans(self.client, self.address, group, topic)
        return spans, sent + (datetime.now(UTC) - sent) / 2


def _can_be_told(it: Unread) -> bool:
    """Whether the message at the committed offset is still there; 303 knows no broadcast."""
    committed = it.row.consumer_offset
    return it.row.offset_store == "broker" and committed == it.offsets.start


def _pair(it: Unread) -> Pair:
    return Pair(it.row.consumer_group, it.row.topic)


def _stored_at(it: Unread, span: TimeSpan, stored: datetime) -> datetime:
    """The store time in whole milliseconds: exact at the oldest message, else within neighbours.

    What is reckoned from an age is off by up to half of the time the answer took.
    """
    if it.offsets.start == it.queue.min_offset and span.oldest_stored_at:
        return span.oldest_stored_at
    if span.last_consumed_at:
        stored = max(stored, span.last_consumed_at)
    if span.newest_stored_at:
        stored = min(stored, span.newest_stored_at)
    return whole_milliseconds(stored)
