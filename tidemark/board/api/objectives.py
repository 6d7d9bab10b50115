"""``/objectives``: what is left of the error budgets of groups, and statements by month."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Query, Response

from tidemark.board.dependencies import At, Cursor, Limit, TheView, shown
from tidemark.board.paging import Order, containing, having, page
from tidemark.board.responses import ProblemError, json_response, page_model
from tidemark.board.views import Shown
from tidemark.lake.tables import progress
from tidemark.lake.typed_rows import dict_rows
from tidemark.planning.objectives import MONTH, STATEMENTS, month_of, statements_of


def objective_rows(rows: Shown) -> pa.Table:
    """Return the newest row of each group, topic and objective."""
    table = rows.of(progress.OBJECTIVES).sort_by([("hour", "descending")])
    key = [name for name in progress.OBJECTIVES.key if name != "hour"]
    names = [name for name in table.column_names if name not in key]
    newest = table.group_by(key, use_threads=False).aggregate([(name, "first") for name in names])
    newest = newest.rename_columns([*key, *names])
    return newest.select(progress.OBJECTIVES.column_names)


def least_left_first(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows by what is left of the budget, then by how fast it is used."""
    return sorted(
        rows,
        key=lambda row: (
            row["budget_left"],
            -(row["burn_rate_1h"] or 0),
            *(row["cluster"], row["consumer_group"], row["topic"], row["objective"]),
        ),
    )


def minutes_allowed(row: dict[str, Any]) -> float:
    """Return the minutes of the window that may be bad."""
    return (1 - row["target"]) * 60 * row["window_hours"]


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
