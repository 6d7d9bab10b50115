"""``/groups``: the newest lag, delay and health of consumer groups."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from tidemark.board.dependencies import Cursor, Limit, TheView
from tidemark.board.forecasts import forecasts_model
from tidemark.board.responses import ProblemError, json_response, object_model, page_of, row_model
from tidemark.board.trends import GROUPS
from tidemark.board.views.parameters import Order, containing, having, page
from tidemark.board.views.scope import GROUPS_WITH_TEAM
from tidemark.lake.tables import progress
from tidemark.lake.typed_rows import dict_rows
from tidemark.model.health import Health

router = APIRouter(tags=["groups"])

GROUP_ROW = object_model(
    "GroupRow",
    "A group on a topic at a snapshot.",
    row_model(GROUPS_WITH_TEAM),
    forecasts=forecasts_model(GROUPS),
)


def require_health(health: str | None) -> None:
    """Refuse a text that is no state of health; None means all states.

    Raises:
        ProblemError: 400.
    """
    if health is not None and health not in tuple(Health):
        raise ProblemError(400, f"health={health!r}: it is one of {', '.join(Health)}")


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
    require_health(health)
    order = Order.of(sort, GROUPS_WITH_TEAM)
    rows = having(view.newest.of(progress.GROUPS, cluster), health=health, topic=topic, team=team)
    rows = containing(rows, q, ("consumer_group", "topic"))
    listed, following = page(rows, GROUPS_WITH_TEAM, order, limit, cursor)
    items = view.with_forecasts(view.newest, GROUPS, dict_rows(listed))
    return json_response({"items": items, "next_cursor": following})
