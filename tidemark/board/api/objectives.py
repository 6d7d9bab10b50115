"""``/objectives``: what is left of the error budgets of groups."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from tidemark.board.dependencies import At, Cursor, Limit, TheStore, shown
from tidemark.board.objective_rows import objective_rows
from tidemark.board.paging import Order, containing, having, page
from tidemark.board.responses import json_response, page_model
from tidemark.lake.tables import progress
from tidemark.lake.typed_rows import dict_rows

router = APIRouter(tags=["groups"])


@router.get(
    "/objectives",
    summary="Objectives of groups and their error budgets",
    responses={200: {"model": page_model(progress.OBJECTIVES)}},
)
def objectives(
    store: TheStore,
    cluster: Annotated[str | None, Query(description="only of this cluster")] = None,
    group: Annotated[str | None, Query(description="only of this group")] = None,
    objective: Annotated[str | None, Query(description="only of this name")] = None,
    q: Annotated[str, Query(description="a part of the group's or topic's name")] = "",
    sort: Annotated[
        str, Query(description="a column; `-` before it: largest first")
    ] = "budget_left",
    at: At = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return the newest row of ``progress.objectives`` of each group, topic and objective."""
    rows = objective_rows(shown(store, at))
    rows = having(rows, cluster=cluster, consumer_group=group, objective=objective)
    rows = containing(rows, q, ("consumer_group", "topic"))
    order = Order.of(sort, progress.OBJECTIVES)
    listed, following = page(rows, progress.OBJECTIVES, order, limit, cursor)
    return json_response({"items": dict_rows(listed), "next_cursor": following})
