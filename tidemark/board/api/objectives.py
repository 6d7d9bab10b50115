"""``/objectives``: what is left of the error budgets of groups, and statements by month."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Response

from tidemark.board.dependencies import At, Cursor, Limit, TheView
from tidemark.board.responses import ProblemError, json_response, page_model
from tidemark.board.views.groups import objective_rows
from tidemark.board.views.parameters import Order, containing, having, page, shown
from tidemark.lake.tables import progress
from tidemark.lake.typed_rows import dict_rows
from tidemark.planning.objectives import MONTH, STATEMENTS, month_of, statements_of

router = APIRouter(tags=["groups"])


@router.get(
    "/objectives",
    summary="Objectives of groups and their error budgets",
    responses={200: {"model": page_model(progress.OBJECTIVES)}},
)
def objectives(
    view: TheView,
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
    rows = objective_rows(shown(view, at))
    rows = having(rows, cluster=cluster, consumer_group=group, objective=objective)
    rows = containing(rows, q, ("consumer_group", "topic"))
    order = Order.of(sort, progress.OBJECTIVES)
    listed, following = page(rows, progress.OBJECTIVES, order, limit, cursor)
    return json_response({"items": dict_rows(listed), "next_cursor": following})


@router.get(
    "/objectives/statement",
    summary="Whether objectives were met in a month",
    responses={200: {"model": page_model(STATEMENTS)}},
)
def statement(
    view: TheView,
    month: Annotated[str, Query(description="the month, 2026-10; the present one without")] = "",
    cluster: Annotated[str | None, Query(description="only of this cluster")] = None,
    group: Annotated[str | None, Query(description="only of this group")] = None,
    objective: Annotated[str | None, Query(description="only of this name")] = None,
    sort: Annotated[str, Query(description="a column; `-` before it: largest first")] = "-bad",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return good, bad and unknown minutes, and whether the objective was met, of each group.

    Unknown minutes are never good: `met` is null where they decide.
    """
    now = datetime.now(UTC)
    try:
        window = month_of(month or f"{now:{MONTH}}")
    except ValueError as error:
        raise ProblemError(400, f"month: {error}") from None
    equal = {"cluster": cluster, "consumer_group": group, "objective": objective}
    given = {name: value for name, value in equal.items() if value is not None}
    rows = progress.OBJECTIVES.arrow_schema().empty_table()
    if not view.is_empty:
        rows = view.rows_between(progress.OBJECTIVES, window, given)
    order = Order.of(sort, STATEMENTS)
    listed, following = page(statements_of(rows, window, now), STATEMENTS, order, limit, cursor)
    return json_response({"items": dict_rows(listed), "next_cursor": following})
