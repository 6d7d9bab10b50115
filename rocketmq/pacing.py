"""How hard one endpoint is asked: requests under way, requests in all, and rest when it is busy.

A broker serves producers and consumers first. One that says it is busy, or that becomes slow while
it is asked, gets half as many requests at a time, down to one; answers in good time give one more
back for every round of them. After *busy* it is also left alone for a while, twice as long each
time, by a random factor, so that several collectors do not come back together.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from rocketmq.codes import ResponseCode

T = TypeVar("T")

BUSY = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL})
"""Answers that ask for patience."""

MAX_RETRIES = 4
"""How often one request that met a busy broker is sent again."""

FIRST_REST = 0.1
"""Seconds of the first rest."""

SLOW_SECONDS = 1.0
SLOW_FACTOR = 4.0
"""An answer is slow above so many seconds and so many times the endpoint's fastest; the one alone
would also be met by a far broker, the other by a quick one that has a moment."""


class Pace:
    """How hard one endpoint is asked; an async context around each request.

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
        self._withheld = 0  # slots in use that are not given back when their request ends
        self._slowed_at = -math.inf
        self._rests = 0
        self._fastest = math.inf
        self._in_time = 0

    async def __aenter__(self) -> None:
        await self._slots.acquire()

    async def __aexit__(self, *_: object) -> None:
        if self._withheld:
            self._withheld -= 1
        else:
            self._slots.release()

    def spend(self) -> bool:
        """Take one request from the budget; False when nothing is left of it."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True

    def busy(self, sent_at: float, now: float) -> None:
        """The answer was *busy*: rest, and ask less at a time.

        What was under way when the endpoint was last slowed down tells nothing new.
        """
        if sent_at > self._slowed_at:
            self._slow_down(now)
            self._rests += 1
            self.rests_until = now + FIRST_REST * 2 ** (self._rests - 1) * random.uniform(0.5, 1.5)

    def answered(self, sent_at: float, now: float) -> None:
        """An answer came; whether in good time shows against the fastest so far."""
        seconds = now - sent_at
        self._fastest = min(self._fastest, seconds)
        if seconds > SLOW_SECONDS and seconds > SLOW_FACTOR * self._fastest:
            self.late(sent_at, now)
            return
        if self.limit == self._most and not self._rests:
            return
        self._in_time += 1
        if self._in_time >= self.limit:
            self._in_time = self._rests = 0
            self._speed_up()

    def late(self, sent_at: float, now: float) -> None:
        """The answer took too long: ask less at a time."""
        if sent_at > self._slowed_at:
            self._slow_down(now)

    def _slow_down(self, now: float) -> None:
        self._slowed_at, self._in_time = now, 0
        lower = max(1, self.limit // 2)
        self._withheld += self.limit - lower
        self.limit = lower

    def _speed_up(self) -> None:
        if self.limit == self._most:
            return
        self.limit += 1
        if self._withheld:
            self._withheld -= 1
        else:
            self._slots.release()


async def paced(items: Iterable[T], ask: Callable[[T], Awaitable[None]], at_once: int) -> None:
    """Ask for every item, so many at once; what waits costs nothing."""
    waiting = iter(items)

    async def in_turn() -> None:
        for item in waiting:
            await ask(item)

    await asyncio.gather(*(in_turn() for _ in range(at_once)))
