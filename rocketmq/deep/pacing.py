"""How many questions are under way at once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def paced(items: Iterable[T], ask: Callable[[T], Awaitable[None]], at_once: int) -> None:
    """Ask for every item, so many at once; what waits costs nothing."""
    waiting = iter(items)

    async def in_turn() -> None:
        for item in waiting:
            await ask(item)

    await asyncio.gather(*(in_turn() for _ in range(at_once)))
