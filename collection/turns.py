"""One process at a time reads a cluster: a tick, a run in its place, `tidemark collect`.

Nobody waits for a run that computes; that is another lock (`assets.resources`). Two snapshots at
once would cost the brokers twice and each forget what the other learned.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

from filelock import FileLock, Timeout

POLL_SECONDS = 0.05


@asynccontextmanager
async def turn(path: Path, seconds: float) -> AsyncIterator[None]:
    """Wait until no other process reads the cluster.

    Args:
        path: the lock file; the operating system frees it when its process is killed.
        seconds: the longest wait. Whoever holds it then hangs, and is not waited for any more:
            a snapshot too many is better than none.

    Raises:
        OSError: the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, thread_local=False)
    deadline = monotonic() + seconds
    while True:
        try:
            lock.acquire(blocking=False)
            break
        except Timeout:
            if monotonic() >= deadline:
                break
            # Not in a thread: many clusters may wait, and landing needs the threads.
            await asyncio.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        if lock.is_locked:
            lock.release()
