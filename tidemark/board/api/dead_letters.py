"""``/dead-letters``: dead letters and retries by group."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from tidemark.board.dependencies import At, Cursor, Limit, TheView
from tidemark.board.responses import json_response, page_model
from tidemark.board.views.dead_letters import DEAD_LETTERS, dead_letter_rows
from tidemark.board.views.parameters import Order, containing, having, page, shown
from tidemark.lake.typed_rows import dict_rows

router = APIRouter(tags=["groups"])


@router.get(
    "/dead-letters",
    summary="Dead letters and retries by group",
    responses={200: {"model": page_model(DEAD_LETTERS)}},
)
def dead_letters(
    view: TheView,
    cluster: Annotated[str | None, Query(description="only of this cluster")] = None,
    q: Annotated[str, Query(description="a part of the group's name")] = "",
    sort: Annotated[
        str, Query(description="a column; `-` before it: largest first")
    ] = "-added_last_hour",
    at: At = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return a row per group with a dead-letter topic, or with messages to try again."""
    rows = having(dead_letter_rows(shown(view, at)), cluster=cluster)
    rows = containing(rows, q, ("consumer_group",))
    listed, following = page(rows, DEAD_LETTERS, Order.of(sort, DEAD_LETTERS), limit, cursor)
    return json_response({"items": dict_rows(listed), "next_cursor": following})
