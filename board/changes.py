"""``/changes``: a stream with one event per change of the shown rows, by which pages refresh."""

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from board.dependencies import TheStore

router = APIRouter(include_in_schema=False)

CHECK_SECONDS = 1.0
ALIVE_CHECKS = 15
"""Checks between two signs of life, without which proxies close the connection."""


@router.get("/changes")
async def changes(request: Request, store: TheStore) -> StreamingResponse:
    """Send the number of changes, now and at every change, as server-sent events."""

    async def events() -> AsyncIterator[str]:
        seen, checks = -1, 0
        while not await request.is_disconnected():
            if store.changes != seen:
                seen = store.changes
                yield f"data: {seen}\n\n"
            elif checks % ALIVE_CHECKS == 0:
                yield ": alive\n\n"
            checks += 1
            await asyncio.sleep(CHECK_SECONDS)

    return StreamingResponse(events(), media_type="text/event-stream")
