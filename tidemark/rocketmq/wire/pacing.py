"""The pace of one endpoint: requests under way, allowance of values, rest when it is busy.

A broker serves producers and consumers first. A broker that reports *busy*, or that becomes slow,
gets half as many requests at a time, down to one. Each full round of fast responses gives one back.
After *busy* the endpoint also rests. Each rest is twice as long as the one before, times a random
factor, so that several collectors do not return at the same time.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from tidemark.rocketmq.wire.codes import ResponseCode

MAX_BYTES = 192 * 1024 * 1024
"""Bytes received for one snapshot: a queue takes 130, so a million of them, with their commits."""

MAX_VALUES_OF_BODY = 3_000_000
"""Values of one body, which take some 60 bytes each: 100,000 topics or groups as brokers describe
them, or a million and a half commits."""

MAX_VALUES = 8_000_000
"""Values of all large bodies of a snapshot."""

SMALL_BODY = 64 * 1024
"""Bytes of a body up to which its values are not counted: `MAX_BYTES` bounds them."""


@dataclass(slots=True)
class Allowance:
    """Bytes and values that one snapshot has received, and their limits.

    Attributes:
        max_bytes: bytes received at most.
        received: bytes received.
        values: values of large bodies.
    """

    max_bytes: int = MAX_BYTES
    received: int = 0
    values: int = 0

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more may be received."""
        return self.received > self.max_bytes

    @property
    def reason(self) -> str:
        """Why nothing more is received, in one line."""
        mib = self.max_bytes / 2**20
        return f"a snapshot may receive {mib:g} MiB (max_mib in clusters.yaml), which are used up"

    def refuse_large(self, body: bytes) -> str | None:
        """Return why a body may not be decoded, in one line; None where it may."""
        if len(body) <= SMALL_BODY:
            return None
        values = most_values(body)
        if values > MAX_VALUES_OF_BODY:
            return f"a body too large: up to {values} values (limit {MAX_VALUES_OF_BODY})"
        if self.values + values > MAX_VALUES:
            return f"a body too large: all of a snapshot have {MAX_VALUES} values at most"
        self.values += values
        return None


def most_values(body: bytes) -> int:
    """Return how many values a JSON body has at most, without reading it.

    Each value but the outermost follows one of these characters.
    """
    return 1 + sum(map(body.count, (b",", b":", b"[", b"{")))


T = TypeVar("T")

BUSY = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL})
"""Response codes of a broker that is overloaded."""

MAX_RETRIES = 4
"""Most repetitions of a request after a *busy* response."""

FIRST_REST = 0.1
"""Seconds of the first rest."""

SLOW_SECONDS = 1.0
SLOW_FACTOR = 4.0
"""A response is slow above both limits: seconds, and this multiple of the endpoint's fastest.
The first alone would also hit a distant broker, the second a fast broker with a short pause."""


class Pace:
    """The pace of one endpoint; an async context around each request.

    Args:
        in_flight: requests under way at most.
        max_requests: requests in all, None for no limit.

    Attributes:
        limit: requests under way at most, now.
        rests_until: loop time before which nothing should be sent.
    """

    def __init__(self, in_flight: int, max_requests: int | None = None):
        self.limit = in_flight
        self.rests_until = 0.0
        self._most = in_flight
        self._left = math.inf if max_requests is None else max_requests
        self._slots = asyncio.Semaphore(in_flight)
        self._surplus = 0  # slots in use that their requests do not give back
        self._slowed_at = -math.inf
        self._rests = 0
        self._fastest = math.inf
        self._in_time = 0

    async def __aenter__(self) -> None:
        await self._slots.acquire()

    async def __aexit__(self, *_: object) -> None:
        if self._surplus:
            self._surplus -= 1
        else:
            self._slots.release()

    def spend(self) -> bool:
        """Take one request from the budget; return False when the budget is used up."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True

    def record_busy(self, sent_at: float, now: float) -> None:
        """Record a *busy* response: rest, and allow fewer requests at a time.

        Requests sent before the latest slow-down count once only.

        Args:
            sent_at: loop time in seconds when the request was sent.
            now: loop time in seconds.
        """
        if sent_at > self._slowed_at:
            self._slow_down(now)
            self._rests += 1
            self.rests_until = now + FIRST_REST * 2 ** (self._rests - 1) * random.uniform(0.5, 1.5)

    def record_response(self, sent_at: float, now: float) -> None:
        """Record a response; compare its time with the fastest so far."""
        seconds = now - sent_at
        self._fastest = min(self._fastest, seconds)
        if seconds > SLOW_SECONDS and seconds > SLOW_FACTOR * self._fastest:
            self.record_slow(sent_at, now)
            return
        if self.limit == self._most and not self._rests:
            return
        self._in_time += 1
        if self._in_time >= self.limit:
            self._in_time = self._rests = 0
            self._speed_up()

    def record_slow(self, sent_at: float, now: float) -> None:
        """Record a slow or missing response: allow fewer requests at a time."""
        if sent_at > self._slowed_at:
            self._slow_down(now)

    def _slow_down(self, now: float) -> None:
        self._slowed_at, self._in_time = now, 0
        lower = max(1, self.limit // 2)
        self._surplus += self.limit - lower
        self.limit = lower

    def _speed_up(self) -> None:
        if self.limit == self._most:
            return
        self.limit += 1
        if self._surplus:
            self._surplus -= 1
        else:
            self._slots.release()


async def paced(items: Iterable[T], send: Callable[[T], Awaitable[None]], at_once: int) -> None:
    """Call `send` for every item, at most ``at_once`` at a time; items that wait cost no task.

    Requests take `RemotingClient.paced`, which ends in time.
    """
    items = list(items)
    waiting = iter(items)

    async def in_turn() -> None:
        for item in waiting:
            await send(item)

    await asyncio.gather(*(in_turn() for _ in range(min(at_once, len(items)))))
