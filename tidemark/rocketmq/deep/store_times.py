"""Store time of the first unconsumed message (303), for pairs of group and topic that lag.

The broker reports the age of that message by its own clock. A request about a group that never
consumed gives that clock (`AdminBrokerProcessor` subtracts the store time -1 from its now). An age
belongs to the progress that the broker saw. It counts where the consumer offset equals that of the
snapshot before and after the request.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.admin.deep_requests import TimeSpan
from tidemark.rocketmq.deep.master_reader import MasterReader, chosen
from tidemark.rocketmq.deep.unconsumed import Unconsumed
from tidemark.rocketmq.names import OffsetKey
from tidemark.rocketmq.snapshot.broker_reading import NEVER_CONSUMES, timed_spans
from tidemark.rocketmq.typed_values import whole_milliseconds

AT_ONCE = 2
"""Requests under way at one broker: each reads several old messages of every queue."""


class Pair(NamedTuple):
    """A group on a topic."""

    consumer_group: str
    topic: str


@dataclass(slots=True, kw_only=True)
class StoreTimeReader(MasterReader):
    """Fills ``first_unconsumed_at``; groups that are online come first, then the largest lag."""

    _found: dict[tuple[Pair, int], tuple[TimeSpan, datetime]] = field(default_factory=dict)
    _ahead: timedelta | None = None

    def set_clock(self, skew_ms: int | None) -> None:
        """Use the skew of the snapshot, because store times are corrected by that skew later."""
        self._ahead = None if skew_ms is None else timedelta(milliseconds=skew_ms)

    async def read(self, unconsumed: Iterable[Unconsumed], online: Container[str]) -> None:
        """Read store times and fill the rows of queues with unconsumed messages on this master."""
        waiting = [it for it in unconsumed if it.row.broker == self.broker and _is_readable(it)]
        lags: dict[Pair, int] = {}
        for it in waiting:
            lags[_pair(it)] = lags.get(_pair(it), 0) + len(it.offsets)
        pairs = sorted(lags, key=lambda it: (it.consumer_group not in online, -lags[it], it))
        self.left_out = max(0, len(pairs) - self.limit)
        pairs = chosen(pairs, self.limit, self.turn, key=tuple)
        if not pairs:
            return
        if self._ahead is None:
            await self._read_clock(pairs[0].topic)
        if self._ahead is None:
            return
        await self.client.paced(pairs, self._read_pair, AT_ONCE)
        with self.problems:
            progress = (await admin.consumer_offsets(self.client, self.address)).offsets
            for it in waiting:
                committed = progress.get(OffsetKey(it.row.topic, it.row.consumer_group), {})
                entry = self._found.get((_pair(it), it.row.queue_id))
                if entry and committed.get(it.row.queue_id) == it.row.consumer_offset:
                    it.row.first_unconsumed_at = _stored_at(it, *entry)

    async def _read_clock(self, topic: str) -> None:
        with self.problems:
            spans, at, _ = await timed_spans(self.client, self.address, NEVER_CONSUMES, topic)
            clocks = (span.broker_now for span in spans.values() if span.broker_now)
            self._ahead = next((clock - at for clock in clocks), None)

    async def _read_pair(self, pair: Pair) -> None:
        with self.problems:
            spans, at, _ = await timed_spans(self.client, self.address, *pair)
            for queue_id, span in spans.items():
                if span.delay_ms and self._ahead is not None:
                    stored = at + self._ahead - timedelta(milliseconds=span.delay_ms)
                    self._found[pair, queue_id] = span, stored


def _is_readable(it: Unconsumed) -> bool:
    """Return whether 303 covers the row: not broadcast, its next message still retained."""
    committed = it.row.consumer_offset
    return it.row.offset_store == "broker" and committed == it.offsets.start


def _pair(it: Unconsumed) -> Pair:
    return Pair(it.row.consumer_group, it.row.topic)


def _stored_at(it: Unconsumed, span: TimeSpan, stored: datetime) -> datetime:
    """Return the store time in whole milliseconds: exact for the oldest message of a queue.

    For other messages it comes from the age, limited by its neighbours, and is off by up to half of
    the response time.
    """
    if it.offsets.start == it.queue.min_offset and span.oldest_stored_at:
        return span.oldest_stored_at
    if span.last_consumed_at:
        stored = max(stored, span.last_consumed_at)
    if span.newest_stored_at:
        stored = min(stored, span.newest_stored_at)
    return whole_milliseconds(stored)
