"""``/changes``: a line whenever other rows are shown, so that pages refresh themselves."""

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from board.asking import TheStore

router = APIRouter(include_in_schema=False)

LOOK_SECONDS = 1.0
ALIVE_LOOKS = 15
"""Looks between two signs of life, without which proxies close the connection."""


@router.get("/changes")
async def changes(request: Request, store: TheStore) -> StreamingResponse:
    """Tell the number of changes, now and at every change, as server-sent events."""

    async def told() -> AsyncIterator[str]:
        seen, looks = -1, 0
        while not await request.is_disconnected():
            if store.changes != seen:
                seen = store.changes
                yield f"data: {seen}\n\n"
            elif looks % ALIVE_LOOKS == 0:
                yield ": alive\n\n"
            looks += 1
            await asyncio.sleep(LOOK_SECONDS)

    return StreamingResponse(told(), media_type="text/event-stream")
