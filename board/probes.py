"""``/healthz`` and ``/readyz``: whether the process is up, and whether its numbers can be used.

Both wait for nothing and take no thread: all threads may be waiting for files or brokers.
"""

from datetime import UTC, datetime

from fastapi import APIRouter, Response

from board.dependencies import TheStore
from board.freshness import age_seconds, is_fresh
from board.responses import json_response

router = APIRouter(tags=["probes"])


@router.get("/healthz", summary="The process is up")
async def healthz() -> Response:
    """Respond 200 while the process serves requests."""
    return json_response({"status": "ok"})


@router.get("/readyz", summary="Tables are readable and the collection is fresh")
async def readyz(store: TheStore) -> Response:
    """Respond 200 if tables are readable and every cluster is fresh, else 503 with the reasons."""
    now = datetime.now(UTC)
    if not store.was_read:
        reason = "the tables are being read for the first time"
        return json_response({"status": "unavailable", "reasons": [reason]}, 503)
    newest = store.newest
    reasons = [] if store.problem is None else [store.problem]
    if not newest.at and not reasons:
        reasons.append("nothing is computed yet: run tidemark tick, or start the daemon")
    for cluster, observed_at in newest.at.items():
        if not is_fresh(observed_at, now):
            age = age_seconds(observed_at, now) or 0
            reasons.append(f"the newest snapshot of {cluster} is {age:.0f} s old")
    return json_response(
        {"status": "unavailable" if reasons else "ok", "reasons": reasons}, 503 if reasons else 200
    )
