"""Objectives of groups: what is left of each error budget, and how fast it is used."""

from fastapi import APIRouter, Response

from tidemark.board.pages.layout import ThePage
from tidemark.board.views.groups import least_left_first, minutes_allowed, objective_rows
from tidemark.board.views.parameters import containing, having
from tidemark.lake.typed_rows import dict_rows

router = APIRouter(include_in_schema=False)

MOST = 500
"""Rows of the table at most; the API gives all of them."""


@router.get("/objectives")
def objectives(page: ThePage, cluster: str = "", q: str = "") -> Response:
    """Show objectives, those with the least budget left first."""
    rows = having(objective_rows(page.rows), cluster=cluster or None)
    rows = least_left_first(
        dict_rows(containing(rows, q, ("consumer_group", "topic", "objective")))
    )
    return page.render(
        "objectives.html",
        objectives=[
            row
            | {
                "left_ratio": row["budget_left"],
                "share": f"{100 * row['target']:.6g} %",
                "window_seconds": 3600 * row["window_hours"],
                "allowed_seconds": 60 * minutes_allowed(row),
                "bad_seconds": 60 * (row["bad_before"] + row["bad"]),
                "unknown_seconds": 60 * (row["unknown_before"] + row["unknown"]),
            }
            for row in rows[:MOST]
        ],
        count=len(rows),
        missed_count=sum(row["budget_left"] < 0 for row in rows),
        burning_count=sum((row["burn_rate_1h"] or 0) > 1 for row in rows),
        q=q,
        cluster=cluster,
        clusters=sorted(page.rows.at),
    )
