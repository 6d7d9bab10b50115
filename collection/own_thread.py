"""Work of one cluster in a thread of its own, which others never wait for."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_own_thread(work: Callable[[], T], name: str) -> T:
    """Run some work in a new thread, and return its result.

    `asyncio.to_thread` has a few threads for all clusters, and work that hangs in one keeps the
    process from ending.

    Args:
        work: is called once.
        name: of the thread, in listings of the process.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # pyright: ignore[reportArgumentType]

    def run() -> None:
        result, raised = None, None
        try:
            result = work()
        except BaseException as error:
            raised = error
        try:
            loop.call_soon_threadsafe(settle, result, raised)
        except RuntimeError:  # the loop is closed, so no caller waits for the result
            return

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done
