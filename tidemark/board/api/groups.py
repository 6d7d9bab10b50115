"""``/groups``: the newest lag, delay and health of consumer groups."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from tidemark.board.dependencies import Cursor, Limit, TheView
from tidemark.board.forecasts import forecasts_model
from tidemark.board.responses import json_response, object_model, page_of, row_model
from tidemark.board.trends import GROUPS
from tidemark.board.views.groups import listed_groups
from tidemark.board.views.scope import GROUPS_WITH_TEAM

router = APIRouter(tags=["groups"])

GROUP_ROW = object_model(
    "GroupRow",
    "A group on a topic at a snapshot.",
    row_model(GROUPS_WITH_TEAM),
    forecasts=forecasts_model(GROUPS),
)


@router.get(
    "/groups",
    summary="Groups on topics, newest rows",
    responses={200: {"model": page_of(GROUP_ROW)}},
)
def groups(
    view: TheView,
    cluster: Annotated[str | None, Query(description="only of this cluster")] = None,
    q: Annotated[str, Query(description="a part of the group's or topic's name")] = "",
    health: Annotated[str | None, Query(description="only in this state of health")] = None,
    topic: Annotated[str | None, Query(description="only on this topic")] = None,
    team: Annotated[str | None, Query(description="only of this team")] = None,
    sort: Annotated[
        str, Query(description="a column; `-` before it for the largest first")
    ] = "-lag",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return the newest rows of ``progress.groups``; unknown values come last in any order."""
    items, following = listed_groups(
        view,
        cluster=cluster,
        q=q,
        health=health,
        topic=topic,
        team=team,
        sort=sort,
        limit=limit,
        cursor=cursor,
    )
    return json_response({"items": items, "next_cursor": following})
