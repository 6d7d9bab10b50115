"""``/events`` and ``/quality``: events of queues, validation results and quarantined rows."""

from datetime import timedelta
from typing import Annotated

import pyarrow.compute as pc
from fastapi import APIRouter, Query, Response

from tidemark.board.dependencies import At, Cursor, Limit, TheView
from tidemark.board.http_responses import json_response, page_model
from tidemark.board.views.incidents import event_rows, newest_results
from tidemark.board.views.parameters import Order, page, shown, window_of
from tidemark.lake.tables import progress, quality
from tidemark.lake.typed_rows import dict_rows

router = APIRouter()

NEWEST_FIRST = Order("observed_at", descending=True)


@router.get(
    "/events",
    tags=["events"],
    summary="Events of queues, groups and brokers",
    responses={200: {"model": page_model(progress.EVENTS)}},
)
def events(
    view: TheView,
    cluster: Annotated[str | None, Query(description="only of this cluster")] = None,
    group: Annotated[str | None, Query(description="only of this consumer group")] = None,
    topic: Annotated[str | None, Query(description="only on this topic")] = None,
    kind: Annotated[str | None, Query(description="REWOUND, LOST, BROKER_DOWN, ...")] = None,
    from_: Annotated[
        str, Query(alias="from", description="first instant; a day before `to` without")
    ] = "",
    to: Annotated[str, Query(description="last instant; now without")] = "",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return rows of ``progress.events``, newest first."""
    rows = event_rows(
        view,
        view.newest,
        window_of(from_, to, timedelta(days=1)),
        cluster=cluster,
        consumer_group=group,
        topic=topic,
        kind=kind,
    )
    listed, following = page(rows, progress.EVENTS, NEWEST_FIRST, limit, cursor)
    return json_response({"items": dict_rows(listed), "next_cursor": following})


@router.get(
    "/quality",
    tags=["quality"],
    summary="Newest result of every expectation",
    responses={200: {"model": page_model(quality.RESULTS)}},
)
def results(
    view: TheView,
    success: Annotated[bool | None, Query(description="only met ones, or only others")] = None,
    at: At = None,
    limit: Limit = 1000,
    cursor: Cursor = None,
) -> Response:
    """Return the newest row of ``quality.results`` for each expectation of a table."""
    rows = newest_results(shown(view, at))
    if success is not None:
        rows = rows.filter(pc.equal(rows["success"], success))
    listed, following = page(rows, quality.RESULTS, Order("table"), limit, cursor)
    return json_response({"items": dict_rows(listed), "next_cursor": following})


@router.get(
    "/quality/quarantine",
    tags=["quality"],
    summary="Quarantined rows of the last 24 hours",
    responses={200: {"model": page_model(quality.QUARANTINE)}},
)
def quarantine(view: TheView, at: At = None, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Return rows of ``quality.quarantine``: raw rows that cannot be measurements."""
    rows = shown(view, at).of(quality.QUARANTINE)
    listed, following = page(rows, quality.QUARANTINE, NEWEST_FIRST, limit, cursor)
    return json_response({"items": dict_rows(listed), "next_cursor": following})
